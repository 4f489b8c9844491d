// Drives one machine per position on a LogP clock. model.hpp says what the clock and the faults do;
// protocol/machine.hpp what a machine offers.
//
// Make one per thread and run it as often as you like: it keeps its memory. A run depends on nothing but its arguments.
//
// How it keeps up with millions of messages: all messages of one kind of cost travel equally long (unless a network is
// between them), so what is sent at t is due together, in the order of sending, and each message is written once and read once. Whether its receiver's port
// was free is found out when it is due: until then no later arrival can have been served before.
//
// The observer is a template parameter, too. It sees everything and may stop the run (checker.hpp, conversation.hpp).
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <new>
#include <type_traits>
#include <vector>

#include "protocol/failed_set.hpp"
#include "protocol/machine.hpp"
#include "simulation/calendar.hpp"
#include "simulation/large_array.hpp"
#include "simulation/model.hpp"
#include "simulation/position_set.hpp"

namespace coppice::simulation {

// Whether messages of this kind belong to the ring: families that have one say so with is_correction(kind).
template <class Kind>
constexpr bool is_ring(Kind kind) {
    if constexpr (requires { is_correction(kind); }) {
        return is_correction(kind);
    } else {
        return false;
    }
}

// What a run tells of itself. Derive from it and hide what you want to see.
struct Onlooker {
    // Called before anything else with a message: it may be nonsense. False stops the run.
    template <class Message>
    bool sent(Step /*now*/, Position /*sender*/, const Message& /*message*/, bool /*sender_colored*/) {
        return true;
    }
    // False stops the run.
    template <class Message>
    bool received(Step /*now*/, const Message& /*message*/, bool /*accepted*/, bool /*was_colored*/, bool /*colored*/) {
        return true;
    }
    template <class Message>
    void vanished(Step /*now*/, const Message& /*message*/) {}
    template <class Message>
    void ignored(Step /*now*/, const Message& /*message*/) {}
    void died(Step /*now*/, Position /*position*/) {}
    // Once, when nothing is due any more. Not after a stop.
    template <class Run>
    void ended(const Run& /*run*/, const Outcome& /*outcome*/) {}
};

// How long messages travel, where that is the same for all: the L of LogP, at no cost. Another wire (network.hpp) is
// asked of each message, and keeps what it needs for that:
//   void start();                                          // a run begins
//   Step arrival(Step sent, Position from, Position to);   // `sent` is when the sender's port lets go of it
//   messages()                                             // sent in this run, by level
struct EvenWire {};

template <protocol::Machine M, class Observer = Onlooker, class Wire = EvenWire>
class Simulation {
  public:
    using Message = typename M::Message;

    static_assert(std::is_trivially_destructible_v<M>, "machines own nothing");

    // `processes` is at least 1 and reason_against(model) is nothing.
    Simulation(const LogP& model, std::uint32_t processes, Wire wire = Wire{});

    // A run: `make(position, failed)` returns the machine of a position; `failed` holds the members known to have
    // failed and outlives the run. The outcome is kept until the next run.
    template <class Make>
    const Outcome& run(const Faults& faults, Make&& make, Observer& observer);

    // Gives up a run that is not over at `step`; ended() says whether the last one was.
    void give_up_at(Step step) { last_step_ = step; }
    bool ended() const { return ended_; }

    // After a run.
    std::uint32_t processes() const { return processes_; }
    const M& machine(Position position) const { return machines_[position.value]; }
    bool is_dead(Position position) const { return dead_.contains(position.value); }
    bool is_colored(Position position) const { return colored_.contains(position.value); }
    // Not by a ring message; or from the start.
    bool is_disseminated(Position position) const { return disseminated_.contains(position.value); }

    // What one of these needs, roughly: machines, ports, and as much on the way as ports can put there.
    static std::uint64_t bytes_needed(const LogP& model, std::uint32_t processes);

  private:
    static constexpr bool kEven = std::is_same_v<Wire, EvenWire>;

    struct Ports {
        Step receive_free = 0;
        Step send_free = 0;
        std::uint32_t sent = 0;
        std::uint32_t received = 0;
    };
    struct Free {
        void operator()(M* machines) const { ::operator delete (machines, std::align_val_t{alignof(M)}); }
    };

    template <class Make>
    void start(const Faults& faults, Make&& make);
    void step(Observer& observer);
    void let_die(Observer& observer);
    void give_notice();
    Step next_step() const;

    using Outbox = typename Calendar<Message>::Writer;

    void let_arrive(Observer& observer);
    bool finds_port_free(const Message& message, Step arrival, Observer& observer);
    [[gnu::always_inline]] void take_effect(const Message& message, Observer& observer);
    void vanish(const Message& message, Step arrival, Observer& observer);
    void let_send(Observer& observer);
    void put_on_the_way(const Message& message);
    bool may_send(std::uint32_t position) const;
    bool is_sound(std::uint32_t position, const Message& message);
    void note_timer(std::uint32_t position);

    void conclude();
    void active_until(Step time) {
        if (time > outcome_.quiescence_latency) outcome_.quiescence_latency = time;
    }

    LogP model_;
    [[no_unique_address]] Wire wire_;
    std::uint32_t processes_;
    Step last_step_ = kLastStep;
    LargeArray<M> machines_;
    LargeArray<Ports> ports_;
    std::vector<Step> timers_;  // of each position, what is noted; made when the first machine wants one
    PositionSet dead_;
    PositionSet colored_;
    PositionSet disseminated_;
    Agenda agenda_;  // the members to ask for sends in this step
    protocol::FailedSet known_;

    // With overlap, messages are in these two until they would take effect if their receiver's port was free; else
    // until they arrive. Ring messages that are one-sided arrive and take effect at once.
    Calendar<Message> on_the_way_;
    Calendar<Message> on_the_ring_;
    Calendar<Message> in_line_;     // at their receiver's port, until they take effect
    Calendar<PositionWord> wakes_;  // whose send port is free again
    Calendar<std::uint32_t> alarms_;
    std::vector<Death> deaths_;   // ascending, those still to come from next_death_ on
    std::vector<Death> notices_;  // `at` is when they are given
    std::size_t next_death_ = 0;
    std::size_t next_notice_ = 0;

    Step now_ = 0;
    bool any_dead_ = false;
    bool ports_keep_busy_ = false;  // longer than to the next step
    bool stopped_ = false;
    bool ended_ = false;
    Outcome outcome_;
};

}  // namespace coppice::simulation

#include "simulation/simulation_run.hpp"
