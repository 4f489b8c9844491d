// Every schedule of membership in a small group, with the machine that ships: who calls for the next view when, who joins
// and leaves, what arrives when, who dies or is cut off, and when each of the others learns of it, for certain or not.
//
// What the machine promises (protocol/membership/membership.hpp, docs/membership.md), and where it is checked:
//
//   self-inclusion: a process that is in a view is one of its members         when it installs one
//   one order of views: each follows the one before                           when it installs one
//   and no two of one epoch, but with the quorum `any`                        when it installs one
//   delivery integrity, no duplication, same-view delivery (with `talk`)      when a user's message is delivered: as
//                                                                             Membership::delivery() says, which the
//                                                                             engine does not ask (docs/membership.md)
//   nobody is in it that any member knew to be dead when it called, and it
//   has no offer that a member has not made (with `consents`)                 when it installs one
//   nobody is excluded that is not cut off                                    in every state
//   deaths seen by a witness never cost the quorum: without a cut all living
//   get the views that they want; with one, each is told of the quorum        check_end()
//   the side of a cut that has the quorum goes on                             check_end(), where nobody died
//   a joiner is in, is told why not, or is known to the next root             check_end()
//   one that wants to leave is out, or is known to the next root              check_end()
//   one that has gone, and said that it never voted, costs no quorum          check_end()
#pragma once

#include <cstdint>
#include <set>
#include <string>

#include "protocol/membership/membership.hpp"
#include "simulation/explore/walk.hpp"

namespace coppice::simulation {

struct MembershipScenario {
    static constexpr std::uint32_t kMostProcesses = 8;

    std::uint32_t ranks = 3;
    std::uint32_t joins = 0;      // processes that ask for any seat, from the start on
    std::uint32_t rejoins = 0;    // of the first that die: started again, and asking for the seat that they had
    std::uint32_t leaves = 0;     // how many may want to leave
    std::uint32_t farewells = 0;  // how many that have voted for nothing may go, and say so
    std::uint32_t crashes = 0;    // how many may die, newcomers too
    std::uint32_t cuts = 0;       // 0 or 1: all processes are parted into two sides, any two
    std::uint32_t views = 1;      // how many each caller wants
    std::uint32_t radix_bits = 1;
    std::uint32_t capacity = UINT32_MAX;
    protocol::Quorum quorum = protocol::Quorum::certain;
    // Process p is on host p modulo this, and only those that share its host ever know for certain that it is dead; 0: all do.
    std::uint32_t hosts = 0;
    // The tree has two levels, process p on host p modulo this, as the engine has it; 0: a plain one.
    std::uint32_t host_tree = 0;
    bool called = false;           // everybody has called for its next view at once, but the lowest member of the first
    bool late_witness = false;     // deaths are suspected first, and certain later
    bool unwitnessed = false;      // deaths are suspected, and never certain
    bool false_farewells = false;  // members that have voted, too, say that they have not
    bool reports = false;          // members tell the root of deaths
    bool consents = false;         // members say at once what they would propose
    bool differing = false;        // and offer different things
    bool introduced = false;       // newcomers are known to all members, and ask none
    bool newcomers_go =
        false;          // and never speak: once they are in a view, its members take them for gone, as in the engine
    bool talk = false;  // each sends a user's message in each view, to the next rank
    bool talk_twice = false;   // which arrives twice: to see that it is noticed
    bool sends_apart = false;  // a member may die, and hear others, between any two that it sends: many more states
    bool all_notices = false;  // members learn of deaths that make no difference to them, too: many more states
    bool keep_outcomes = false;
    std::uint32_t faults = 0;  // protocol::MembershipFault
    std::uint64_t max_states = 200'000'000;
};

struct MembershipExploration {
    WalkResult walk;
    std::uint64_t locals = 0;        // states of single members
    std::uint64_t messages = 0;      // different ones
    std::set<std::string> outcomes;  // all ends, with `keep_outcomes`: who lives, in which view, and what it was told
};

MembershipExploration explore(const MembershipScenario& scenario);

}  // namespace coppice::simulation
