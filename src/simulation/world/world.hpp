// N whole ranks of Coppice in one process, on one clock, from one seed: docs/simulator.md.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "simulation/world/clockwork.hpp"
#include "simulation/world/launcher.hpp"
#include "simulation/world/network.hpp"
#include "simulation/world/rank.hpp"

namespace coppice::world {

class World {
  public:
    using Tell = std::function<void(const std::string& line)>;
    World(const Fate& fate, std::uint64_t seed, Tell tell = nullptr, Tell tell_traffic = nullptr);
    ~World();

    Clockwork& clockwork() { return clockwork_; }
    const Fate& fate() const { return fate_; }
    WorldRank& rank(std::uint32_t number) { return *ranks_[number]; }
    // That of the ranks' n-th group that is made by an exchange.
    Network& network(std::uint32_t number, std::uint32_t window, std::span<const transport::Region> regions);
    // Runs until all ranks that live are over; false: they are not within that time.
    bool run(std::uint64_t most_ns);

    // The number of the n-th group made from that one without these ranks, or by exchange (promises::kNone): the same at all ranks
    // that agree on these. Ranks that die soon after may have agreed on others, and so made a group of their own.
    std::uint32_t group_number(std::uint32_t parent, std::uint32_t number, const std::vector<std::uint32_t>& without);
    // A rank that dies on its progress thread leaves a mark in the library that the next one must not find.
    static void forget_thread();
    // The last error's sentence lies in memory of the rank whose it was.
    static void forget_last_error();

    // --- the exchange: one of all ranks at a time, in order
    struct Exchange {
        std::size_t bytes = 0;
        std::vector<std::vector<std::byte>> pieces;  // by rank; empty: not there yet
        std::vector<std::byte> all;
        bool complete = false;
    };
    Exchange& join_exchange(std::uint32_t number, std::uint32_t rank, const void* mine, std::size_t bytes);
    void complete_exchanges();

    // Descriptors that are never readable: to sleep on, for the near and the far wire.
    static int bell(Wire wire);
    static int launchers_bell();

    // --- newcomers
    // Null: nobody comes.
    Launcher* launcher() { return launcher_.get(); }
    // What a rank does that was started late.
    void when_started(std::function<void(WorldRank&)> body) { newcomers_body_ = std::move(body); }
    // The number of the group of that epoch with these members, where processes may come.
    std::uint32_t view_number(std::uint32_t epoch, const std::vector<std::uint32_t>& members);
    // By which step of its program a rank asks for the view of that epoch. step_of: by which the first of `members` did that has asked for it;
    // kNone: none has. A rank beyond a cut may ask for one of that epoch by another step, in vain.
    void note_renewal(std::uint32_t epoch, std::uint32_t rank, std::uint32_t step);
    std::uint32_t step_of(std::uint32_t epoch, const std::vector<std::uint32_t>& members) const;

  private:
    struct Cutting final : Happening {
        explicit Cutting(World& of) : world(of) {}
        void happen(std::uint64_t which) override;
        World& world;
    };

    Fate fate_;
    Clockwork clockwork_;
    std::vector<std::unique_ptr<WorldRank>> ranks_;
    std::vector<std::unique_ptr<Network>> networks_;
    std::vector<std::unique_ptr<Exchange>> exchanges_;
    std::map<std::tuple<std::uint32_t, std::uint32_t, std::vector<std::uint32_t>>, std::uint32_t> groups_;
    Cutting cutting_{*this};
    std::unique_ptr<Launcher> launcher_;
    std::function<void(WorldRank&)> newcomers_body_;
    std::map<std::pair<std::uint32_t, std::vector<std::uint32_t>>, std::uint32_t> views_;
    std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> steps_;  // by epoch and rank
};

}  // namespace coppice::world
