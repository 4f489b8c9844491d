// LogP's figures are taken apart as its authors do (Culler et al., "LogP: towards a realistic model of parallel computation"):
//
//   o   what a message takes the processor: the mean of what a send takes where there is room, and of what a receive takes where the
//       message is here already
//   g   the time between two messages of a long row, sent as fast as the receiver takes them in
//   L   half of a round trip, less what both sides' processors take
//
// Each round measures all three, on the first two ranks that have this level between them; the others wait.
#include "perf/logp.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/host.hpp"
#include "bootstrap/choose.hpp"
#include "engine/formation/inside.hpp"
#include "engine/settings.hpp"
#include "engine/whereabouts.hpp"
#include "measure.h"
#include "perf/levels.hpp"
#include "perf/pair.hpp"

namespace perf {

namespace {

using coppice::Rank;
using coppice::Result;

constexpr std::size_t kHeader = 40;  // as the engine's
constexpr std::size_t kPayload = 8;
constexpr std::uint64_t kBurst = 8;    // sends that find room everywhere
constexpr std::uint64_t kBursts = 32;  // in a round
constexpr std::uint64_t kRoundTrips = 200;
constexpr std::uint64_t kWarmup = 50;

struct Figures {
    double round_trip_us = 0;
    double send_us = 0;
    double receive_us = 0;
    double gap_us = 0;
};

int complain(const std::string& message, int code) {
    fmt::print(stderr, "coppice-perf: {}\n", message);
    return code;
}

double us_since(std::uint64_t start) {
    return static_cast<double>(measure_now() - start) / 1e3;
}

double median(std::vector<double> values) {
    return measure_statistics(values.data(), values.size()).typical;
}

// One side of a pair; the two run the same steps in the same order.
class Measurement {
  public:
    Measurement(Pair& pair, std::uint64_t row) : pair_(pair), row_(row), begins_(pair.self() == coppice::Seat(0)) {}

    // False: the other rank died, or the deadline passed.
    bool round(Figures& figures) {
        return round_trips(kWarmup, nullptr) && round_trips(kRoundTrips, &figures.round_trip_us) && bursts(figures) &&
               row(figures);
    }

    // The first side says whether time is over, and the other one says that it has heard it.
    bool tell_the_end(bool is_over, bool& is_last) {
        header_[0] = begins_ && is_over ? Arrivals::kLast : std::byte{0};
        if (begins_ && !send()) return false;
        header_[0] = std::byte{0};
        if (!receive(1)) return false;
        is_last = begins_ ? is_over : pair_.arrivals().last;
        return begins_ || send();
    }

  private:
    bool send() { return pair_.send(header_, payload_); }
    bool receive(std::uint64_t more) { return pair_.receive(taken_ += more); }

    bool round_trips(std::uint64_t count, double* typical_us) {
        std::vector<double> times;
        for (std::uint64_t i = 0; i < count; ++i) {
            const std::uint64_t start = measure_now();
            if (begins_ && !send()) return false;
            if (!receive(1)) return false;
            if (!begins_ && !send()) return false;
            times.push_back(us_since(start));
        }
        if (typical_us != nullptr) *typical_us = median(std::move(times));
        return true;
    }

    // What a few sends take, and, once they must all be there, what it takes to receive them.
    bool bursts(Figures& figures) {
        std::vector<double> times;
        const auto patience = static_cast<std::uint64_t>(20e3 * figures.round_trip_us);
        for (std::uint64_t i = 0; i < kBursts; ++i) {
            if (begins_) {
                const std::uint64_t start = measure_now();
                for (std::uint64_t sent = 0; sent < kBurst; ++sent)
                    if (!send()) return false;
                times.push_back(us_since(start) / kBurst);
                if (!receive(1)) return false;
            } else {
                const std::uint64_t before = pair_.arrivals().messages;
                if (!pair_.receive(before + 1)) return false;
                for (const std::uint64_t until = measure_now() + patience; measure_now() < until;)
                    measure_pause();
                const std::uint64_t left = before + kBurst - pair_.arrivals().messages;
                const std::uint64_t start = measure_now();
                if (!receive(kBurst)) return false;
                if (left > 0) times.push_back(us_since(start) / static_cast<double>(left));
                if (!send()) return false;
            }
        }
        // Where one poll takes in the whole burst, its first message included, there is nothing left to time.
        if (!times.empty()) (begins_ ? figures.send_us : figures.receive_us) = median(std::move(times));
        return true;
    }

    bool row(Figures& figures) {
        const std::uint64_t start = measure_now();
        if (begins_) {
            for (std::uint64_t sent = 0; sent < row_; ++sent)
                if (!send()) return false;
            if (!receive(1)) return false;
        } else {
            if (!receive(row_)) return false;
            if (!send()) return false;
        }
        figures.gap_us = us_since(start) / static_cast<double>(row_);
        return true;
    }

