// What each type of shared word orders: the accesses that it makes, told by a memory that records them; what readers
// can see of several words, in a memory that keeps stores back as long as their order allows; and, between threads, in
// the real one.
#include "base/shared_words.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>
#include <set>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

namespace coppice::shared {
namespace {

const char* name_of(std::memory_order order) {
    switch (order) {
        case std::memory_order_relaxed:
            return "relaxed";
        case std::memory_order_acquire:
            return "acquire";
        case std::memory_order_release:
            return "release";
        case std::memory_order_seq_cst:
            return "seq_cst";
        default:
            return "?";
    }
}

// ------------------------------------------------------------------------------------------------ one that records ---

std::vector<std::string> accesses;

void record(const char* what, std::memory_order order) {
    accesses.push_back(fmt::format("{} {}", what, name_of(order)));
}

struct RecordingMemory {
    template <class T>
    class Word {
      public:
        constexpr Word() = default;
        constexpr explicit Word(T value) : value_(value) {}
        T load(std::memory_order order) const { return record("load", order), value_; }
        void store(T value, std::memory_order order) { record("store", order), value_ = value; }
        T exchange(T value, std::memory_order order) { return record("exchange", order), std::exchange(value_, value); }
        T fetch_add(T more, std::memory_order order) { return change("add", value_ + more, order); }
        T fetch_sub(T less, std::memory_order order) { return change("subtract", value_ - less, order); }
        T fetch_or(T bits, std::memory_order order) { return change("or", value_ | bits, order); }
        T fetch_and(T bits, std::memory_order order) { return change("and", value_ & bits, order); }
        bool compare_exchange_weak(T& expected, T wanted, std::memory_order order) {
            record("compare", order);
            const bool equal = value_ == expected;
            (equal ? value_ : expected) = equal ? wanted : value_;
            return equal;
        }
        bool compare_exchange_strong(T& expected, T wanted, std::memory_order order) {
            return compare_exchange_weak(expected, wanted, order);
        }
        void wait(T, std::memory_order order) const { record("wait", order); }
        void notify_all() { accesses.emplace_back("notify"); }

      private:
        T change(const char* what, T to, std::memory_order order) {
            record(what, order);
            return std::exchange(value_, to);
        }
        T value_{};
    };
    static void order_all() { accesses.emplace_back("order all"); }
    static void order_loads() { accesses.emplace_back("order loads"); }
    static void order_in_program() { accesses.emplace_back("order in program"); }
};

using Accesses = std::vector<std::string>;

class SharedWords : public testing::Test {
  protected:
    static Accesses made_by(const std::function<void()>& action) {
        accesses.clear();
        action();
        return accesses;
    }
};

TEST_F(SharedWords, APublishedValueIsReleasedByItsWriterAndAcquiredByItsReaders) {
    Published<std::uint64_t, RecordingMemory> word(7);
    EXPECT_EQ(made_by([&] { EXPECT_EQ(word.read(), 7U); }), Accesses{"load acquire"});
    EXPECT_EQ(made_by([&] { word.publish(8); }), Accesses{"store release"});
    EXPECT_EQ(made_by([&] { EXPECT_EQ(word.own(), 8U); }), Accesses{"load relaxed"});
    EXPECT_EQ(made_by([&] { word.announce(9); }), Accesses{"store relaxed"});
    EXPECT_EQ(made_by([&] { word.publish_and_wake(10); }), (Accesses{"store release", "notify"}));
    EXPECT_EQ(made_by([&] { word.wait_while(9); }), Accesses{"wait acquire"});
    EXPECT_EQ(word.read(), 10U);
}

TEST_F(SharedWords, ARelaxedWordOrdersNothing) {
    Relaxed<std::uint32_t, RecordingMemory> word(1);
    EXPECT_EQ(made_by([&] { word.set(2); }), Accesses{"store relaxed"});
    EXPECT_EQ(made_by([&] { EXPECT_EQ(word.get(), 2U); }), Accesses{"load relaxed"});
}

TEST_F(SharedWords, ACounterIsChangedInOneStep) {
    Counter<std::uint64_t, RecordingMemory> word;
    EXPECT_EQ(made_by([&] { EXPECT_EQ(word.add(3), 0U); }), Accesses{"add seq_cst"});
    EXPECT_EQ(made_by([&] { EXPECT_EQ(word.subtract(), 3U); }), Accesses{"subtract seq_cst"});
    EXPECT_EQ(made_by([&] { word.raise_to(9); }), (Accesses{"load relaxed", "compare seq_cst"}));
    EXPECT_EQ(made_by([&] { word.raise_to(5); }), Accesses{"load relaxed"});
    EXPECT_EQ(word.value(), 9U);
    EXPECT_EQ(made_by([&] { word.restart(1); }), Accesses{"store seq_cst"});
}

TEST_F(SharedWords, ADoorbellIsTakenBackAsAWhole) {
    Doorbell<std::uint64_t, RecordingMemory> bell;
    EXPECT_FALSE(bell.is_rung());
    EXPECT_EQ(made_by([&] { bell.ring(4); }), Accesses{"or seq_cst"});
    bell.ring(1);
    EXPECT_EQ(made_by([&] { EXPECT_TRUE(bell.is_rung()); }), Accesses{"load relaxed"});
    EXPECT_EQ(made_by([&] { EXPECT_EQ(bell.take(), 5U); }), Accesses{"exchange acquire"});
    EXPECT_FALSE(bell.is_rung());
}

TEST_F(SharedWords, OneAloneWakesASleeper) {
    Sleeper<RecordingMemory> word;
    EXPECT_EQ(made_by([&] { word.fall_asleep(); }), Accesses{"store seq_cst"});
    EXPECT_EQ(made_by([&] { EXPECT_TRUE(word.sleeps()); }), Accesses{"load seq_cst"});
    EXPECT_EQ(made_by([&] { EXPECT_TRUE(word.wake()); }), Accesses{"exchange seq_cst"});
    EXPECT_FALSE(word.wake());
    EXPECT_EQ(made_by([&] { word.stay_awake(); }), Accesses{"store relaxed"});
}

TEST_F(SharedWords, AllSeeTheChangesOfStatesInOneOrder) {
    State<std::uint32_t, RecordingMemory> word(6);
    EXPECT_EQ(made_by([&] { EXPECT_EQ(word.get(), 6U); }), Accesses{"load seq_cst"});
    EXPECT_EQ(made_by([&] { word.insert(1); }), Accesses{"or seq_cst"});
    EXPECT_EQ(made_by([&] { word.erase(2); }), Accesses{"and seq_cst"});
    EXPECT_EQ(made_by([&] { EXPECT_EQ(word.exchange(3), 5U); }), Accesses{"exchange seq_cst"});
    EXPECT_EQ(made_by([&] { EXPECT_TRUE(word.replace(3, 7)); }), Accesses{"compare seq_cst"});
    EXPECT_FALSE(word.replace(3, 8));
    EXPECT_EQ(word.get(), 7U);
    EXPECT_EQ(made_by([&] { word.set_and_wake(4); }), (Accesses{"store seq_cst", "notify"}));
    EXPECT_EQ(made_by([&] { word.wait_while(3); }), Accesses{"wait seq_cst"});
    EXPECT_EQ(word.get(), 4U);
}

// -------------------------------------------------------------------------------------------- one that reorders ---

// One writer, whose stores become visible later: relaxed ones in any order, a released one after all that came before
// it. The test lands them one at a time, in every order that is allowed, and reads in between.
struct Store {
    const void* word;
    std::function<void()> land;
    bool released;
};
std::vector<Store> under_way;

struct ReorderingMemory {
    template <class T>
    class Word {
      public:
        constexpr Word() = default;
        constexpr explicit Word(T value) : visible_(value) {}
        T load(std::memory_order) const { return visible_; }
        void store(T value, std::memory_order order) {
            under_way.push_back({this, [this, value] { visible_ = value; }, order != std::memory_order_relaxed});
        }

