// The handshake and the frames of the TCP transport, without sockets.
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "transport/conformance.hpp"
#include "transport/tcp/handshake.hpp"
#include "transport/tcp/wire.hpp"

namespace coppice::testing {

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Conformance);

namespace {

using transport::tcp::cost_of;
using transport::tcp::draw_nonce;
using transport::tcp::Frame;
using transport::tcp::FrameHead;
using transport::tcp::Handshake;
using transport::tcp::Identity;
using transport::tcp::Kind;
using transport::tcp::kMaxLarge;
using transport::tcp::Opening;
using transport::tcp::parse_frame;
using transport::tcp::Parsed;
using State = Handshake::State;

Identity identity(std::uint32_t rank, unsigned char secret = 1, std::uint64_t token = 7) {
    Identity made{.token = token, .self = Seat(rank), .group_size = 8, .room = 100'000};
    made.secret.bytes.fill(secret);
    return made;
}

Bytes copy(std::span<const std::byte> bytes) {
    return {bytes.begin(), bytes.end()};
}

// What passed between two machines.
struct Transcript {
    Bytes opening, challenge, proof, welcome;
};

Transcript shake(Handshake& initiator, Handshake& acceptor) {
    Transcript said;
    said.opening = copy(initiator.opening());
    said.challenge = copy(acceptor.take(said.opening));
    if (acceptor.state() != State::under_way) return said;
    said.proof = copy(initiator.take(said.challenge));
    acceptor.take(said.proof);
    if (acceptor.state() != State::proven) return said;
    said.welcome = copy(acceptor.welcome());
    initiator.take(said.welcome);
    return said;
}

TEST(TcpHandshake, TwoRanksOfOneGroupFindEachOther) {
    const Identity two = identity(2), five = identity(5);
    auto initiator = Handshake::initiate(two, Seat(5), 0, draw_nonce());
    auto acceptor = Handshake::accept(five, draw_nonce());
    EXPECT_FALSE(initiator.committed());
    const Transcript said = shake(initiator, acceptor);
    EXPECT_EQ(initiator.state(), State::done);
    EXPECT_EQ(acceptor.state(), State::done);
    EXPECT_TRUE(initiator.committed());
    EXPECT_EQ(acceptor.peer(), Seat(2));
    EXPECT_EQ(initiator.room(), 100'000U);
    EXPECT_EQ(acceptor.room(), 100'000U);
    EXPECT_EQ(said.opening.size() + said.proof.size(), 72U);  // all that a stranger may say
}

TEST(TcpHandshake, AnotherSecretGroupOrRankIsRefused) {
    const Identity five = identity(5);
    const auto refused = [&](const Identity& other, Seat to) {
        auto initiator = Handshake::initiate(other, to, 0, draw_nonce());
        auto acceptor = Handshake::accept(five, draw_nonce());
        shake(initiator, acceptor);
        return acceptor.state() == State::refused;
    };
    EXPECT_FALSE(refused(identity(2), Seat(5)));
    EXPECT_TRUE(refused(identity(2, 9), Seat(5)));
    EXPECT_TRUE(refused(identity(2, 1, 8), Seat(5)));
    EXPECT_TRUE(refused(identity(2), Seat(4)));  // it wanted another one
    EXPECT_TRUE(refused(identity(9), Seat(5)));  // no rank of the group
    EXPECT_TRUE(refused(identity(5), Seat(5)));  // this rank itself
    EXPECT_TRUE(refused(
        [] {
            Identity narrow = identity(2);
            narrow.room = 0;
            return narrow;
        }(),
        Seat(5)));
}

TEST(TcpHandshake, AnAcceptorWithoutTheSecretIsFoundOut) {
    const Identity two = identity(2), thief = identity(5, 9);
    auto initiator = Handshake::initiate(two, Seat(5), 0, draw_nonce());
    auto acceptor = Handshake::accept(thief, draw_nonce());
    initiator.take(acceptor.take(initiator.opening()));
    ASSERT_EQ(initiator.wanted(), 32U);
    initiator.take(acceptor.welcome());  // made with another secret
    EXPECT_EQ(initiator.state(), State::refused);
}

// A stranger that has recorded a handshake, or passes on what one rank says to another, proves nothing.
TEST(TcpHandshake, RecordingsAndReflectionsProveNothing) {
    const Identity two = identity(2), five = identity(5);
    auto initiator = Handshake::initiate(two, Seat(5), 0, draw_nonce());
    auto acceptor = Handshake::accept(five, draw_nonce());
    const Transcript said = shake(initiator, acceptor);

    auto again = Handshake::accept(five, draw_nonce());
    again.take(said.opening);
    again.take(said.proof);
    EXPECT_EQ(again.state(), State::refused);

    auto later = Handshake::initiate(two, Seat(5), 0, draw_nonce());
    later.take(said.challenge);
    later.take(said.welcome);
    EXPECT_EQ(later.state(), State::refused);

    // A proof that comes back is none: the sides differ.
    auto mirrored = Handshake::initiate(two, Seat(5), 0, draw_nonce());
    const Bytes own = copy(mirrored.take(said.challenge));
    mirrored.take(own);
    EXPECT_EQ(mirrored.state(), State::refused);
}

TEST(TcpHandshake, EveryChangedBitOfEitherSideIsFoundOut) {
    const Identity two = identity(2), five = identity(5);
    for (std::size_t bit = 0; bit < 8 * 32; ++bit) {
        auto initiator = Handshake::initiate(two, Seat(5), 0, draw_nonce());
        auto acceptor = Handshake::accept(five, draw_nonce());
        Bytes proof = copy(initiator.take(acceptor.take(initiator.opening())));
        proof[bit / 8] ^= std::byte{1} << (bit % 8);
        acceptor.take(proof);
        EXPECT_EQ(acceptor.state(), State::refused) << bit;
    }
    for (std::size_t bit = 0; bit < 8 * sizeof(Opening); ++bit) {
        auto initiator = Handshake::initiate(two, Seat(5), 0, draw_nonce());
        auto acceptor = Handshake::accept(five, draw_nonce());
        Bytes opening = copy(initiator.opening());
        opening[bit / 8] ^= std::byte{1} << (bit % 8);
        const Bytes challenge = copy(acceptor.take(opening));
        if (acceptor.state() == State::under_way) acceptor.take(initiator.take(challenge));
        EXPECT_EQ(acceptor.state(), State::refused) << bit;
    }
}

// What a rank says that leaves, from a rank of the same group to the one that hears it.
State hear_farewell(const Bytes& word, const Identity& at) {
    auto acceptor = Handshake::accept(at, draw_nonce());
    EXPECT_TRUE(acceptor.take(std::span(word).first(sizeof(Opening))).empty());  // nobody waits for an answer
    if (acceptor.state() == State::under_way) acceptor.take(std::span(word).subspan(sizeof(Opening)));
    return acceptor.state();
}

TEST(TcpHandshake, AFarewellIsBelievedOfARankOfTheGroupAlone) {
    const Identity two = identity(2), five = identity(5);
    const Bytes word = copy(Handshake::farewell(two, Seat(5), draw_nonce()));
    EXPECT_EQ(hear_farewell(word, five), State::departed);
    EXPECT_EQ(hear_farewell(word, identity(4)), State::refused);
    EXPECT_EQ(hear_farewell(copy(Handshake::farewell(identity(2, 9), Seat(5), draw_nonce())), five), State::refused);
    EXPECT_EQ(hear_farewell(copy(Handshake::farewell(identity(2, 1, 8), Seat(5), draw_nonce())), five), State::refused);
    for (std::size_t bit = 0; bit < word.size() * 8; ++bit) {
        Bytes changed = word;
        changed[bit / 8] ^= std::byte{1} << (bit % 8);
        auto acceptor = Handshake::accept(five, draw_nonce());
        acceptor.take(std::span(changed).first(sizeof(Opening)));
        if (acceptor.state() == State::under_way) acceptor.take(std::span(changed).subspan(sizeof(Opening)));
        EXPECT_EQ(acceptor.state(), State::refused) << "bit " << bit;
    }
}

// Neither is the one taken for the other.
TEST(TcpHandshake, AProofIsNoFarewell) {
    const Identity two = identity(2), five = identity(5);
    auto initiator = Handshake::initiate(two, Seat(5), 0, draw_nonce());
    auto acceptor = Handshake::accept(five, draw_nonce());
    const Transcript said = shake(initiator, acceptor);
    Bytes word = said.opening;
    word[offsetof(Opening, purpose)] = std::byte{1};
    word.insert(word.end(), said.proof.begin(), said.proof.end());
    EXPECT_EQ(hear_farewell(word, five), State::refused);
}

TEST(TcpHandshake, NonsenseAndWrongLengthsAreRefused) {
    const Identity five = identity(5);
    for (std::uint64_t seed = 0; seed < 200; ++seed) {
        auto acceptor = Handshake::accept(five, draw_nonce());
        acceptor.take(pattern(seed, seed % 2 == 0 ? sizeof(Opening) : seed % 64));
        EXPECT_EQ(acceptor.state(), State::refused);
        EXPECT_EQ(acceptor.wanted(), 0U);
        EXPECT_TRUE(acceptor.take({}).empty());
    }
}

// ---------------------------------------------------------------------------------------------------------- frames ---

Bytes frame_of(const FrameHead& head, std::size_t more) {
    Bytes bytes(sizeof head + more);
    std::memcpy(bytes.data(), &head, sizeof head);
    return bytes;
}

TEST(TcpWire, FramesAreWholeOrPartial) {
    const Bytes bytes =
        frame_of(FrameHead{.payload_size = 100, .header_size = 20, .kind = Kind::data, .consumed = 3}, 120);
    Frame frame;
    for (std::size_t length = 0; length < bytes.size(); ++length)
        EXPECT_EQ(parse_frame(std::span(bytes).first(length), frame), Parsed::partial);
    ASSERT_EQ(parse_frame(bytes, frame), Parsed::frame);
    EXPECT_EQ(frame.length, 128U);
    EXPECT_EQ(frame.header.size(), 20U);
    EXPECT_EQ(frame.payload.size(), 100U);
}

TEST(TcpWire, WhatNoRankWouldWriteIsGarbage) {
    Frame frame;
    const auto parsed = [&](const FrameHead& head) { return parse_frame(frame_of(head, 9000), frame); };
    EXPECT_EQ(parsed(FrameHead{.payload_size = 8192, .header_size = 48}), Parsed::frame);
    EXPECT_EQ(parsed(FrameHead{.payload_size = kMaxLarge, .header_size = 48}), Parsed::partial);
    EXPECT_EQ(parsed(FrameHead{.payload_size = kMaxLarge + 1, .header_size = 48}), Parsed::garbage);
    EXPECT_EQ(parsed(FrameHead{.payload_size = 8192, .header_size = 49}), Parsed::garbage);
    EXPECT_EQ(parsed(FrameHead{.kind = static_cast<Kind>(0)}), Parsed::garbage);
    EXPECT_EQ(parsed(FrameHead{.kind = static_cast<Kind>(7)}), Parsed::garbage);
    EXPECT_EQ(parsed(FrameHead{.kind = Kind::goodbye}), Parsed::frame);
    EXPECT_EQ(parsed(FrameHead{.payload_size = 1, .kind = Kind::goodbye}), Parsed::garbage);
    EXPECT_EQ(parsed(FrameHead{.header_size = 1, .kind = Kind::credit}), Parsed::garbage);
}

}  // namespace
}  // namespace coppice::testing
