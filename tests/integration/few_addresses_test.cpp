// Ranks that have got the addresses of few others find out the rest while they work, and while those die that they would ask.
#include <gmock/gmock.h>

#include <string>

#include "integration/job.hpp"

namespace coppice::testing {
namespace {

struct Shape {
    const char* name;
    std::uint32_t ranks;
    std::uint32_t hosts;
};
void PrintTo(const Shape& shape, std::ostream* out) {
    *out << shape.name;
}

class FewAddresses : public ::testing::TestWithParam<Shape> {
  public:
    JobOptions job(std::map<std::string, std::string> more = {}) const {
        JobOptions options;
        options.ranks = GetParam().ranks;
        options.hosts = GetParam().hosts;
        options.environment = std::move(more);
        options.environment.emplace("COPPICE_ADDRESSES", "few");
        options.environment.emplace("COPPICE_CORRECTION", "optimized:1");  // so that the ring leads to fewer
        if (GetParam().hosts == 1) {
            options.environment.emplace("COPPICE_TRANSPORT", "tcp");
            options.environment.emplace("COPPICE_HIERARCHY", "flat");
        }
        return options;
    }
};
INSTANTIATE_TEST_SUITE_P(Shapes, FewAddresses, ::testing::Values(Shape{"flat", 16, 1}, Shape{"hosts", 15, 5}),
                         [](const auto& shape) { return std::string(shape.param.name); });

void broadcast(Member& member, std::uint32_t root, std::uint64_t value) {
    std::uint64_t word = member.rank == root ? value : 0;
    COPPICE_CHECK(coppice_broadcast(member.group, &word, sizeof word, root, nullptr, kDeadlineNs) == COPPICE_OK);
    COPPICE_CHECK(word == value);
}

coppice_group_info_t info_of(const Member& member) {
    coppice_group_info_t info{};
    info.struct_size = sizeof info;
    COPPICE_CHECK(coppice_group_query(member.group, &info) == COPPICE_OK);
    return info;
}

void shrink(Member& member) {
    coppice_group_t* smaller = nullptr;
    COPPICE_CHECK(coppice_group_shrink(member.group, &smaller, kDeadlineNs) == COPPICE_OK);
    (void)coppice_group_destroy(member.group, kDeadlineNs);
    member.group = smaller;
}

TEST_P(FewAddresses, BroadcastsFromEveryRootInTurn) {
    for (const char* const tree : {"auto", "star", "kary:3", "chain"}) {
        Job job(this->job({{"COPPICE_TREE", tree}}), [](Member& member) {
            COPPICE_CHECK(member.join() == COPPICE_OK);
            for (std::uint32_t round = 0; round < 2; ++round)
                for (std::uint32_t root = 0; root < member.ranks; ++root)
                    broadcast(member, root, 1000 * round + root);
            std::uint64_t all = 1;
            COPPICE_CHECK(coppice_agree(member.group, &all, sizeof all, nullptr, kDeadlineNs) == COPPICE_OK);
            member.leave();
        });
        EXPECT_EQ(job.finish(), "") << tree;
    }
}

// Every rank needs every other one at once: of two that ask for each other both ways are open.
TEST_P(FewAddresses, AllAskForEachOtherAtOnce) {
    Job job(this->job({{"COPPICE_AGREEMENT_TREE", "star"}, {"COPPICE_TREE", "star"}}), [](Member& member) {
        COPPICE_CHECK(member.join() == COPPICE_OK);
        std::vector<coppice_request_t*> requests(member.ranks, nullptr);
        std::vector<std::uint64_t> words(member.ranks, 0);
        for (std::uint32_t root = 0; root < member.ranks; ++root) {
            words[root] = member.rank == root ? root + 1 : 0;
            COPPICE_CHECK(coppice_broadcast_nb(member.group, &words[root], sizeof words[root], root, &requests[root]) ==
                          COPPICE_OK);
        }
        for (std::uint32_t root = 0; root < member.ranks; ++root) {
            COPPICE_CHECK(coppice_request_wait(requests[root], nullptr, kDeadlineNs) == COPPICE_OK);
            COPPICE_CHECK(words[root] == root + 1);
            coppice_request_free(requests[root]);
        }
        member.leave();
    });
    EXPECT_EQ(job.finish(), "");
}

// Those die that everybody would ask first, before anybody has asked: a quarter of all, side by side.
TEST_P(FewAddresses, WhomTheyWouldAskDiesFirst) {
    for (const bool is_early : {true, false}) {
        Job job(this->job(), [is_early](Member& member) {
            COPPICE_CHECK(member.join() == COPPICE_OK);
            member.notes[0].fetch_add(1);
            const bool dies = member.rank >= 1 && member.rank <= 4;
            if (dies || !is_early) {
                member.await_note(0, member.ranks);
                if (dies) member.await("the end", [] { return false; });
            }
            member.await_note(1, 1);
            std::uint64_t word = 1;
            (void)coppice_agree(member.group, &word, sizeof word, nullptr, kDeadlineNs);
            shrink(member);
            const std::uint32_t ranks = info_of(member).size;
            const std::uint32_t rank = info_of(member).rank;
            for (std::uint32_t root = 0; root < ranks; ++root) {
                std::uint64_t value = rank == root ? root + 7 : 0;
                const auto status = coppice_broadcast(member.group, &value, sizeof value, root, nullptr, kDeadlineNs);
                COPPICE_CHECK(status == COPPICE_OK || status == COPPICE_ERR_ROOT_FAILED);
                if (status == COPPICE_OK) COPPICE_CHECK(value == root + 7);
            }
            member.leave();
        });
        ASSERT_TRUE(job.await_note(0, job.ranks()));
        for (std::uint32_t rank = 1; rank <= 4; ++rank)
            job.kill(rank, true);
        job.note(1).store(1);
        EXPECT_EQ(job.finish([](std::uint32_t rank) { return rank >= 1 && rank <= 4; }), "") << is_early;
    }
}

// What those knew that leave is not lost with them: they wait for the two, which compute meanwhile and have no thread that would ask for it.
TEST_P(FewAddresses, TwoThatDidNotKnowEachOtherGoOnWhenAllOthersHaveLeft) {
    const std::uint32_t other = GetParam().hosts == 1 ? 3 : 7;
    // Whom the two do not know can't tell them that it never voted.
    JobOptions options = this->job({{"COPPICE_QUORUM", "any"}});
    for (const std::uint32_t rank : {0U, other})
        options.of_rank[rank] = {{"COPPICE_PROGRESS_THREAD", "0"}};
    Job job(options, [other](Member& member) {
        COPPICE_CHECK(member.join() == COPPICE_OK);
        if (member.rank != 0 && member.rank != other) {
            member.notes[1].fetch_add(1);
            COPPICE_CHECK(coppice_group_destroy(member.group, kDeadlineNs) == COPPICE_OK);
            member.group = nullptr;
            member.notes[0].fetch_add(1);
            return;
        }
        member.await_note(1, member.ranks - 2);
        member.await("the others to leave", [&] {
            (void)coppice_progress(member.context);
            return member.notes[0].load() == member.ranks - 2;
        });
        std::uint64_t word = 1;
        (void)coppice_agree(member.group, &word, sizeof word, nullptr, kDeadlineNs);
        shrink(member);
        COPPICE_CHECK(info_of(member).size == 2);
        for (const std::uint32_t root : {0U, 1U}) {
            std::uint64_t value = info_of(member).rank == root ? root + 7 : 0;
            COPPICE_CHECK(coppice_broadcast(member.group, &value, sizeof value, root, nullptr, kDeadlineNs) ==
                          COPPICE_OK);
            COPPICE_CHECK(value == root + 7);
        }
        member.leave();
    });
    EXPECT_EQ(job.finish(), "");
}

// Nobody is taken for silent because nobody knows its address yet.
TEST_P(FewAddresses, TheBoundOfSilenceIsKept) {
    Job job(this->job({{"COPPICE_DETECTION_BOUND", "2s"}}), [](Member& member) {
        COPPICE_CHECK(member.join() == COPPICE_OK);
        member.notes[0].fetch_add(1);
        if (member.rank == 2 || member.rank == 3) member.await("the end", [] { return false; });
        member.await_failed(2);
        shrink(member);
        COPPICE_CHECK(info_of(member).size == member.ranks - 2);
        member.leave();
    });
    ASSERT_TRUE(job.await_note(0, job.ranks()));
    job.kill(2, true);
    job.kill(3, true);
    EXPECT_EQ(job.finish([](std::uint32_t rank) { return rank == 2 || rank == 3; }), "");
}

}  // namespace
}  // namespace coppice::testing
