// Machines of every algorithm behind one face: their names, and that what one says arrives at another as it was meant.
#include "engine/collectives/broadcast/machine.hpp"

#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "engine/settings.hpp"

namespace coppice::engine {
namespace {

Settings settings_with(const char* variable, const char* value) {
    SettingTexts texts([](const char*) -> const char* { return nullptr; });
    texts.override_with(variable, value);
    Settings settings = parse(texts).value();
    settings.tree = topology::parse_tree("binomial").value();
    return settings;
}

TEST(Algorithms, AreReadAndWritten) {
    for (const char* name : {"tree", "ocg", "ocg:3:4:rounds", "ccg", "fcg:2", "ccg:5:rounds"}) {
        const auto spec = parse_algorithm(name);
        ASSERT_TRUE(spec) << name;
        EXPECT_EQ(to_string(*spec), name);
    }
    for (const char* name : {"", "Tree", "gossip", "ocg:7", "ccg:5", "fcg:9"}) {
        const auto spec = parse_algorithm(name);
        EXPECT_FALSE(spec) << name;
    }
    const std::string unknown = parse_algorithm("walk").error();
    for (const char* known : {"tree", "ocg", "ccg", "fcg"})
        EXPECT_NE(unknown.find(known), std::string::npos) << known;
    for (const char* elsewhere : {"bfb", "big", "gos["})
        EXPECT_EQ(unknown.find(elsewhere), std::string::npos) << elsewhere;
}

// What is only there to be compared with is no setting, and who asks for it is told where it is.
TEST(Algorithms, AndCorrectionsToCompareWithAreRefusedWithWhereTheyAre) {
    const auto refusal_of = [](const char* variable, const char* value) {
        SettingTexts texts([](const char*) -> const char* { return nullptr; });
        texts.override_with(variable, value);
        const auto settings = parse(texts);
        return settings ? std::string("it was taken") : settings.error().message;
    };
    for (const char* name : {"bfb", "big", "big:both", "gos", "gos:3:rounds"}) {
        const std::string refusal = refusal_of("COPPICE_ALGORITHM", name);
        for (const char* word : {"COPPICE_ALGORITHM", name, "only there to be compared with", "coppice-sim", "tree"})
            EXPECT_NE(refusal.find(word), std::string::npos) << word << " in: " << refusal;
    }
    for (const char* name : {"optimized-paper", "optimized-paper:2", "opportunistic-paper:1:one-directional"}) {
        const std::string refusal = refusal_of("COPPICE_CORRECTION", name);
        for (const char* word :
             {"COPPICE_CORRECTION", name, "only there to be compared with", "coppice-sim", "checked"})
            EXPECT_NE(refusal.find(word), std::string::npos) << word << " in: " << refusal;
    }
    // A slip leads nowhere else.
    for (const char* name : {"bbf", "bigger", "gosh"})
        EXPECT_EQ(refusal_of("COPPICE_ALGORITHM", name).find("compared"), std::string::npos) << name;
}

// All that is sent arrives at once; time goes on when nobody has anything to send.
void hold(const Plan& plan, const char* name) {
    SCOPED_TRACE(name);
    const std::uint32_t processes = plan.tree().processes();
    protocol::FailedSet nobody;
    std::vector<Machine> machines(processes);
    for (std::uint32_t position = 0; position < processes; ++position) {
        EXPECT_FALSE(machines[position]);
        machines[position].emplace(plan, Position{position}, 3, nobody, position == 0, 7);
        EXPECT_TRUE(machines[position]);
    }
    for (std::uint64_t now = 0; now < 10'000'000'000; now += 1'000'000) {
        bool all_finished = true;
        for (Machine& machine : machines) {
            while (const auto sent = machine.next_send(plan, Nanoseconds{now})) {
                EXPECT_TRUE(is_known(sent->tag));
                EXPECT_TRUE(row_of(sent->tag.channel).is_long || sent->more == 0);
                ASSERT_TRUE(machines[sent->to.value].receive(plan, *sent));
            }
            all_finished &= machine.finished();
        }
        if (!all_finished) continue;
        for (const Machine& machine : machines)
            EXPECT_EQ(machine.result(), protocol::BroadcastResult::colored);
        return;
    }
    FAIL() << "somebody never finishes";
}

TEST(Machines, ReachEverybodyWhateverTheAlgorithm) {
    for (const char* algorithm : {"tree", "ocg", "ccg", "fcg:2"}) {
        const auto plan = settings_with("COPPICE_ALGORITHM", algorithm).plan_for(20);
        ASSERT_TRUE(plan);
        hold(*plan, algorithm);
    }
    for (const char* correction : {"checked:synchronized", "delayed:5000", "failure-proof:4", "ack"}) {
        const auto plan = settings_with("COPPICE_CORRECTION", correction).plan_for(20);
        ASSERT_TRUE(plan);
        hold(*plan, correction);
    }
}

TEST(Machines, ReachEverybodyByTheSwitches) {
    std::vector<topology::Site> sites;
    for (std::uint32_t host = 0; host < 20; ++host)
        sites.push_back({.pod = host % 2, .leaf = host % 6});
    for (const char* correction : {"optimized:2", "opportunistic:1"}) {
        const auto plan = settings_with("COPPICE_CORRECTION", correction).plan_for(20, sites);
        ASSERT_TRUE(plan);
        ASSERT_TRUE(plan->placed);
        hold(*plan, correction);
    }
    for (const char* correction :
         {"checked", "none", "ack", "opportunistic:1:one-directional", "optimized:1:synchronized"})
        EXPECT_FALSE(settings_with("COPPICE_CORRECTION", correction).plan_for(20, sites)->placed) << correction;
}

TEST(Machines, RefuseWhatAnotherFamilySays) {
    const std::array<Tag, 2> corrections{Tag(Channel::broadcast, protocol::MessageKind::correction_left),
                                         Tag(Channel::failure_proof, protocol::FailureProofKind::correction_left)};
    for (const char* setting : {"tree", "fcg:1"}) {
        const auto plan = settings_with("COPPICE_ALGORITHM", setting).plan_for(8);
        ASSERT_TRUE(plan);
        protocol::FailedSet nobody;
        std::uint32_t accepted = 0;
        for (const Tag tag : corrections) {
            Machine machine;
            machine.emplace(*plan, Position{1}, 0, nobody, false, 1);
            const Envelope envelope{tag, Position{0}, Position{1}, 0, 0};
            accepted += machine.receive(*plan, envelope) ? 1 : 0;
        }
        EXPECT_EQ(accepted, 1U) << setting;
    }
}

// Offsets of what nobody can know, or too many of them.
TEST(Machines, RefuseKnowledgeThatCanNotBe) {
    const auto plan = settings_with("COPPICE_CORRECTION", "failure-proof:1").plan_for(8);
    ASSERT_TRUE(plan);
    protocol::FailedSet nobody;
    Machine machine;
    machine.emplace(*plan, Position{1}, 0, nobody, false, 1);
    const auto receive = [&](std::uint64_t more, std::uint32_t detail) {
        return machine.receive(*plan, {{Channel::failure_proof, protocol::FailureProofKind::correction_right},
                                       Position{0},
                                       Position{1},
                                       detail,
                                       more});
    };
    EXPECT_FALSE(receive(8, 0));               // once round the ring
    EXPECT_FALSE(receive(0x000300020001, 0));  // three with f = 1
    EXPECT_FALSE(receive(0x0004000300020001, 0x60005));
    EXPECT_FALSE(machine.colored());
    EXPECT_TRUE(receive(0x00020001, 0));
    EXPECT_TRUE(machine.colored());
}

}  // namespace
}  // namespace coppice::engine
