// Drives one machine per position without any clock: whatever can happen next happens in an order drawn by chance.
// Messages overtake each other, timers go off as early as they like, everybody hears of a death at its own time. What a
// protocol promises must hold all the same; what it costs is not measured here.
//
// Times in Faults are counted in events: a death happens before the event of that number; notice_after only says
// whether anybody is told. Small groups: it costs O(P) for each death.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "simulation/random.hpp"
#include "simulation/simulation.hpp"
#include "simulation/tally.hpp"

namespace coppice::simulation {

// Whether messages of this kind carry what their sender knows of deaths (a query, its answer).
template <class Kind>
constexpr bool carries_failed_set(Kind kind) {
    if constexpr (requires {
                      Kind::query;
                      Kind::denial;
                  }) {
        return kind == Kind::query || kind == Kind::denial;
    } else {
        return false;
    }
}

template <protocol::Machine M, class Observer>
class Shuffle {
  public:
    using Message = typename M::Message;

    Shuffle(std::uint32_t processes, std::uint64_t seed)
        : processes_(processes),
          random_(seed),
          known_(processes),
          is_ready_(processes),
          dead_(processes),
          colored_(processes),
          disseminated_(processes) {}

    // As Simulation's, but each machine has a FailedSet of its own. Once.
    template <class Make>
    const Outcome& run(const Faults& faults, Make&& make, Observer& observer);

    bool ended() const { return ended_; }
    const M& machine(Position position) const { return machines_[position.value]; }
    bool is_dead(Position position) const { return dead_.contains(position.value); }
    bool is_colored(Position position) const { return colored_.contains(position.value); }
    bool is_disseminated(Position position) const { return disseminated_.contains(position.value); }

  private:
    struct InFlight {
        Message message;
        std::optional<protocol::FailedSet> carried;
    };
    struct Notice {
        std::uint32_t failed = 0;
        std::uint32_t to = 0;
    };

    template <class Item>
    Item draw_from(std::vector<Item>& items) {
        std::swap(items[random_.below(static_cast<std::uint32_t>(items.size()))], items.back());
        Item item = std::move(items.back());
        items.pop_back();
        return item;
    }

    bool step(Observer& observer);
    void let_die(Position position, Observer& observer);
    void deliver(InFlight&& arriving, Observer& observer);
    void let_send(std::uint32_t position, Observer& observer);
    void tell(std::uint32_t position, std::uint32_t failed);
    bool advance_time();
    void make_ready(std::uint32_t position) {
        if (is_ready_[position] || dead_.contains(position)) return;
        is_ready_[position] = true;
        ready_.push_back(position);
    }