    Pair& pair_;
    std::uint64_t row_;
    bool begins_;
    std::uint64_t taken_ = 0;
    std::array<std::byte, kHeader> header_{};
    std::array<std::byte, kPayload> payload_{};
};

// What all rounds come to, as everybody prints it.
struct Spread {
    double median = 0, min = 0, max = 0;
};

Spread spread_of(std::vector<double> values) {
    const measure_stats_t stats = measure_statistics(values.data(), values.size());
    return {stats.typical, stats.min, stats.max};
}

nlohmann::ordered_json as_json(const Spread& spread) {
    return {{"median", spread.median}, {"min", spread.min}, {"max", spread.max}};
}

std::string shown(const Spread& spread) {
    return fmt::format("{:9.3f} ({:.3f}..{:.3f})", spread.median, spread.min, spread.max);
}

// What every rank tells the others.
struct Told {
    Place place;
    std::vector<std::string> transports;  // that serve it, the first one first
};

// As groups choose: what is allowed, and where nobody has chosen what is meant for this host.
std::vector<std::string> own_transports(const coppice::engine::Settings& settings) {
    std::vector<std::string> names;
    for (const auto& choice : settings.transports) {
        const coppice::transport::Registration& one = *choice.transport;
        const bool is_meant = one.within_host || (one.is_default() && one.probe());
        if (choice.allowed && (!settings.chosen_by_hardware || is_meant)) names.emplace_back(one.name);
    }
    return names;
}

Result<std::vector<Told>> tell(coppice::bootstrap::Bootstrap& exchange, const coppice::engine::Settings& settings,
                               std::uint64_t deadline) {
    const auto switches = coppice::engine::own_switches(settings, false);
    if (!switches) return tl::unexpected(switches.error());
    // After measure_pin(): where this process measures.
    const std::string within = settings.within.empty() ? coppice::engine::own_inside_path() : settings.within;
    const std::string mine = nlohmann::json{{"host", coppice::host_identity(settings.host)},
                                            {"switches", *switches},
                                            {"within", within},
                                            {"transports", own_transports(settings)}}
                                 .dump(-1, ' ', true);
    const auto all = exchange.allgather(std::as_bytes(std::span(mine)), deadline);
    if (!all) return tl::unexpected(all.error());
    std::vector<Told> told;
    for (const auto& bytes : *all) {
        const auto said = nlohmann::json::parse(bytes, nullptr, false);
        if (said.is_discarded()) return coppice::fail(COPPICE_ERR_PEER_FAILED, "rank {} is gone", told.size());
        told.push_back({{said.at("host"), said.at("switches"), said.at("within")}, said.at("transports")});
    }
    return told;
}

// The first that serves both ranks of a level; shared memory does so on one host.
std::string transport_for(const coppice::engine::Settings& settings, const std::vector<Told>& told,
                          const Level& level) {
    for (const std::string& name : told[level.first].transports) {
        const auto choice =
            std::ranges::find_if(settings.transports, [&name](const auto& one) { return one.transport->name == name; });
        const bool reaches = level.name == "host" || level.name == "cache" || !choice->transport->within_host;
        if (reaches && std::ranges::count(told[level.second].transports, name) > 0) return name;
    }
    return {};
}

struct Measured {
    Level level;
    std::string transport;
    std::uint64_t rounds = 0;
    Spread latency, overhead, gap;
};

// Both sides' rounds, side by side.
Measured evaluate(const Level& level, const std::string& transport, std::span<const Figures> begins,
                  std::span<const Figures> answers) {
    std::vector<double> latencies, overheads, gaps;
    for (std::size_t i = 0; i < begins.size(); ++i) {
        const double both = begins[i].send_us + answers[i].receive_us;
        latencies.push_back(std::max(0.0, begins[i].round_trip_us / 2 - both));
        overheads.push_back(both / 2);
        gaps.push_back(begins[i].gap_us);
    }
    return {level, transport, begins.size(), spread_of(latencies), spread_of(overheads), spread_of(gaps)};
}

// All rounds, or as many as fit into the time. Empty: the other rank died, or the deadline passed.
std::vector<Figures> measure_rounds(Pair& pair, const LogpSettings& settings) {
    std::vector<Figures> rounds;
    Measurement measurement(pair, settings.iterations);
    const std::uint64_t start = measure_now();
    bool is_last = false;
    while (!is_last && rounds.size() < settings.rounds) {
        if (!measurement.round(rounds.emplace_back())) return {};
        const bool is_over = us_since(start) >= settings.for_s * 1e6;
        if (settings.for_s > 0 && !measurement.tell_the_end(is_over, is_last)) return {};
    }
    if (!pair.leave()) return {};
    return rounds;
}

std::span<const Figures> figures_in(const std::vector<std::byte>& bytes) {
    return {reinterpret_cast<const Figures*>(bytes.data()), bytes.size() / sizeof(Figures)};
}

Result<Measured> measure(coppice::bootstrap::Bootstrap& exchange, const coppice::engine::Settings& parsed,
                         const LogpSettings& settings, const std::vector<Told>& told, const Level& level,
                         double timeout_s) {
    const std::uint64_t deadline = measure_now() + static_cast<std::uint64_t>((timeout_s + settings.for_s) * 1e9);
    const std::string transport = transport_for(parsed, told, level);
    if (transport.empty())
        return coppice::fail(COPPICE_ERR_NO_TRANSPORT,
                             "no transport is allowed between ranks {} and {}; COPPICE_TRANSPORT names them",
                             level.first, level.second);
    auto pair = Pair::connect(exchange, parsed, transport, level.first, level.second, deadline);
    if (!pair) return tl::unexpected(pair.error());
    std::vector<Figures> rounds;
    if (*pair) rounds = measure_rounds(**pair, settings);
    const auto all = exchange.allgather(std::as_bytes(std::span(rounds)), deadline);
    if (!all) return tl::unexpected(all.error());
    const auto begins = figures_in((*all)[level.first]);
    const auto answers = figures_in((*all)[level.second]);
    if (begins.empty() || answers.size() != begins.size())
        return coppice::fail(COPPICE_ERR_PEER_FAILED, "ranks {} and {}: one of them is gone, or took too long over {}",
                             level.first, level.second, transport);
    return evaluate(level, transport, begins, answers);
}

// With --for there are as many as fit, at the level that had the fewest.
std::uint64_t rounds_of(std::span<const Measured> levels) {
    return levels.empty() ? 0 : std::ranges::min(levels, {}, &Measured::rounds).rounds;
}

void print(std::span<const Measured> levels) {
    fmt::print("# coppice {} logp: {} bytes, us, medians of {} rounds (least..greatest)\n", COPPICE_VERSION, kPayload,
               rounds_of(levels));
    fmt::print("{:<9}{:<11}{:<11}{:>9}{:20}{:>9}{:20}{:>9}\n", "#level", "transport", "ranks", "L", "", "o", "", "g");
    for (const Measured& one : levels)
        fmt::print(" {:<8}{:<11}{:<11}{:<29}{:<29}{}\n", one.level.name, one.transport,
                   fmt::format("{}, {}", one.level.first, one.level.second), shown(one.latency), shown(one.overhead),
                   shown(one.gap));
}

bool write(std::span<const Measured> levels, const LogpSettings& settings) {
    nlohmann::ordered_json file{{"format", "coppice-logp"},
                                {"version", 1},
                                {"unit", "us"},
                                {"bytes", kPayload},
                                {"rounds", rounds_of(levels)},
                                {"levels", nlohmann::ordered_json::array()}};
    for (const Measured& one : levels)
        file["levels"].push_back({{"level", one.level.name},
                                  {"transport", one.transport},
                                  {"ranks", {one.level.first, one.level.second}},
                                  {"L", as_json(one.latency)},
                                  {"o", as_json(one.overhead)},
                                  {"g", as_json(one.gap)}});
    std::ofstream out(settings.json_file);
    out << file.dump(2) << '\n';
    return static_cast<bool>(out.flush());
}

}  // namespace

int run_logp(const LogpSettings& settings, double timeout_s) {
    const auto parsed = coppice::engine::parse(coppice::engine::SettingTexts());
    if (!parsed) return complain(parsed.error().message, kExitUsage);
    const std::uint64_t deadline = measure_now() + static_cast<std::uint64_t>(timeout_s * 1e9);
    auto exchange = coppice::bootstrap::choose(nullptr, nullptr, Rank(0), 0, parsed->bootstrap, deadline);
    if (!exchange) return complain(exchange.error().message, kExitFailed);
    if ((*exchange)->size() < 2) return complain("one rank has nobody to send to: coppice-run -n 2", kExitUsage);
    measure_pin((*exchange)->rank().value);
    const auto told = tell(**exchange, *parsed, deadline);
    if (!told) return complain(told.error().message, kExitFailed);
    std::vector<Place> places;
    for (const Told& one : *told)
        places.push_back(one.place);

    const bool prints = (*exchange)->rank() == Rank(0);
    std::vector<Measured> levels;
    for (const Level& level : levels_of(places)) {
        auto measured = measure(**exchange, *parsed, settings, *told, level, timeout_s);
        if (!measured) return complain(measured.error().message, kExitFailed);
        levels.push_back(std::move(*measured));
    }
    if (!prints) return kExitOk;
    print(levels);
    if (!settings.json_file.empty() && !write(levels, settings))
        return complain(fmt::format("{}: {}", settings.json_file, std::strerror(errno)), kExitFailed);
    return kExitOk;
}

}  // namespace perf
