// A group of machines whose messages arrive in a random order, with deaths between any two events, told or not: no
// clock, for machines that need none. (World does the same for Broadcast, with what only that has.)
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "protocol/failed_set.hpp"
#include "protocol/machine.hpp"

namespace coppice::protocol::testing {

template <Machine M>
class AnyOrder {
  public:
    using Message = typename M::Message;
    using Make = std::function<M(Position self, const FailedSet& failed)>;

    // Position p is member p: the root is member 0.
    AnyOrder(std::uint32_t processes, const Make& make) : failed_(processes), dead_(processes, false), now_(processes) {
        machines_.reserve(processes);
        for (std::uint32_t position = 0; position < processes; ++position) {
            machines_.push_back(make(Position{position}, failed_[position]));
        }
    }

    std::uint32_t processes() const { return static_cast<std::uint32_t>(machines_.size()); }
    M& machine(std::uint32_t position) { return machines_[position]; }
    const M& machine(std::uint32_t position) const { return machines_[position]; }
    bool is_dead(std::uint32_t position) const { return dead_[position]; }
    std::uint64_t sent() const { return sent_; }
    const std::string& violation() const { return violation_; }
    void crash(std::uint32_t position) { dead_[position] = true; }
    // Timers go off although messages are under way that would stop them.
    void let_timers_be_early() { early_timers_ = true; }

    // `position` notices the death of `dead`, unless it knows.
    bool learn(std::uint32_t position, std::uint32_t dead) {
        if (dead_[position] || !dead_[dead] || !failed_[position].insert(dead)) return false;
        machines_[position].peer_failed(Position{dead});
        return true;
    }

    std::optional<Message> pull(std::uint32_t position) {
        if (dead_[position]) return std::nullopt;
        const std::optional<Message> message = machines_[position].next_send(now_[position]);
        if (!message) return std::nullopt;
        ++sent_;
        if (message->from.value != position || message->to.value == position || message->to.value >= processes()) {
            violation_ = "a message from or to somebody it can't be";
        }
        if (carries_payload(message->kind) && !machines_[position].colored()) violation_ = "sent what it has not";
        if (failed_[position].contains(message->to.value)) violation_ = "sent to a member known to have failed";
        bag_.push_back(*message);
        return message;
    }

    void deliver(std::size_t index) {
        const Message message = bag_[index];
        bag_[index] = bag_.back();
        bag_.pop_back();
        const std::uint32_t to = message.to.value;
        if (dead_[to] || failed_[to].contains(message.from.value)) return;
        const bool was_colored = machines_[to].colored();
        if (!machines_[to].receive(message)) violation_ = "refused a message that can occur";
        if (was_colored && !machines_[to].colored()) violation_ = "lost its color";
        if (!was_colored && machines_[to].colored() && !carries_payload(message.kind))
            violation_ = "colored without a payload";
    }

    // What `position` has waited for has come. False if it does not wait.
    bool let_time_pass(std::uint32_t position) {
        const Nanoseconds timer = machines_[position].next_timer();
        if (dead_[position] || timer == kNever || timer <= now_[position]) return false;
        now_[position] = timer;
        pull(position);
        return true;
    }

    // One random event; false when nothing is left to happen. With `detect`, deaths are noticed, sooner or later.
    bool step(std::mt19937& random, bool detect) {
        for (int tries = 0; tries < 8; ++tries) {
            const auto position = static_cast<std::uint32_t>(random() % processes());
            const auto other = static_cast<std::uint32_t>(random() % processes());
            switch (random() % 4) {
                case 0:
                case 1:
                    if (pull(position)) return true;
                    break;
                case 2:
                    if (bag_.empty()) break;
                    deliver(random() % bag_.size());
                    return true;
                default:
                    if (detect && learn(position, other)) return true;
                    if (early_timers_ && random() % 4 == 0 && let_time_pass(position)) return true;
            }
        }
        for (std::uint32_t position = 0; position < processes(); ++position) {
            if (pull(position)) return true;
        }
        if (!bag_.empty()) {
            deliver(random() % bag_.size());
            return true;
        }
        for (std::uint32_t position = 0; detect && position < processes(); ++position) {
            for (std::uint32_t dead = 0; dead < processes(); ++dead) {
                if (learn(position, dead)) return true;
            }
        }
        const auto first = static_cast<std::uint32_t>(random() % processes());
        for (std::uint32_t i = 0; i < processes(); ++i) {
            if (let_time_pass((first + i) % processes())) return true;
        }
        return false;
    }

    void settle(std::mt19937& random, bool detect) {
        while (step(random, detect)) {
            if (sent_ > 1000000) {
                violation_ = "messages without end";
                return;
            }
        }
    }

    std::uint32_t live_uncolored() const {
        std::uint32_t count = 0;
        for (std::uint32_t position = 0; position < processes(); ++position) {
            if (!dead_[position] && !machines_[position].colored()) ++count;
        }
        return count;
    }
    bool all_live_colored() const { return live_uncolored() == 0; }
    bool all_colored_finished() const {
        for (std::uint32_t position = 0; position < processes(); ++position) {
            if (!dead_[position] && machines_[position].colored() && !machines_[position].finished()) return false;
        }
        return true;
    }

  private:
    std::deque<FailedSet> failed_;
    std::vector<M> machines_;
    std::vector<bool> dead_;
    std::vector<Nanoseconds> now_;
    std::vector<Message> bag_;
    bool early_timers_ = false;
    std::uint64_t sent_ = 0;
    std::string violation_;
};

}  // namespace coppice::protocol::testing
