// A program whose launcher is the witness of its ranks' ends: each rank has a line to it, of which the end is the process's.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "integration/lineage.hpp"

namespace coppice::testing {
namespace {

constexpr std::uint32_t kMostRanks = 8;

struct Letter {
    enum Kind : std::uint32_t { tell, ended, forget } kind;
    std::uint32_t rank;
    std::uint64_t group;
    std::uint64_t bytes;  // in the answer to `ended`: UINT64_MAX, where nothing is known
    char words[COPPICE_WITNESS_BYTES];
};

// The launcher's side, in a thread of its own.
class OwnWitness {
  public:
    explicit OwnWitness(std::uint32_t ranks) : lines_(ranks) {
        for (auto& line : lines_)
            EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, line.data()), 0);
    }
    // What the launcher holds of the ranks' ends would keep them open.
    void begin() {
        for (auto& line : lines_)
            close(std::exchange(line[1], -1));
        thread_ = std::jthread([this](const std::stop_token& stop) { serve(stop); });
    }
    ~OwnWitness() {
        thread_ = {};
        for (const auto& line : lines_)
            for (const int end : line)
                if (end >= 0) close(end);
    }
    OwnWitness(const OwnWitness&) = delete;

    // A rank's side, in its process: all ends but its own are closed.
    int line_of(std::uint32_t rank) const {
        for (std::uint32_t other = 0; other < lines_.size(); ++other) {
            close(lines_[other][0]);
            if (other != rank) close(lines_[other][1]);
        }
        return lines_[rank][1];
    }
    // So many of a rank's questions it leaves open.
    void be_silent(std::uint32_t to, std::uint64_t questions) { silence_[to] = questions; }

  private:
    struct Name {
        std::uint32_t teller;
        std::string words;
    };

    void serve(const std::stop_token& stop) {
        std::vector<pollfd> waiting;
        for (const auto& line : lines_)
            waiting.push_back({.fd = line[0], .events = POLLIN, .revents = 0});
        while (!stop.stop_requested()) {
            if (::poll(waiting.data(), waiting.size(), 20) <= 0) continue;
            for (std::uint32_t rank = 0; rank < waiting.size(); ++rank)
                if (waiting[rank].revents != 0 && !answer(rank)) waiting[rank].fd = -1;
        }
    }
    bool answer(std::uint32_t teller) {
        Letter letter{};
        const int line = lines_[teller][0];
        if (::recv(line, &letter, sizeof letter, 0) <= 0) {
            has_ended_[teller] = true;
            return false;
        }
        const auto name = std::pair(letter.group, letter.rank);
        switch (letter.kind) {
            case Letter::tell:
                names_[name] = {teller, std::string(letter.words, letter.bytes)};
                break;
            case Letter::forget:
                names_.erase(name);
                return true;
            case Letter::ended: {
                const auto found = names_.find(name);
                letter.bytes = UINT64_MAX;
                if (found == names_.end() || !has_ended_[found->second.teller]) break;
                if (silence_[teller] > 0) {
                    --silence_[teller];
                    break;
                }
                letter.bytes = found->second.words.size();
                std::ranges::copy(found->second.words, letter.words);
            }
        }
        (void)::send(line, &letter, sizeof letter,
                     MSG_NOSIGNAL);  // if nobody is there any more, the line's end is still to be read
        return true;
    }

    std::vector<std::array<int, 2>> lines_;
    std::map<std::pair<std::uint64_t, std::uint32_t>, Name> names_;
    std::array<bool, kMostRanks> has_ended_{};
    std::array<std::uint64_t, kMostRanks> silence_{};
    std::jthread thread_;
};

// The rank's functions. The library calls them one at a time for what is made by one coppice_group_create.
struct Line {
    int socket = -1;
    const std::atomic<std::uint64_t>* refuses = nullptr;

