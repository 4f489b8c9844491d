#include "simulation/explore/agreement_fuzz.hpp"

#include <array>
#include <optional>
#include <vector>

#include "simulation/explore/agreement_group.hpp"
#include "simulation/random.hpp"

namespace coppice::simulation {
namespace {

using protocol::AgreementPlan;
using protocol::AgreementTree;
using protocol::Rebalance;

constexpr std::array<const char*, 13> kTrees = {
    "binary", "binomial", "binomial:inorder", "kary:3",         "kary:4:inorder", "star",     "chain",
    "lame:2", "bin/bin",  "bin/star",         "binomial/chain", "heap",           "heap/heap"};

template <class Group>
class Fuzz {
  public:
    Fuzz(std::uint64_t seed, const FuzzRange& range, const std::function<void(const std::string&)>& tell)
        : dice_(seed), tell_(tell) {
        const std::uint32_t ranks = range.fewest_ranks + dice_.below(range.most_ranks - range.fewest_ranks + 1);
        const std::uint32_t hosts = 1 + dice_.below(ranks);
        std::vector<std::uint64_t> host_of;
        for (std::uint32_t rank = 0; rank < ranks; ++rank)
            host_of.push_back(dice_.below(hosts));
        hosts_ = topology::Nodes::by_host(host_of);
        const std::string tree = kTrees[dice_.below(kTrees.size())];
        AgreementPlan plan{*AgreementTree::make(*protocol::parse_agreement_tree(tree), ranks, &*hosts_, {}), &*hosts_};
        plan.window = 1U << dice_.below(3);
        plan.max_value = 16;
        plan.rebalance = static_cast<Rebalance>(dice_.below(3));
        plan.printed = range.printed;
        agreements_ = 1 + dice_.below(8);
        flush_ = dice_.one_in(2);
        acknowledge_ = dice_.one_in(2);
        const bool own_operation = dice_.one_in(4);
        deaths_left_ = dice_.one_in(8) ? 0 : dice_.below(dice_.one_in(3) ? ranks : std::min(ranks, 6U));
        // How often what happens: each between rarely and often, so that schedules differ in kind.
        for (std::uint8_t action = 0; action < (Group::kPublishes ? kActions : kLook); ++action)
            weights_[action] = 1U << dice_.below(7);
        weights_[kCrash] = 1 + dice_.below(4);
        low_die_ = dice_.one_in(2);
        in_midst_ = dice_.one_in(2);
        if (Group::kPublishes && dice_.one_in(2)) {
            const std::uint32_t caches = 1 + dice_.below(1 + ranks / 2);
            std::vector<std::uint64_t> cache_of;
            for (std::uint32_t rank = 0; rank < ranks; ++rank)
                cache_of.push_back(dice_.below(caches));
            domains_ = topology::Nodes::by_host(cache_of);
        }
        group_.emplace(plan, own_operation, domains_ ? &*domains_ : nullptr);
        outcome_.ranks = ranks;
        outcome_.scenario = std::to_string(ranks) + " ranks, tree " + tree + ", window " + std::to_string(plan.window) +
                            ", " + std::to_string(agreements_) + " agreements" + (flush_ ? " and a flush" : "") +
                            (own_operation ? ", own operation" : "") + ", up to " + std::to_string(deaths_left_) +
                            " deaths" + (Group::kPublishes ? ", published" : "") +
                            (domains_ ? " by " + std::to_string(domains_->count()) + " domains" : "");
    }

    FuzzOutcome run() {
        std::uint32_t fruitless = 0;
        while (group_->violation().empty() && fruitless < 64)
            fruitless = step() ? 0 : fruitless + 1;
        while (group_->violation().empty() && sweep()) {
        }
        group_->check_final();
        outcome_.violation = group_->violation();
        for (std::uint32_t rank = 0; rank < group_->ranks(); ++rank) {
            if (group_->is_dead(rank)) continue;
            outcome_.decisions += static_cast<std::uint32_t>(group_->machine(rank).decided_below().value);
            if (outcome_.violation.empty() && group_->machine(rank).next().value != total()) {
                outcome_.violation = "Termination: rank " + std::to_string(rank) + " can't start all agreements";
            }
        }
        return outcome_;
    }

  private:
    enum Action : std::uint8_t { kStart, kPull, kDeliver, kNotice, kCrash, kLook, kActions };

    std::uint32_t total() const { return agreements_ + (flush_ ? 1 : 0); }

    void say(const std::string& what) {
        ++outcome_.events;
        if (tell_) tell_(what);
    }

    bool step() {
        std::uint32_t sum = 0;
        for (const std::uint32_t weight : weights_)
            sum += weight;
        std::uint32_t at = dice_.below(sum);
        std::uint8_t action = 0;
        while (at >= weights_[action])
            at -= weights_[action++];
        const std::uint32_t rank = dice_.below(group_->ranks());
        switch (static_cast<Action>(action)) {
            case kStart:
                return start(rank);
            case kPull:
                return pull(rank);
            case kDeliver:
                if (group_->under_way().empty()) return false;
                deliver(dice_.below(static_cast<std::uint32_t>(group_->under_way().size())));
                return true;
            case kNotice:
                return notice(rank, dice_.below(group_->ranks()));
            case kCrash:
                return crash(low_die_ ? dice_.below(1 + rank) : rank);
            case kLook:
                if constexpr (Group::kPublishes) {
                    if (dice_.one_in(8) && store_late(rank)) return true;
                    return look(rank, dice_.one_in(4));
                }
                break;
            case kActions:
                break;
        }
        return false;
    }

