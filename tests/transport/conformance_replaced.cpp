// Numbers that are given to other processes, whose predecessors were really killed.
#include <signal.h>

#include "transport/conformance.hpp"

namespace coppice::testing {
namespace {

constexpr Seat kReplaced{1};
constexpr std::uint64_t kWords = 10;  // messages of each incarnation

// Which of Stage::words: how many incarnations have shown their address, were added (by rank), were talked to, and forgotten.
constexpr std::size_t kShown = 0;
constexpr std::size_t kAdded = 1;
constexpr std::size_t kTalked = 4;
constexpr std::size_t kForgotten = 8;
// Whether the later incarnation has sent its messages, the earlier one was told that it is fenced, and the test is over.
constexpr std::size_t kSpoken = 12;
constexpr std::size_t kTold = 13;
constexpr std::size_t kOver = 14;

void forget(Member& member, std::uint64_t incarnation) {
    member.wire().forget(kReplaced);
    std::erase_if(member.recorder.failures, [](const Recorder::Failure& one) { return one.peer == kReplaced; });
    member.recorder.messages.clear();
    member.stage().words[kForgotten + member.self().value].store(incarnation + 1);
}

void add(Member& member, std::uint64_t incarnation) {
    auto& words = member.stage().words;
    member.poll_until([&] { return words[kShown].load() > incarnation; }, "the next incarnation's address");
    const auto added = member.wire().add_peer(kReplaced, member.address_of(kReplaced));
    if (!added) throw CheckFailed("add_peer: " + added.error().message);
    words[kAdded + member.self().value].store(incarnation + 1);
}

// All that has come is of that incarnation, and in order.
void expect_words_of(Member& member, std::uint64_t incarnation) {
    member.poll_until([&] { return member.recorder.count(kReplaced) >= kWords; }, "the next incarnation's messages");
    std::uint64_t number = 0;
    for (const Recorder::Received& one : member.recorder.messages) {
        if (one.from != kReplaced) continue;
        COPPICE_CHECK(header_word(one.header, 0) == incarnation);
        COPPICE_CHECK(header_word(one.header, 1) == number++);
        COPPICE_CHECK(is_pattern(one.payload, incarnation));
    }
}

// What an incarnation of kReplaced does first: those that stay add it, too.
void meet_those_that_stay(Member& member, std::uint64_t incarnation) {
    auto& words = member.stage().words;
    words[kShown].store(incarnation + 1);
    for (std::uint32_t rank = 0; rank < member.size(); ++rank) {
        if (Seat(rank) == kReplaced) continue;
        const auto added = member.wire().add_peer(Seat(rank), member.address_of(Seat(rank)));
        if (!added) throw CheckFailed("add_peer: " + added.error().message);
        member.poll_until([&] { return words[kAdded + rank].load() > incarnation; }, "being added");
    }
}

// `to` hears kWords of them.
void send_words(Member& member, Seat to, std::uint64_t incarnation) {
    for (std::uint64_t number = 0; number < kWords; ++number)
        COPPICE_CHECK(member.send(to, header_of(incarnation, number), pattern(incarnation, 100 * number)) ==
                      transport::SendStatus::sent);
}

// The process that has the number next: it speaks to rank 0, and stays until that one has said so often that it has heard.
auto successor_until(std::uint64_t talked) {
    return [talked](Member& member) {
        meet_those_that_stay(member, 1);
        send_words(member, Seat(0), 1);
        member.poll_until([&] { return member.stage().words[kTalked].load() >= talked; }, "having been heard");
    };
}

}  // namespace

TEST_P(Conformance, ANumberIsGivenToOneProcessAfterTheOther) {
    constexpr std::uint32_t kSize = 3;
    const std::uint64_t rounds = factory().replacements();
    for (const Seat survivor : {Seat(0), Seat(2)}) {
        start_one(survivor, kSize, [rounds, survivor](Member& member) {
            const Seat other(2 - survivor.value);
            COPPICE_CHECK(member.wire().add_peer(other, member.address_of(other)).has_value());
            auto descriptors = open_descriptors();
            std::size_t mappings = 0;
            for (std::uint64_t round = 0; round < rounds; ++round) {
                add(member, round);
                COPPICE_CHECK(member.send(kReplaced, header_of(round), {}) == transport::SendStatus::sent);
                expect_words_of(member, round);
                member.stage().words[kTalked + member.self().value].store(round + 1);
                member.poll_until([&] { return member.recorder.failed(kReplaced); }, "the death");
                forget(member, round);
                if (round == std::min<std::uint64_t>(rounds / 2, 20)) {
                    for (int poll = 0; poll < 100; ++poll)
                        member.poll();
                    descriptors = open_descriptors();
                    mappings = shared_mappings();
                }
            }
            member.poll_until([&] { return open_descriptors() <= descriptors; }, "descriptors to be given back");
            member.poll_until([&] { return shared_mappings() <= mappings; }, "mappings to be given back");
        });
    }
    for (std::uint64_t round = 0; round < rounds && !HasFailure(); ++round) {
        stage().addresses[kReplaced.value].length.store(0);
        const auto body = [round](Member& member) {
            meet_those_that_stay(member, round);
            send_words(member, Seat(0), round);
            send_words(member, Seat(2), round);
            member.poll_until([&] { return member.recorder.count(Seat(0)) + member.recorder.count(Seat(2)) >= 2; },
                              "words of those that stay");
            COPPICE_CHECK(member.recorder.messages.size() == 2);
            for (const Recorder::Received& one : member.recorder.messages)
                COPPICE_CHECK(header_word(one.header, 0) == round);
            member.stage().words[kTalked + 1].store(round + 1);
            member.poll_until([] { return false; }, "the end");
        };
        const std::size_t process = start_one(kReplaced, kSize, body, static_cast<std::uint32_t>(round));
        for (std::uint32_t rank = 0; rank < kSize; ++rank)
            await_word(kTalked + rank, round + 1);
        ::kill(processes_.pid(process), SIGKILL);
        expect_killed(process);
        for (const std::uint32_t rank : {0U, 2U})
            await_word(kForgotten + rank, round + 1);
    }
    expect_all_well();
}

// What the earlier one had sent is still in this rank's memory, or in a kernel's.
TEST_P(Conformance, NothingOfAnEarlierProcessIsDeliveredForALaterOne) {
    start_one(Seat(0), 2, [](Member& member) {
        add(member, 0);
        member.poll_until([&] { return member.recorder.count(kReplaced) >= 1; }, "a first word");
        auto& words = member.stage().words;
        words[kTalked].store(1);
        const std::uint64_t deadline = now_ns() + kDeadlineNs;
        while (words[kTalked + 1].load() < 2 && now_ns() < deadline)  // without a poll
            sched_yield();
        member.wire().fence(kReplaced);
        forget(member, 0);
        add(member, 1);
        expect_words_of(member, 1);
        for (int poll = 0; poll < 1000; ++poll)
            member.poll();
        COPPICE_CHECK(member.recorder.count(kReplaced) == kWords && !member.recorder.failed(kReplaced));
        words[kTalked].store(2);
    });
    const std::size_t first = start_one(kReplaced, 2, [](Member& member) {
        meet_those_that_stay(member, 0);
        COPPICE_CHECK(member.send(Seat(0), header_of(0), {}) == transport::SendStatus::sent);
        auto& words = member.stage().words;
        member.poll_until([&] { return words[kTalked].load() >= 1; }, "having been heard");
        std::uint32_t in_flight = 0;
        const Bytes payload = pattern(0, 100);
        for (std::uint64_t number = 0; number < kWords; ++number)
            (void)member.wire().send(Seat(0), header_of(0, number), payload, &in_flight);
        for (int poll = 0; poll < 100; ++poll)
            member.poll();
        words[kTalked + 1].store(1);
        member.poll_until([] { return false; }, "the end");
    });
    await_word(kTalked + 1, 1);
    ::kill(processes_.pid(first), SIGKILL);
    expect_killed(first);
    stage().words[kTalked + 1].store(2);
    await_word(kForgotten, 1);
    stage().addresses[kReplaced.value].length.store(0);
    start_one(kReplaced, 2, successor_until(2), 1);
    expect_all_well();
}

// It was taken for dead, and goes on sending beside its successor.
TEST_P(Conformance, NothingOfAnEarlierProcessThatLivesIsDeliveredForALaterOne) {
    start_one(Seat(0), 2, [](Member& member) {
        add(member, 0);
        member.poll_until([&] { return member.recorder.count(kReplaced) >= 1; }, "a first word");
        member.wire().fence(kReplaced);
        forget(member, 0);
        add(member, 1);
        expect_words_of(member, 1);
        for (int poll = 0; poll < 1000; ++poll)
            member.poll();
        COPPICE_CHECK(member.recorder.count(kReplaced) == kWords && !member.recorder.failed(kReplaced));
        member.stage().words[kTalked].store(1);
    });
    start_one(kReplaced, 2, [](Member& member) {
        meet_those_that_stay(member, 0);
        // Until the end: whether it is told, or refused, is the transport's.
        std::uint32_t in_flight = 0;
        const Bytes payload = pattern(0, 100);
        member.poll_until(
            [&] {
                (void)member.wire().send(Seat(0), header_of(0), payload, &in_flight);
                return member.stage().words[kTalked].load() >= 1;
            },
            "the end");
    });
    await_word(kForgotten, 1);
    stage().addresses[kReplaced.value].length.store(0);
    start_one(kReplaced, 2, successor_until(1), 1);
    expect_all_well();
}

// It connects for the first time when its number is another's.
TEST_P(Conformance, AnEarlierProcessThatConnectsLateIsRefused) {
    const bool tells = factory().tells_the_forgotten();
    start_one(Seat(0), 2, [tells](Member& member) {
        add(member, 0);
        member.wire().fence(kReplaced);
        forget(member, 0);
        add(member, 1);
        auto& words = member.stage().words;
        const auto turned_away = [&] {
            const transport::Counters counters = member.wire().counters();
            return counters.refused + counters.garbage > 0;
        };
        member.poll_until([&] { return words[kSpoken].load() == 1; }, "the later one to have had its say");
        member.poll_until([&] { return words[kTold].load() == 1 || (!tells && turned_away()); }, "the earlier one");
        expect_words_of(member, 1);
        COPPICE_CHECK(member.recorder.count(kReplaced) == kWords);
        words[kOver].store(1);
    });
    start_one(kReplaced, 2, [](Member& member) {
        meet_those_that_stay(member, 0);
        auto& words = member.stage().words;
        member.poll_until([&] { return words[kForgotten].load() >= 1 && words[kAdded].load() >= 2; },
                          "being forgotten");
        std::uint32_t in_flight = 0;
        const Bytes payload = pattern(0, 100);
        member.poll_until(
            [&] {
                (void)member.wire().send(Seat(0), header_of(0), payload, &in_flight);
                if (!member.recorder.fenced_by.empty()) words[kTold].store(1);
                return words[kOver].load() == 1;
            },
            "the end");
    });
    await_word(kForgotten, 1);
    stage().addresses[kReplaced.value].length.store(0);
    const auto later = [](Member& member) {
        meet_those_that_stay(member, 1);
        send_words(member, Seat(0), 1);
        member.stage().words[kSpoken].store(1);
        member.poll_until([&] { return member.stage().words[kOver].load() == 1; }, "the end");
    };
    start_one(kReplaced, 2, later, 1);
    expect_all_well();
}

}  // namespace coppice::testing