    bool ask(Letter& letter) const {
        return ::send(socket, &letter, sizeof letter, MSG_NOSIGNAL) == sizeof letter &&
               ::recv(socket, &letter, sizeof letter, 0) == sizeof letter;
    }
    static int tell(void* argument, std::uint64_t group, std::uint32_t rank, const void* words, std::size_t bytes) {
        const Line& line = *static_cast<Line*>(argument);
        if (line.refuses != nullptr && line.refuses->load() != 0 && bytes > 0) return EIO;
        Letter letter{.kind = Letter::tell, .rank = rank, .group = group, .bytes = bytes, .words = {}};
        if (bytes > 0) std::memcpy(letter.words, words, bytes);
        return line.ask(letter) ? 0 : EPIPE;
    }
    static int ended(void* argument, std::uint64_t group, std::uint32_t rank, void* words, std::size_t* bytes) {
        Letter letter{.kind = Letter::ended, .rank = rank, .group = group, .bytes = 0, .words = {}};
        if (!static_cast<Line*>(argument)->ask(letter) || letter.bytes == UINT64_MAX) return 0;
        *bytes = letter.bytes;
        std::memcpy(words, letter.words, letter.bytes);
        return 1;
    }
    static void forget(void* argument, std::uint64_t group, std::uint32_t rank) {
        const Letter letter{.kind = Letter::forget, .rank = rank, .group = group, .bytes = 0, .words = {}};
        (void)::send(static_cast<Line*>(argument)->socket, &letter, sizeof letter, MSG_NOSIGNAL);
    }
};

// In the member's process, as long as that lives.
coppice_group_options_t options_with(const OwnWitness& witness, const Member& member,
                                     const std::atomic<std::uint64_t>* refuses = nullptr) {
    static Line line;
    line = {witness.line_of(member.rank), refuses};
    static coppice_witness_t functions = COPPICE_WITNESS_INIT;
    functions.tell = Line::tell;
    functions.ended = Line::ended;
    functions.forget = Line::forget;
    functions.argument = &line;
    coppice_group_options_t options = COPPICE_GROUP_OPTIONS_INIT;
    options.witness = &functions;
    return options;
}

JobOptions rank_a_host(std::uint32_t ranks, std::uint32_t hosts) {
    JobOptions options;
    options.ranks = ranks;
    options.hosts = hosts;
    options.is_witnessed = false;
    options.environment["COPPICE_QUORUM"] = "certain";
    return options;
}

void wait_to_be_killed() {
    while (true)
        pause();
}

struct Case {
    const char* name;
    std::uint32_t ranks;
    std::uint32_t hosts;
    std::vector<std::uint32_t> victims;
    friend void PrintTo(const Case& one, std::ostream* out) { *out << one.name; }
};

class OwnWitnessed : public ::testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(Quorum, OwnWitnessed,
                         ::testing::Values(Case{"one_of_two", 2, 2, {0}},
                                           Case{"two_of_three_hosts", 6, 3, {0, 1, 2, 3}},
                                           Case{"all_but_one", 4, 4, {0, 1, 2}}),
                         [](const auto& one) { return std::string(one.param.name); });

// One death after the other in the groups that are made from the first, too.
TEST_P(OwnWitnessed, HostsThatAreLostCostNoQuorum) {
    const Case& given = GetParam();
    const auto is_victim = [&given](std::uint32_t rank) { return std::ranges::count(given.victims, rank) > 0; };
    OwnWitness witness(given.ranks);
    Job job(rank_a_host(given.ranks, given.hosts), [&](Member& member) {
        COPPICE_CHECK(member.join(options_with(witness, member)) == COPPICE_OK);
        Lineage lineage = Lineage::begin(member);
        work(lineage, member);
        member.notes[0].fetch_add(1);
        if (is_victim(member.rank)) wait_to_be_killed();
        lineage = shrink_until_gone(lineage, member, given.victims);
        work(lineage, member);
        leave(member, lineage);
    });
    witness.begin();
    EXPECT_TRUE(job.await_note(0, given.ranks));
    for (const std::uint32_t victim : given.victims)
        job.kill(victim, true);
    EXPECT_EQ(job.finish(is_victim), "");
}

