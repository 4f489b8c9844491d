// What newcomers and members tell each other by way of the launcher, or of a door, as bytes (bootstrap/lobby.hpp). Nothing that is read is trusted to be whole.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/lineage.hpp"
#include "engine/wire/wire.hpp"
#include "topology/nodes.hpp"
#include "transport/secret.hpp"

namespace coppice::engine {

using Bytes = std::vector<std::byte>;

// How a process can be reached.
struct Card {
    std::string host;      // transport::host_identity()
    std::string switches;  // above it: topology/switch_path.hpp; empty where nobody knows
    Bytes addresses;       // append_address()

    Bytes bytes() const;
    static std::optional<Card> parse(std::span<const std::byte> bytes);
};

// Where a newcomer runs.
struct NewcomersHost {
    std::uint64_t number = 0;  // host_number()
    std::string switches{};    // above it
};

// What a newcomer has to know of a group before it makes its transports: what all members have in common (Greeting has the words).
struct Invitation {
    std::string protocol;
    std::string library;
    std::string agreement;
    std::string transports;
    std::uint64_t token = 0;  // of the first group
    transport::GroupSecret secret{};
    std::uint32_t capacity = 0;  // COPPICE_CAPACITY, or how many the group had at first

    Bytes bytes() const;
    static std::optional<Invitation> parse(std::span<const std::byte> bytes);
};

// The group that has a newcomer.
struct Birth {
    struct Member {
        Origin origin;
        std::uint32_t node = 0;  // the same for ranks of one node

        bool operator==(const Member&) const = default;
    };
    GroupId id;
    std::uint32_t panel = 0;
    std::uint32_t most = UINT32_MAX;  // members that it should have
    std::vector<Member> members;      // by rank
    // By Member::node, of the switches above it; none where the old group's were not kept.
    std::vector<std::string> switches{};

    Bytes bytes() const;
    static std::optional<Birth> parse(std::span<const std::byte> bytes);

    // The same by the nodes of that group.
    std::vector<std::string> switches_by_node(const topology::Nodes& nodes) const;
};

}  // namespace coppice::engine
