// Published agreements in a world of chance: any order of steps, stores, messages and notices, and deaths between any two
// of them. Each failure names its seed.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "protocol/published/published_agreement.hpp"

namespace coppice::protocol {
namespace {

constexpr std::uint32_t kWindow = 2;
constexpr Operation kOr{Operator::bit_or, Element::u8, nullptr, nullptr};

struct Line {
    std::uint64_t stamp = 0;
    std::uint8_t operation = 0;
    std::uint32_t acknowledged = 0;
    std::vector<std::byte> value;
};

// Everybody's memory.
struct Memory {
    explicit Memory(std::uint32_t ranks)
        : lines(ranks, std::vector<Line>(2 * kWindow)), logs(ranks), recoveries(ranks), shut_out(ranks) {}
    std::vector<std::vector<Line>> lines;
    std::vector<std::vector<std::uint32_t>> logs;
    std::vector<std::uint64_t> recoveries;
    std::vector<bool> shut_out;
};

class View final : public ContributionBoard {
  public:
    View(Memory& memory, std::uint32_t self) : memory_(memory), self_(self) {}

    void publish(std::uint64_t sequence, const Contribution& contribution) override {
        Line line{sequence + 1, contribution.operation, contribution.acknowledged, {}};
        line.value.assign(contribution.value.begin(), contribution.value.end());
        if (dying_) {
            late_ = {sequence, line};
        } else {
            memory_.lines[self_][sequence % (2 * kWindow)] = line;
        }
    }
    bool look(std::uint32_t member, std::uint64_t sequence, Contribution& contribution) const override {
        const Line& line = memory_.lines[member][sequence % (2 * kWindow)];
        overtaken_ = overtaken_ || line.stamp > sequence + 1;
        if (line.stamp != sequence + 1) return false;
        contribution = {line.operation, line.acknowledged, line.value};
        return true;
    }
    void log_acknowledged(std::uint32_t failed) override { memory_.logs[self_].push_back(failed); }
    std::uint32_t logged_acknowledged(std::uint32_t member, std::uint32_t index) const override {
        return index < memory_.logs[member].size() ? memory_.logs[member][index] : UINT32_MAX;
    }
    void set_recoveries(std::uint64_t count) override { memory_.recoveries[self_] = count; }
    std::uint64_t recoveries(std::uint32_t member) const override { return memory_.recoveries[member]; }

    bool shut_out() const override { return memory_.shut_out[self_]; }

    // From now on its stores do not show, until store_late().
    void die() { dying_ = true; }
    void store_late() {
        if (late_) memory_.lines[self_][late_->first % (2 * kWindow)] = late_->second;
        late_.reset();
    }
    // It looked for a line that had been overwritten already.
    bool overtaken() const { return overtaken_; }

  private:
    Memory& memory_;
    std::uint32_t self_;
    bool dying_ = false;
    mutable bool overtaken_ = false;
    std::optional<std::pair<std::uint64_t, Line>> late_;
};

struct Outcome {
    std::uint64_t contributors = 0;
    std::uint64_t failed = 0;
    bool acknowledged = true;
    bool mismatched = false;
    bool operator==(const Outcome&) const = default;
};

struct Packet {
    AgreementKind kind{};
    std::uint32_t from = 0;
    std::uint32_t to = 0;
    std::uint64_t agreement = 0;
    std::vector<std::byte> body;
};

AgreementPlan plan_of(std::uint32_t ranks, const char* tree) {
    return {.tree = *AgreementTree::make(*parse_agreement_tree(tree), ranks, nullptr, {}), .window = kWindow};
}

class World {
  public:
    struct Options {
        std::uint32_t ranks = 3;
        std::uint32_t crashes = 1;
        std::uint64_t agreements = 4;
        const char* tree = "star";
        std::uint32_t odd_rank = UINT32_MAX;  // contributes with another operation to agreement 1
    };

