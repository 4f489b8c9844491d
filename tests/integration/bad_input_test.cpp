// What may go wrong between ranks before anybody dies: peers that differ, garbage, ranks that do not come, limits of
// the system. Each is a status and a sentence that names the rank and the remedy, and nothing hangs.
#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string_view>

#include "engine/wire/wire.hpp"
#include "integration/job.hpp"

namespace coppice::testing {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

constexpr int kCannotBeTried = 77;

// Ends the rank unless its last call failed with `expected` and a sentence with all of `words`.
void check_error(coppice_status_t is, coppice_status_t expected, const std::vector<std::string>& words) {
    const std::string sentence = coppice_last_error();
    if (is != expected) {
        throw CheckFailed("status " + std::to_string(is) + " instead of " + std::to_string(expected) + ": " + sentence);
    }
    for (const std::string& word : words) {
        if (sentence.find(word) == std::string::npos) throw CheckFailed("no \"" + word + "\" in: " + sentence);
    }
}

// A group that could not be made leaves a context that can be destroyed.
void check_refused(Member& member, coppice_status_t expected, const std::vector<std::string>& words) {
    check_error(member.join(), expected, words);
    COPPICE_CHECK(member.group == nullptr);
    COPPICE_CHECK(coppice_context_destroy(member.context) == COPPICE_OK);
}

void check_broadcast(Member& member, std::uint64_t number, std::uint32_t root, std::size_t bytes = 100) {
    const auto expected = payload_of(number, root, bytes);
    std::vector<unsigned char> buffer(bytes);
    if (member.rank == root) buffer = expected;
    const coppice_status_t status =
        coppice_broadcast(member.group, buffer.data(), buffer.size(), root, nullptr, kDeadlineNs);
    if (status != COPPICE_OK) throw CheckFailed(coppice_last_error());
    COPPICE_CHECK(buffer == expected);
}

bool has(const std::vector<char>& piece, std::string_view text) {
    return std::string_view(piece.data(), piece.size()).find(text) != std::string_view::npos;
}

// ------------------------------------------------------------------------------------------------- peers that differ

// A call of the exchange begins a piece: 512 bytes, of which the first ones are a header.
constexpr std::size_t kOpening = 512;
constexpr std::size_t kHeader = 32;

// What this version and the next one greet with, and what a peer of 32 bits would.
const std::string kThis = fmt::format("coppice {}", engine::kWireVersion);
const std::string kNext = fmt::format("coppice {}", engine::kWireVersion + 1);
const std::string kGreeting = kThis + " 64-bit little-endian";

// A job in which rank 2's greeting has `now` where it had `before`, of the same length.
JobOptions with_greeting(std::string before, std::string now) {
    JobOptions options{.ranks = 3};
    options.tamper = [=](std::uint32_t rank, std::vector<char>& piece) {
        if (rank != 2) return;
        const auto at = std::ranges::search(piece, before);
        if (!at.empty()) std::ranges::copy(now, at.begin());
    };
    return options;
}

TEST(Peers, OfAnotherVersionAreNamedToAll) {
    Job job(with_greeting(kGreeting, kNext + " 64-bit little-endian"), [](Member& member) {
        check_refused(member, COPPICE_ERR_MISMATCH, {"rank 2", kNext, kThis, "install one version"});
    });
    EXPECT_EQ(job.finish(), "");
}

TEST(Peers, OfAnotherWordSizeAreNamedToAll) {
    Job job(with_greeting(kGreeting, kThis + " 32-bit little-endian"), [](Member& member) {
        check_refused(member, COPPICE_ERR_MISMATCH, {"rank 2", "32-bit", "64-bit"});
    });
    EXPECT_EQ(job.finish(), "");
}

TEST(Peers, OfAnotherByteOrderAreNamedToAll) {
    Job job(with_greeting("little-endian", "big-endian\nxx"), [](Member& member) {
        check_refused(member, COPPICE_ERR_MISMATCH, {"rank 2", "big-endian", "little-endian"});
    });
    EXPECT_EQ(job.finish(), "");
}

TEST(Peers, OfAnotherWordSizeAreSeenInTheFirstWordsOfTheExchangeToo) {
    JobOptions options{.ranks = 3};
    options.tamper = [](std::uint32_t rank, std::vector<char>& piece) {
        const std::uint32_t four = 4;  // the third word of a header: the size of a pointer
        if (rank == 1 && piece.size() == kOpening) std::memcpy(piece.data() + 8, &four, sizeof four);
    };
    Job job(options, [](Member& member) {
        check_refused(member, COPPICE_ERR_MISMATCH, {"rank 1", "4-byte", "8-byte"});
    });
    EXPECT_EQ(job.finish(), "");
}

TEST(Peers, ThatSendGarbageForAGreetingAreNamedToAll) {
    const std::vector<std::string> garbages{"x", "\n", "\xff\xfe\n\n", "coppice", "\r\n\t %s%n{}\x1b[2J"};
    for (const std::string& garbage : garbages) {
        JobOptions options{.ranks = 3};
        options.tamper = [&](std::uint32_t rank, std::vector<char>& piece) {
            if (rank != 1 || !has(piece, kGreeting)) return;
            for (std::size_t i = kHeader; i < piece.size(); ++i)
                piece[i] = garbage[(i - kHeader) % garbage.size()];
        };
        Job job(options, [](Member& member) {
            check_refused(member, COPPICE_ERR_MISMATCH, {"rank 1"});
            // What a stranger sent is shown to people, on terminals perhaps.
            const std::string sentence = coppice_last_error();
            COPPICE_CHECK(std::ranges::none_of(sentence, [](unsigned char c) { return c < ' ' || c == 0x7f; }));
            COPPICE_CHECK(sentence.size() < 1000);
        });
        EXPECT_EQ(job.finish(), "") << ::testing::PrintToString(garbage);
    }
}

struct Difference {
    const char* variable;
    const char* one;
    const char* other;
};

TEST(Peers, WithOtherSettingsAreNamedWithBoth) {
    const std::vector<Difference> differences{
        {"COPPICE_TREE", "kary:3", "lame:2"},  {"COPPICE_CORRECTION", "checked", "optimized:3"},
        {"COPPICE_HIERARCHY", "host", "flat"}, {"COPPICE_WINDOW", "32", "64"},
        {"COPPICE_EAGER", "6000", "4000"},     {"COPPICE_TRANSPORT", "shm,ucx", "shm"}};
    for (const Difference& difference : differences) {
        JobOptions options{.ranks = 4};
        options.environment = {{difference.variable, difference.one}};
        options.of_rank[2] = {{difference.variable, difference.other}};
        Job job(options, [&](Member& member) {
            // The odd one out sees that it differs from the first of the others.
            const std::string named = member.rank == 2 ? "rank 0 has" : "rank 2 has";
            check_refused(
                member, COPPICE_ERR_MISMATCH,
                {named, "this rank " + std::to_string(member.rank), difference.one, difference.other, "same options"});
        });
        EXPECT_EQ(job.finish(), "") << difference.variable;
    }
}

// Hardware that differs is no difference of settings: each pair has a transport that both have.
TEST(Peers, WithOtherHardwareMakeAGroupAllTheSame) {
    JobOptions options{.ranks = 4, .hosts = 4};
    options.tamper = [](std::uint32_t rank, std::vector<char>& piece) {
        const std::string_view plain = "\ntcp\n";
        const auto found = std::search(piece.begin(), piece.end(), plain.begin(), plain.end());
        if (rank == 2 && found != piece.end() && found != piece.begin()) std::copy_n("\nucx\n", 5, found);
    };
    Job job(options, [](Member& member) {
        COPPICE_CHECK(member.join() == COPPICE_OK);
        std::uint64_t value = member.rank;
        std::size_t received = 0;
        COPPICE_CHECK(coppice_broadcast(member.group, &value, sizeof value, 2, &received, kDeadlineNs) == COPPICE_OK);
        COPPICE_CHECK(value == 2);
        member.leave();
    });
    EXPECT_EQ(job.finish(), "");
}

// ------------------------------------------------------------------------------------------- addresses that are none

// Overwrites what every rank says of how it is reached, from `from` bytes behind the transport's name on.
JobOptions with_addresses(const char* transport, std::size_t from, const std::string& garbage) {
    JobOptions options{.ranks = 2};
    options.environment = {{"COPPICE_TRANSPORT", transport}};
    options.tamper = [=](std::uint32_t, std::vector<char>& piece) {
        const std::string name = std::string(transport) + "\n";
        if (piece.size() != kOpening || !std::equal(name.begin(), name.end(), piece.begin() + kHeader)) return;
        for (std::size_t i = from; i < kOpening - kHeader; ++i)
            piece[kHeader + i] = garbage[i % garbage.size()];
    };
    return options;
}

TEST(Addresses, OfGarbageAreNamedWithTheirRank) {
    for (const char* transport : {"shm", "ucx", "tcp"}) {
        // All of it; all but the name; all but name and length; all but the transport's own first words.
        for (const std::size_t from : {0U, 4U, 8U, 16U, 40U}) {
            for (const std::string& garbage :
                 {std::string(1, '\0'), std::string("\xff"), std::string("\n"), std::string("xyz")}) {
                Job job(with_addresses(transport, from, garbage), [](Member& member) {
                    check_refused(member, COPPICE_ERR_MISMATCH, {"rank " + std::to_string(1 - member.rank)});
                });
                EXPECT_EQ(job.finish(), "") << transport << " from byte " << from;
            }
        }
    }
}

TEST(Addresses, OnHostsThatNoAllowedTransportConnectsNameTheRemedy) {
    for (const std::uint32_t hosts : {2U, 4U}) {
        JobOptions options{.ranks = 4, .hosts = hosts};
        options.environment = {{"COPPICE_TRANSPORT", "shm"}};
        Job job(options, [](Member& member) {
            check_refused(member, COPPICE_ERR_NO_TRANSPORT, {"rank ", "host", "(shm)", "ucx", "COPPICE_TRANSPORT"});
        });
        EXPECT_EQ(job.finish(), "") << hosts << " hosts";
    }
}

// ------------------------------------------------------------------------------------------- ranks that do not come

// A command with pipes at its standard input and output.
class Command {
  public:
    Command(Processes& processes, const std::vector<std::string>& words) {
        int in[2] = {};
        int out[2] = {};
        if (pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0) throw std::runtime_error("pipe");
        index_ = processes.start([&] {
            dup2(in[0], STDIN_FILENO);
            dup2(out[1], STDOUT_FILENO);
            std::vector<char*> arguments;
            for (const std::string& word : words)
                arguments.push_back(const_cast<char*>(word.c_str()));
            arguments.push_back(nullptr);
            execv(arguments[0], arguments.data());
            return 127;
        });
        close(in[0]);
        close(out[1]);
        input_ = in[1];
        output_ = out[0];
    }
    Command(const Command&) = delete;
    Command& operator=(const Command&) = delete;
    ~Command() {
        close_input();
        close(output_);
    }
    void close_input() {
        if (input_ >= 0) close(input_);
        input_ = -1;
    }
    // The next line; "" at the end.
    std::string line() {
        std::string text;
        char byte = 0;
        while (read(output_, &byte, 1) == 1 && byte != '\n')
            text += byte;
        return text;
    }
    std::size_t index() const { return index_; }

