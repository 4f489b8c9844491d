// A whole group at one rank, over a wire that does what the test says, in orders of events that hardly ever happen.
#include "engine/group.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <thread>

#include "group_of_four.hpp"

namespace coppice::engine {
namespace {

// The asker takes the root for dead, and the payload for lost where all say that they have none of it.
TEST_F(GroupOfFour, AQueryAboutARootThatHasLeftInPeaceIsAnswered) {
    const WireHeader query{.tag = {Channel::broadcast, protocol::MessageKind::query}, .root = kRoot.value, .detail = 1};
    say(kOther, query);
    EXPECT_FALSE(has_sent(kOther, {Channel::broadcast, protocol::MessageKind::denial})) << "the root lives";
    EXPECT_EQ(group_->garbage(), 1U);
    say(kRoot, {.tag = {Channel::members, MembersKind::left}});
    say(kOther, query);
    EXPECT_TRUE(has_sent(kOther, {Channel::broadcast, protocol::MessageKind::denial}));
    EXPECT_EQ(group_->garbage(), 1U);
}

// A witness may yet speak of these deaths, so they do not count here so far. The asker knows of them, and asks once.
TEST_F(GroupOfFour, AQueryAboutARootWhoseDeathIsHeldBackIsAnsweredOnceThatCounts) {
    struct : DeathJudge {
        bool awaits_witness(const protocol::FailedSet& /*news*/) const override { return awaits; }
        bool awaits = true;
    } judge;
    group_->core().membership().heed(judge);
    // What looks like this message is familiar from then on.
    say(kRoot, {.tag = {Channel::broadcast, protocol::MessageKind::tree}, .root = kRoot.value});
    say(kOther, {.tag = {Channel::members, MembersKind::failure_notice}, .detail = kRoot.value});
    EXPECT_FALSE(group_->members().failed(kRoot));
    say(kOther,
        {.tag = {Channel::broadcast, protocol::MessageKind::query}, .sequence = 1, .root = kRoot.value, .detail = 1});
    EXPECT_FALSE(has_sent(kOther, {Channel::broadcast, protocol::MessageKind::denial}));
    judge.awaits = false;
    group_->progress(Group::Care::thorough);
    EXPECT_TRUE(group_->members().failed(kRoot));
    group_->progress(Group::Care::thorough);
    EXPECT_TRUE(has_sent(kOther, {Channel::broadcast, protocol::MessageKind::denial}));
    EXPECT_EQ(group_->garbage(), 0U);
}

// A broadcast of this rank's own is over here, and it wants to leave. No other rank has said that it has consumed that one.
class LeavingGroup : public GroupOfFour {
  protected:
    LeavingGroup() {
        const auto started = group_->start_pooled([&](Request& place) {
            return group_->broadcasts().start({.buffer = buffer_.data(), .bytes = buffer_.size(), .root = kSelf},
                                              place);
        });
        Request& request = *started.value();
        while (request.state == RequestState::waiting && !group_->peek(request))
            group_->progress(Group::Care::thorough);
        EXPECT_EQ(request.status, COPPICE_OK);
        EXPECT_FALSE(group_->drained());
        wire_->sent_to.clear();
        wire_->sent.clear();
    }

