// Jobs whose groups are open, and strangers that join them to work with the members: what several test programs share.
#pragma once

#include <gtest/gtest.h>

#include "integration/tickets.hpp"

namespace coppice::testing {

using Environment = Stranger::Environment;

inline const Environment kOpen{{"COPPICE_JOIN", "any"}, {"COPPICE_CAPACITY", "8"}, {"COPPICE_TRANSPORT", "shm,tcp"}};

inline Environment with(Environment environment, const Environment& more) {
    for (const auto& [name, value] : more)
        environment[name] = value;
    return environment;
}

inline JobOptions job_of(std::uint32_t ranks, const Environment& environment = kOpen) {
    JobOptions options;
    options.ranks = ranks;
    options.environment = environment;
    return options;
}

inline std::size_t start_joiner(Job& job, const Environment& environment, std::uint32_t members,
                                std::size_t at = kTicketAt) {
    const auto* const notes = &job.note(0);
    return Stranger::start(job, environment, [notes, members, at](coppice_context_t* context) {
        coppice_group_t* group = Stranger::join(context, get_ticket(notes, at));
        group = grow(group, members);
        work_together(group);
        leave(context, group);
    });
}

inline void expect_well(Job& job, const std::vector<std::size_t>& strangers) {
    for (const std::size_t one : strangers) {
        const Ending ending = job.processes().wait(one);
        EXPECT_TRUE(ending.well()) << "stranger " << one << ": " << ending.text();
    }
}

}  // namespace coppice::testing
