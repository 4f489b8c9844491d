// The launcher as a witness: what processes have written is known once the kernel says that they have ended, and not before.
#include "bootstrap/launcher_witness.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <string>
#include <string_view>

#include "bootstrap/presence.hpp"
#include "bootstrap/witness_keeper.hpp"
#include "support/processes.hpp"

namespace coppice::bootstrap {
namespace {

using testing::becomes;
using testing::Processes;

constexpr std::uint32_t kNumbers = 3;
constexpr Witness::About kFirst{.group = 0xfeed, .rank = 1};

std::span<const std::byte> bytes_of(std::string_view text) {
    return std::as_bytes(std::span(text));
}

std::string text_of(const std::vector<std::byte>& bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

struct WitnessTest : ::testing::Test {
    WitnessTest() : keeper(WitnessKeeper::create(kNumbers)), reader(LauncherWitness::open(keeper->path(), 0)) {}

    // A process that begins when the launcher knows of it, as that number; it says when it has done `body`, and stays.
    std::size_t start(std::uint32_t number, const std::function<void(const Witness&)>& body) {
        const std::uint64_t before = words()[1];
        const std::size_t child = processes.start([&, number] {
            COPPICE_CHECK(becomes([&] { return words()[0].load() == 1; }));
            const auto own = LauncherWitness::open(keeper->path(), number);
            COPPICE_CHECK(own != nullptr);
            body(*own);
            words()[1].fetch_add(1);
            while (true)
                ::pause();
            return 0;
        });
        keeper->arrived(number, processes.pid(child));
        words()[0] = 1;
        EXPECT_TRUE(becomes([&] { return words()[1].load() > before; }));
        words()[0] = 0;
        return child;
    }
    void kill(std::size_t child) {
        processes.signal(child, SIGKILL);
        processes.wait(child);
    }
    std::optional<std::string> words_of(const Witness::About& about) const {
        const auto words = reader->last_words_of(about);
        return words ? std::optional(text_of(*words)) : std::nullopt;
    }
    std::atomic<std::uint64_t>* words() { return static_cast<std::atomic<std::uint64_t>*>(memory.get()); }

    testing::SharedMemory memory{2 * sizeof(std::atomic<std::uint64_t>)};
    std::unique_ptr<WitnessKeeper> keeper;
    std::unique_ptr<Witness> reader;
    Processes processes;
};

TEST_F(WitnessTest, WhatAProcessWroteLastIsKnownOnceItHasEnded) {
    const std::size_t child = start(1, [](const Witness& own) {
        const auto place = own.take(kFirst);
        COPPICE_CHECK(place.has_value());
        own.write(*place, bytes_of("a first vote"));
        own.write(*place, bytes_of("another"));
    });
    keeper->look();
    EXPECT_EQ(words_of(kFirst), std::nullopt);
    kill(child);
    EXPECT_EQ(words_of(kFirst), std::nullopt);  // the launcher has not spoken
    keeper->look();
    EXPECT_EQ(words_of(kFirst), "another");
    EXPECT_EQ(words_of({.group = 0xfeed, .rank = 2}), std::nullopt);
    EXPECT_EQ(words_of({.group = 0xbeef, .rank = 1}), std::nullopt);
}

TEST_F(WitnessTest, OneThatIsStoppedLives) {
    const std::size_t child = start(1, [](const Witness& own) { own.write(*own.take(kFirst), bytes_of("a vote")); });
    processes.signal(child, SIGSTOP);
    ASSERT_TRUE(becomes([&] {
        int status = 0;
        return ::waitpid(processes.pid(child), &status, WUNTRACED | WNOHANG) > 0;
    }));
    keeper->look();
    EXPECT_EQ(words_of(kFirst), std::nullopt);
}

TEST_F(WitnessTest, OneThatHasWrittenNothingHasPromisedNothing) {
    kill(start(1, [](const Witness& own) { COPPICE_CHECK(own.take(kFirst).has_value()); }));
    keeper->look();
    EXPECT_EQ(words_of(kFirst), "");
}

TEST_F(WitnessTest, OfAGroupThatItHasLeftNothingIsKnown) {
    kill(start(1, [](const Witness& own) { own.give_back(*own.take(kFirst)); }));
    keeper->look();
    EXPECT_EQ(words_of(kFirst), std::nullopt);
}

TEST_F(WitnessTest, OfMoreThanThereIsRoomForNothingIsKnown) {
    kill(start(1, [](const Witness& own) {
        const auto place = own.take(kFirst);
        own.write(*place, bytes_of("a vote"));
        own.write(*place, bytes_of(std::string(witness::kMostBytes + 1, 'x')));
    }));
    keeper->look();
    EXPECT_EQ(words_of(kFirst), std::nullopt);
}

// A shell around the program, a process that it starts: only the one that has connected writes in the name of its number.
TEST_F(WitnessTest, AProcessOfWhichTheLauncherDoesNotKnowWritesNothing) {
    start(1, [&](const Witness& own) {
        COPPICE_CHECK(own.take(kFirst).has_value());
        const auto other = LauncherWitness::open(keeper->path(), 2);
        COPPICE_CHECK(other != nullptr && !other->take(kFirst).has_value());
        Processes children;
        const std::size_t child = children.start([&own] { return own.take(kFirst).has_value() ? 1 : 0; });
        COPPICE_CHECK(children.wait(child).well());
    });
}

TEST_F(WitnessTest, OfMoreProcessesThanMayBeWatchedTheOthersHaveNoWitness) {
    keeper->watch_at_most(1);
    start(1, [](const Witness& own) { COPPICE_CHECK(own.take(kFirst).has_value()); });
    start(2, [](const Witness& own) { COPPICE_CHECK(!own.take(kFirst).has_value()); });
}

// While both live each has entries of its own, and its own end.
TEST_F(WitnessTest, TwoProcessesOfANumberAreTwo) {
    const std::size_t first =
        start(1, [](const Witness& own) { own.write(*own.take(kFirst), bytes_of("the first one's")); });
    static constexpr Witness::About kSecond{.group = 0xbeef, .rank = 1};
    const std::size_t second =
        start(1, [](const Witness& own) { own.write(*own.take(kSecond), bytes_of("the second one's")); });
    kill(second);
    keeper->look();
    EXPECT_EQ(words_of(kSecond), "the second one's");
    EXPECT_EQ(words_of(kFirst), std::nullopt);
    kill(first);
    keeper->look();
    EXPECT_EQ(words_of(kFirst), "the first one's");
}

// A rank that is started again, while others have yet to read how the one before it has voted.
TEST_F(WitnessTest, ALaterProcessLeavesWhatAnEarlierOneHasSaidWhileThereIsRoom) {
    kill(start(1, [](const Witness& own) { own.write(*own.take(kFirst), bytes_of("a vote")); }));
    keeper->look();
    start(1, [](const Witness& own) { own.write(*own.take({.group = 0xbeef, .rank = 1}), bytes_of("another one's")); });
    EXPECT_EQ(words_of(kFirst), "a vote");
}

TEST_F(WitnessTest, WhoHasUsedAllEntriesIsToldSoAndLaterProcessesTakeThoseOfTheDead) {
    const auto take_all = [](const Witness& own, std::uint64_t group) {
        for (std::uint64_t i = 0; i < witness::kEntries; ++i)
            own.write(*own.take({.group = group + i, .rank = 1}), bytes_of("a vote"));
        COPPICE_CHECK(!own.take({.group = group + witness::kEntries, .rank = 1}).has_value());
    };
    const std::size_t first = start(1, [&](const Witness& own) { take_all(own, 100); });
    kill(first);
    keeper->look();
    EXPECT_EQ(words_of({.group = 100, .rank = 1}), "a vote");
    const std::size_t next = start(1, [&](const Witness& own) { take_all(own, 200); });
    EXPECT_EQ(words_of({.group = 100, .rank = 1}), std::nullopt);
    EXPECT_EQ(words_of({.group = 200, .rank = 1}), std::nullopt);
    kill(next);
    keeper->look();
    EXPECT_EQ(words_of({.group = 207, .rank = 1}), "a vote");
}

TEST_F(WitnessTest, WhatIsNoWitnessIsNotTakenForOne) {
    EXPECT_EQ(LauncherWitness::open(keeper->path(), kNumbers), nullptr);
    EXPECT_EQ(LauncherWitness::open("/nowhere", 0), nullptr);
    EXPECT_EQ(LauncherWitness::open("/proc/self/exe", 0), nullptr);
    const auto open_one = [](unsigned seals, std::uint32_t version, std::uint32_t numbers) {
        const int file = ::memfd_create("no-witness", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        const witness::Header header{.magic = witness::kMagic, .version = version, .numbers = numbers};
        EXPECT_EQ(::ftruncate(file, static_cast<off_t>(witness::Memory::bytes_for(1))), 0);
        EXPECT_EQ(::pwrite(file, &header, sizeof header, 0), static_cast<ssize_t>(sizeof header));
        EXPECT_EQ(::fcntl(file, F_ADD_SEALS, seals), 0);
        const bool is_one = LauncherWitness::open("/proc/self/fd/" + std::to_string(file), 0) != nullptr;
        ::close(file);
        return is_one;
    };
    EXPECT_TRUE(open_one(F_SEAL_SHRINK, witness::kVersion, 1));
    EXPECT_FALSE(open_one(F_SEAL_GROW, witness::kVersion, 1));  // it could shrink under its readers
    EXPECT_FALSE(open_one(F_SEAL_SHRINK, witness::kVersion + 1, 1));
    EXPECT_FALSE(open_one(F_SEAL_SHRINK, witness::kVersion, 2));
    EXPECT_FALSE(open_one(F_SEAL_SHRINK, witness::kVersion, UINT32_MAX));
}

// A process that may be in groups by the token 7, as number 1 that nobody had before.
struct PresenceTest : WitnessTest {
    static constexpr std::uint64_t kToken = 7;
    static constexpr Presence::Who kWho{.number = 1};
    static std::shared_ptr<const Witness> shared(const Witness& witness) { return {std::shared_ptr<void>(), &witness}; }
    bool was_never_there(const Witness::About& name, std::uint32_t epoch, Presence::Who who = kWho) const {
        const Presence own(shared(*reader), kToken, {.number = 0});
        return own.was_never_there(who, name, epoch);
    }
};

TEST_F(PresenceTest, WhoEndsBeforeItHasANameHasNeverHadIt) {
    const std::size_t child = start(1, [](const Witness& own) {
        new Presence(shared(own), kToken, kWho);
        own.take(kFirst);
    });
    constexpr Witness::About kNext{.group = 0xbeef, .rank = 0};
    keeper->look();
    EXPECT_FALSE(was_never_there(kNext, 1));  // it lives
    kill(child);
    EXPECT_FALSE(was_never_there(kNext, 1));  // the launcher has not spoken
    keeper->look();
    EXPECT_TRUE(was_never_there(kNext, 1));
    EXPECT_FALSE(was_never_there(kFirst, 0));
    EXPECT_FALSE(was_never_there(kNext, 1, {.number = 1, .incarnation = 1}));
    EXPECT_FALSE(was_never_there(kNext, 1, {.number = 2}));
}

// A name of which more was said than is kept is one that it had.
TEST_F(PresenceTest, ANameWhoseWordsCanNotBeReadIsOneThatItHad) {
    kill(start(1, [](const Witness& own) {
        new Presence(shared(own), kToken, kWho);
        own.write(*own.take(kFirst), bytes_of(std::string(witness::kMostBytes + 1, 'x')));
    }));
    keeper->look();
    EXPECT_EQ(words_of(kFirst), std::nullopt);
    EXPECT_FALSE(was_never_there(kFirst, 0));
}

TEST_F(PresenceTest, OfGroupsWhoseVotesItHasForgottenNothingIsKnown) {
    kill(start(1, [](const Witness& own) {
        auto* const presence = new Presence(shared(own), kToken, kWho);
        COPPICE_CHECK(presence->note_unknown(3));
        COPPICE_CHECK(presence->note_unknown(1));
    }));
    keeper->look();
    EXPECT_FALSE(was_never_there(kFirst, 1));
    EXPECT_FALSE(was_never_there(kFirst, 3));
    EXPECT_TRUE(was_never_there(kFirst, 4));
}

// Its number's next process may take the places, in any order: then nothing is known of the one before it.
TEST_F(PresenceTest, OfOneWhosePlacesAreTakenNothingIsKnown) {
    kill(start(1, [](const Witness& own) {
        own.write(*own.take(kFirst), bytes_of("a vote"));
        new Presence(shared(own), kToken, kWho);
        for (std::uint64_t i = 2; i < witness::kEntries; ++i)
            COPPICE_CHECK(own.take({.group = i, .rank = 1}).has_value());
    }));
    keeper->look();
    EXPECT_FALSE(was_never_there(kFirst, 0));
    start(1, [](const Witness& own) { COPPICE_CHECK(own.take({.group = 0xbeef, .rank = 1}).has_value()); });
    EXPECT_FALSE(was_never_there(kFirst, 0));
}

}  // namespace
}  // namespace coppice::bootstrap
