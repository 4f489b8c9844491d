// Corrections and gossip as users name them: read, written, and refused.
#include <gtest/gtest.h>

#include <string_view>

#include "protocol/broadcast.hpp"
#include "protocol/gossip.hpp"

namespace coppice::protocol {
namespace {

TEST(CorrectionNames, AreReadAndWritten) {
    for (const char* name :
         {"none", "ack", "checked", "opportunistic:1", "opportunistic:7:one-directional", "optimized:4",
          "optimized-paper:3", "opportunistic-paper:2:one-directional", "opportunistic:1048576", "checked:synchronized",
          "opportunistic:2:synchronized", "optimized:3:one-directional:synchronized", "delayed:5",
          "delayed:3600000000000:synchronized", "failure-proof:1", "failure-proof:4:synchronized",
          "failure-proof:2:5000"}) {
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
    for (const char* text :
         {"gos", "gos:50", "gos:12:rounds", "ocg", "ocg:31", "ocg:31:5", "ocg:9:4:rounds", "ocg:rounds", "ccg",
          "ccg:33", "ccg:rounds", "fcg:1", "fcg:0", "fcg:2:32", "fcg:1:rounds", "fcg:1:8:rounds"}) {
        const auto spec = parse_gossip(text);
        ASSERT_TRUE(spec.has_value()) << spec.error();
        EXPECT_EQ(to_string(*spec), text);
    }
    EXPECT_EQ(to_string(*parse_gossip("fcg")), "fcg:1");
}

TEST(GossipNames, WhatIsUnknownIsRefusedWithTheKnownOnes) {
    for (const char* text :
         {"", "gossip", "gos:", "gos:0", "gos:01", "gos:5:5", "gos:rounds:5", "ocg:5:0", "ocg:5:x", "ocg:5:5:5",
          "ccg:-1", "ccg: 1", "fcg:5", "fcg:x", "fcg:1:0", "ccg:9999999", "gos:5:rounds:rounds"}) {
        const auto spec = parse_gossip(text);
        ASSERT_FALSE(spec.has_value()) << text;
        EXPECT_NE(spec.error().find("fcg[:F[:T]][:rounds]"), std::string::npos) << spec.error();
    }
}

}  // namespace
}  // namespace coppice::protocol
