// Corrections and gossip as users name them: read, written, and refused.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "protocol/baselines/names.hpp"
#include "protocol/names.hpp"

namespace coppice::protocol {
namespace {

TEST(CorrectionNames, AreReadAndWritten) {
    for (const char* name :
         {"none", "ack", "checked", "opportunistic:1", "opportunistic:7:one-directional", "optimized:4",
          "opportunistic:1048576", "checked:synchronized", "opportunistic:2:synchronized",
          "optimized:3:one-directional:synchronized", "delayed:5", "delayed:3600000000000:synchronized",
          "failure-proof:1", "failure-proof:4:synchronized", "failure-proof:2:5000"}) {
        const auto spec = parse_correction(name);
        ASSERT_TRUE(spec) << name;
        EXPECT_EQ(to_string(*spec), name);
    }
    EXPECT_EQ(parse_correction("optimized")->distance, 1U);
    EXPECT_EQ(*parse_correction("checked:overlapped"), *parse_correction("checked"));
    EXPECT_EQ(parse_correction("failure-proof:synchronized")->failures, 1U);
    EXPECT_EQ(*parse_correction("opportunistic:one-directional"),
              (CorrectionSpec{CorrectionKind::opportunistic, 1, true}));
}

TEST(CorrectionNames, NonsenseIsRefusedWithTheKnownOnes) {
    for (const char* name : {"",
                             "foo",
                             "None",
                             "none:1",
                             "checked:",
                             "checked:2",
                             "opportunistic:",
                             "opportunistic:0",
                             "opportunistic:01",
                             "opportunistic:-1",
                             "opportunistic:+1",
                             "opportunistic: 1",
                             "opportunistic:1 ",
                             "opportunistic:1048577",
                             "opportunistic:99999999999999999999",
                             "opportunistic:2:one",
                             "opportunistic:2:one-directional:",
                             "opportunistic:one-directional:2",
                             "ack:one-directional",
                             "ack:synchronized",
                             "none:overlapped",
                             "checked:synchronized:overlapped",
                             "checked:Synchronized",
                             "delayed",
                             "delayed:0",
                             "delayed:synchronized",
                             "delayed:3600000000001",
                             "failure-proof:0",
                             "failure-proof:5",
                             "failure-proof:1:0",
                             "opportunistic:synchronized:2"}) {
        const auto spec = parse_correction(name);
        ASSERT_FALSE(spec) << name;
        for (const std::string_view known : known_corrections()) {
            EXPECT_NE(spec.error().find(known), std::string::npos) << name;
        }
    }
}

TEST(GossipNames, AreWrittenAsTheyAreRead) {
    for (const char* text : {"ocg", "ocg:31", "ocg:31:5", "ocg:9:4:rounds", "ocg:rounds", "ccg", "ccg:33", "ccg:rounds",
                             "fcg:1", "fcg:0", "fcg:2:32", "fcg:1:rounds", "fcg:1:8:rounds"}) {
        const auto spec = parse_gossip(text);
        ASSERT_TRUE(spec.has_value()) << spec.error();
        EXPECT_EQ(to_string(*spec), text);
    }
    EXPECT_EQ(to_string(*parse_gossip("fcg")), "fcg:1");
}

TEST(GossipNames, WhatIsUnknownIsRefusedWithTheKnownOnes) {
    for (const char* text :
         {"", "gossip", "ccg:", "ccg:0", "ccg:01", "ccg:5:5", "ccg:rounds:5", "ocg:5:0", "ocg:5:x", "ocg:5:5:5",
          "ccg:-1", "ccg: 1", "fcg:5", "fcg:x", "fcg:1:0", "ccg:9999999", "ccg:5:rounds:rounds"}) {
        const auto spec = parse_gossip(text);
        ASSERT_FALSE(spec.has_value()) << text;
        EXPECT_NE(spec.error().find("fcg[:F[:T]][:rounds]"), std::string::npos) << spec.error();
    }
}

// What is only there to be compared with: the simulator reads it, and users are told where it is.
TEST(Baselines, AreReadWhereTheSimulatorReadsThemAndNotWhereUsersDo) {
    for (const char* name :
         {"optimized-paper:3", "opportunistic-paper:2:one-directional", "optimized-paper:1:synchronized"}) {
        const auto spec = baselines::parse_correction(name);
        ASSERT_TRUE(spec) << name;
        EXPECT_EQ(to_string(*spec), name);
        const auto refused = parse_correction(name);
        ASSERT_FALSE(refused) << name;
        EXPECT_NE(refused.error().find(std::string(name) + "\" is only there to be compared with"), std::string::npos)
            << refused.error();
    }
    for (const char* name : {"gos", "gos:50", "gos:12:rounds"}) {
        const auto spec = baselines::parse_gossip(name);
        ASSERT_TRUE(spec) << name;
        EXPECT_EQ(to_string(*spec), name);
        const auto refused = parse_gossip(name);
        ASSERT_FALSE(refused) << name;
        EXPECT_NE(refused.error().find(std::string(name) + "\" is only there to be compared with"), std::string::npos)
            << refused.error();
    }
    for (const char* name : {"optimized-paper:0", "opportunistic-paper:1:2", "foo"})
        EXPECT_FALSE(baselines::parse_correction(name)) << name;
    for (const char* name : {"gos:", "gos:0", "gos:5:5", "gos:5:rounds:rounds", "bfb", "big"})
        EXPECT_FALSE(baselines::parse_gossip(name)) << name;
}

TEST(Baselines, AreBesidesWhatUsersHaveAndNotAmongIt) {
    for (const std::string_view known : known_corrections()) {
        EXPECT_EQ(std::ranges::count(baselines::known_corrections(), known), 1) << known;
        EXPECT_EQ(known.find("paper"), std::string_view::npos) << known;
    }
    EXPECT_EQ(baselines::known_corrections().size(), known_corrections().size() + 2);
    for (const std::string_view known : known_gossips()) {
        EXPECT_EQ(std::ranges::count(baselines::known_gossips(), known), 1) << known;
        EXPECT_FALSE(known.starts_with("gos")) << known;
    }
    EXPECT_EQ(baselines::known_gossips().size(), known_gossips().size() + 1);
    EXPECT_EQ(baselines::parse_correction("checked"), parse_correction("checked"));
    EXPECT_EQ(baselines::parse_gossip("fcg:2:32"), parse_gossip("fcg:2:32"));
}

TEST(CorrectionNames, TheDefaultIsOne) {
    ASSERT_TRUE(parse_correction(kDefaultCorrection));
    EXPECT_EQ(to_string(*parse_correction(kDefaultCorrection)), kDefaultCorrection);
}

}  // namespace
}  // namespace coppice::protocol