  private:
    std::size_t index_ = 0;
    int input_ = -1;
    int output_ = -1;
};

TEST(Start, ARankThatNeverShowsUpIsNamedAtTheDeadline) {
    Processes processes;
    setenv("COPPICE_START_TIMEOUT", "2s", 1);
    Command command(processes, {COPPICE_RUN, "-n", "3", LATE_RANK});
    unsetenv("COPPICE_START_TIMEOUT");
    for (int i = 0; i < 2; ++i) {  // rank 0 stays as long as its input does
        const std::string line = command.line();
        EXPECT_THAT(line, AnyOf(HasSubstr("1 " + std::to_string(COPPICE_ERR_BOOTSTRAP)),
                                HasSubstr("2 " + std::to_string(COPPICE_ERR_BOOTSTRAP))));
        // The second one may find that the first has given up and left.
        EXPECT_THAT(line, AnyOf(HasSubstr("missing: rank 0"), HasSubstr("has left the exchange")));
        if (i == 0) {
            EXPECT_THAT(line, HasSubstr("missing: rank 0"));
        }
    }
    command.close_input();
    EXPECT_TRUE(processes.wait(command.index()).well());
}

// ---------------------------------------------------------------------------------------------- roots that differ ---

struct Layout {
    const char* name;
    std::uint32_t hosts;
    std::map<std::string, std::string> environment;
};

class DifferentRoots : public ::testing::TestWithParam<Layout> {};
INSTANTIATE_TEST_SUITE_P(
    Layouts, DifferentRoots,
    ::testing::Values(Layout{"one_host", 1, {}}, Layout{"flat", 1, {{"COPPICE_HIERARCHY", "flat"}}},
                      Layout{"flat_checked", 1, {{"COPPICE_HIERARCHY", "flat"}, {"COPPICE_CORRECTION", "checked"}}},
                      Layout{"two_hosts", 2, {}}, Layout{"two_hosts_checked", 2, {{"COPPICE_CORRECTION", "checked"}}},
                      Layout{"a_rank_a_host", 4, {}}),
    [](const auto& layout) { return std::string(layout.param.name); });

// A rank that names another root than the others learns of it, whatever the two roots; the others have their payload,
// and the next broadcasts are as if nothing had been.
TEST_P(DifferentRoots, AreToldToARankThatIsAloneWithItsOwnAndTheGroupGoesOn) {
    JobOptions options{.ranks = 4, .hosts = GetParam().hosts};
    options.environment = GetParam().environment;
    for (std::uint32_t odd = 0; odd < 4; ++odd) {
        Job job(options, [odd](Member& member) {
            COPPICE_CHECK(member.join() == COPPICE_OK);
            std::uint64_t number = 0;
            for (std::uint32_t right = 0; right < 4; ++right) {
                for (std::uint32_t wrong = 0; wrong < 4; ++wrong) {
                    if (right == wrong || odd == right || odd == wrong) continue;
                    if (member.rank == odd) {
                        char byte = 0;
                        check_error(coppice_broadcast(member.group, &byte, 1, wrong, nullptr, kDeadlineNs),
                                    COPPICE_ERR_MISMATCH,
                                    {"root " + std::to_string(right), "root " + std::to_string(wrong)});
                        ++number;
                    } else {
                        check_broadcast(member, number++, right);
                    }
                    for (int i = 0; i < 40; ++i, ++number)
                        check_broadcast(member, number, static_cast<std::uint32_t>(number % 4));
                }
            }
            COPPICE_CHECK(member.failed().empty());
            member.leave();
        });
        EXPECT_EQ(job.finish(), "") << "rank " << odd;
    }
}

// ------------------------------------------------------------------------------------------------ limits of the system

void limit(int resource, rlim_t soft) {
    rlimit now{};
    COPPICE_CHECK(getrlimit(static_cast<__rlimit_resource>(resource), &now) == 0);
    now.rlim_cur = std::min(soft, now.rlim_max);
    COPPICE_CHECK(setrlimit(static_cast<__rlimit_resource>(resource), &now) == 0);
}

// A job whose ranks may open so many descriptors more than they have. Says how often groups could be made.
int join_with_descriptors(const char* transport, rlim_t more) {
    JobOptions options{.ranks = 2};
    options.environment = {{"COPPICE_TRANSPORT", transport}};
    constexpr std::size_t kJoined = 0;
    Job job(options, [=](Member& member) {
        rlimit before{};
        COPPICE_CHECK(getrlimit(RLIMIT_NOFILE, &before) == 0);
        // The limit is on the numbers of descriptors: inherited ones with high numbers would leave gaps.
        COPPICE_CHECK(close_range(3, ~0U, 0) == 0);
        const std::size_t held = open_descriptors() - 1;  // but for the one with which they are counted
        limit(RLIMIT_NOFILE, held + more);
        const coppice_status_t status = member.join();
        if (status == COPPICE_OK) {
            member.notes[kJoined].fetch_add(1);
            for (std::uint64_t number = 0; number < 10; ++number)
                check_broadcast(member, number, static_cast<std::uint32_t>(number % 2));
            member.leave();
            return;
        }
        check_error(status, COPPICE_ERR_NO_RESOURCES, {"ulimit -n", std::to_string(held + more)});
        COPPICE_CHECK(coppice_context_destroy(member.context) == COPPICE_OK);
        COPPICE_CHECK(setrlimit(RLIMIT_NOFILE, &before) == 0);
        COPPICE_CHECK(open_descriptors() - 1 == held);
    });
    EXPECT_EQ(job.finish(), "") << transport << ", " << more << " more descriptors";
    return static_cast<int>(job.note(kJoined).load());
}

TEST(Limits, TooFewDescriptorsAreAnErrorThatNamesTheLimit) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "sanitizers need descriptors of their own to look at objects";
#endif
    for (const char* transport : {"shm", "ucx", "tcp"}) {
        int joined = 0;
        for (const rlim_t more : {0U, 1U, 2U, 3U, 4U, 5U, 6U, 8U, 12U, 16U, 20U, 24U, 28U, 32U, 40U, 64U, 100U}) {
            joined = join_with_descriptors(transport, more);
            if (more == 0) {
                EXPECT_EQ(joined, 0) << transport;
            }
        }
        EXPECT_EQ(joined, 2) << transport << ": a hundred are enough";
    }
}

