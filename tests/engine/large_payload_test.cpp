// Large payloads at one rank: where their memory can't be registered, and beyond 4 GiB, most of which is memory that nobody touches.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "engine/collectives/payload/row.hpp"
#include "group_of_four.hpp"

namespace coppice::engine {
namespace {

constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;
constexpr std::uint64_t kKiB = 1024;

// ------------------------------------------------------------------------------------------------ not registered ---

// More may not be locked, say.
class Unregistered : public GroupOfFour {
  protected:
    Unregistered() { wire_->exposes_nothing_as = "wire: this process may lock 0 KiB in all"; }

    void describe(std::uint64_t sequence) {
        say(kRoot,
            {.tag = {Channel::broadcast, protocol::MessageKind::tree},
             .sequence = sequence,
             .root = kRoot.value,
             .length = kDescribed},
            descriptor_.as_bytes());
    }
    std::uint64_t count() const { return group_->payloads().counts().unregistered; }

    const std::vector<std::byte> payload_{5000, std::byte{42}};
    const Descriptor descriptor_ = Descriptor::of(payload_.size(), 8192);
};

TEST_F(Unregistered, IsTakenInMessagesCountedEachTimeAndToldToPeopleOnce) {
    ::testing::internal::CaptureStderr();
    for (std::uint64_t sequence = 0; sequence < 3; ++sequence) {
        wire_->sent.clear();
        describe(sequence);
        const Rank source = group_->payloads().source(Sequence(sequence)).value();
        const Tag ask(Channel::payload, protocol::PullKind::ask);
        const auto asked = std::ranges::find(wire_->sent, ask, &WireHeader::tag);
        ASSERT_NE(asked, wire_->sent.end());
        EXPECT_NE(asked->detail, kReads) << "it could not read into that memory";
        say(source,
            {.tag = {Channel::payload, protocol::PullKind::chunk},
             .sequence = sequence,
             .root = kRoot.value,
             .detail = transport::crc32c(payload_)},
            payload_);
        EXPECT_EQ(group_->payloads().counts().taken, sequence + 1);
        EXPECT_EQ(count(), sequence + 1);
    }
    EXPECT_EQ(group_->payloads().counts().read, 0U);
    status::Group shown;
    group_->show(shown);
    EXPECT_EQ(shown.counters.chunks, 3U);
    EXPECT_EQ(shown.counters.unregistered, 3U);
    EXPECT_EQ(shown.counters.chunks_damaged, 0U);
    const std::string told = ::testing::internal::GetCapturedStderr();
    EXPECT_NE(told.find("large payloads go in messages"), std::string::npos) << told;
    EXPECT_NE(told.find("may lock 0 KiB in all"), std::string::npos) << "the reason: " << told;
    EXPECT_EQ(std::ranges::count(told, '\n'), 1) << told;
}

// The ranks that ask are as many as like; the payload is one.
TEST_F(Unregistered, IsServedInMessagesAndCountedOnce) {
    const std::vector<std::byte> payload(20'000, std::byte{7});
    const Descriptor held = group_->payloads().hold(Sequence(0), payload).value();
    while (!group_->payloads().fill(Sequence(0), payload))
        continue;
    for (const Rank reader : {kRoot, kOther})
        say(reader, {.tag = {Channel::payload, protocol::PullKind::ask},
                     .root = kSelf.value,
                     .detail = kReads,
                     .more = held.chunks()});
    for (const Rank reader : {kRoot, kOther}) {
        EXPECT_FALSE(has_sent(reader, {Channel::reading, ReadingKind::here}));
        EXPECT_TRUE(has_sent(reader, {Channel::payload, protocol::PullKind::chunk}));
    }
    EXPECT_EQ(count(), 1U);
}

TEST_F(Unregistered, IsNothingThatIsCountedWhereNothingIsRead) {
    wire_->reads(false);
    describe(0);
    EXPECT_EQ(count(), 0U);
}

// ------------------------------------------------------------------------------------------------- still read ---

// A payload of this rank's own, which all have consumed, and which another rank has been told where to read.
class StillRead : public GroupOfFour {
  protected:
    StillRead() : GroupOfFour({{"COPPICE_PAYLOAD_WINDOW", "64K"}}) {
        EXPECT_EQ(broadcast(), "");
        say(kOther, {.tag = {Channel::payload, protocol::PullKind::ask},
                     .root = kSelf.value,
                     .detail = kReads,
                     .more = Descriptor::of(kBytes, 32 * kKiB).chunks()});
        EXPECT_TRUE(has_sent(kOther, {Channel::reading, ReadingKind::here}));
    }
    // Why not; empty: it has ended.
    std::string broadcast() {
        const auto started = group_->start_pooled([&](Request& place) {
            return group_->broadcasts().start({.buffer = payload_.data(), .bytes = kBytes, .root = kSelf}, place);
        });
        if (!started) return started.error().message;
        Request& request = *started.value();
        while (request.state == RequestState::waiting && !group_->peek(request))
            group_->progress(Group::Care::thorough);
        EXPECT_EQ(request.status, COPPICE_OK);
        return {};
    }
    void all_have_consumed(std::uint64_t count) {
        say(Rank(0), {.tag = {Channel::members, MembersKind::left}, .stable = count});
    }
    void other_is_done() { say(kOther, {.tag = {Channel::reading, ReadingKind::done}, .root = kSelf.value}); }

    static constexpr std::size_t kBytes = 40'000;
    std::vector<std::byte> payload_ = std::vector<std::byte>(kBytes, std::byte{42});
};

TEST_F(StillRead, NamesTheReaderToARootThatFindsNoRoom) {
    const std::string before = broadcast();
    EXPECT_NE(before.find("40000 bytes are more than there is room for"), std::string::npos) << before;
    EXPECT_EQ(before.find("may still read"), std::string::npos) << "others have yet to consume it: " << before;
    all_have_consumed(1);
    const std::string text = broadcast();
    EXPECT_NE(text.find("40000 bytes are more than there is room for"), std::string::npos) << text;
    EXPECT_NE(text.find("rank 3 may still read the payload of an earlier one"), std::string::npos) << text;
    other_is_done();
    EXPECT_EQ(broadcast(), "");
}

TEST_F(StillRead, NamesTheReaderToARankThatLeaves) {
    all_have_consumed(1);
    EXPECT_FALSE(group_->drained());
    EXPECT_EQ(group_->leaving_waits_for(), "rank 3 may still read a large payload of this one's");
    other_is_done();
    EXPECT_TRUE(group_->drained());
    EXPECT_EQ(group_->leaving_waits_for().find("may still read"), std::string::npos);
}

// Nobody consumes anything any more, and what is under way in that memory is so still.
TEST_F(StillRead, NamesTheReaderToARankThatLeavesWhenAllIsRevoked) {
    group_->revocation().begin();
    EXPECT_FALSE(group_->drained());
    EXPECT_EQ(group_->leaving_waits_for(), "rank 3 may still read a large payload of this one's");
    other_is_done();
    EXPECT_EQ(group_->leaving_waits_for().find("may still read"), std::string::npos);
}

// ------------------------------------------------------------------------------------------------- beyond 4 GiB ---

struct Size {
    std::uint64_t bytes;
    std::uint32_t chunk;
};
std::vector<Size> far_sizes() {
    std::vector<Size> all;
    for (const std::uint64_t bytes :
         {4 * kGiB - 1, 4 * kGiB, 4 * kGiB + 1, 5 * kGiB + 77, 37 * kGiB + 4097, kMaxBroadcast - 1, kMaxBroadcast})
        for (const std::uint32_t chunk : {kLeastChunk, 1025U, 8192U, 65'536U, 999'999U, kMostChunk})
            all.push_back({bytes, chunk});
    return all;
}

TEST(FarChunks, CoverAPayloadOfAnySizeAndNothingElse) {
    for (const auto& [bytes, chunk] : far_sizes()) {
        const auto told = Descriptor::read(Descriptor::of(bytes, chunk).as_bytes());
        ASSERT_TRUE(told) << bytes << " in " << chunk;
        EXPECT_EQ(told->bytes, bytes);
        const std::uint32_t last = told->chunks() - 1;
        EXPECT_EQ(told->at(last) + told->length(last), bytes) << chunk;
        EXPECT_GE(told->length(last), 1U);
        EXPECT_LE(told->length(last), chunk);
        for (const std::uint64_t place : {std::uint64_t{0}, 2 * kGiB, 4 * kGiB - 2, bytes - 1}) {
            const auto number = static_cast<std::uint32_t>(place / chunk);
            EXPECT_LE(told->at(number), place) << bytes << " in " << chunk;
            EXPECT_GT(told->at(number) + told->length(number), place) << bytes << " in " << chunk;
        }
    }
}

TEST(FarChunks, AreAtMostAsManyAsTheirNumbersName) {
    EXPECT_EQ(Descriptor::of(kMaxBroadcast, kLeastChunk).chunks(), 1U << 30);
    EXPECT_EQ(desk_bytes(1U << 30), kChecksAt + 4 * kGiB) << "a check each";
    for (const auto& [bytes, chunk] : std::array<Size, 6>{{{kMaxBroadcast + 1, kLeastChunk},
                                                           {kMaxBroadcast + 1, kMostChunk},
                                                           {UINT64_MAX, kMostChunk},
                                                           {4 * kGiB, kLeastChunk - 1},
                                                           {std::uint64_t{1} << 32, 1},
                                                           {5 * kGiB, kMostChunk + 1}}})
        EXPECT_FALSE(Descriptor::read(Descriptor::of(bytes, chunk).as_bytes())) << bytes << " in " << chunk;
}

// Where ranks of a host, and those that read, look how many there are.
TEST(FarChunks, AreCountedWhereTheyAreShown) {
    constexpr std::uint64_t kSeed = 5;
    const auto shown_as = [](std::uint64_t have, std::uint32_t all) {
        return HaveWord{.have = have, .seal = HaveWord::sealed(kSeed, have)}.chunks(kSeed, all);
    };
    const auto words = std::make_unique<RowWords>();
    for (const auto& [bytes, chunk] : far_sizes()) {
        const Descriptor descriptor = Descriptor::of(bytes, chunk);
        const std::uint32_t all = descriptor.chunks();
        EXPECT_EQ(shown_as(all, all), all);
        EXPECT_EQ(shown_as(all - 1, all), all - 1);
        EXPECT_FALSE(shown_as(all + std::uint64_t{1}, all));
        EXPECT_FALSE(shown_as((std::uint64_t{1} << 32) + 1, all)) << "not one chunk";
        for (const std::uint32_t have : {all, all - 1, 0U}) {
            words->write({.sequence = Sequence(9), .descriptor = descriptor, .place = 33 * kGiB, .have = have});
            words->stamp.publish(10);
            const auto row = words->read();
            ASSERT_TRUE(row && !row->is_wrong) << bytes << " in " << chunk;
            EXPECT_EQ(row->descriptor, descriptor);
            EXPECT_EQ(row->place, 33 * kGiB);
            EXPECT_EQ(row->have, have);
        }
        words->write({.sequence = Sequence(9), .descriptor = descriptor, .place = 1, .have = all + 1});
        EXPECT_TRUE(words->read()->is_wrong);
    }
}

TEST(FarChunks, AreNotOfferedWhereAddressesEnd) {
    for (const auto& [bytes, chunk] : far_sizes()) {
        const Descriptor descriptor = Descriptor::of(bytes, chunk);
        const auto is_taken = [&](std::uint64_t chunks, std::uint64_t desk) {
            Offer offer{.chunks = chunks, .desk = desk, .of = descriptor.check};
            offer.seal();
            return Offer::read(offer.as_bytes(), descriptor).has_value();
        };
        const std::uint64_t desk = desk_bytes(descriptor.chunks());
        EXPECT_TRUE(is_taken(UINT64_MAX - bytes, UINT64_MAX - desk)) << bytes << " in " << chunk;
        EXPECT_FALSE(is_taken(UINT64_MAX - bytes + 1, UINT64_MAX - desk)) << bytes << " in " << chunk;
        EXPECT_FALSE(is_taken(UINT64_MAX - bytes, UINT64_MAX - desk + 1)) << bytes << " in " << chunk;
    }
}

std::vector<std::byte> chunk_of(std::uint32_t number, std::size_t bytes) {
    return std::vector<std::byte>(bytes, static_cast<std::byte>(number % 251 + 1));
}

// A root's: its last chunks leave from where they lie, and say which they are.
class FarRoot : public GroupOfFour {
  protected:
    FarRoot() : GroupOfFour({{"COPPICE_PAYLOAD_CHUNK", "8K"}}) {}
};

TEST_F(FarRoot, SendsWhatLiesBeyondFourGiB) {
    constexpr std::size_t kBytes = 4 * kGiB + 40 * kKiB + 77;
    wire_->reads(false);
    std::byte* const memory = group_->payloads().allocate(kBytes).value();
    const Descriptor held = group_->payloads().hold(Sequence(0), {memory, kBytes}).value();
    const std::uint32_t all = held.chunks();
    const std::uint32_t first = 4 * kGiB / 8192 - 1;  // just below
    for (std::uint32_t chunk = first; chunk < all; ++chunk)
        std::ranges::copy(chunk_of(chunk, held.length(chunk)), memory + held.at(chunk));
    say(kOther, {.tag = {Channel::payload, protocol::PullKind::ask},
                 .root = kSelf.value,
                 .more = std::uint64_t{first} << 32 | all});
    const Tag chunks(Channel::payload, protocol::PullKind::chunk);
    std::uint32_t next = first;
    for (const WireHeader& header : wire_->sent) {
        if (header.tag != chunks) continue;
        EXPECT_EQ(header.more, std::uint64_t{next} << 32);
        EXPECT_EQ(header.length, held.length(next));
        EXPECT_EQ(header.detail, transport::crc32c(chunk_of(next, held.length(next)))) << next;
        ++next;
    }
    EXPECT_EQ(next, all);
}

// A reader's: each chunk is read where it lies there, to where it is to lie here. Nothing is written below 4 GiB, where all are zeros.
TEST_F(GroupOfFour, APayloadBeyondFourGiBIsReadToWhereItIsToLie) {
    const Descriptor descriptor = Descriptor::of(4 * kGiB + 3 * kMostChunk + 77, kMostChunk);
    const std::uint32_t all = descriptor.chunks();
    const auto expected = [&](std::uint32_t chunk) {
        const std::size_t bytes = descriptor.length(chunk);
        return descriptor.at(chunk) < 4 * kGiB ? std::vector<std::byte>(bytes) : chunk_of(chunk, bytes);
    };
    const std::uint32_t of_zeros = transport::crc32c(expected(0));
    say(kRoot, {.tag = {Channel::broadcast, protocol::MessageKind::tree}, .root = kRoot.value, .length = kDescribed},
        descriptor.as_bytes());
    const Rank source = group_->payloads().source(Sequence(0)).value();
    Offer offer{.chunks = kGiB, .desk = kMaxBroadcast, .chunks_key = 1, .desk_key = 2, .of = descriptor.check};
    offer.seal();
    say(source, {.tag = {Channel::reading, ReadingKind::here}, .root = kRoot.value}, offer.as_bytes());
    const HaveWord word{.have = all,
                        .seal = HaveWord::sealed(HaveWord::seed_of(descriptor, kToken, Sequence(0), source), all)};

    const std::byte* base = nullptr;
    std::uint32_t next = 0;
    while (next < all) {
        ASSERT_FALSE(wire_->under_way.empty()) << next << " chunks are here";
        const ReadingWire::Read read = wire_->under_way.front();
        std::vector<std::byte> bytes;
        if (read.what.key == offer.chunks_key) {
            if (next == 0) base = read.into.data();
            ASSERT_EQ(read.what.address - offer.chunks, std::uint64_t{next} * kMostChunk);
            ASSERT_EQ(read.into.data() - base, static_cast<std::ptrdiff_t>(next) * kMostChunk);
            if (descriptor.at(next) >= 4 * kGiB) bytes = expected(next);
            ++next;
        } else if (read.what.address == offer.desk) {
            const auto shown = std::as_bytes(std::span(&word, 1));
            bytes.assign(shown.begin(), shown.end());
        } else {
            const std::uint64_t first = (read.what.address - offer.desk - kChecksAt) / sizeof(std::uint32_t);
            std::vector<std::uint32_t> checks(read.into.size() / sizeof(std::uint32_t), of_zeros);
            for (std::size_t i = 0; i < checks.size(); ++i)
                if (const auto chunk = static_cast<std::uint32_t>(first + i); descriptor.at(chunk) >= 4 * kGiB)
                    checks[i] = transport::crc32c(expected(chunk));
            const auto shown = std::as_bytes(std::span(checks));
            bytes.assign(shown.begin(), shown.end());
        }
        hear([&](transport::Receiver&) {
            if (bytes.empty())
                wire_->land_as_it_is();
            else
                wire_->land(bytes);
        });
    }
    EXPECT_EQ(group_->payloads().counts().read, all);
    EXPECT_EQ(group_->payloads().counts().damaged, 0U);
    const Payloads::Look look = group_->payloads().look(Sequence(0));
    EXPECT_EQ(look.state, Payloads::State::here);
    ASSERT_EQ(look.payload.size(), descriptor.bytes);
    for (std::uint32_t chunk = all - 5; chunk < all; ++chunk) {
        const auto there = look.payload.subspan(descriptor.at(chunk), descriptor.length(chunk));
        EXPECT_TRUE(std::ranges::equal(there, expected(chunk))) << chunk;
    }
}

}  // namespace
}  // namespace coppice::engine