    // Whatever is left, once for everybody; false when there was nothing.
    bool sweep() {
        bool moved = false;
        for (std::uint32_t rank = 0; rank < group_->ranks(); ++rank) {
            while (start(rank))
                moved = true;
            if constexpr (Group::kPublishes) {
                while (look(rank, true))
                    moved = true;
            }
            while (pull(rank))
                moved = true;
            for (const auto& interval :
                 std::vector(group_->dead().intervals().begin(), group_->dead().intervals().end())) {
                for (std::uint32_t dead = interval.first; dead <= interval.last; ++dead)
                    moved |= notice(rank, dead);
            }
        }
        while (!group_->under_way().empty() && group_->violation().empty()) {
            deliver(dice_.below(static_cast<std::uint32_t>(group_->under_way().size())));
            moved = true;
        }
        return moved;
    }

    bool start(std::uint32_t rank) {
        auto& machine = group_->machine(rank);
        if (group_->is_dead(rank) || !machine.can_start() || machine.next().value >= total()) return false;
        if (acknowledge_ && !machine.failed().empty() && dice_.one_in(2)) group_->acknowledge_all(rank);
        say(std::to_string(rank) + " starts #" + std::to_string(machine.next().value));
        return machine.next().value == agreements_ ? group_->start_flush(rank) : group_->start(rank);
    }

    bool pull(std::uint32_t rank) {
        if (group_->is_dead(rank)) return false;
        const GroupMessage* message = group_->pull(rank);
        if (message == nullptr) return false;
        ++outcome_.messages;
        say("send     " + (tell_ ? describe(*message, group_->ranks()) : std::string()));
        // Between two sends of one decision, or right after the last: where deaths hurt most.
        if (in_midst_ && message->kind == protocol::AgreementKind::down && dice_.one_in(4)) crash(rank);
        return true;
    }

    void deliver(std::uint32_t index) {
        if (tell_) say("receive  " + describe(group_->under_way()[index], group_->ranks()));
        group_->deliver(index);
    }

    bool notice(std::uint32_t rank, std::uint32_t dead) {
        if (group_->is_dead(rank) || !group_->is_dead(dead) || group_->machine(rank).failed().contains(dead))
            return false;
        say(std::to_string(rank) + " learns that " + std::to_string(dead) + " is dead");
        group_->notice(rank, dead);
        return true;
    }

    bool crash(std::uint32_t rank) {
        if (group_->is_dead(rank)) return false;
        if (flush_ && group_->machine(rank).decided_below().value == total() &&
            !group_->machine(rank).wants_to_send()) {
            say(std::to_string(rank) + " leaves");
            group_->crash(rank);
            return true;
        }
        if (deaths_left_ == 0) return false;
        --deaths_left_;
        ++outcome_.deaths;
        if constexpr (Group::kPublishes) {
            if (group_->machine(rank).next().value < agreements_ && dice_.one_in(2)) {
                say(std::to_string(rank) + " dies while it contributes");
                group_->crash_contributing(rank);
                return true;
            }
            if (domains_ && dice_.one_in(2)) {
                say(std::to_string(rank) + " dies while it looks at the board");
                group_->crash_looking(rank);
                return true;
            }
        }
        say(std::to_string(rank) + " dies");
        group_->crash(rank);
        return true;
    }

    bool look(std::uint32_t rank, bool thoroughly) {
        if (group_->is_dead(rank) || !group_->look(rank, thoroughly)) return false;
        say(std::to_string(rank) + " looks at the board");
        return true;
    }

    bool store_late(std::uint32_t rank) {
        if (!group_->is_dead(rank) || !group_->store_late(rank)) return false;
        say("what " + std::to_string(rank) + " had stored shows");
        return true;
    }

    Random dice_;
    const std::function<void(const std::string&)>& tell_;
    std::optional<topology::Nodes> hosts_;
    std::optional<topology::Nodes> domains_;
    std::optional<Group> group_;
    std::uint32_t agreements_ = 1;
    bool flush_ = false;
    bool acknowledge_ = false;
    bool low_die_ = false;
    bool in_midst_ = false;
    std::uint32_t deaths_left_ = 0;
    std::array<std::uint32_t, kActions> weights_{};
    FuzzOutcome outcome_;
};

}  // namespace

FuzzOutcome fuzz_agreement(std::uint64_t seed, const FuzzRange& range,
                           const std::function<void(const std::string&)>& tell) {
    return range.published ? Fuzz<PublishedGroup>(seed, range, tell).run()
                           : Fuzz<AgreementGroup>(seed, range, tell).run();
}

}  // namespace coppice::simulation
