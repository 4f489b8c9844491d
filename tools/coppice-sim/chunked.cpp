#include "chunked.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace coppice::sim {
namespace {

using simulation::Shape;
using Row = ChunkedOptions::Row;

}  // namespace

void ChunkedOptions::add_to(CLI::App& app) {
    app.add_option("--bytes", bytes_,
                   "a payload of so many bytes that goes in chunks: a chain, a binomial pipeline, scatter and "
                   "allgather, and what "
                   "groups of processes do, beside each other; without faults")
        ->transform(CLI::AsSizeValue(false))
        ->check(CLI::PositiveNumber);
    app.add_option("--chunk", chunks_,
                   "with --bytes: bytes of a chunk, several sizes if there are commas; 1K to 1M else")
        ->delimiter(',')
        ->transform(CLI::AsSizeValue(false))
        ->check(CLI::PositiveNumber);
    app.add_option("--gap-per-byte,-G", gap_per_byte_, "with --bytes, G: steps between two bytes of a message")
        ->capture_default_str()
        ->check(CLI::NonNegativeNumber);
    app.add_option("--ahead", ahead_, "with --bytes: chunks that a rank asks for ahead of what it has")
        ->capture_default_str()
        ->check(CLI::Range(1U, 1024U));
}

double ChunkedOptions::bound(const simulation::LogP& model) const {
    return static_cast<double>(bytes_ - 1) * gap_per_byte_ + 2.0 * model.overhead + model.latency;
}

tl::expected<std::vector<Row>, std::string> ChunkedOptions::rows(std::uint32_t ranks,
                                                                 const simulation::LogP& model) const {
    std::vector<std::uint64_t> chunks = chunks_;
    for (std::uint64_t chunk = 1024; chunks_.empty() && chunk <= std::uint64_t{1} << 20; chunk *= 2)
        if (chunk == 1024 || chunk < bytes_) chunks.push_back(chunk);
    std::vector<Row> rows;
    std::string reason;
    for (const Shape shape : simulation::kShapes) {
        for (const std::uint64_t chunk : chunks) {
            const simulation::ChunkedSetup setup{.shape = shape,
                                                 .ranks = ranks,
                                                 .bytes = bytes_,
                                                 .chunk = chunk,
                                                 .ahead = ahead_,
                                                 .model = {.latency = static_cast<double>(model.latency),
                                                           .overhead = static_cast<double>(model.overhead),
                                                           .gap = static_cast<double>(model.gap),
                                                           .gap_per_byte = gap_per_byte_}};
            if (const auto against = reason_against(setup)) {
                reason = *against;
            } else {
                rows.push_back({setup, simulate(setup)});
            }
        }
    }
    if (rows.empty()) return tl::unexpected(reason);
    return rows;
}

const Row& first_of(const std::vector<Row>& rows, bool offered) {
    const bool any = std::ranges::any_of(rows, &Row::is_offered);
    const auto steps = [offered, any](const Row& row) {
        return offered && any && !row.is_offered() ? 1e300 : row.outcome.steps;
    };
    return *std::ranges::min_element(rows, {}, steps);
}

std::string chunked_advice(const std::vector<Row>& rows, double step_us) {
    const Row& ours = first_of(rows, true);
    const Row& best = first_of(rows, false);
    const auto mb_per_s = [step_us](const Row& row) {
        return static_cast<double>(row.setup.bytes) / (row.outcome.steps * step_us);
    };
    std::string text;
    if (ours.is_offered()) {
        text = fmt::format("COPPICE_PAYLOAD_CHUNK={} COPPICE_PAYLOAD_AHEAD={}: {:.6g} us, {:.0f} MB/s\n",
                           ours.setup.chunk, ours.setup.ahead, ours.outcome.steps * step_us, mb_per_s(ours));
    }
    text += fmt::format("The fastest of those compared: {}, chunks of {}: {:.6g} us, {:.0f} MB/s{}\n",
                        to_string(best.setup.shape), best.setup.chunk, best.outcome.steps * step_us, mb_per_s(best),
                        best.is_offered() ? "" : "; groups of processes do not offer that");
    return text;
}

std::string chunked_as_table(const std::vector<Row>& rows, double bound) {
    const simulation::ChunkedSetup& setup = rows.front().setup;
    const simulation::LogGP& model = setup.model;
    std::string text = fmt::format(
        "{} ranks, {} bytes, L={} o={} g={} G={} a byte; nothing is faster than {:.6g} steps\n", setup.ranks,
        setup.bytes, model.latency, model.overhead, std::max(model.gap, model.overhead), model.gap_per_byte, bound);
    text += fmt::format("  {:<18} {:>9} {:>14} {:>9} {:>12} {:>14}\n", "", "chunk", "steps", "of bound", "messages",
                        "most sent");
    const Row& best = first_of(rows, false);
    for (const Row& row : rows) {
        text += fmt::format("{} {:<18} {:>9} {:>14.6g} {:>9.2f} {:>12} {:>14}\n", &row == &best ? ">" : " ",
                            to_string(row.setup.shape), row.setup.chunk, row.outcome.steps, row.outcome.steps / bound,
                            row.outcome.messages, row.outcome.most_sent);
    }
    return text;
}

std::string chunked_as_lines(const std::vector<Row>& rows, bool csv) {
    std::string text = csv ? "shape,chunk,steps,messages,most_sent\n" : "";
    for (const Row& row : rows) {
        const simulation::ChunkedOutcome& outcome = row.outcome;
        const std::string_view shape = to_string(row.setup.shape);
        if (csv) {
            text += fmt::format("{},{},{:.9g},{},{}", shape, row.setup.chunk, outcome.steps, outcome.messages,
                                outcome.most_sent);
        } else {
            text += fmt::format(R"({{"shape": "{}", "chunk": {}, "steps": {:.9g}, "messages": {}, "most_sent": {}}})",
                                shape, row.setup.chunk, outcome.steps, outcome.messages, outcome.most_sent);
        }
        text += "\n";
    }
    return text;
}

}  // namespace coppice::sim
