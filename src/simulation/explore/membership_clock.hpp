// How long a group takes for its next view, with the machine that ships, on a clock of microseconds (Varma et al., ICS'06, §4 and
// §7): T_s, from the root's proposal until it has all acknowledgements, and until all have the view.
//
// A member that gets an order works for Ocp (it recalculates its tree) and then sends all that it has to send at once;
// acknowledgements cost nothing. How long a message takes is the network's affair:
//   uniform     L between any two: the paper's base model, equations 1 and 2
//   torus       L for each hop between two nodes of a torus of three dimensions, members in the order of x, y, z
//   one_switch  L, of which the switch is busy for some time with each message, one at a time
// A member may be busy for a while with each message that it sends, one after the other: what the paper says of trees that are too flat.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace coppice::simulation {

struct MembershipNetwork {
    enum class Kind : std::uint8_t { uniform, torus, one_switch };

    Kind kind = Kind::uniform;
    double latency_us = 4.6;                       // L
    std::array<std::uint32_t, 3> torus{8, 8, 16};  // nodes along x, y, z
    double switch_us = 19.7;                       // of L: for which the switch is busy
    double send_us = 0;                            // for which a member is busy with each message, before L begins

    std::uint32_t hops(std::uint32_t from, std::uint32_t to) const;
    // While so many messages are under way at any time, each answered by the next.
    double contended_latency_us(double under_way) const;
};

struct MembershipSetup {
    std::uint32_t ranks = 1024;
    std::uint32_t radix_bits = 1;
    double compute_us = 2;  // Ocp
    MembershipNetwork network;
    std::vector<std::uint32_t> dead{};  // all others are told at once, by the root's proposal
};

struct MembershipTime {
    double stable_us = 0;  // T_s; where the root is dead, from the question of the next one
    double told_us = 0;    // all have the next view
    std::uint64_t messages = 0;
    std::uint32_t height = 0;   // of the tree, the dead counted
    std::uint32_t members = 0;  // of the next view
    bool agreed = false;        // all living have the same one
};

std::uint64_t bytes_needed(const MembershipSetup& setup);
MembershipTime time_of_next_view(const MembershipSetup& setup);

// Of messages that are answered at once, for ever, so many under way at a time.
double latency_under_contention_us(const MembershipNetwork& network, std::uint32_t under_way);

// What the paper's models say: equations 1 and 2; with the largest distance of each level in place of one hop; as the paper
// prints that, times the levels once more; and with the latency under contention of so many nodes.
double base_model_us(const MembershipSetup& setup);
double distance_model_us(const MembershipSetup& setup);
double printed_distance_model_us(const MembershipSetup& setup);
double contention_model_us(const MembershipSetup& setup);

}  // namespace coppice::simulation