    World(const Options& options, std::uint64_t seed)
        : options_(options), random_(seed), plan_(plan_of(options.ranks, options.tree)), memory_(options.ranks) {
        for (std::uint32_t rank = 0; rank < options.ranks; ++rank) {
            views_.push_back(std::make_unique<View>(memory_, rank));
            machines_.push_back(std::make_unique<PublishedAgreement>(plan_, Rank{rank}, *views_.back()));
        }
        dead_.resize(options.ranks, false);
        outcomes_.resize(options.ranks);
        crashes_left_ = options.crashes;
    }

    // Empty, or what is wrong.
    std::string run() {
        for (int step = 0; step < 4000 && !all_have_decided(); ++step)
            random_step();
        crashes_left_ = 0;
        for (int round = 0; round < 300 && !(all_have_decided() && packets_.empty()); ++round)
            fair_round();
        return verdict();
    }

  private:
    std::uint32_t below(std::uint32_t bound) { return static_cast<std::uint32_t>(random_() % bound); }
    bool living(std::uint32_t rank) const { return !dead_[rank]; }

    void random_step() {
        const std::uint32_t rank = below(options_.ranks);
        switch (below(12)) {
            case 0:
            case 1:
                start(rank);
                break;
            case 2:
            case 3:
            case 4:
                look(rank, below(4) == 0);
                break;
            case 5:
            case 6:
                pull(rank);
                break;
            case 7:
            case 8:
                deliver(below(1024));
                break;
            case 9:
                notice(rank, below(options_.ranks));
                break;
            case 10:
                if (crashes_left_ > 0 && below(16) == 0) crash(rank);
                break;
            case 11:
                if (below(8) == 0) views_[rank]->store_late();
                break;
        }
    }

    void fair_round() {
        for (std::uint32_t rank = 0; rank < options_.ranks; ++rank) {
            for (std::uint32_t other = 0; other < options_.ranks; ++other)
                notice(rank, other);
            start(rank);
            look(rank, true);
            pull(rank);
            pull(rank);
        }
        while (!packets_.empty())
            deliver(0);
        for (std::uint32_t rank = 0; rank < options_.ranks; ++rank)
            look(rank, true);
    }

    void start(std::uint32_t rank) {
        PublishedAgreement& machine = *machines_[rank];
        if (!living(rank) || machine.next().value >= options_.agreements || !machine.can_start()) return;
        // Now and then it has taken note of what the last agreement said.
        const std::uint64_t number = machine.next().value;
        if (number > 0 && machine.decided(Sequence{number - 1}) && below(2) == 0) {
            machine.acknowledge(*machine.agreed(Sequence{number - 1}));
        }
        const std::uint64_t value = std::uint64_t{1} << rank;
        Operation operation = kOr;
        if (rank == options_.odd_rank && number == 1) operation.op = Operator::bit_and;
        machine.contribute(operation, std::as_bytes(std::span(&value, 1)));
        note(rank);
    }

    void look(std::uint32_t rank, bool thoroughly) {
        if (!living(rank)) return;
        machines_[rank]->look(thoroughly);
        note(rank);
    }

    void note(std::uint32_t rank) {
        const PublishedAgreement& machine = *machines_[rank];
        while (outcomes_[rank].size() < machine.decided_below().value) {
            const auto outcome = machine.outcome(Sequence{outcomes_[rank].size()});
            Outcome seen;
            if (!outcome || outcome->value.size() != sizeof seen.contributors) {
                trouble_ = "an outcome is not there";
                return;
            }
            std::memcpy(&seen.contributors, outcome->value.data(), sizeof seen.contributors);
            for (std::uint32_t other = 0; other < options_.ranks; ++other) {
                if (outcome->failed->contains(other)) seen.failed |= std::uint64_t{1} << other;
            }
            seen.acknowledged = outcome->acknowledged;
            seen.mismatched = outcome->mismatched;
            if (seen.mismatched) seen = {.failed = seen.failed, .mismatched = true};
            outcomes_[rank].push_back(seen);
        }
    }

