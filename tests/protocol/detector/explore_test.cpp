// Every order of events in small groups: which ranks die when, which sees which death when, what arrives when, and
// between which two messages of a member. Without a bound of silence: deaths are seen for certain, late and out of
// step.
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <unordered_set>

#include "hosts.hpp"
#include "protocol/detector/detector.hpp"

namespace coppice::protocol {
namespace {

struct State {
    std::vector<Detector> members;
    std::vector<DetectorMessage> under_way;  // in no order
    std::uint32_t dead = 0;                  // as bits
    std::uint32_t crashes_left = 0;
};

class Exploration {
  public:
    Exploration(const std::vector<std::uint32_t>& hosts, std::uint32_t crashes) : nodes_(hosts_of(hosts)) {
        State state;
        state.crashes_left = crashes;
        for (std::uint32_t rank = 0; rank < nodes_.ranks(); ++rank)
            state.members.emplace_back(DetectorPlan{.nodes = &nodes_}, Rank(rank));
        visit(state);
    }
    std::size_t states() const { return seen_.size(); }
    std::size_t final_states() const { return final_states_; }
    const std::string& violation() const { return violation_; }

  private:
    static bool dead(const State& state, std::uint32_t rank) { return (state.dead >> rank & 1) != 0; }
    bool local_peers(std::uint32_t a, std::uint32_t b) const {
        return nodes_.node_of(Rank(a)) == nodes_.node_of(Rank(b));
    }

    void visit(const State& state) {
        if (!violation_.empty() || !seen_.insert(key_of(state)).second) return;
        check(state);
        bool must_go_on = false;
        for (std::uint32_t rank = 0; rank < nodes_.ranks(); ++rank) {
            if (dead(state, rank)) continue;
            must_go_on |= pull(state, rank);
            must_go_on |= learn(state, rank);
            if (state.crashes_left == 0) continue;
            State next = state;
            next.dead |= 1U << rank;
            --next.crashes_left;
            visit(next);
        }
        for (std::size_t at = 0; at < state.under_way.size(); ++at) {
            deliver(state, at);
            must_go_on = true;
        }
        if (!must_go_on) check_final(state);
    }

    bool pull(const State& state, std::uint32_t rank) {
        State next = state;
        const auto message = next.members[rank].next_send(Nanoseconds(0));
        if (!message) return false;
        if (is_message(message->kind) && !dead(state, message->to.value)) next.under_way.push_back(*message);
        visit(next);
        return true;
    }

    // True when there is something that it will learn of sooner or later, whatever the others do.
    bool learn(const State& state, std::uint32_t rank) {
        const Detector& member = state.members[rank];
        bool certain = false;
        for (std::uint32_t other = 0; other < nodes_.ranks(); ++other) {
            if (other == rank || !dead(state, other) || member.failed().contains(other)) continue;
            // An observer and the ranks of the host see it; a rank of the host may have written it into its log before
            // it died; anybody with a connection may notice.
            certain |= local_peers(rank, other) || member.observed() == Rank(other);
            for (std::uint32_t local_peer = 0; local_peer < nodes_.ranks(); ++local_peer)
                certain |= local_peers(rank, local_peer) && state.members[local_peer].failed().contains(other);
            State next = state;
            next.members[rank].peer_failed(Rank(other));
            visit(next);
        }
        return certain;
    }

    void deliver(const State& state, std::size_t at) {
        State next = state;
        const DetectorMessage message = next.under_way[at];
        next.under_way.erase(next.under_way.begin() + static_cast<std::ptrdiff_t>(at));
        Detector& to = next.members[message.to.value];
        if (!dead(state, message.to.value) && !to.failed().contains(message.from.value)) {
            to.receive(message);
            while (to.next_failed()) {
            }
        }
        visit(next);
    }

    void check(const State& state) {
        for (std::uint32_t rank = 0; rank < nodes_.ranks(); ++rank) {
            if (dead(state, rank)) continue;
            for (std::uint32_t other = 0; other < nodes_.ranks(); ++other) {
                if (!dead(state, other) && state.members[rank].failed().contains(other))
                    violation_ = std::to_string(rank) + " suspects " + std::to_string(other) + ", which lives";
            }
            if (state.members[rank].fenced()) violation_ = std::to_string(rank) + " is fenced and lives";
        }
    }

    void check_final(const State& state) {
        ++final_states_;
        for (std::uint32_t rank = 0; rank < nodes_.ranks(); ++rank) {
            for (std::uint32_t other = 0; other < nodes_.ranks(); ++other) {
                if (!dead(state, rank) && dead(state, other) && !state.members[rank].failed().contains(other))
                    violation_ = std::to_string(rank) + " never learns that " + std::to_string(other) + " died";
            }
        }
    }

    std::string key_of(const State& state) const {
        std::vector<std::uint32_t> words{state.dead, state.crashes_left};
        for (std::uint32_t rank = 0; rank < nodes_.ranks(); ++rank) {
            // Of the dead only their logs are left.
            if (!dead(state, rank)) {
                state.members[rank].append_state(words);
                continue;
            }
            for (const FailedSet::Interval& interval : state.members[rank].failed().intervals())
                words.insert(words.end(), {interval.first, interval.last});
            words.push_back(UINT32_MAX);
        }
        std::vector<std::uint32_t> bag;
        for (const DetectorMessage& message : state.under_way) {
            if (dead(state, message.to.value)) continue;
            bag.push_back(message.from.value << 16 | message.to.value << 8 | message.about.value);
        }
        std::ranges::sort(bag);
        words.insert(words.end(), bag.begin(), bag.end());
        return {reinterpret_cast<const char*>(words.data()), words.size() * sizeof words[0]};
    }

    topology::Nodes nodes_;
    std::unordered_set<std::string> seen_;
    std::size_t final_states_ = 0;
    std::string violation_;
};

struct Case {
    const char* name;
    std::vector<std::uint32_t> hosts;
    std::uint32_t crashes;
};

class EveryOrder : public ::testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(Detector, EveryOrder,
                         ::testing::Values(Case{"two", {1, 1}, 1}, Case{"three", {1, 1, 1}, 2},
                                           Case{"four", {1, 1, 1, 1}, 1}, Case{"four_and_two_deaths", {1, 1, 1, 1}, 2},
                                           Case{"one_host", {3}, 2}, Case{"two_hosts_of_two", {2, 2}, 2},
                                           Case{"uneven_hosts", {2, 1, 1}, 2}, Case{"a_host_of_three", {3, 1}, 3}),
                         [](const auto& one) { return std::string(one.param.name); });

TEST_P(EveryOrder, SurvivorsLearnOfEveryDeathAndSuspectNoLiveRank) {
    const Exploration exploration(GetParam().hosts, GetParam().crashes);
    EXPECT_EQ(exploration.violation(), "");
    EXPECT_GT(exploration.final_states(), 0U);
    RecordProperty("states", std::to_string(exploration.states()));
    std::printf("%s: %zu states, %zu of them final\n", GetParam().name, exploration.states(),
                exploration.final_states());
}

}  // namespace
}  // namespace coppice::protocol
