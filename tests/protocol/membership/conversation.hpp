// Members that talk over a wire that keeps the order of what was sent, and what they said.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "protocol/membership/membership.hpp"

namespace coppice::protocol {

class Conversation {
  public:
    explicit Conversation(std::uint32_t members, const MembershipPlan& with = {}) : plan_(with) {
        plan_.first = View(members);
        for (std::uint32_t process = 0; process < members; ++process)
            machines_.try_emplace(process, plan_, Process(process));
    }
    Conversation(const Conversation&) = delete;
    Conversation& operator=(const Conversation&) = delete;

    Membership& operator[](std::uint32_t process) { return machines_.at(process); }

    void join(const JoinRequest& request) { machines_.try_emplace(request.process.value, plan_, request); }
    // From here on nothing comes from it or gets to it.
    void crash(std::uint32_t process) {
        collect();
        dead_.insert({process, machines_.at(process).last_vote()});
    }
    void notice(std::uint32_t process, std::uint32_t dead) {
        machines_.at(process).peer_failed(Process(dead), &dead_.at(dead));
    }
    void all_notice(std::uint32_t dead) {
        for (auto& [process, machine] : machines_)
            if (!dead_.contains(process)) notice(process, dead);
    }
    void all_renew() {
        for (auto& [process, machine] : machines_)
            if (!dead_.contains(process)) machine.renew();
    }

    // Delivers the next message that can arrive; false when there is none.
    bool deliver() {
        collect();
        while (!wire_.empty()) {
            const MembershipMessage message = wire_.front();
            wire_.pop_front();
            const std::uint32_t to = message.to.value;
            if (dead_.contains(to)) continue;
            said_.push_back(std::to_string(message.from.value) + " -> " + std::to_string(to) + " " +
                            std::string(to_string(message.kind)));
            machines_.at(to).receive(message);
            return true;
        }
        return false;
    }
    void deliver_all() {
        while (deliver()) {
        }
    }
    // Until one of this kind is next, which stays under way.
    bool deliver_until(MembershipKind kind) {
        for (collect(); !wire_.empty() && wire_.front().kind != kind; collect())
            deliver();
        return !wire_.empty();
    }
    void lose_all() {
        collect();
        wire_.clear();
    }
    const std::deque<MembershipMessage>& under_way() {
        collect();
        return wire_;
    }
    std::vector<std::string> said() { return std::exchange(said_, {}); }

    // The processes of a view, by rank.
    static std::vector<std::uint32_t> members(const View& view) {
        std::vector<std::uint32_t> all;
        for (std::uint32_t rank = 0; rank < view.count(); ++rank)
            all.push_back(view.process_of(rank).value);
        return all;
    }
    std::vector<std::uint32_t> members_at(std::uint32_t process) { return members(machines_.at(process).view()); }

  private:
    void collect() {
        for (auto& [process, machine] : machines_) {
            while (auto message = machine.next_send()) {
                if (!dead_.contains(process)) wire_.push_back(*message);
            }
        }
    }

    MembershipPlan plan_;
    std::map<std::uint32_t, Membership> machines_;
    std::map<std::uint32_t, LastVote> dead_;
    std::deque<MembershipMessage> wire_;
    std::vector<std::string> said_;
};

}  // namespace coppice::protocol