TEST(OwnWitness, OneThatKnowsNothingIsNotWaitedForForLong) {
    OwnWitness witness(2);
    witness.be_silent(1, UINT64_MAX);
    Job job(rank_a_host(2, 2), [&](Member& member) {
        COPPICE_CHECK(member.join(options_with(witness, member)) == COPPICE_OK);
        work(Lineage::begin(member), member);
        member.notes[0].fetch_add(1);
        if (member.rank == 0) wait_to_be_killed();
        coppice_group_t* next = nullptr;
        COPPICE_CHECK(coppice_group_shrink(member.group, &next, kTimeout) == COPPICE_ERR_NO_QUORUM);
        COPPICE_CHECK(coppice_group_destroy(member.group, kTimeout) == COPPICE_OK);
    });
    witness.begin();
    EXPECT_TRUE(job.await_note(0, 2));
    job.kill(0, true);
    EXPECT_EQ(job.finish([](std::uint32_t rank) { return rank == 0; }), "");
}

// The root of a renewal is told of deaths by a rank to which the witness has said nothing.
TEST(OwnWitness, OneThatTellsTheRootLateIsWaitedFor) {
    constexpr std::uint32_t kRoot = 2;
    constexpr std::uint32_t kOther = 3;
    OwnWitness witness(4);
    witness.be_silent(kOther, UINT64_MAX);
    witness.be_silent(kRoot, 40);
    const auto is_victim = [](std::uint32_t rank) { return rank < kRoot; };
    Job job(rank_a_host(4, 4), [&](Member& member) {
        COPPICE_CHECK(member.join(options_with(witness, member)) == COPPICE_OK);
        work(Lineage::begin(member), member);
        member.notes[0].fetch_add(1);
        if (is_victim(member.rank)) wait_to_be_killed();
        coppice_group_t* next = nullptr;
        if (member.rank == kOther) {
            coppice_request_t* request = nullptr;
            COPPICE_CHECK(coppice_group_shrink_nb(member.group, &next, &request) == COPPICE_OK);
            member.await_failed(kRoot);
            member.notes[1].store(1);
            while (coppice_request_wait(request, nullptr, kTimeout) == COPPICE_ERR_NO_QUORUM) {
                COPPICE_CHECK(member.notes[2].load() == 0);
                COPPICE_CHECK(coppice_request_free(request) == COPPICE_OK);
                COPPICE_CHECK(coppice_group_shrink_nb(member.group, &next, &request) == COPPICE_OK);
            }
            COPPICE_CHECK(coppice_request_free(request) == COPPICE_OK);
        } else if (coppice_group_shrink(member.group, &next, kTimeout) != COPPICE_OK) {
            member.notes[2].store(1);  // the other need not try again
            throw CheckFailed(coppice_last_error());
        }
        COPPICE_CHECK(info_of(next).size == 2);
        COPPICE_CHECK(coppice_group_destroy(next, kTimeout) == COPPICE_OK);
        COPPICE_CHECK(coppice_group_destroy(member.group, kTimeout) == COPPICE_OK);
    });
    witness.begin();
    EXPECT_TRUE(job.await_note(0, 4));
    job.processes().signal(kRoot, SIGSTOP);
    for (std::uint32_t victim = 0; victim < kRoot; ++victim)
        job.kill(victim, true);
    EXPECT_TRUE(job.await_note(1, 1));
    job.processes().signal(kRoot, SIGCONT);
    EXPECT_EQ(job.finish(is_victim), "");
}

