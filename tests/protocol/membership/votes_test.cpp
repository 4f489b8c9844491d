// Which vote a member carries on with, of those that it hears of.
#include <gtest/gtest.h>

#include "conversation.hpp"

namespace coppice::protocol {
namespace {

LastVote vote_for(const Membership& member, std::uint32_t root, std::uint32_t gone) {
    LastVote vote;
    vote.epoch = member.last_vote().epoch;
    vote.followed = root + 1;
    vote.latest = Vote{.root = root, .change = {}};
    vote.latest->change.gone.insert(gone);
    return vote;
}

// Roots follow each other in the order of ranks, and a later one has looked at what the earlier ones have begun.
TEST(Votes, TheOneForTheLatestRootCountsInWhateverOrderTheyAreHeard) {
    for (const bool earlier_first : {true, false}) {
        SCOPED_TRACE(earlier_first);
        Conversation group(5);
        Membership& member = group[3];
        const LastVote earlier = vote_for(member, 0, 4);
        const LastVote later = vote_for(member, 1, 0);
        member.peer_failed(Process(earlier_first ? 0 : 1), earlier_first ? &earlier : &later);
        member.peer_failed(Process(earlier_first ? 1 : 0), earlier_first ? &later : &earlier);
        ASSERT_TRUE(member.last_vote().latest);
        EXPECT_EQ(*member.last_vote().latest, *later.latest);
    }
}

}  // namespace
}  // namespace coppice::protocol
