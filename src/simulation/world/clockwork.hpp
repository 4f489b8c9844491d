// The scheduler of a world: virtual time, what is due, and the actors that it runs one at a time.
//
// An actor is a thread of a simulated rank, on a stack of its own (fibre.hpp). It runs until it waits or is preempted, which can be at
// each action on wire or memory; time stands still meanwhile. Everything is decided by one stream of random numbers, so a
// run is a seed.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <queue>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "simulation/random.hpp"
#include "simulation/world/arena.hpp"
#include "simulation/world/fate.hpp"
#include "simulation/world/fibre.hpp"

namespace coppice::world {

// What can be due. `what` is the receiver's own.
class Happening {
  public:
    virtual void happen(std::uint64_t what) = 0;

  protected:
    ~Happening() = default;
};

struct Actor {
    Fibre fibre;
    Arena* memory = nullptr;  // in use when it was suspended
    std::uint32_t rank = 0;
    std::uint64_t ticket = 0;  // of its last wait
    bool waiting = false;
    bool wakes = false;        // what happens may end that wait
    std::uint64_t due_ns = 0;  // of that wait
    std::function<void()> body;
};

class Clockwork final : public Clock {
  public:
    Clockwork(const Fate& fate, std::uint64_t seed);
    ~Clockwork();

    std::uint64_t now_ns() const override { return now_ns_; }
    simulation::Random& random() { return random_; }
    // 0 … most, small ones as likely as large ones by order of magnitude.
    std::uint64_t draw(std::uint64_t most);
    const Fate& fate() const { return fate_; }

    void at(std::uint64_t time_ns, Happening& who, std::uint64_t what);

    // --- actors
    Actor& add_actor(std::uint32_t rank, std::function<void()> body);
    // From within one: waits until then; sooner, if `wakes` and it is woken.
    void wait(Actor& actor, std::uint64_t until_ns, bool wakes);
    // It looks again soon, if it waits for that.
    void wake(Actor& actor, std::uint64_t within_ns);

    // --- ranks
    bool dead(std::uint32_t rank) const { return ranks_[rank].dead; }
    std::uint64_t died_at_ns(std::uint32_t rank) const { return ranks_[rank].died_at_ns; }
    // How long its actors were kept from their cores so far.
    std::uint64_t kept_ns(std::uint32_t rank) const { return ranks_[rank].kept_ns; }
    Arena& memory(std::uint32_t rank) { return *memories()[rank]; }
    std::uint64_t actions(std::uint32_t rank) const { return ranks_[rank].actions; }
    // From within an actor of that rank: an action on wire or memory is about to happen. The rank may lose its core here, or
    // die: then this does not return.
    void act(std::uint32_t rank);
    // The same for looks: the rank may lose its core, no more.
    void look(std::uint32_t rank);
    // Whether it can't lose its core from now on.
    void keep_core(std::uint32_t rank, bool keep) { ranks_[rank].keeps_core = keep; }
    void kill(std::uint32_t rank);
    void on_death(std::function<void(std::uint32_t rank)> heed) { on_death_ = std::move(heed); }

    // Until nothing is due any more, or `until()`, or the time is over; false: that.
    bool run(std::uint64_t most_ns, const std::function<bool()>& until);

    // --- for people
    std::function<void(const std::string& line)> tell;
    // Of messages that are delivered, and of stores to host memory: traffic.cpp.
    std::function<void(const std::string& line)> tell_traffic;

  private:
    struct Due {
        std::uint64_t time_ns;
        std::uint64_t order;
        Happening* who;  // null: an actor
        Actor* actor;
        std::uint64_t what;
        bool operator>(const Due& other) const {
            return time_ns != other.time_ns ? time_ns > other.time_ns : order > other.order;
        }
    };
    struct RankState {
        bool dead = false;
        bool keeps_core = false;
        std::uint64_t died_at_ns = kNever;
        std::uint64_t stopped_until_ns = 0;
        std::uint64_t kept_ns = 0;
        std::uint64_t actions = 0;
        std::uint64_t last_action = kNever;
    };
    struct Killing final : Happening {
        explicit Killing(Clockwork& of) : clockwork(of) {}
        void happen(std::uint64_t rank) override { clockwork.kill(static_cast<std::uint32_t>(rank)); }
        Clockwork& clockwork;
    };
    static std::vector<std::unique_ptr<Arena>>& memories();
    void push(std::uint64_t time_ns, Happening* who, Actor* actor, std::uint64_t what);
    void run_actor(Actor& actor);

    const Fate& fate_;
    simulation::Random random_;
    std::uint64_t now_ns_ = kStartNs;
    std::uint64_t order_ = 0;
    std::priority_queue<Due, std::vector<Due>, std::greater<>> due_;
    std::vector<std::unique_ptr<Actor>> actors_;
    Actor* running_ = nullptr;
    bool has_killed_ = false;
    Killing killing_{*this};
    std::vector<RankState> ranks_;
    std::function<void(std::uint32_t)> on_death_;
};

}  // namespace coppice::world