      private:
        T visible_{};
    };
};

bool may_land(std::size_t at) {
    for (std::size_t before = 0; before < at; ++before)
        if (under_way[at].released || under_way[before].word == under_way[at].word) return false;
    return true;
}

// Calls `start` once for each order in which what it stores can land, and `look` after each step.
void in_every_order(const std::function<void()>& start, const std::function<void()>& look) {
    std::vector<std::vector<std::size_t>> left{{}};
    while (!left.empty()) {
        const std::vector<std::size_t> steps = left.back();
        left.pop_back();
        under_way.clear();
        start();
        look();
        for (const std::size_t step : steps) {
            under_way[step].land();
            under_way.erase(under_way.begin() + static_cast<std::ptrdiff_t>(step));
            look();
        }
        for (std::size_t next = 0; next < under_way.size(); ++next) {
            if (!may_land(next)) continue;
            left.push_back(steps);
            left.back().push_back(next);
        }
    }
}

// Two words and then a stamp of the given type, as a log entry or a published line is written.
template <class Stamp>
std::set<std::tuple<int, int>> seen_behind_the_stamp(void (*put)(Stamp&, int), int (*get)(const Stamp&)) {
    std::set<std::tuple<int, int>> seen;
    Relaxed<int, ReorderingMemory> first;
    Relaxed<int, ReorderingMemory> second;
    Stamp stamp;
    const auto start = [&] {
        std::destroy_at(&first), std::destroy_at(&second), std::destroy_at(&stamp);
        std::construct_at(&first), std::construct_at(&second), std::construct_at(&stamp);
        first.set(1);
        second.set(2);
        put(stamp, 3);
    };
    in_every_order(start, [&] {
        if (get(stamp) == 3) seen.emplace(first.get(), second.get());
    });
    return seen;
}

TEST(SharedWordsReordered, WhatWasStoredBeforeAPublishedWordIsThereWithIt) {
    using Stamp = Published<int, ReorderingMemory>;
    const auto seen = seen_behind_the_stamp<Stamp>([](Stamp& stamp, int value) { stamp.publish(value); },
                                                   [](const Stamp& stamp) { return stamp.read(); });
    EXPECT_EQ(seen, (std::set<std::tuple<int, int>>{{1, 2}}));
}

// The memory does find a word that orders too little.
TEST(SharedWordsReordered, BehindARelaxedWordAnythingMayBeMissing) {
    using Stamp = Relaxed<int, ReorderingMemory>;
    const auto seen = seen_behind_the_stamp<Stamp>([](Stamp& stamp, int value) { stamp.set(value); },
                                                   [](const Stamp& stamp) { return stamp.get(); });
    EXPECT_EQ(seen, (std::set<std::tuple<int, int>>{{0, 0}, {0, 2}, {1, 0}, {1, 2}}));
}

// ------------------------------------------------------------------------------------------------ between threads ---

constexpr std::uint64_t kRounds = 5'000;

// A line is written, published, consumed, and written again: a data race if the words did not order it.
TEST(SharedWordsBetweenThreads, APublishedLineIsReadWhole) {
    std::uint64_t line[4] = {};
    Published<std::uint64_t> stamp;
    Published<std::uint64_t> consumed;
    std::thread writer([&] {
        for (std::uint64_t round = 1; round <= kRounds; ++round) {
            while (consumed.read() != round - 1)
                std::this_thread::yield();
            for (std::uint64_t& word : line)
                word = round;
            stamp.publish(round);
        }
    });
    std::uint64_t torn = 0;
    for (std::uint64_t round = 1; round <= kRounds; ++round) {
        while (stamp.read() != round)
            std::this_thread::yield();
        for (const std::uint64_t word : line)
            torn += word != round;
        consumed.publish(round);
    }
    writer.join();
    EXPECT_EQ(torn, 0U);
}

TEST(SharedWordsBetweenThreads, EachRingIsTakenOnceWithWhatCameBeforeIt) {
    std::uint64_t mail[2] = {};
    Doorbell<std::uint64_t> bell;
    Published<std::uint64_t> taken[2];
    const auto ring = [&](std::size_t which) {
        for (std::uint64_t round = 1; round <= kRounds; ++round) {
            while (taken[which].read() != round - 1)
                std::this_thread::yield();
            mail[which] = round;
            bell.ring(std::uint64_t{1} << which);
        }
    };
    std::thread first(ring, 0);
    std::thread second(ring, 1);
    std::uint64_t wrong = 0;
    for (std::uint64_t rings = 0; rings < 2 * kRounds;) {
        if (!bell.is_rung()) {
            std::this_thread::yield();
            continue;
        }
        const std::uint64_t bits = bell.take();
        for (std::size_t which = 0; which < 2; ++which) {
            if ((bits >> which & 1) == 0) continue;
            ++rings;
            wrong += mail[which] != taken[which].own() + 1;
            taken[which].publish(mail[which]);
        }
    }
    first.join();
    second.join();
    EXPECT_EQ(wrong, 0U);
}

// The one that rings wakes, or the owner finds the ring: a lost wake-up would hang here.
TEST(SharedWordsBetweenThreads, NoRingIsSleptThrough) {
    Doorbell<std::uint32_t> bell;
    Sleeper<> asleep;
    Counter<std::uint64_t> woken;
    std::uint64_t taken = 0;
    Published<std::uint64_t> answered;
    std::thread ringer([&] {
        for (std::uint64_t round = 1; round <= kRounds; ++round) {
            bell.ring(1);
            if (asleep.sleeps() && asleep.wake()) woken.add();
            while (answered.read() != round)
                std::this_thread::yield();
        }
    });
    for (std::uint64_t slept = 0; taken < kRounds;) {
        asleep.fall_asleep();
        if (!bell.is_rung()) {
            while (woken.value() == slept)
                std::this_thread::yield();
            ++slept;
        } else {
            asleep.stay_awake();
            slept = woken.value();
        }
        if (bell.take() != 0) answered.publish(++taken);
    }
    ringer.join();
    EXPECT_EQ(taken, kRounds);
}

// As an inbox is claimed and given back: what its holder writes is a data race if two could have it, or if the next one did not
// see what the one before has done.
TEST(SharedWordsBetweenThreads, APlaceHasOneHolderAtATime) {
    State<std::uint32_t> holder(0);
    std::uint64_t held = 0;
    const auto hold = [&](std::uint32_t self) {
        for (std::uint64_t round = 0; round < kRounds; ++round) {
            while (!holder.replace(0, self))
                std::this_thread::yield();
            ++held;
            holder.set(0);
        }
    };
    std::thread first(hold, 1);
    std::thread second(hold, 2);
    first.join();
    second.join();
    EXPECT_EQ(held, 2 * kRounds);
}

TEST(SharedWordsBetweenThreads, AWaitEndsWithTheValueThatWasWaitedFor) {
    Published<bool> ready;
    State<int> turn(0);
    int result = 0;
    std::thread other([&] {
        turn.wait_while(0);
        result = turn.get() * 2;
        ready.publish_and_wake(true);
    });
    turn.set_and_wake(21);
    ready.wait_while(false);
    EXPECT_EQ(result, 42);
    other.join();
}

}  // namespace
}  // namespace coppice::shared
