// What happened in one broadcast, put together from its conversation, to be drawn.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "simulation/model.hpp"

namespace coppice::sim {

// One message, from the start of its sending to its end.
struct Flight {
    enum class Fate : std::uint8_t { received, ignored, vanished, under_way };

    std::uint32_t from = 0;
    std::uint32_t to = 0;
    std::string_view kind;
    simulation::Step sent = 0;      // occupies its sender until sent + o
    simulation::Step arrives = 0;   // sent + o + L
    simulation::Step received = 0;  // takes effect; has occupied its receiver since `begins`
    simulation::Step begins = 0;    // later than arrives when the port was busy
    Fate fate = Fate::under_way;
};

struct Actor {
    bool dead = false;  // before the start, or since `died`
    simulation::Step died = 0;
    std::optional<simulation::Step> colored;
    bool by_ring = false;  // the dissemination had left it out

    bool reached() const { return colored.has_value(); }
};

struct Story {
    simulation::LogP model;
    std::vector<Actor> actors;    // by rank
    std::vector<Flight> flights;  // in order of sending
    simulation::Step coloring_latency = 0;
    simulation::Step quiescence_latency = 0;
};

// `events` is a whole conversation among so many.
Story tell(const simulation::LogP& model, std::uint32_t ranks, const simulation::Faults& faults,
           const std::vector<simulation::Event>& events);

// Messages of the correction.
bool is_ring_kind(std::string_view kind);

}  // namespace coppice::sim
