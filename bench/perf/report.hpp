// What a broadcast run found, told by the lowest survivor: a line per size, the dead, and what was lost.
#pragma once

#include <array>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <vector>

#include "perf/levels.hpp"
#include "perf/options.hpp"
#include "perf/payload.hpp"
#include "perf/session.hpp"

namespace perf {

// The levels that the library tells messages apart by.
inline constexpr auto kCrossed = std::span(kLevelNames).last<4>();

// What one rank counts, kept in its own part of the shared area so that any survivor can add it up.
struct Tally {
    std::uint64_t deliveries = 0;   // payloads that arrived
    std::uint64_t lost = 0;         // not delivered although the root lived
    std::uint64_t corrupt = 0;      // delivered, but not what the root sent
    std::uint64_t duplicate = 0;    // delivered again in place of another
    std::uint64_t root_failed = 0;  // not delivered, the root had died
    std::uint64_t finished = 0;     // broadcasts that this rank is through with (read by others during the run)
    std::uint64_t last_sign = 0;    // CLOCK_MONOTONIC when it was last heard of
    // Of all broadcasts: messages within hosts, leaves and pods, and beyond.
    std::array<std::uint64_t, kCrossed.size()> sent{};
    coppice_group_counts_t counts{};  // with --count: of the broadcasts measured, of one size
};

// A rank's own part of the area: its tally, then when it was told of each rank's death.
struct Record {
    explicit Record(measure_area_t* area, std::uint32_t rank) : memory_(measure_own(area, rank)) {}
    static std::uint64_t bytes(std::uint32_t ranks) { return sizeof(Tally) + ranks * sizeof(std::uint64_t); }
    Tally& tally() const { return *static_cast<Tally*>(memory_); }
    std::uint64_t& noticed(std::uint32_t rank) const {
        return reinterpret_cast<std::uint64_t*>(static_cast<char*>(memory_) + sizeof(Tally))[rank];
    }

  private:
    void* memory_;
};

class Report {
  public:
    Report(Session& session, const GroupSettings& group, const BroadcastSettings& settings, const Schedule& schedule);

    // The figures of one size; `first` is the sequence number of the first one measured, of so many. For the leader
    // only.
    void headings() const;
    void size_done(std::uint64_t bytes, std::uint64_t first, std::uint64_t measured, std::uint64_t elapsed_ns);
    // What each rank's transports did for the broadcasts of one size. For the leader only.
    void counts_done();
    // Deaths since `start_ns` and the totals over all survivors. For the leader only.
    void summary(std::uint64_t start_ns);
    std::optional<Failure> write_json() const;

    bool clean() const { return clean_; }

  private:
    void deaths(std::uint64_t start_ns);
    void messages_by_level();
    bool dead_before_run(std::uint32_t rank) const;

    Session& session_;
    const BroadcastSettings& settings_;
    Schedule schedule_;
    nlohmann::json json_;
    std::uint64_t measured_ = 0;  // of the last size
    bool clean_ = true;
};

}  // namespace perf
