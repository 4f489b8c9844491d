// Golden conversations: what the ranks of a small group say to each other over an agreement, as text that a reviewer
// can read. A scenario's keys (support/golden.hpp):
//   tree, ranks, agreements, window
//   known=3,5      dead from the start; everybody knows
//   crash=2@9,…    rank 2 dies after the 9th message of all
//   late=1,…       ranks that start only when nothing moves any more
//   flush=yes      a flush at the end
// What follows is the conversation. Time goes in rounds: each live rank starts what it can and sends one message, in
// the order of ranks, then all of them arrive, in that order. When nobody has anything to send, the deaths so far are
// noticed by all.
#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <set>
#include <sstream>

#include "plans.hpp"
#include "simulation/explore/agreement_group.hpp"
#include "support/golden.hpp"
#include "support/text.hpp"

namespace coppice::protocol::testing {
namespace {

using coppice::testing::number;
using coppice::testing::split;

class Conversation {
  public:
    explicit Conversation(const std::string& scenario) : settings_(coppice::testing::settings_of(scenario)) {
        const std::uint32_t ranks = number(settings_.at("ranks"));
        std::vector<std::uint64_t> host_of;
        for (std::uint32_t rank = 0; rank < ranks; ++rank)
            host_of.push_back(rank / 3);
        hosts_ = topology::Nodes::by_host(host_of);
        AgreementPlan plan{*AgreementTree::make(*parse_agreement_tree(settings_.at("tree")), ranks, &*hosts_, {}),
                           &*hosts_};
        plan.max_value = 16;
        plan.window = settings_.contains("window") ? number(settings_["window"]) : 1;
        agreements_ = settings_.contains("agreements") ? number(settings_["agreements"]) : 1;
        group_.emplace(plan, false);
        for (const std::string& rank : split(settings_["late"], ','))
            late_.insert(number(rank));
    }

    std::string hold() {
        for (const std::string& dead : split(settings_["known"], ','))
            group_->crash(number(dead));
        notice(false);
        while (speak() || notice(true) || let_late_ones_start()) {
        }
        group_->check_final();
        for (std::uint32_t rank = 0; rank < group_->ranks(); ++rank) {
            for (std::uint64_t agreement = 0; !group_->is_dead(rank) && agreement < agreements_; ++agreement)
                text_ << rank << ": #" << agreement << " " << group_->describe_outcome(rank, agreement) << "\n";
        }
        EXPECT_EQ(group_->violation(), "");
        return text_.str();
    }

  private:
    void start(std::uint32_t rank) {
        if (late_.contains(rank)) return;
        Agreement& machine = group_->machine(rank);
        while (machine.can_start() && machine.next().value < agreements_)
            group_->start(rank);
        if (settings_["flush"] == "yes" && machine.can_start() && machine.next().value == agreements_) {
            group_->start_flush(rank);
        }
    }

    bool speak() {
        std::vector<std::string> said;
        for (std::uint32_t rank = 0; rank < group_->ranks(); ++rank) {
            if (group_->is_dead(rank)) continue;
            start(rank);
            const simulation::GroupMessage* message = group_->pull(rank);
            if (message == nullptr) continue;
            said.push_back("  " + describe(*message, group_->ranks()));
            crash_if_due(said);
        }
        if (said.empty()) return false;
        text_ << "round " << ++round_ << "\n";
        for (const std::string& line : said)
            text_ << line << "\n";
        std::vector<simulation::GroupMessage> arriving = group_->under_way();
        for (const simulation::GroupMessage& message : arriving) {
            for (std::size_t i = 0; i < group_->under_way().size(); ++i) {
                const simulation::GroupMessage& other = group_->under_way()[i];
                if (other.from != message.from || other.to != message.to) continue;
                group_->deliver(i);
                break;
            }
        }
        return true;
    }

    void crash_if_due(std::vector<std::string>& said) {
        ++messages_;
        for (const std::string& crash : split(settings_["crash"], ',')) {
            const std::vector<std::string> parts = split(crash, '@');
            const std::uint32_t rank = number(parts.at(0));
            if (number(parts.at(1)) != messages_ || group_->is_dead(rank)) continue;
            group_->crash(rank);
            said.push_back("  " + std::to_string(rank) + " dies");
        }
    }

    bool notice(bool say) {
        std::string names;
        for (std::uint32_t dead = 0; dead < group_->ranks(); ++dead) {
            bool news = false;
            for (std::uint32_t rank = 0; group_->is_dead(dead) && rank < group_->ranks(); ++rank) {
                if (group_->is_dead(rank) || group_->machine(rank).failed().contains(dead)) continue;
                group_->notice(rank, dead);
                news = true;
            }
            if (news) names += (names.empty() ? "" : ", ") + std::to_string(dead);
        }
        if (!names.empty() && say) text_ << "all learn that " << names << " is dead\n";
        return !names.empty();
    }

    bool let_late_ones_start() {
        const bool any = !late_.empty();
        if (any) text_ << "the late ranks start\n";
        late_.clear();
        return any;
    }

    std::map<std::string, std::string> settings_;
    std::optional<topology::Nodes> hosts_;
    std::optional<simulation::AgreementGroup> group_;
    std::set<std::uint32_t> late_;
    std::uint32_t agreements_ = 1;
    std::uint32_t messages_ = 0;
    std::uint32_t round_ = 0;
    std::ostringstream text_;
};

constexpr const char* kFolder = AGREEMENT_TEST_SOURCES "/golden";

class Golden : public ::testing::TestWithParam<std::string> {};

TEST_P(Golden, ConversationIsAsWritten) {
    coppice::testing::expect_golden(kFolder, GetParam(),
                                    [](const std::string& scenario) { return Conversation(scenario).hold(); });
}

INSTANTIATE_TEST_SUITE_P(All, Golden, ::testing::ValuesIn(coppice::testing::golden_files(kFolder)),
                         [](const auto& name) { return name.param; });

}  // namespace
}  // namespace coppice::protocol::testing
