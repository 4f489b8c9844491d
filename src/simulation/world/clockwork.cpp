#include "simulation/world/clockwork.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <utility>

namespace coppice::world {
namespace {

// Stacks are used again: to map and touch them anew would cost more than most runs.
std::vector<std::unique_ptr<Actor>>& idle_actors() {
    static std::vector<std::unique_ptr<Actor>> actors;
    return actors;
}

}  // namespace

std::vector<std::unique_ptr<Arena>>& Clockwork::memories() {
    static std::vector<std::unique_ptr<Arena>> memories;
    return memories;
}

Clockwork::Clockwork(const Fate& fate, std::uint64_t seed) : fate_(fate), random_(seed), ranks_(kMostRanks) {
    while (memories().size() < fate.processes())
        memories().push_back(std::make_unique<Arena>());
    for (std::uint32_t rank = 0; rank < fate.processes(); ++rank)
        memories()[rank]->reset();
    for (const Death& death : fate.deaths)
        ranks_[death.rank].last_action = std::min(ranks_[death.rank].last_action, death.at_action);
}

Clockwork::~Clockwork() {
    for (auto& actor : actors_) {
        actor->body = nullptr;
        idle_actors().push_back(std::move(actor));
    }
}

std::uint64_t Clockwork::draw(std::uint64_t most) {
    if (most == 0) return 0;
    const std::uint64_t word = random_.next();
    const auto shift = static_cast<unsigned>(word & 7);
    return (word >> 8) % ((most >> shift) + 1);
}

void Clockwork::push(std::uint64_t time_ns, Happening* who, Actor* actor, std::uint64_t what) {
    const Within outside(nullptr);
    due_.push({std::max(time_ns, now_ns_), order_++, who, actor, what});
}

void Clockwork::at(std::uint64_t time_ns, Happening& who, std::uint64_t what) {
    push(time_ns, &who, nullptr, what);
}

Actor& Clockwork::add_actor(std::uint32_t rank, std::function<void()> body) {
    if (idle_actors().empty()) idle_actors().push_back(std::make_unique<Actor>());
    actors_.push_back(std::move(idle_actors().back()));
    idle_actors().pop_back();
    Actor& actor = *actors_.back();
    actor.rank = rank;
    actor.memory = &memory(rank);
    actor.body = std::move(body);
    actor.fibre.start([](void* self) { static_cast<Actor*>(self)->body(); }, &actor);
    actor.waiting = true;
    actor.wakes = false;
    actor.due_ns = now_ns_;
    push(now_ns_, nullptr, &actor, ++actor.ticket);
    return actor;
}

void Clockwork::wait(Actor& actor, std::uint64_t until_ns, bool wakes) {
    actor.waiting = true;
    actor.wakes = wakes;
    actor.due_ns = until_ns;
    ++actor.ticket;
    if (until_ns != kNever) push(until_ns, nullptr, &actor, actor.ticket);
    actor.memory = Arena::current;
    Fibre::suspend();
}

void Clockwork::wake(Actor& actor, std::uint64_t within_ns) {
    if (!actor.waiting || !actor.wakes) return;
    const std::uint64_t time = now_ns_ + (within_ns == 0 ? 0 : random_.next() % within_ns);
    if (time >= actor.due_ns) return;
    actor.due_ns = time;
    push(time, nullptr, &actor, ++actor.ticket);
}

void Clockwork::act(std::uint32_t rank) {
    RankState& state = ranks_[rank];
    if (++state.actions >= state.last_action) {
        kill(rank);
        Fibre::suspend();  // for good
    }
    look(rank);
}

void Clockwork::look(std::uint32_t rank) {
    if (fate_.preempt_one_in == 0 || (random_.next() >> 32) % fate_.preempt_one_in != 0) return;
    if (running_ == nullptr || running_->rank != rank || ranks_[rank].keeps_core) return;
    const std::uint64_t time = 1 + draw(fate_.preempt_ns);
    ranks_[rank].kept_ns += time;
    wait(*running_, now_ns_ + time, false);
}

void Clockwork::kill(std::uint32_t rank) {
    if (ranks_[rank].dead) return;
    const Within outside(nullptr);
    ranks_[rank].dead = has_killed_ = true;
    ranks_[rank].died_at_ns = now_ns_;
    if (tell) tell(fmt::format("{:>12} ns  rank {} dies, at its action {}", now_ns_, rank, ranks_[rank].actions));
    for (const Death& death : fate_.deaths)
        if (death.follows == rank) at(now_ns_ + death.after_ns, killing_, death.rank);
    if (on_death_) on_death_(rank);
}

void Clockwork::run_actor(Actor& actor) {
    actor.waiting = false;
    Arena::current = actor.memory;
    running_ = &actor;
    actor.fibre.resume();
    running_ = nullptr;
    Arena::current = nullptr;
}

bool Clockwork::run(std::uint64_t most_ns, const std::function<bool()>& until) {
    struct Stopping final : Happening {
        Clockwork& clockwork;
        explicit Stopping(Clockwork& of) : clockwork(of) {}
        void happen(std::uint64_t what) override {
            const Stop& stop = clockwork.fate_.stops[what];
            clockwork.ranks_[stop.rank].stopped_until_ns = clockwork.now_ns_ + stop.for_ns;
            if (clockwork.tell)
                clockwork.tell(
                    fmt::format("{:>12} ns  rank {} stops for {} ns", clockwork.now_ns_, stop.rank, stop.for_ns));
        }
    } stopping(*this);
    for (std::size_t i = 0; i < fate_.stops.size(); ++i)
        at(now_ns_ + fate_.stops[i].at_ns, stopping, i);
    for (const Death& death : fate_.deaths)
        if (death.at_ns != kNever) at(now_ns_ + death.at_ns, killing_, death.rank);

    while (!due_.empty()) {
        const Due next = due_.top();
        if (next.time_ns > most_ns) return false;
        due_.pop();
        now_ns_ = next.time_ns;
        if (next.who != nullptr) {
            next.who->happen(next.what);
            if (std::exchange(has_killed_, false) && until()) return true;
            continue;
        }
        Actor& actor = *next.actor;
        if (!actor.waiting || actor.ticket != next.what || ranks_[actor.rank].dead) continue;
        if (const std::uint64_t later = ranks_[actor.rank].stopped_until_ns; later > now_ns_) {
            ranks_[actor.rank].kept_ns += later - now_ns_;
            push(later, nullptr, &actor, actor.ticket);
            continue;
        }
        run_actor(actor);
        if (until()) return true;
    }
    return until();
}

}  // namespace coppice::world
