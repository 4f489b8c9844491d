// The inside of Simulation; include simulation.hpp.
#pragma once

#include "simulation/simulation.hpp"
#include "simulation/tally.hpp"

namespace coppice::simulation {

template <protocol::Machine M, class Observer, class Wire>
Simulation<M, Observer, Wire>::Simulation(const LogP& model, std::uint32_t processes, Wire wire)
    : model_(model),
      wire_(std::move(wire)),
      processes_(processes),
      machines_(processes),
      ports_(processes),
      dead_(processes),
      colored_(processes),
      disseminated_(processes),
      agenda_(processes) {}

template <protocol::Machine M, class Observer, class Wire>
std::uint64_t Simulation<M, Observer, Wire>::bytes_needed(const LogP& model, std::uint32_t processes) {
    const std::uint64_t in_flight = 1 + (2ULL * model.overhead + model.latency) / model.interval();
    const std::uint64_t each = sizeof(M) + sizeof(Ports) + 1 + in_flight * sizeof(Message) + 2 * sizeof(std::uint32_t);
    return each * processes + (1U << 20);
}

// -------------------------------------------------------------------------------------------------- the run

template <protocol::Machine M, class Observer, class Wire>
template <class Make>
const Outcome& Simulation<M, Observer, Wire>::run(const Faults& faults, Make&& make, Observer& observer) {
    start(faults, make);
    step(observer);
    while (!stopped_) {
        const Step next = next_step();
        if (next >= last_step_) {
            ended_ = next == kLastStep;
            break;
        }
        now_ = next;
        step(observer);
    }
    conclude();
    if (ended_) observer.ended(*this, outcome_);
    return outcome_;
}

template <protocol::Machine M, class Observer, class Wire>
template <class Make>
void Simulation<M, Observer, Wire>::start(const Faults& faults, Make&& make) {
    now_ = 0;
    stopped_ = false;
    ended_ = false;
    outcome_ = Outcome{};
    std::fill(timers_.begin(), timers_.end(), kLastStep);
    for (PositionSet* set : {&dead_, &colored_, &disseminated_})
        set->clear();
    agenda_.clear();
    for (Calendar<Message>* calendar : {&on_the_way_, &on_the_ring_, &in_line_})
        calendar->clear();
    wakes_.clear();
    alarms_.clear();
    if constexpr (!kEven) wire_.start();

    deaths_ = faults.dying;
    const auto sooner = [](const Death& a, const Death& b) {
        return a.at != b.at ? a.at < b.at : a.position < b.position;
    };
    std::sort(deaths_.begin(), deaths_.end(), sooner);
    next_death_ = 0;
    for (const Position position : faults.dead)
        dead_.insert(position.value);
    ports_keep_busy_ = model_.interval() > 1 || !model_.overlap;
    any_dead_ = !faults.dead.empty() || !deaths_.empty();

    known_ = protocol::FailedSet{};
    notices_.clear();
    next_notice_ = 0;
    if (faults.notice_after) {
        for (const Position position : faults.dead) {
            if (*faults.notice_after == 0) {
                known_.insert(position.value);
            } else {
                notices_.push_back({position, *faults.notice_after});
            }
        }
        for (const Death& death : deaths_)
            notices_.push_back({death.position, death.at + *faults.notice_after});
        std::sort(notices_.begin(), notices_.end(), sooner);
    }

    for (std::uint32_t position = 0; position < processes_; ++position) {
        new (&ports_[position]) Ports();
        const M* machine = new (&machines_[position]) M(make(Position{position}, known_));
        if (machine->colored()) {
            colored_.insert(position);
            disseminated_.insert(position);
        }
        if (dead_.contains(position)) continue;
        if (colored_.contains(position) || !known_.empty()) agenda_.insert(position);
        note_timer(position);
    }
}

template <protocol::Machine M, class Observer, class Wire>
Step Simulation<M, Observer, Wire>::next_step() const {
    Step next = std::min({on_the_way_.next(), on_the_ring_.next(), in_line_.next(), wakes_.next(), alarms_.next()});
    // Deaths and notices behind everything else still count: machines may answer to a notice.
    if (next_notice_ < notices_.size()) next = std::min(next, notices_[next_notice_].at);
    if (next_death_ < deaths_.size()) next = std::min(next, deaths_[next_death_].at);
    return next;
}

template <protocol::Machine M, class Observer, class Wire>
void Simulation<M, Observer, Wire>::step(Observer& observer) {
    if (next_death_ < deaths_.size()) let_die(observer);
    if (next_notice_ < notices_.size()) give_notice();
    let_arrive(observer);
    wakes_.take(now_, [this](const PositionWord& positions) { agenda_.insert(positions); });
    alarms_.take(now_, [this](std::uint32_t position) {
        timers_[position] = kLastStep;
        agenda_.insert(position);
    });
    let_send(observer);
}

template <protocol::Machine M, class Observer, class Wire>
void Simulation<M, Observer, Wire>::let_die(Observer& observer) {
    for (; next_death_ < deaths_.size() && deaths_[next_death_].at <= now_; ++next_death_) {
        const Position position = deaths_[next_death_].position;
        if (dead_.contains(position.value)) continue;
        dead_.insert(position.value);
        observer.died(now_, position);
    }
}

template <protocol::Machine M, class Observer, class Wire>
void Simulation<M, Observer, Wire>::give_notice() {
    const std::size_t first = next_notice_;
    for (; next_notice_ < notices_.size() && notices_[next_notice_].at <= now_; ++next_notice_)
        known_.insert(notices_[next_notice_].position.value);
    for (std::uint32_t position = 0; position < processes_ && first != next_notice_; ++position) {
        if (dead_.contains(position)) continue;
        for (std::size_t i = first; i < next_notice_; ++i)
            machines_[position].peer_failed(notices_[i].position);
        agenda_.insert(position);
    }
}

// ------------------------------------------------------------------------------------------------ receiving

template <protocol::Machine M, class Observer, class Wire>
void Simulation<M, Observer, Wire>::let_arrive(Observer& observer) {
    // With overlap: due now if the port was free when it arrived.
    const Step arrival = model_.overlap ? now_ - model_.overhead : now_;
    const auto at_the_port = [&](const Message& message) {
        if (finds_port_free(message, arrival, observer)) take_effect(message, observer);
    };
    const auto past_the_port = [&](const Message& message, Step begin) {
        if (dead_.contains(message.to.value)) {
            vanish(message, begin, observer);
        } else {
            take_effect(message, observer);
        }
    };
    on_the_way_.take(now_, at_the_port);
    if (model_.one_sided_ring) {
        on_the_ring_.take(now_, [&](const Message& message) { past_the_port(message, now_); });
    } else {
        on_the_ring_.take(now_, at_the_port);
    }
    in_line_.take(now_, [&](const Message& message) { past_the_port(message, now_ - model_.overhead); });
}

// Takes the port of a live receiver. If that is not over now, the message stands in line until it is.
template <protocol::Machine M, class Observer, class Wire>
inline bool Simulation<M, Observer, Wire>::finds_port_free(const Message& message, Step arrival, Observer& observer) {
    const std::uint32_t to = message.to.value;
    if (any_dead_ && dead_.contains(to)) {
        vanish(message, arrival, observer);
        return false;
    }
    Step& port = model_.overlap ? ports_[to].receive_free : ports_[to].send_free;
    const Step begin = port > arrival ? port : arrival;
    port = begin + model_.interval();
    // Otherwise the reception takes effect when the port is free, and its receiver is asked then.
    if (!model_.overlap && model_.interval() > model_.overhead) wakes_.push(port, word_of(to));
    if (begin + model_.overhead == now_) return true;
    in_line_.push(begin + model_.overhead, message);
    return false;
}

template <protocol::Machine M, class Observer, class Wire>
inline void Simulation<M, Observer, Wire>::take_effect(const Message& message, Observer& observer) {
    const std::uint32_t to = message.to.value;
    active_until(now_);
    if (!known_.empty() && known_.contains(message.from.value)) {
        observer.ignored(now_, message);
        agenda_.insert(to);  // its port is free again
        return;
    }
    M& machine = machines_[to];
    ++ports_[to].received;
    const bool was_colored = machine.colored();
    const bool accepted = machine.receive(message);
    const bool colored = machine.colored();
    if (!accepted) {
        ++outcome_.refused;
    } else if (carries_payload(message.kind) && !is_ring(message.kind)) {
        disseminated_.insert(to);
    }
    if (colored && !was_colored) {
        colored_.insert(to);
        outcome_.coloring_latency = now_;
    }
    if (!machine.finished()) agenda_.insert(to);
    if (!observer.received(now_, message, accepted, was_colored, colored)) stopped_ = true;
}

template <protocol::Machine M, class Observer, class Wire>
void Simulation<M, Observer, Wire>::vanish(const Message& message, Step arrival, Observer& observer) {
    active_until(arrival);
    observer.vanished(arrival, message);
}

// -------------------------------------------------------------------------------------------------- sending

template <protocol::Machine M, class Observer, class Wire>
void Simulation<M, Observer, Wire>::let_send(Observer& observer) {
    const Step now = now_;
    const Step free = now + model_.interval();
    const Step arrival = now + model_.overhead + model_.latency;
    const Step due = model_.overlap ? arrival + model_.overhead : arrival;
    Outbox way(on_the_way_, due);
    Outbox ring(on_the_ring_, model_.one_sided_ring ? arrival : due);
    agenda_.take(
        [&](std::uint32_t position) {
            if (!may_send(position)) return false;
            M& machine = machines_[position];
            if constexpr (protocol::TimedMachine<M>) {
                if (machine.next_timer().value <= now) machine.timer(Nanoseconds{now});
            }
            const auto message = machine.next_send(Nanoseconds{now});
            if (!message) {
                note_timer(position);
                return false;
            }
            if (!observer.sent(now, Position{position}, *message, machine.colored())) stopped_ = true;
            if (!is_sound(position, *message)) return false;
            ++outcome_.by_kind[static_cast<std::size_t>(message->kind)];
            Ports& ports = ports_[position];
            ++ports.sent;
            ports.send_free = free;
            if constexpr (kEven) {
                (is_ring(message->kind) ? ring : way).push(*message);
            } else {
                put_on_the_way(*message);
            }
            return true;
        },
        [&](const PositionWord& senders) {
            wakes_.push(free, senders);
            active_until(now + model_.overhead);
        });
}

template <protocol::Machine M, class Observer, class Wire>
void Simulation<M, Observer, Wire>::put_on_the_way(const Message& message) {
    const bool on_the_ring = is_ring(message.kind);
    const bool past_the_port = !model_.overlap || (on_the_ring && model_.one_sided_ring);
    const Step arrival = wire_.arrival(now_ + model_.overhead, message.from, message.to);
    (on_the_ring ? on_the_ring_ : on_the_way_).push(past_the_port ? arrival : arrival + model_.overhead, message);
}

// A member that may not is asked again when its port is free.
template <protocol::Machine M, class Observer, class Wire>
inline bool Simulation<M, Observer, Wire>::may_send(std::uint32_t position) const {
    if (ports_keep_busy_ && ports_[position].send_free > now_) return false;
    return !stopped_ && !(any_dead_ && dead_.contains(position));
}

template <protocol::Machine M, class Observer, class Wire>
inline bool Simulation<M, Observer, Wire>::is_sound(std::uint32_t position, const Message& message) {
    if (message.from.value == position && message.to.value < processes_ &&
        static_cast<std::size_t>(message.kind) < kMaxKinds) [[likely]]
        return true;
    ++outcome_.refused;
    return false;
}

// A time that is not ahead is no time: a machine that wanted to act now would have.
template <protocol::Machine M, class Observer, class Wire>
inline void Simulation<M, Observer, Wire>::note_timer(std::uint32_t position) {
    const Nanoseconds timer = machines_[position].next_timer();
    if (timer.value >= kLastStep || timer.value <= now_) return;
    if (timers_.empty()) timers_.assign(processes_, kLastStep);
    const auto time = static_cast<Step>(timer.value);
    if (timers_[position] == time) return;
    timers_[position] = time;
    alarms_.push(time, position);
}

// ---------------------------------------------------------------------------------------------- the outcome

template <protocol::Machine M, class Observer, class Wire>
void Simulation<M, Observer, Wire>::conclude() {
    std::uint64_t sent = 0;
    for (std::uint32_t position = 0; position < processes_; ++position) {
        const Ports& ports = ports_[position];
        sent += ports.sent;
        outcome_.most_sent = std::max(outcome_.most_sent, ports.sent);
        outcome_.most_received = std::max(outcome_.most_received, ports.received);
    }
    outcome_.messages = sent;
    if constexpr (!kEven) outcome_.by_level = wire_.messages();
    tally(outcome_, processes_, dead_, colored_);
    outcome_.gaps = measure_gaps(disseminated_, processes_);
}

}  // namespace coppice::simulation