    void pull(std::uint32_t rank) {
        if (!living(rank)) return;
        if (const auto message = machines_[rank]->next_send(Nanoseconds{0})) {
            packets_.push_back({message->kind,
                                rank,
                                message->to.value,
                                message->agreement.value,
                                {message->body.begin(), message->body.end()}});
        }
    }

    void deliver(std::uint32_t choice) {
        if (packets_.empty()) return;
        const auto at = packets_.begin() + static_cast<std::ptrdiff_t>(choice % packets_.size());
        const Packet packet = *at;
        packets_.erase(at);
        if (!living(packet.to)) return;
        machines_[packet.to]->receive(
            {packet.kind, Rank{packet.from}, Rank{packet.to}, Sequence{packet.agreement}, packet.body});
    }

    void notice(std::uint32_t rank, std::uint32_t other) {
        if (living(rank) && !living(other)) machines_[rank]->peer_failed(Rank{other});
    }

    void crash(std::uint32_t rank) {
        if (!living(rank)) return;
        std::uint32_t alive = 0;
        for (std::uint32_t other = 0; other < options_.ranks; ++other)
            alive += living(other) ? 1 : 0;
        if (alive == 1) return;
        --crashes_left_;
        // It may die in the middle of contributing: the store shows later, or never.
        views_[rank]->die();
        if (below(2) == 0) start(rank);
        dead_[rank] = true;
        // What it had sent arrives, or does not.
        std::erase_if(packets_, [this, rank](const Packet& packet) { return packet.from == rank && below(2) == 0; });
    }

    bool all_have_decided() const {
        for (std::uint32_t rank = 0; rank < options_.ranks; ++rank) {
            if (living(rank) && outcomes_[rank].size() < options_.agreements) return false;
        }
        return true;
    }

    std::string verdict() const {
        if (!trouble_.empty()) return trouble_;
        std::uint64_t living_mask = 0;
        for (std::uint32_t rank = 0; rank < options_.ranks; ++rank) {
            if (!living(rank)) continue;
            living_mask |= std::uint64_t{1} << rank;
            if (machines_[rank]->fenced()) return "rank " + std::to_string(rank) + " believes to be fenced";
            if (views_[rank]->overtaken()) return "rank " + std::to_string(rank) + " found a line overwritten";
            if (outcomes_[rank].size() < options_.agreements) return "rank " + std::to_string(rank) + " never ends";
        }
        const std::uint64_t all = (std::uint64_t{1} << options_.ranks) - 1;
        for (std::uint64_t number = 0; number < options_.agreements; ++number) {
            std::optional<Outcome> first;
            for (std::uint32_t rank = 0; rank < options_.ranks; ++rank) {
                if (!living(rank)) continue;
                const Outcome& mine = outcomes_[rank][number];
                if (!first) first = mine;
                if (!(mine == *first)) return "survivors differ about agreement " + std::to_string(number);
            }
            const std::string where = "agreement " + std::to_string(number);
            if ((first->failed & living_mask) != 0) return where + " takes a survivor for dead";
            const bool odd = options_.odd_rank != UINT32_MAX && number == 1 && living(options_.odd_rank);
            if (odd && !first->mismatched) return where + " hides that ranks differ";
            if (first->mismatched) continue;
            if ((first->contributors & living_mask) != living_mask) return where + " lacks a survivor";
            if ((first->contributors | first->failed) != all) return where + " lacks a rank silently";
            if (first->failed == 0 && !first->acknowledged) return where + " reports nothing";
        }
        return {};
    }