TEST(Limits, SegmentsAboveTheLimitOfFileSizesAreAnErrorThatNamesIt) {
    JobOptions options{.ranks = 2};
    options.environment = {{"COPPICE_TRANSPORT", "shm"}};
    Job job(options, [](Member& member) {
        rlimit before{};
        COPPICE_CHECK(getrlimit(RLIMIT_FSIZE, &before) == 0);
        limit(RLIMIT_FSIZE, 64 * 1024);
        const coppice_status_t status = member.join();
        COPPICE_CHECK(setrlimit(RLIMIT_FSIZE, &before) == 0);  // or the sentence could not be written to a log
        check_error(status, COPPICE_ERR_NO_RESOURCES, {"RLIMIT_FSIZE", "65536", "ulimit -f"});
        COPPICE_CHECK(coppice_context_destroy(member.context) == COPPICE_OK);
    });
    EXPECT_EQ(job.finish(), "");
}

// A /dev/shm of this process's own on which not a byte is free. False when this system does not let us.
bool fill_dev_shm() {
    if (unshare(CLONE_NEWNS) != 0 || mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        mount("tmpfs", "/dev/shm", "tmpfs", 0, "size=4096") != 0) {
        return false;
    }
    const int file = open("/dev/shm/full", O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    COPPICE_CHECK(file >= 0);
    const std::vector<char> page(4096, 'x');
    while (write(file, page.data(), page.size()) > 0) {
    }
    COPPICE_CHECK(errno == ENOSPC);
    close(file);
    return true;
}

TEST(Limits, AFullDevShmDoesNotMatter) {
    Processes trial;
    const std::size_t index = trial.start([] { return fill_dev_shm() ? 0 : kCannotBeTried; });
    if (const Ending ending = trial.wait(index); !ending.well()) {
        GTEST_SKIP() << "a mount namespace cannot be made here (" << ending.text() << "): run as root to try it";
    }
    for (const std::uint32_t hosts : {1U, 2U}) {
        JobOptions options{.ranks = 4, .hosts = hosts};
        Job job(options, [](Member& member) {
            COPPICE_CHECK(fill_dev_shm());
            if (member.join() != COPPICE_OK) throw CheckFailed(coppice_last_error());
            for (std::uint64_t number = 0; number < 100; ++number)
                check_broadcast(member, number, static_cast<std::uint32_t>(number % 4),
                                number % 10 == 0 ? std::size_t{300'000} : std::size_t{100});
            member.leave();
        });
        EXPECT_EQ(job.finish(), "") << hosts << " hosts";
    }
}

}  // namespace
}  // namespace coppice::testing
