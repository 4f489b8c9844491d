#include "engine/stability.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <random>

namespace coppice::engine {
namespace {

// Nodes that exchange the machine's messages over in-order links, in random order among links; nodes die, and the others
// learn of it one by one, late.
class Cluster {
  public:
    Cluster(std::uint32_t nodes, std::uint64_t step, std::uint32_t seed)
        : failed_(nodes), alive_(nodes, true), consumed_(nodes, 0), step_(step), random_(seed) {
        for (std::uint32_t s = 0; s < nodes; ++s)
            machines_.push_back(std::make_unique<Stability>(s, nodes, step, failed_[s]));
    }

    std::uint32_t nodes() const { return static_cast<std::uint32_t>(alive_.size()); }
    bool alive(std::uint32_t node) const { return alive_[node]; }
    std::uint64_t stable(std::uint32_t node) const { return machines_[node]->stable(); }
    std::uint64_t least_consumed() const {
        std::uint64_t least = UINT64_MAX;
        for (std::uint32_t s = 0; s < nodes(); ++s) {
            if (alive_[s]) least = std::min(least, consumed_[s]);
        }
        return least;
    }
    std::uint64_t messages() const { return messages_; }
    std::optional<Rank> holder(std::uint32_t node) const { return machines_[node]->holder(); }
    // A rank of this node is held up: it needs one more than what is stable.
    void hold_up(std::uint32_t node) { machines_[node]->want(machines_[node]->stable() + 1); }
    void flush() {
        for (auto& machine : machines_)
            machine->flush();
    }

    void consume(std::uint32_t node, std::uint64_t count) {
        consumed_[node] = count;
        machines_[node]->set_local(count, Rank(node));
    }
    void kill(std::uint32_t node) {
        alive_[node] = false;
        for (std::uint32_t s = 0; s < nodes(); ++s) {
            if (alive_[s]) news_.push_back({s, node});
        }
        std::erase_if(under_way_, [&](const Packet& packet) {  // some of what it had sent is lost
            return packet.from == node && random_() % 2 == 0;
        });
    }
    // Another rank speaks for the node: it knows nothing of what its predecessor reported, and the others know of the change.
    void replace(std::uint32_t node) {
        machines_[node] = std::make_unique<Stability>(node, nodes(), step_, failed_[node]);
        machines_[node]->set_local(consumed_[node], Rank(node));
        for (std::uint32_t s = 0; s < nodes(); ++s) {
            if (alive_[s] && s != node) machines_[s]->node_changed();
        }
    }
    // One event: a message delivered, news of a death, or a node that sends. False when nothing is left to happen.
    bool step() {
        for (int attempt = 0; attempt < 8; ++attempt) {
            if (happen(static_cast<std::uint32_t>(random_() % 3))) return true;
        }
        return happen(0) || happen(1) || happen(2);
    }

  private:
    struct Packet {
        std::uint32_t from;
        Stability::Send send;
        std::uint64_t stable;
    };
    struct News {
        std::uint32_t to;
        std::uint32_t dead;
    };

    bool happen(std::uint32_t what) {
        if (what == 0) {
            const std::uint32_t start = static_cast<std::uint32_t>(random_() % nodes());
            for (std::uint32_t i = 0; i < nodes(); ++i) {
                const std::uint32_t s = (start + i) % nodes();
                if (!alive_[s]) continue;
                if (const auto send = machines_[s]->next_send()) {
                    under_way_.push_back({s, *send, machines_[s]->stable()});
                    return true;
                }
            }
            return false;
        }
        if (what == 1) {
            if (under_way_.empty()) return false;
            std::size_t pick = random_() % under_way_.size();
            for (std::size_t i = 0; i < pick; ++i) {  // links are in order
                if (under_way_[i].from == under_way_[pick].from &&
                    under_way_[i].send.node == under_way_[pick].send.node) {
                    pick = i;
                }
            }
            const Packet packet = under_way_[pick];
            under_way_.erase(under_way_.begin() + static_cast<std::ptrdiff_t>(pick));
            deliver(packet);
            return true;
        }
        if (news_.empty()) return false;
        const std::size_t pick = random_() % news_.size();
        const News news = news_[pick];
        news_.erase(news_.begin() + static_cast<std::ptrdiff_t>(pick));
        if (alive_[news.to]) {
            failed_[news.to].insert(news.dead);
            machines_[news.to]->node_changed();
        }
        return true;
    }