// Else a vote would be counted that is forgotten when its voter dies.
TEST(OwnWitness, WhatItDoesNotKeepIsToldToNobody) {
    constexpr std::uint32_t kRefuses = 1;
    OwnWitness witness(3);
    Job job(rank_a_host(3, 3), [&](Member& member) {
        COPPICE_CHECK(member.join(options_with(witness, member,
                                               member.rank == 1 ? &member.notes[kRefuses] : nullptr)) == COPPICE_OK);
        work(Lineage::begin(member), member);
        member.notes[0].fetch_add(1);
        if (member.rank == 0) wait_to_be_killed();
        member.await_failed(1);
        coppice_group_t* next = nullptr;
        constexpr std::uint64_t kShort = 300'000'000;
        coppice_request_t* request = nullptr;
        COPPICE_CHECK(coppice_group_shrink_nb(member.group, &next, &request) == COPPICE_OK);
        COPPICE_CHECK(coppice_request_wait(request, nullptr, kShort) == COPPICE_ERR_TIMEOUT);
        member.notes[2].fetch_add(1);
        member.await_note(2, 2);
        member.notes[kRefuses] = 0;
        COPPICE_CHECK(coppice_request_wait(request, nullptr, kTimeout) == COPPICE_OK);
        COPPICE_CHECK(coppice_request_free(request) == COPPICE_OK);
        COPPICE_CHECK(coppice_group_destroy(next, kTimeout) == COPPICE_OK);
        COPPICE_CHECK(coppice_group_destroy(member.group, kTimeout) == COPPICE_OK);
    });
    witness.begin();
    job.note(kRefuses) = 1;
    EXPECT_TRUE(job.await_note(0, 3));
    job.kill(0, true);
    EXPECT_EQ(job.finish([](std::uint32_t rank) { return rank == 0; }), "");
}

// The name was kept, and the answer lost: what the rank votes has to be kept as well.
TEST(OwnWitness, ANameThatMayBeKeptIsFollowedByWhatItsProcessVotes) {
    static std::atomic<int> votes = 0;
    Processes processes;
    processes.start([] {
        setenv("COPPICE_QUORUM", "certain", 1);
        coppice_context_t* context = nullptr;
        COPPICE_CHECK(coppice_context_create(nullptr, &context) == COPPICE_OK);
        coppice_witness_t witness = COPPICE_WITNESS_INIT;
        witness.tell = [](void*, std::uint64_t, std::uint32_t, const void*, std::size_t bytes) {
            votes += bytes > 0 ? 1 : 0;
            return bytes > 0 ? 0 : EIO;
        };
        witness.ended = [](void*, std::uint64_t, std::uint32_t, void*, std::size_t*) { return 0; };
        coppice_group_options_t options = COPPICE_GROUP_OPTIONS_INIT;
        options.size = 1;
        options.witness = &witness;
        options.exchange = [](void*, const void* mine, std::size_t bytes, void* all) {
            std::memcpy(all, mine, bytes);
            return 0;
        };
        coppice_group_t* group = nullptr;
        COPPICE_CHECK(coppice_group_create(context, &options, &group) == COPPICE_OK);
        coppice_group_t* next = nullptr;
        COPPICE_CHECK(coppice_group_shrink(group, &next, kTimeout) == COPPICE_OK);
        COPPICE_CHECK(votes > 0);
        COPPICE_CHECK(coppice_group_destroy(next, kTimeout) == COPPICE_OK);
        COPPICE_CHECK(coppice_group_destroy(group, kTimeout) == COPPICE_OK);
        COPPICE_CHECK(coppice_context_destroy(context) == COPPICE_OK);
        return 0;
    });
    EXPECT_TRUE(processes.wait(0).well());
}

TEST(OwnWitness, OneWithoutItsFunctionsIsRefused) {
    Processes processes;
    processes.start([] {
        coppice_context_t* context = nullptr;
        COPPICE_CHECK(coppice_context_create(nullptr, &context) == COPPICE_OK);
        const coppice_witness_t witness = COPPICE_WITNESS_INIT;
        coppice_group_options_t options = COPPICE_GROUP_OPTIONS_INIT;
        options.size = 1;
        options.witness = &witness;
        coppice_group_t* group = nullptr;
        COPPICE_CHECK(coppice_group_create(context, &options, &group) == COPPICE_ERR_INVALID_ARGUMENT);
        COPPICE_CHECK(coppice_group_join(context, "ticket", 6, &options, &group, kTimeout) ==
                      COPPICE_ERR_INVALID_ARGUMENT);
        COPPICE_CHECK(coppice_context_destroy(context) == COPPICE_OK);
        return 0;
    });
    EXPECT_TRUE(processes.wait(0).well());
}

}  // namespace
}  // namespace coppice::testing