    Options options_;
    std::mt19937_64 random_;
    AgreementPlan plan_;
    Memory memory_;
    std::vector<std::unique_ptr<View>> views_;
    std::vector<std::unique_ptr<PublishedAgreement>> machines_;
    std::vector<bool> dead_;
    std::vector<std::vector<Outcome>> outcomes_;
    std::vector<Packet> packets_;
    std::uint32_t crashes_left_ = 0;
    std::string trouble_;
};

void try_seeds(const World::Options& options, std::uint64_t seeds) {
    for (std::uint64_t seed = 0; seed < seeds; ++seed) {
        const std::string wrong = World(options, seed).run();
        ASSERT_EQ(wrong, "") << options.ranks << " ranks, tree " << options.tree << ", " << options.crashes
                             << " crashes, seed " << seed;
    }
}

TEST(PublishedAgreement, NobodyNeedsAMessageWhileNobodyDies) {
    const AgreementPlan plan = plan_of(3, "star");
    Memory memory(3);
    std::vector<std::unique_ptr<View>> views;
    std::vector<std::unique_ptr<PublishedAgreement>> machines;
    for (std::uint32_t rank = 0; rank < 3; ++rank) {
        views.push_back(std::make_unique<View>(memory, rank));
        machines.push_back(std::make_unique<PublishedAgreement>(plan, Rank{rank}, *views.back()));
    }
    for (std::uint64_t number = 0; number < 20; ++number) {
        for (std::uint32_t rank = 0; rank < 3; ++rank) {
            const std::uint64_t value = std::uint64_t{1} << rank;
            EXPECT_EQ(machines[rank]->contribute(kOr, std::as_bytes(std::span(&value, 1)))->value, number);
            machines[rank]->look(true);
            EXPECT_EQ(machines[rank]->decided(Sequence{number}), rank == 2);
        }
        for (const auto& machine : machines) {
            machine->look(true);
            ASSERT_TRUE(machine->decided(Sequence{number}));
            EXPECT_EQ(std::to_integer<int>(machine->outcome(Sequence{number})->value[0]), 7);
            EXPECT_FALSE(machine->wants_to_send());
            EXPECT_EQ(machine->recoveries(), 0U);
        }
    }
}

TEST(PublishedAgreement, TheWindowBoundsHowManyAreUnderWay) {
    const AgreementPlan plan = plan_of(2, "star");
    Memory memory(2);
    View view(memory, 0);
    PublishedAgreement machine(plan, Rank{0}, view);
    for (std::uint32_t i = 0; i < kWindow; ++i)
        EXPECT_TRUE(machine.contribute(kOr, {}).has_value());
    EXPECT_FALSE(machine.contribute(kOr, {}).has_value());
    std::vector<std::uint32_t> waited_for;
    machine.waiting_for(Sequence{0}, [&](Rank rank) {
        waited_for.push_back(rank.value);
        return true;
    });
    EXPECT_EQ(waited_for, std::vector<std::uint32_t>{1});
}

TEST(PublishedAgreement, SurvivorsAgreeInAnyOrderOfThingsAmongTwoToFive) {
    for (std::uint32_t ranks = 2; ranks <= 5; ++ranks) {
        for (std::uint32_t crashes = 0; crashes < ranks; ++crashes)
            try_seeds({.ranks = ranks, .crashes = crashes}, 1500);
    }
}

TEST(PublishedAgreement, SurvivorsAgreeWhateverTheTreeOfRecoveries) {
    for (const char* tree : {"bin", "chain", "binomial"})
        try_seeds({.ranks = 5, .crashes = 3, .tree = tree}, 1500);
}

TEST(PublishedAgreement, ManyRanksAndManyDeaths) {
    try_seeds({.ranks = 12, .crashes = 11, .agreements = 8, .tree = "bin"}, 300);
}

TEST(PublishedAgreement, ADifferentOperationIsSeenByAll) {
    try_seeds({.ranks = 4, .crashes = 2, .odd_rank = 2}, 1500);
}

// Ranks 0 and 1 take rank 2 for dead while it lives and has contributed to the first agreement.
class Suspected : public ::testing::Test {
  protected:
    Suspected() : plan_(plan_of(3, "star")), memory_(3) {
        for (std::uint32_t rank = 0; rank < 3; ++rank) {
            views_.push_back(std::make_unique<View>(memory_, rank));
            machines_.push_back(std::make_unique<PublishedAgreement>(plan_, Rank{rank}, *views_.back()));
        }
    }
    void contribute(std::uint32_t rank) {
        const std::byte bit{static_cast<unsigned char>(1U << rank)};
        ASSERT_TRUE(machines_[rank]->contribute(kOr, std::span(&bit, 1)));
    }
    void suspect() {
        memory_.shut_out[2] = true;
        for (std::uint32_t rank = 0; rank < 2; ++rank)
            machines_[rank]->peer_failed(Rank{2});
    }
    // Until nothing more happens among ranks 0 and 1.
    void go_on() {
        for (bool moved = true; moved;) {
            moved = false;
            for (std::uint32_t rank = 0; rank < 2; ++rank) {
                machines_[rank]->look(true);
                while (const auto message = machines_[rank]->next_send(Nanoseconds{0})) {
                    moved = true;
                    if (message->to.value < 2) machines_[message->to.value]->receive(*message);
                }
            }
        }
    }
    std::uint32_t value_at(std::uint32_t rank) {
        const auto outcome = machines_[rank]->outcome(Sequence{0});
        return outcome ? std::to_integer<std::uint32_t>(outcome->value[0]) : 0;
    }

