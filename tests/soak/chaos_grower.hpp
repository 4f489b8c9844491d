// What a rank does in a job that grows: it works in one group after the other, each made of the one before by a renewal, without those that
// have died or wanted to leave, with those that have come. What all do alike follows from the group's number, so newcomers do the same;
// what all have come to they get from the eldest.
#pragma once

#include <cstdint>
#include <memory>

#include "chaos_team.hpp"

namespace chaos {

class Grower {
  public:
    // `self` is this process (process_of); `is_late`: others have made the group before it was started.
    Grower(const Options& options, std::uint32_t self, bool is_late);

    // All of it. False: it has left before the others' end.
    bool play(coppice_context_t* context);

  private:
    // What all members have come to.
    struct State {
        std::uint64_t steps = 0;
        std::uint64_t sum = 0;
        std::uint64_t renewals = 0;
    };
    enum class Next : std::uint8_t { go_on, end, leave };

    Next step();
    Next work(Draw& common);
    Next renew();
    Next renew_once();
    Next without_quorum();
    bool settle();
    void revoke(Draw& common);
    bool wants_more();
    void look_for_death(const char* point);

    const Options& options_;
    std::uint32_t self_;
    bool is_late_;
    Draw own_;
    coppice_context_t* context_ = nullptr;
    std::unique_ptr<Team> team_;
    std::unique_ptr<Team> before_;  // not left yet
    State state_;
    std::uint64_t steps_here_ = 0;  // in this group
    std::uint64_t steps_ = 0;       // of this process
    std::uint64_t renewals_ = 0;    // the same
    Clock::time_point changed_;     // the group, or what is done to the job
    bool has_all_happened_ = false;
};

}  // namespace chaos
