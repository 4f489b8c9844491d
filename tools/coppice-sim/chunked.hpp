// Payloads of many bytes, which go in chunks: ways to send them and sizes of chunks beside each other (simulation/chunked.hpp).
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "simulation/chunked.hpp"
#include "simulation/model.hpp"

namespace coppice::sim {

// What of it a group of processes does: COPPICE_PAYLOAD_CHUNK.
inline constexpr std::uint64_t kLeastChunkOfGroups = 1024;
inline constexpr std::uint64_t kMostChunkOfGroups = 1024 * 1024;

class ChunkedOptions {
  public:
    void add_to(CLI::App& app);
    bool given() const { return bytes_ > 0; }

    struct Row {
        simulation::ChunkedSetup setup;
        simulation::ChunkedOutcome outcome;

        bool is_offered() const {
            return setup.shape == simulation::Shape::pull && setup.chunk >= kLeastChunkOfGroups &&
                   setup.chunk <= kMostChunkOfGroups;
        }
    };
    // All shapes with all chunks, in that order; those that are too large to be simulated are left out, unless all are: then why.
    tl::expected<std::vector<Row>, std::string> rows(std::uint32_t ranks, const simulation::LogP& model) const;
    std::uint64_t bytes() const { return bytes_; }
    // Steps that nothing goes below: the root sends each byte once, and the last one has its way.
    double bound(const simulation::LogP& model) const;

  private:
    std::uint64_t bytes_ = 0;
    std::vector<std::uint64_t> chunks_;
    double gap_per_byte_ = 0.001;
    std::uint32_t ahead_ = 64;
};

// The row that is there first; of those only that groups of processes offer, if `offered`.
const ChunkedOptions::Row& first_of(const std::vector<ChunkedOptions::Row>& rows, bool offered);

// What to choose, in words; the step in microseconds.
std::string chunked_advice(const std::vector<ChunkedOptions::Row>& rows, double step_us);
std::string chunked_as_table(const std::vector<ChunkedOptions::Row>& rows, double bound);
// One object for each row, in a line of its own; or csv with its headings.
std::string chunked_as_lines(const std::vector<ChunkedOptions::Row>& rows, bool csv);

}  // namespace coppice::sim