    AgreementPlan plan_;
    Memory memory_;
    std::vector<std::unique_ptr<View>> views_;
    std::vector<std::unique_ptr<PublishedAgreement>> machines_;
};

TEST_F(Suspected, WhoDecidedBeforeTheSuspicionDecidedAsTheOthersWill) {
    for (std::uint32_t rank = 0; rank < 3; ++rank)
        contribute(rank);
    machines_[2]->look(false);
    ASSERT_TRUE(machines_[2]->decided(Sequence{0}));
    suspect();
    go_on();
    for (std::uint32_t rank = 0; rank < 3; ++rank)
        EXPECT_EQ(value_at(rank), 7U) << rank;
}

TEST_F(Suspected, WhoLooksAfterwardsDecidesNothingAndKnowsWhy) {
    contribute(0);
    contribute(1);
    suspect();
    go_on();
    EXPECT_EQ(value_at(0), 3U);
    EXPECT_EQ(value_at(1), 3U);
    // It was stopped, and goes on as if nothing had been: all contributions are there.
    contribute(2);
    machines_[2]->look(false);
    EXPECT_FALSE(machines_[2]->decided(Sequence{0}));
    EXPECT_TRUE(machines_[2]->fenced());
}

TEST_F(Suspected, WhatAllHaveAcknowledgedIsNoNews) {
    contribute(0);
    contribute(1);
    suspect();
    go_on();
    for (std::uint32_t rank = 0; rank < 2; ++rank)
        EXPECT_FALSE(machines_[rank]->outcome(Sequence{0})->acknowledged) << rank;
    const auto is_no_news = [&](std::uint64_t number) {
        contribute(0);
        contribute(1);
        go_on();
        return machines_[0]->outcome(Sequence{number})->acknowledged &&
               machines_[1]->outcome(Sequence{number})->acknowledged;
    };
    machines_[0]->acknowledge(*machines_[0]->agreed(Sequence{0}));
    EXPECT_FALSE(is_no_news(1)) << "one of them has not";
    machines_[1]->acknowledge(*machines_[1]->agreed(Sequence{0}));
    EXPECT_TRUE(is_no_news(2));
}

TEST_F(Suspected, WhoIsShutOutInARecoverySaysNothingToThoseWhoDoNotKnow) {
    contribute(2);
    machines_[2]->peer_failed(Rank{0});
    machines_[2]->look(false);
    ASSERT_TRUE(machines_[2]->recovering());
    ASSERT_TRUE(machines_[2]->wants_to_send());
    suspect();
    EXPECT_FALSE(machines_[2]->next_send(Nanoseconds{0}).has_value());
    EXPECT_TRUE(machines_[2]->fenced());
    EXPECT_FALSE(machines_[2]->wants_to_send());
}

}  // namespace
}  // namespace coppice::protocol
