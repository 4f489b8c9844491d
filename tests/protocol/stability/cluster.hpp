// Groups whose ranks count what they have consumed: in-order links, served in random order, and news of deaths that
// come one by one, late.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <random>
#include <vector>

#include "hosts.hpp"
#include "protocol/stability/stability.hpp"

namespace coppice::protocol {

class Cluster {
  public:
    Cluster(const std::vector<std::uint32_t>& hosts, std::uint64_t window, std::uint32_t seed)
        : nodes_(hosts_of(hosts)),
          alive_(nodes_.ranks(), true),
          consumed_(nodes_.ranks(), 0),
          published_(nodes_.ranks(), 0),
          known_dead_(nodes_.ranks(), std::vector<bool>(nodes_.ranks(), false)),
          random_(seed) {
        for (std::uint32_t rank = 0; rank < ranks(); ++rank)
            machines_.emplace_back(StabilityPlan{.nodes = &nodes_, .window = window}, Rank(rank));
    }

    std::uint32_t ranks() const { return nodes_.ranks(); }
    bool alive(std::uint32_t rank) const { return alive_[rank]; }
    std::uint64_t stable(std::uint32_t rank) const { return machines_[rank].stable(); }
    std::optional<Rank> holder(std::uint32_t rank) const { return machines_[rank].holder(); }
    std::uint64_t messages() const { return messages_; }
    std::uint64_t least_consumed() const {
        std::uint64_t least = UINT64_MAX;
        for (std::uint32_t rank = 0; rank < ranks(); ++rank) {
            if (alive_[rank]) least = std::min(least, consumed_[rank]);
        }
        return least;
    }

    void consume(std::uint32_t rank, std::uint64_t count) {
        consumed_[rank] = count;
        look(rank);
    }
    // A rank is held up: it needs one more than what is stable.
    void hold_up(std::uint32_t rank) { machines_[rank].want(machines_[rank].stable() + 1, Nanoseconds(0)); }
    void flush() {
        for (Stability& machine : machines_)
            machine.flush();
    }
    void kill(std::uint32_t rank) {
        alive_[rank] = false;
        for (std::uint32_t other = 0; other < ranks(); ++other) {
            if (alive_[other]) news_.push_back({other, rank});
        }
        // Some of what it had sent is lost.
        std::erase_if(under_way_, [&](const StabilityMessage& message) {
            return message.from.value == rank && random_() % 2 == 0;
        });
    }
    // One event: a message delivered, news of a death, or a rank that looks and sends. False when nothing is left to
    // happen.
    bool step() {
        for (int attempt = 0; attempt < 8; ++attempt) {
            if (happen(static_cast<std::uint32_t>(random_() % 3))) return true;
        }
        return happen(0) || happen(1) || happen(2);
    }
    void run_to_rest() {
        int events = 0;
        while (step())
            ASSERT_LT(++events, 1'000'000) << "it never comes to rest";
    }

  private:
    struct News {
        std::uint32_t to;
        std::uint32_t dead;
    };

    std::uint32_t leader_of(std::uint32_t rank) const {
        for (const Rank local : nodes_.members(nodes_.node_of(Rank(rank)))) {
            if (!known_dead_[rank][local.value]) return local.value;
        }
        return rank;
    }

    // What stands in the memory of the node.
    void look(std::uint32_t rank) {
        const std::uint32_t leader = leader_of(rank);
        if (leader != rank) {
            machines_[rank].learn_stable(std::min(published_[leader], consumed_[rank]));
            return;
        }
        Rank slowest(rank);
        std::uint64_t least = consumed_[rank];
        for (const Rank local : nodes_.members(nodes_.node_of(slowest))) {
            if (known_dead_[rank][local.value] || consumed_[local.value] >= least) continue;
            least = consumed_[local.value];
            slowest = local;
        }
        machines_[rank].node_consumed(least, slowest);
        published_[rank] = machines_[rank].stable();
    }

    bool happen(std::uint32_t what) {
        if (what == 0) return send_something();
        if (what == 1) return deliver_something();
        if (news_.empty()) return false;
        const std::size_t pick = random_() % news_.size();
        const News news = news_[pick];
        news_.erase(news_.begin() + static_cast<std::ptrdiff_t>(pick));
        if (!alive_[news.to]) return true;
        if (leader_of(news.to) == news.dead && nodes_.node_of(Rank(news.to)) == nodes_.node_of(Rank(news.dead)))
            machines_[news.to].learn_stable(std::min(published_[news.dead], consumed_[news.to]));
        known_dead_[news.to][news.dead] = true;
        machines_[news.to].peer_failed(Rank(news.dead));
        return true;
    }

    bool send_something() {
        const auto start = static_cast<std::uint32_t>(random_() % ranks());
        for (std::uint32_t i = 0; i < ranks(); ++i) {
            const std::uint32_t rank = (start + i) % ranks();
            if (!alive_[rank]) continue;
            const std::uint64_t before = machines_[rank].stable() + published_[rank];
            look(rank);
            if (const auto message = machines_[rank].next_send()) {
                under_way_.push_back(*message);
                return true;
            }
            if (machines_[rank].stable() + published_[rank] != before) return true;
        }
        return false;
    }

    bool deliver_something() {
        if (under_way_.empty()) return false;
        std::size_t pick = random_() % under_way_.size();
        for (std::size_t i = 0; i < pick; ++i) {  // links are in order
            if (under_way_[i].from == under_way_[pick].from && under_way_[i].to == under_way_[pick].to) pick = i;
        }
        const StabilityMessage message = under_way_[pick];
        under_way_.erase(under_way_.begin() + static_cast<std::ptrdiff_t>(pick));
        if (!alive_[message.to.value] || known_dead_[message.to.value][message.from.value]) return true;
        ++messages_;
        EXPECT_TRUE(machines_[message.to.value].receive(message));
        return true;
    }

    topology::Nodes nodes_;
    std::vector<Stability> machines_;
    std::vector<bool> alive_;
    std::vector<std::uint64_t> consumed_;
    std::vector<std::uint64_t> published_;  // as stable
    std::vector<std::vector<bool>> known_dead_;
    std::vector<StabilityMessage> under_way_;
    std::vector<News> news_;
    std::mt19937 random_;
    std::uint64_t messages_ = 0;
};

}  // namespace coppice::protocol