    void deliver(const Packet& packet) {
        const std::uint32_t to = packet.send.node;
        if (!alive_[to] || failed_[to].contains(packet.from)) return;
        machines_[to]->learn_stable(packet.stable);
        ++messages_;
        if (packet.send.question) {
            machines_[to]->want(packet.send.count, packet.from);
        } else if (!packet.send.up) {
            if (packet.stable == machines_[to]->stable()) machines_[to]->learn_holder(packet.send.slowest);
        } else {
            machines_[to]->report(packet.from, packet.send.count, packet.send.slowest, packet.stable);
        }
    }

    std::vector<protocol::FailedSet> failed_;
    std::vector<bool> alive_;
    std::vector<std::uint64_t> consumed_;
    std::uint64_t step_;
    std::vector<std::unique_ptr<Stability>> machines_;
    std::vector<Packet> under_way_;
    std::vector<News> news_;
    std::mt19937 random_;
    std::uint64_t messages_ = 0;
};

void run_to_rest(Cluster& cluster) {
    int events = 0;
    while (cluster.step())
        ASSERT_LT(++events, 1'000'000) << "it never comes to rest";
}

TEST(Stability, EverybodyLearnsHowFarAllAre) {
    for (const std::uint32_t nodes : {1U, 2U, 3U, 8U, 33U}) {
        Cluster cluster(nodes, 4, nodes);
        for (std::uint32_t s = 0; s < nodes; ++s)
            cluster.consume(s, 10 + s);
        run_to_rest(cluster);
        for (std::uint32_t s = 0; s < nodes; ++s)
            EXPECT_EQ(cluster.stable(s), 10U) << nodes << " nodes, node " << s;
    }
}

TEST(Stability, AdvancesBelowTheStepAreNotReportedUntilAFlush) {
    Cluster cluster(4, 8, 1);
    for (std::uint32_t s = 0; s < 4; ++s)
        cluster.consume(s, 7);
    run_to_rest(cluster);
    EXPECT_EQ(cluster.stable(3), 0U);
    cluster.flush();
    run_to_rest(cluster);
    EXPECT_EQ(cluster.stable(3), 7U);
}

TEST(Stability, NothingIsStableThatALiveNodeHasNotConsumedWhoeverDiesAndWhen) {
    for (std::uint32_t seed = 1; seed <= 2000; ++seed) {
        std::mt19937 random(seed);
        const std::uint32_t nodes = 2 + static_cast<std::uint32_t>(random() % 12);
        Cluster cluster(nodes, 1 + random() % 4, seed);
        std::vector<std::uint64_t> count(nodes, 0);
        std::uint32_t alive = nodes;
        for (int round = 0; round < 200; ++round) {
            const std::uint32_t node = static_cast<std::uint32_t>(random() % nodes);
            if (!cluster.alive(node)) continue;
            if (random() % 40 == 0 && alive > 1) {
                cluster.kill(node);
                --alive;
            } else {
                count[node] += random() % 5;
                cluster.consume(node, count[node]);
            }
            if (seed % 2 == 0 && random() % 8 == 0) cluster.hold_up(node);
            for (int i = 0; i < 4; ++i)
                cluster.step();
            for (std::uint32_t s = 0; s < nodes; ++s) {
                if (!cluster.alive(s)) continue;
                ASSERT_LE(cluster.stable(s), cluster.least_consumed()) << "seed " << seed;
            }
        }
        cluster.flush();
        for (std::uint32_t s = 0; s < nodes; ++s) {
            if (cluster.alive(s)) cluster.consume(s, 5000);
        }
        run_to_rest(cluster);
        for (std::uint32_t s = 0; s < nodes; ++s) {
            if (!cluster.alive(s)) continue;
            ASSERT_EQ(cluster.stable(s), 5000U) << "seed " << seed << ", node " << s;
        }
    }
}

// A root stops a window (two steps) ahead of what is stable; once all have consumed that, it must be told of more.
TEST(Stability, AWindowOpensAgainThoughLeadersAreReplacedAtAnyPoint) {
    constexpr std::uint64_t kStep = 16;
    for (std::uint32_t seed = 1; seed <= 500; ++seed) {
        std::mt19937 random(seed);
        const std::uint32_t nodes = 4 + static_cast<std::uint32_t>(random() % 9);
        Cluster cluster(nodes, kStep, seed);
        std::uint64_t front = 2 * kStep;
        for (int window = 0; window < 8; ++window) {
            for (std::uint64_t count = front - 2 * kStep; count <= front; ++count) {
                for (std::uint32_t s = 0; s < nodes; ++s)
                    cluster.consume(s, count);
                if (random() % 8 == 0) cluster.replace(static_cast<std::uint32_t>(random() % nodes));
                for (std::uint64_t i = random() % 6; i > 0; --i)
                    cluster.step();
            }
            run_to_rest(cluster);
            const std::uint64_t stable = cluster.stable(0);
            ASSERT_GT(stable + 2 * kStep, front) << "seed " << seed << ": nobody may start anything any more";
            front = stable + 2 * kStep;
        }
    }
}

// coppice.h: a view that is held for W further broadcasts holds them up, and not before.
TEST(Stability, WhoeverIsHeldUpGetsAWholeWindowBeyondTheSlowestAndItsName) {
    for (const std::uint64_t window : {2U, 4U, 32U, 64U}) {
        for (std::uint64_t held = 0; held <= 2 * window; ++held) {
            for (const std::uint32_t nodes : {2U, 3U, 8U, 13U}) {
                const auto slow = static_cast<std::uint32_t>(held * 7 + nodes / 2) % nodes;
                Cluster cluster(nodes, window / 2, static_cast<std::uint32_t>(held + nodes));
                for (std::uint64_t count = 1; count < held + window; ++count) {
                    // Nobody goes on unless there is room, and who finds none asks.
                    for (std::uint32_t s = 0; s < nodes; ++s) {
                        if (count > cluster.stable(s) + window) cluster.hold_up(s);
                    }
                    run_to_rest(cluster);
                    for (std::uint32_t s = 0; s < nodes; ++s) {
                        ASSERT_LE(count, cluster.stable(s) + window) << held << " of " << window << ", " << nodes;
                        cluster.consume(s, s == slow ? std::min(count, held) : count);
                    }
                }
                run_to_rest(cluster);
                for (std::uint32_t s = 0; s < nodes; ++s)
                    cluster.hold_up(s);
                run_to_rest(cluster);
                for (std::uint32_t s = 0; s < nodes; ++s) {
                    ASSERT_EQ(cluster.stable(s), held) << held << " of " << window << ", " << nodes;
                    ASSERT_EQ(cluster.holder(s), Rank(slow)) << held << " of " << window << ", node " << s;
                }
                cluster.consume(slow, held + window - 1);  // the view is released
                run_to_rest(cluster);
                for (std::uint32_t s = 0; s < nodes; ++s)
                    ASSERT_GT(cluster.stable(s), held);
            }
        }
    }
}

TEST(Stability, ASteadyRunCostsOneReportAndOneAnswerANodeForEachHalfWindow) {
    constexpr std::uint64_t kStep = 16;
    constexpr std::uint64_t kSteps = 100;
    for (const std::uint32_t nodes : {2U, 3U, 8U, 13U}) {
        Cluster cluster(nodes, kStep, nodes);
        for (std::uint64_t count = 1; count <= kStep * kSteps; ++count) {
            for (std::uint32_t s = 0; s < nodes; ++s)
                cluster.consume(s, count);
            run_to_rest(cluster);
        }
        EXPECT_EQ(cluster.messages(), 2 * (nodes - 1) * kSteps) << nodes << " nodes";
    }
}

TEST(Stability, TheSlowestIsNamed) {
    Cluster cluster(4, 1, 1);
    protocol::FailedSet none;
    Stability top(0, 2, 1, none);
    top.set_local(9, Rank(0));
    top.report(1, 3, Rank(7), 0);
    EXPECT_EQ(top.slowest(), Rank(7));
    EXPECT_EQ(top.stable(), 3U);
}

// A rank that has just become leader has heard no reports, but what its predecessor has told it.
TEST(Stability, ANewLeaderNamesWhomTheOneBeforeNamed) {
    protocol::FailedSet none;
    Stability top(0, 3, 1, none, {Rank(0), Rank(2), Rank(4)});
    top.learn_holder(Rank(5));
    top.set_local(9, Rank(1));
    EXPECT_EQ(top.holder(), Rank(5));
    top.report(1, 9, Rank(2), 0);
    EXPECT_EQ(top.holder(), Rank(5));
    top.report(2, 3, Rank(4), 0);
    EXPECT_EQ(top.holder(), Rank(4));
}

}  // namespace
}  // namespace coppice::engine