    std::uint32_t processes_;
    Random random_;
    std::vector<protocol::FailedSet> known_;
    std::vector<M> machines_;
    std::vector<InFlight> in_flight_;
    std::vector<Notice> notices_;
    std::vector<std::uint32_t> ready_;  // may want to send
    std::vector<bool> is_ready_;
    std::vector<Death> deaths_;
    bool told_ = false;
    PositionSet dead_;
    PositionSet colored_;
    PositionSet disseminated_;
    std::uint64_t now_ = 0;
    Step events_ = 0;
    bool stopped_ = false;
    bool ended_ = false;
    Outcome outcome_;
};

template <protocol::Machine M, class Observer>
template <class Make>
const Outcome& Shuffle<M, Observer>::run(const Faults& faults, Make&& make, Observer& observer) {
    told_ = faults.notice_after.has_value();
    deaths_ = faults.dying;
    machines_.reserve(processes_);
    for (std::uint32_t position = 0; position < processes_; ++position) {
        machines_.push_back(make(Position{position}, known_[position]));
        if (!machines_.back().colored()) continue;
        colored_.insert(position);
        disseminated_.insert(position);
    }
    for (const Position position : faults.dead)
        let_die(position, observer);
    for (std::uint32_t position = 0; position < processes_; ++position)
        make_ready(position);

    // Nobody sends more than a few messages to each other member.
    const std::uint64_t most = 100'000 + 64ULL * processes_ * processes_;
    while (!stopped_ && events_ < most && step(observer))
        ++events_;
    ended_ = !stopped_ && events_ < most;
    for (const std::uint64_t kind : outcome_.by_kind)
        outcome_.messages += kind;
    tally(outcome_, processes_, dead_, colored_);
    outcome_.gaps = measure_gaps(disseminated_, processes_);
    outcome_.quiescence_latency = events_;
    if (ended_) observer.ended(*this, outcome_);
    return outcome_;
}

// False when nothing can happen any more.
template <protocol::Machine M, class Observer>
bool Shuffle<M, Observer>::step(Observer& observer) {
    for (std::size_t i = 0; i < deaths_.size(); ++i) {
        if (deaths_[i].at > events_) continue;
        let_die(deaths_[i].position, observer);
        deaths_.erase(deaths_.begin() + static_cast<std::ptrdiff_t>(i--));
    }
    const std::size_t choices = in_flight_.size() + ready_.size() + notices_.size();
    if (choices == 0 || random_.one_in(64)) {
        if (advance_time()) return true;
        if (choices == 0) return false;
    }
    std::size_t choice = random_.below(static_cast<std::uint32_t>(choices));
    if (choice < in_flight_.size()) {
        deliver(draw_from(in_flight_), observer);
    } else if (choice -= in_flight_.size(); choice < ready_.size()) {
        let_send(draw_from(ready_), observer);
    } else {
        const Notice notice = draw_from(notices_);
        tell(notice.to, notice.failed);
    }
    return true;
}

template <protocol::Machine M, class Observer>
void Shuffle<M, Observer>::let_die(Position position, Observer& observer) {
    if (dead_.contains(position.value)) return;
    dead_.insert(position.value);
    observer.died(events_, position);
    for (std::uint32_t other = 0; told_ && other < processes_; ++other) {
        if (other != position.value) notices_.push_back({position.value, other});
    }
}

template <protocol::Machine M, class Observer>
void Shuffle<M, Observer>::deliver(InFlight&& arriving, Observer& observer) {
    const Message& message = arriving.message;
    const std::uint32_t to = message.to.value;
    if (dead_.contains(to)) {
        observer.vanished(events_, message);
        return;
    }
    if (arriving.carried) {
        for (const protocol::FailedSet::Interval& interval : arriving.carried->intervals()) {
            for (std::uint32_t failed = interval.first; failed <= interval.last; ++failed)
                tell(to, failed);
        }
    }
    if (known_[to].contains(message.from.value)) {
        observer.ignored(events_, message);
        return;
    }
    M& machine = machines_[to];
    const bool was_colored = machine.colored();
    const bool accepted = machine.receive(message);
    const bool colored = machine.colored();
    if (!accepted) ++outcome_.refused;
    if (accepted && carries_payload(message.kind) && !is_ring(message.kind)) disseminated_.insert(to);
    if (colored) colored_.insert(to);
    make_ready(to);
    if (!observer.received(events_, message, accepted, was_colored, colored)) stopped_ = true;
}

template <protocol::Machine M, class Observer>
void Shuffle<M, Observer>::let_send(std::uint32_t position, Observer& observer) {
    is_ready_[position] = false;
    if (dead_.contains(position)) return;
    M& machine = machines_[position];
    if constexpr (protocol::TimedMachine<M>) {
        if (machine.next_timer().value <= now_) machine.timer(Nanoseconds{now_});
    }
    const auto message = machine.next_send(Nanoseconds{now_});
    if (!message) return;
    make_ready(position);
    if (!observer.sent(events_, Position{position}, *message, machine.colored())) {
        stopped_ = true;
        return;
    }
    const auto kind = static_cast<std::size_t>(message->kind);
    if (kind < kMaxKinds) ++outcome_.by_kind[kind];
    in_flight_.push_back({*message, std::nullopt});
    if (carries_failed_set(message->kind)) in_flight_.back().carried = known_[position];
}

template <protocol::Machine M, class Observer>
void Shuffle<M, Observer>::tell(std::uint32_t position, std::uint32_t failed) {
    if (dead_.contains(position) || failed == position || !known_[position].insert(failed)) return;
    machines_[position].peer_failed(Position{failed});
    make_ready(position);
}

// To the next timer of anybody, whatever else is under way.
template <protocol::Machine M, class Observer>
bool Shuffle<M, Observer>::advance_time() {
    Nanoseconds next = kNever;
    for (std::uint32_t position = 0; position < processes_; ++position) {
        if (!dead_.contains(position)) next = std::min(next, machines_[position].next_timer());
    }
    if (next == kNever) return false;
    if (next.value > now_) now_ = next.value;
    for (std::uint32_t position = 0; position < processes_; ++position) {
        if (machines_[position].next_timer() <= Nanoseconds{now_}) make_ready(position);
    }
    return true;
}

}  // namespace coppice::simulation