    std::array<std::byte, 8> buffer_{};
};

// It was taken into another group, by the other side of a cut network, say.
TEST_F(LeavingGroup, AProcessThatHasNeverHadTheGroupHasNotLeftItInPeace) {
    Set elsewhere;
    elsewhere.hear([](transport::Receiver& set) { coppice::engine::say(set, kToken, 0); });
    elsewhere.groups.poll();
    ASSERT_EQ(elsewhere.wire->sent.size(), 1U);
    say(kOther, elsewhere.wire->sent[0]);
    EXPECT_FALSE(group_->drained()) << "other ranks may still need the payload";
    EXPECT_TRUE(group_->members().failed(kOther));
}

// This one may have been the only rank to hear the farewell: another, which took its sender for dead, waits for what this one says.
TEST_F(LeavingGroup, WhatAFarewellProvesIsPassedOn) {
    say(kOther, {.tag = {Channel::window, protocol::StabilityKind::up}, .sequence = 1, .detail = kOther.value});
    wire_->sent_to.clear();
    wire_->sent.clear();
    say(Rank(0), {.tag = {Channel::members, MembersKind::left}, .stable = 1});
    EXPECT_TRUE(group_->drained());
    group_->progress(Group::Care::thorough);
    ASSERT_TRUE(has_sent(kOther, {Channel::window, protocol::StabilityKind::down}));
    EXPECT_EQ(wire_->sent.back().stable, 1U);
}

// Each chunk costs its reader a work request; one that is sent is passed on the sooner, the smaller it is.
TEST_F(GroupOfFour, ChunksAreLargerWhereTheyAreRead) {
    const std::vector<std::byte> payload(std::size_t{16} << 20);
    EXPECT_EQ(group_->payloads().hold(Sequence(0), payload).value().chunk, 1U << 20);
    EXPECT_EQ(group_->payloads().hold(Sequence(1), std::span(payload).first(1 << 20)).value().chunk, 64U << 10);
    wire_->reads(false);
    EXPECT_EQ(group_->payloads().hold(Sequence(2), payload).value().chunk, 64U << 10);
    EXPECT_EQ(group_->payloads().hold(Sequence(3), std::span(payload).first(100'000)).value().chunk, 32U << 10);
}

// A payload of one chunk, whose descriptor has come, and which is to be read out of the memory of `source_`.
class LargePayload : public GroupOfFour {
  protected:
    LargePayload() {
        say(kRoot,
            {.tag = {Channel::broadcast, protocol::MessageKind::tree}, .root = kRoot.value, .length = kDescribed},
            descriptor_.as_bytes());
        source_ = group_->payloads().source(Sequence(0)).value();
        EXPECT_TRUE(has_asked(source_));
    }
    bool has_asked(Rank rank) const { return has_sent(rank, {Channel::payload, protocol::PullKind::ask}); }
    const Payloads::Counts& counts() const { return group_->payloads().counts(); }

    void offer(std::uint32_t of) {
        Offer offer{.chunks = 1 << 20, .desk = 1 << 16, .chunks_key = 1, .desk_key = 1, .of = of};
        offer.seal();
        say(source_, {.tag = {Channel::reading, ReadingKind::here}, .root = kRoot.value}, offer.as_bytes());
    }
    template <class T>
    void land(const T& what) {
        hear([&](transport::Receiver&) { wire_->land(std::as_bytes(std::span(&what, 1))); });
    }
    HaveWord word_of(Rank owner, std::uint64_t have) const {
        return {.have = have,
                .seal = HaveWord::sealed(HaveWord::seed_of(descriptor_, kToken, Sequence(0), owner), have)};
    }
    // The word is read again after a pause.
    void wait_for_a_read() {
        while (wire_->under_way.empty())
            hear([](transport::Receiver&) {});
    }

    const std::vector<std::byte> payload_{5000, std::byte{42}};
    const Descriptor descriptor_ = Descriptor::of(payload_.size(), 8192);
    const std::uint32_t check_ = transport::crc32c(payload_);
    Rank source_{0};
};

TEST_F(LargePayload, IsReadWhereItsHolderSays) {
    offer(descriptor_.check);
    ASSERT_EQ(wire_->under_way.size(), 1U);
    land(word_of(source_, 1));
    ASSERT_EQ(wire_->under_way.size(), 2U);
    land(check_);
    hear([&](transport::Receiver&) { wire_->land(payload_); });
    EXPECT_EQ(counts().taken, 1U);
    EXPECT_EQ(counts().read, 1U);
}

// A chunk of it that comes later is refused, as its messages are: this rank may have said by then that it lacks that one.
TEST_F(LargePayload, WhatIsReadOutOfADeadRanksMemoryDoesNotCount) {
    offer(descriptor_.check);
    land(word_of(source_, 1));
    land(check_);
    hear([&](transport::Receiver& set) {
        wire_->land(payload_);
        set.peer_failed(Seat(source_.value), transport::FailureCause::transport_error);
    });
    EXPECT_EQ(counts().taken, 0U);
    EXPECT_EQ(counts().again, 1U);
}

TEST_F(LargePayload, AnOfferOfAnotherPayloadIsNoneAndItsRankIsLeft) {
    offer(descriptor_.check ^ 1);
    EXPECT_TRUE(wire_->under_way.empty()) << "nothing is read there";
    EXPECT_EQ(group_->garbage(), 1U);
    EXPECT_NE(group_->payloads().source(Sequence(0)), source_);
}

// One that is not sealed for this payload and its owner, whatever it says: of another rank's, of none, or of more chunks than there are.
TEST_F(LargePayload, AWordThatIsNotItsOwnersIsNotBelievedAndEightInARowLeaveTheRank) {
    offer(descriptor_.check);
    const HaveWord forged[] = {word_of(kOther, 1), {.have = 1, .seal = 1}, word_of(source_, 2)};
    for (std::uint32_t i = 0; i < 8; ++i) {
        EXPECT_EQ(group_->payloads().source(Sequence(0)), source_);
        wait_for_a_read();
        land(forged[i % 3]);
    }
    EXPECT_EQ(group_->garbage(), 1U);
    EXPECT_NE(group_->payloads().source(Sequence(0)), source_);
    EXPECT_EQ(counts().taken, 0U);
}

TEST_F(LargePayload, AChunkThatIsNotWhatItsCheckSaysIsCountedAndFetchedElsewhere) {
    offer(descriptor_.check);
    land(word_of(source_, 1));
    land(check_ ^ 1);
    hear([&](transport::Receiver&) { wire_->land(payload_); });
    EXPECT_EQ(counts().damaged, 1U);
    EXPECT_EQ(counts().taken, 0U);
    EXPECT_NE(group_->payloads().source(Sequence(0)), source_);
}

// Of two chunks; both are read at the source, which has said that it has them.
class TwoChunks : public GroupOfFour {
  protected:
    TwoChunks() {
        say(kRoot,
            {.tag = {Channel::broadcast, protocol::MessageKind::tree}, .root = kRoot.value, .length = kDescribed},
            descriptor_.as_bytes());
        source_ = group_->payloads().source(Sequence(0)).value();
        read_at(source_);
    }
    // It says where they lie, and that both are there. Their checks and the two are under way then.
    void read_at(Rank rank) {
        const std::size_t before = wire_->under_way.size();
        Offer offer{.chunks = 1 << 20, .desk = 1 << 16, .chunks_key = 1, .desk_key = 1, .of = descriptor_.check};
        offer.seal();
        say(rank, {.tag = {Channel::reading, ReadingKind::here}, .root = kRoot.value}, offer.as_bytes());
        const HaveWord word{.have = 2,
                            .seal = HaveWord::sealed(HaveWord::seed_of(descriptor_, kToken, Sequence(0), rank), 2)};
        land(std::as_bytes(std::span(&word, 1)), before);
        EXPECT_EQ(wire_->under_way.size(), before + 3);
    }
    void land(std::span<const std::byte> what, std::size_t which = 0) {
        hear([&](transport::Receiver&) { wire_->land(what, which); });
    }
    void land_checks(std::uint32_t first, std::uint32_t second, std::size_t which = 0) {
        const std::array<std::uint32_t, 2> checks{first, second};
        land(std::as_bytes(std::span(checks)), which);
    }
    bool has_asked(Rank rank) const { return has_sent(rank, {Channel::payload, protocol::PullKind::ask}); }

    const std::vector<std::byte> chunk_{8192, std::byte{42}};
    const Descriptor descriptor_ = Descriptor::of(16384, 8192);
    Rank source_{0};
};

// It would land on one that another rank's check has found right, and that is served to others.
TEST_F(TwoChunks, NothingIsFetchedElsewhereWhileAnotherChunkOfAWrongSourceIsUnderWay) {
    const std::uint32_t right = transport::crc32c(chunk_);
    land_checks(right ^ 1, right);
    wire_->sent_to.clear();
    wire_->sent.clear();
    land(chunk_);
    EXPECT_EQ(group_->payloads().counts().damaged, 1U);
    EXPECT_TRUE(
        std::ranges::none_of(std::array{Rank(0), kRoot, kOther}, [this](Rank rank) { return has_asked(rank); }));
    const WireHeader first{.tag = {Channel::payload, protocol::PullKind::chunk}, .root = kRoot.value, .detail = right};
    say(kOther, first, chunk_);
    EXPECT_EQ(group_->payloads().counts().taken, 0U);
    land(chunk_);
    const Rank next = group_->payloads().source(Sequence(0)).value();
    EXPECT_NE(next, source_);
    EXPECT_TRUE(has_asked(next));
    say(next, first, chunk_);
    EXPECT_EQ(group_->payloads().counts().taken, 1U);
}

// The source was slow, and another one is read by now.
TEST_F(TwoChunks, NothingThatIsReadElsewhereCountsWhileAnotherChunkOfAWrongSourceIsUnderWay) {
    const std::uint32_t right = transport::crc32c(chunk_);
    while (group_->payloads().source(Sequence(0)) == source_)
        hear([](transport::Receiver&) {});
    const Rank next = group_->payloads().source(Sequence(0)).value();
    read_at(next);
    land_checks(right ^ 1, right);
    land(chunk_);
    EXPECT_EQ(group_->payloads().counts().damaged, 1U);
    land_checks(right, right, 1);
    land(chunk_, 1);
    land(chunk_, 1);
    EXPECT_EQ(group_->payloads().counts().taken, 0U);
    ASSERT_EQ(wire_->under_way.size(), 1U) << "of the wrong source";
    land(chunk_);
    ASSERT_EQ(wire_->under_way.size(), 3U) << "the next one is asked again";
    land_checks(right, right);
    land(chunk_);
    land(chunk_);
    EXPECT_EQ(group_->payloads().counts().taken, 2U);
}

// While a rank copies nothing is heard of it, and it may have been late for a payload of any size.
TEST_F(GroupOfFour, ALatePayloadIsCopiedInPiecesBetweenWhichTheRankIsHeardOf) {
    wire_->reads(false);
    const std::vector<std::byte> chunk(std::size_t{1} << 20, std::byte{42});
    const Descriptor descriptor = Descriptor::of(12 * chunk.size(), 1 << 20);
    say(kRoot, {.tag = {Channel::broadcast, protocol::MessageKind::tree}, .root = kRoot.value, .length = kDescribed},
        descriptor.as_bytes());
    for (std::uint64_t number = 0; number < 12; ++number)
        say(group_->payloads().source(Sequence(0)).value(),
            {.tag = {Channel::payload, protocol::PullKind::chunk},
             .root = kRoot.value,
             .detail = transport::crc32c(chunk),
             .more = number << 32},
            chunk);
    ASSERT_EQ(group_->payloads().counts().taken, 12U);
    std::vector<std::byte> room(12 * chunk.size());
    const auto started = group_->start_pooled([&](Request& place) {
        return group_->broadcasts().start({.buffer = room.data(), .bytes = room.size(), .root = kRoot}, place);
    });
    Request& request = *started.value();
    std::size_t last = 0;
    std::uint32_t rounds = 0;
    while (request.state == RequestState::waiting) {
        EXPECT_LE(request.received - last, std::size_t{4} << 20);
        EXPECT_TRUE(rounds == 0 || group_->waits_for_room());
        last = request.received;
        EXPECT_TRUE(rounds == 0 || request.received > 0);
        group_->progress(Group::Care::thorough);
        ASSERT_LT(++rounds, 100U);
    }
    EXPECT_GE(rounds, 2U);
    EXPECT_EQ(request.status, COPPICE_OK);
    EXPECT_TRUE(std::ranges::all_of(room, [](std::byte byte) { return byte == std::byte{42}; }));
}

// So it does with the checks of chunks that others are to read.
TEST(OpenPayload, TellsOfAsManyChunksAtOnceAsTakeLittleTime) {
    constexpr std::uint64_t kSeed = 99;
    ReadingWire wire;
    std::vector<std::byte> payload(std::size_t{10} << 20);
    const Descriptor descriptor = Descriptor::of(payload.size(), 1 << 20);
    const auto open = OpenPayload::make(wire, payload, descriptor, kSeed).value();
    const auto word = [&] {
        HaveWord shown;
        std::memcpy(&shown, reinterpret_cast<const void*>(open->desk().address), sizeof shown);
        return shown.chunks(kSeed, descriptor.chunks());
    };
    EXPECT_EQ(word(), 0U);
    EXPECT_FALSE(open->tell(10));
    EXPECT_EQ(word(), 4U);
    EXPECT_FALSE(open->tell(10));
    EXPECT_TRUE(open->tell(10));
    EXPECT_EQ(word(), 10U);
    for (std::uint32_t chunk = 0; chunk < 10; ++chunk)
        EXPECT_TRUE(open->is_right(chunk));
}

class GroupWithABound : public GroupOfFour {
  protected:
    GroupWithABound() : GroupOfFour({{"COPPICE_DETECTION_BOUND", "20ms"}}) {}
};

TEST_F(GroupWithABound, ACallerThatSleepsBeatsInItsOtherGroupsToo) {
    const std::unique_ptr<Group> other = make_group({.token = kToken, .epoch = Epoch(1)});
    const auto has_beaten = [this] {
        return std::ranges::any_of(wire_->sent, [](const WireHeader& one) {
            return one.epoch == 1 && one.tag == Tag(Channel::members, MembersKind::heartbeat);
        });
    };
    while (!other->timer_is_due())
        std::this_thread::yield();
    context_->progress_before_sleep(*group_);
    EXPECT_TRUE(has_beaten());
    context_->detach(*other);
}

class GroupOfAMajority : public GroupOfFour {
  protected:
    GroupOfAMajority() : GroupOfFour({{"COPPICE_QUORUM", "majority"}}) {}
};

// Though the second of them would have cost it.
TEST_F(GroupOfAMajority, DeathsThatAreToldOfTogetherCostTheQuorumTogether) {
    group_->core().membership().learn_failures(std::array{Rank(0), kRoot, kOther});
    const std::optional<Error> reason = group_->core().subscribers().reason_to_revoke();
    ASSERT_TRUE(reason.has_value());
    EXPECT_EQ(reason->status, COPPICE_ERR_NO_QUORUM);
    EXPECT_NE(reason->message.find("1 of 4 members are left"), std::string::npos) << reason->message;
    EXPECT_NE(reason->message.find("ranks 0, 2, 3 can't be reached"), std::string::npos) << reason->message;
}

// A wait sleeps where it would yield, and each sleep ends at once.
class NoPauses final : public Platform {
  public:
    const Clock& clock() const override { return real_clock(); }
    Result<void> attend(Attended&) override { return {}; }
    void forsake(Attended&) override {}
    void reset_pauses() override {}
    bool sleeps_next() override { return true; }
    void pause(int, std::uint64_t) override {}
    Wires make_transports(const Place&) override { return {}; }
};

class GroupThatSleepsAtOnce : public GroupOfFour {
  protected:
    GroupThatSleepsAtOnce() : GroupOfFour({}, &no_pauses()) {}

  private:
    static NoPauses& no_pauses() {
        static NoPauses platform;
        return platform;
    }
};

// It would be sent after some sleeps, when a call looks after all groups.
TEST_F(GroupThatSleepsAtOnce, ACallerSendsFirstWhatItsOtherGroupsCouldNot) {
    const std::unique_ptr<Group> other = make_group({.token = kToken + 1, .epoch = Epoch(1)});
    wire_->answer = transport::SendStatus::again;
    const Descriptor descriptor = Descriptor::of(5000, 8192);
    say(kRoot,
        {.token = kToken + 1,
         .tag = {Channel::broadcast, protocol::MessageKind::tree},
         .root = kRoot.value,
         .length = kDescribed,
         .epoch = 1},
        descriptor.as_bytes());
    other->progress(Group::Care::thorough);
    ASSERT_TRUE(other->waits_for_room());
    wire_->answer = transport::SendStatus::sent;
    const Context::Visit visit(*context_);
    Deadline deadline(context_->clock(), 60'000'000'000);
    EXPECT_TRUE(context_->wait(*group_, deadline, [this] { return !wire_->sent.empty(); }, {}));
    EXPECT_EQ(wire_->armed, 1U) << "for the first sleep, which it then does not need";
    context_->detach(*other);
}

}  // namespace
}  // namespace coppice::engine
