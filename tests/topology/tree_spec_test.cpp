// The names of trees.
#include <gtest/gtest.h>

#include <string>

#include "topology/tree.hpp"
#include "trees.hpp"

namespace coppice::topology {
namespace {

TEST(TreeSpec, reads_every_form) {
    EXPECT_EQ(parse_tree("binomial"), TreeSpec{});
    EXPECT_EQ(parse_tree("binomial:inorder"), (TreeSpec{.numbering = Numbering::in_order}));
    EXPECT_EQ(parse_tree("kary:4"), (TreeSpec{.shape = TreeShape::kary, .order = 4}));
    EXPECT_EQ(parse_tree("kary:4:inorder"),
              (TreeSpec{.shape = TreeShape::kary, .numbering = Numbering::in_order, .order = 4}));
    EXPECT_EQ(parse_tree("kary:2:heap"), (TreeSpec{.shape = TreeShape::kary, .numbering = Numbering::level_order}));
    EXPECT_EQ(parse_tree("lame:3"), (TreeSpec{.shape = TreeShape::lame, .order = 3}));
    EXPECT_EQ(parse_tree("optimal"), (TreeSpec{.shape = TreeShape::optimal, .latency = 2, .overhead = 1}));
    EXPECT_EQ(parse_tree("optimal:2,7"), (TreeSpec{.shape = TreeShape::optimal, .latency = 7, .overhead = 2}));
    EXPECT_EQ(parse_tree("optimal:inorder"), (TreeSpec{.shape = TreeShape::optimal, .numbering = Numbering::in_order}));
    EXPECT_EQ(parse_tree("chain"), (TreeSpec{.shape = TreeShape::chain}));
    EXPECT_EQ(parse_tree("star"), (TreeSpec{.shape = TreeShape::star}));
}

TEST(TreeSpec, is_written_as_it_is_read) {
    for (const auto& name : all_trees())
        EXPECT_EQ(to_string(parse_tree(name).value()), name);
    EXPECT_EQ(to_string(parse_tree("optimal").value()), "optimal:1,2");
}

TEST(TreeSpec, refuses_everything_else_and_lists_what_is_known) {
    for (const std::string text : {"",
                                   "foo",
                                   "Binomial",
                                   " binomial",
                                   "binomial ",
                                   "binomial:2",
                                   "binomial:",
                                   "kary",
                                   "kary:",
                                   "kary:x",
                                   "kary:-2",
                                   "kary:+2",
                                   "kary: 2",
                                   "kary:02",
                                   "kary:0x4",
                                   "kary:2.0",
                                   "kary:0",
                                   "kary:4294967296",
                                   "kary:2:",
                                   "kary:2,3",
                                   "kary:2:inorder:inorder",
                                   "kary:inorder",
                                   "kary:heap",
                                   "kary:2:heap:inorder",
                                   "kary:2:inorder:heap",
                                   "binomial:heap",
                                   "chain:heap",
                                   "heap",
                                   "lame",
                                   "lame:0",
                                   "lame:1025",
                                   "optimal:",
                                   "optimal:1",
                                   "optimal:1,",
                                   "optimal:,2",
                                   "optimal:1,2,3",
                                   "optimal:0,2",
                                   "optimal:1,4294967296",
                                   "optimal:1,2000",
                                   "optimal:2,3:inorder",
                                   "chain:inorder",
                                   "star:inorder",
                                   "chain:1",
                                   "star:",
                                   ":inorder",
                                   "inorder",
                                   ":"}) {
        const auto spec = parse_tree(text);
        ASSERT_FALSE(spec) << text;
        for (const auto name : known_trees()) {
            EXPECT_NE(spec.error().find(name), std::string::npos) << text << ": " << spec.error();
        }
    }
}

TEST(TreeSpec, says_why) {
    EXPECT_NE(parse_tree("lame:1025").error().find("1 to 1024"), std::string::npos);
    EXPECT_NE(parse_tree("optimal:2,3:inorder").error().find("O divides L"), std::string::npos);
    EXPECT_NE(parse_tree("foo").error().find("\"foo\""), std::string::npos);
}

TEST(TreeSpec, keeps_a_name_of_any_bytes_and_length_out_of_the_message) {
    const std::string hostile = std::string("a\0\x1b[31m\n", 8) + std::string(1 << 20, 'x');
    const auto spec = parse_tree(hostile);
    ASSERT_FALSE(spec);
    EXPECT_LT(spec.error().size(), 400U);
    for (const char c : spec.error())
        EXPECT_TRUE(c >= ' ' && c <= '~');
}

TEST(TreeSpec, lists_names_that_can_be_read) {
    for (std::string name : std::vector<std::string>(known_trees().begin(), known_trees().end())) {
        for (char& c : name) {
            if (c == 'K' || c == 'O' || c == 'L') c = '2';
        }
        EXPECT_TRUE(parse_tree(name)) << name;
    }
}

}  // namespace
}  // namespace coppice::topology
