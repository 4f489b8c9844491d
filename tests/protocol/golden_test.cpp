// Golden conversations: what the machines of a small group say to each other, as text that a reviewer can read.
//
// A scenario's keys (support/golden.hpp):
//   tree, processes, correction
//   dead=3,5        dead from the start; nobody knows
//   known=3,5       dead from the start; everybody knows
//   crash=2@9,…     position 2 dies after the 9th message of all
//   detect=no       deaths stay unnoticed
//   start=8         synchronized correction starts in round 8
// What follows is the conversation. Time goes in rounds: each live member sends one message, in the order of positions,
// then all of them arrive, in that order. When nobody has anything to send, time passes until somebody has; when nobody
// waits, either, the deaths so far are noticed by all.
#include <gtest/gtest.h>

#include <array>
#include <map>
#include <sstream>

#include "explore_broadcast.hpp"
#include "explore_failure_proof.hpp"
#include "protocol/baselines/names.hpp"
#include "support/golden.hpp"
#include "support/text.hpp"
#include "world.hpp"

namespace coppice::protocol::testing {
namespace {

using coppice::testing::number;
using coppice::testing::split;

class Conversation {
  public:
    explicit Conversation(const std::string& scenario) : settings_(coppice::testing::settings_of(scenario)) {}

    std::string hold() {
        BroadcastPlan plan{
            *topology::Tree::make(*topology::parse_tree(settings_.at("tree")), number(settings_.at("processes"))),
            *baselines::parse_correction(settings_.at("correction"))};
        if (settings_.contains("start")) plan.correction_start = Nanoseconds{number(settings_.at("start"))};
        if (plan.correction.kind != CorrectionKind::failure_proof) return hold(World(plan, 0));
        return hold(FailureProofWorld(make_failure_proof_plan(plan, Nanoseconds{100}), 0));
    }

  private:
    template <class AnyWorld>
    std::string hold(AnyWorld world) {
        for (const std::string& dead : split(settings_["dead"], ','))
            world.crash(number(dead));
        const std::vector<std::string> known = split(settings_["known"], ',');
        for (const std::string& dead : known)
            world.crash(number(dead));
        for (std::uint32_t position = 0; !known.empty() && position < world.processes(); ++position) {
            if (!world.is_dead(position)) world.learn_all(position);
        }
        while (speak(world) || wait(world) || (settings_["detect"] != "no" && notice(world))) {
        }
        for (std::uint32_t position = 0; position < world.processes(); ++position) {
            if (!world.is_dead(position)) say_result(position, world.machine(position));
        }
        EXPECT_EQ(world.violation(), "");
        return text_.str();
    }

    // One round. False when nobody had anything to send.
    template <class AnyWorld>
    bool speak(AnyWorld& world) {
        bool spoke = false;
        world.set_time(time_ + 1);
        for (std::uint32_t position = 0; position < world.processes(); ++position) {
            const auto message = world.pull(position);
            if (!message) continue;
            if (!spoke) text_ << "round " << ++time_ << "\n";
            spoke = true;
            text_ << "  " << describe(*message) << (world.is_dead(message->to.value) ? ", which is dead" : "") << "\n";
            crash_if_due(world);
        }
        while (world.under_way() > 0)
            world.deliver(0);
        return spoke;
    }

    // Until the next timer.
    template <class AnyWorld>
    bool wait(AnyWorld& world) {
        const Nanoseconds timer = world.next_timer();
        if (timer == kNever) return false;
        time_ = timer.value - 1;
        return true;
    }

    template <class AnyWorld>
    void crash_if_due(AnyWorld& world) {
        for (const std::string& one : split(settings_["crash"], ',')) {
            const std::vector<std::string> parts = split(one, '@');
            if (number(parts[1]) != world.sent() || world.is_dead(number(parts[0]))) continue;
            world.crash(number(parts[0]));
            text_ << "  " << parts[0] << " dies\n";
        }
    }

    template <class AnyWorld>
    bool notice(AnyWorld& world) {
        bool any = false;
        for (std::uint32_t dead = 0; dead < world.processes(); ++dead) {
            if (!world.is_dead(dead)) continue;
            bool news = false;
            for (std::uint32_t position = 0; position < world.processes(); ++position) {
                if (world.is_dead(position) || world.knows(position, dead)) continue;
                world.learn(position, dead);
                news = true;
            }
            if (news) text_ << "all learn that " << dead << " is dead\n";
            any |= news;
        }
        return any;
    }

    template <class Machine>
    void say_result(std::uint32_t position, const Machine& machine) {
        constexpr std::array<const char*, 4> names{"pending", "colored", "root failed", "orphaned"};
        text_ << position << ": " << names.at(static_cast<std::size_t>(machine.result()))
              << (machine.finished() ? "" : ", not finished") << "\n";
    }

    std::map<std::string, std::string> settings_;
    std::ostringstream text_;
    std::uint64_t time_ = 0;
};

constexpr const char* kFolder = PROTOCOL_TEST_SOURCES "/golden";

class Golden : public ::testing::TestWithParam<std::string> {};

TEST_P(Golden, ConversationIsAsWritten) {
    coppice::testing::expect_golden(kFolder, GetParam(),
                                    [](const std::string& scenario) { return Conversation(scenario).hold(); });
}

INSTANTIATE_TEST_SUITE_P(All, Golden, ::testing::ValuesIn(coppice::testing::golden_files(kFolder)),
                         [](const auto& name) { return name.param; });

}  // namespace
}  // namespace coppice::protocol::testing
