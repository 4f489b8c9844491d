#include "transport/tcp/handshake.hpp"

#include <sodium.h>

#include <algorithm>
#include <cstring>

#include "transport/tcp/wire.hpp"

namespace coppice::transport::tcp {

Nonce draw_nonce() {
    Nonce nonce;
    randombytes_buf(nonce.data(), nonce.size());
    return nonce;
}

Handshake Handshake::initiate(const Identity& identity, Seat peer, std::uint32_t incarnation, const Nonce& nonce) {
    Handshake made(identity, true);
    made.peer_ = peer;
    made.incarnation_ = incarnation;
    made.opening_.from = identity.self.value;
    made.opening_.to = peer.value;
    made.opening_.incarnation = identity.incarnation;
    made.opening_.room = identity.room;
    made.opening_.nonce = nonce;
    made.step_ = Step::challenge;
    return made;
}

Handshake Handshake::accept(const Identity& identity, const Nonce& nonce) {
    Handshake made(identity, false);
    made.challenge_.incarnation = identity.incarnation;
    made.challenge_.room = identity.room;
    made.challenge_.nonce = nonce;
    return made;
}

FarewellWord Handshake::farewell(const Identity& identity, Seat peer, const Nonce& nonce) {
    Handshake leaving = initiate(identity, peer, 0, nonce);
    leaving.opening_.purpose = Purpose::farewell;
    const Proof proof = leaving.prove(true);
    FarewellWord word;
    const auto end = std::ranges::copy(leaving.opening(), word.begin()).out;
    std::ranges::copy(std::as_bytes(std::span(proof)), end);
    return word;
}

std::size_t Handshake::wanted() const {
    if (state_ != State::under_way) return 0;
    switch (step_) {
        case Step::opening:
            return sizeof(Opening);
        case Step::challenge:
            return sizeof(Challenge);
        case Step::proof:
        case Step::welcome:
            return sizeof(Proof);
        case Step::over:
            break;
    }
    return 0;
}

std::span<const std::byte> Handshake::take(std::span<const std::byte> bytes) {
    if (bytes.size() != wanted() || bytes.empty()) {
        state_ = State::refused;
        return {};
    }
    if (initiator_ && std::ranges::all_of(bytes, [](std::byte byte) { return byte == std::byte{0}; })) {
        state_ = State::busy;
        return {};
    }
    switch (step_) {
        case Step::opening:
            take_opening(bytes);
            if (state_ == State::refused) return {};
            step_ = Step::proof;
            if (opening_.purpose == Purpose::farewell) {
                challenge_ = {};
                return {};
            }
            return std::as_bytes(std::span(&challenge_, 1));
        case Step::challenge:
            std::memcpy(&challenge_, bytes.data(), sizeof challenge_);
            room_ = challenge_.room;
            if (room_ < kLeastRoom || challenge_.incarnation != incarnation_) {
                state_ = State::refused;
                return {};
            }
            proof_ = prove(true);
            step_ = Step::welcome;
            return std::as_bytes(std::span(proof_));
        case Step::proof:
            state_ = opening_.purpose == Purpose::farewell ? State::departed : State::proven;
            if (!is_proof(bytes, true)) state_ = State::refused;
            step_ = Step::over;
            return {};
        case Step::welcome:
            state_ = is_proof(bytes, false) ? State::done : State::refused;
            step_ = Step::over;
            return {};
        case Step::over:
            break;
    }
    return {};
}

void Handshake::take_opening(std::span<const std::byte> bytes) {
    const Opening expected;
    std::memcpy(&opening_, bytes.data(), sizeof opening_);
    const bool ours = opening_.magic == expected.magic && opening_.version == kWireVersion;
    const bool to_us = opening_.to == identity_->self.value && opening_.from < identity_->group_size &&
                       opening_.from != identity_->self.value;
    if (!ours || !to_us || opening_.room < kLeastRoom || opening_.purpose > Purpose::farewell) {
        state_ = State::refused;
        return;
    }
    peer_ = Seat(opening_.from);
    incarnation_ = opening_.incarnation;
    room_ = opening_.room;
}

std::span<const std::byte> Handshake::welcome() {
    proof_ = prove(false);
    state_ = State::done;
    return std::as_bytes(std::span(proof_));
}

std::span<const std::byte> Handshake::busy() const {
    static constexpr Proof kZeros{};
    const auto zeros = std::as_bytes(std::span(kZeros));
    return step_ == Step::opening ? zeros.first(sizeof(Challenge)) : zeros;
}

Proof Handshake::prove(bool initiator) const {
    struct {
        char purpose[16] = "coppice tcp";
        std::uint64_t token;
        std::uint32_t side;
        std::uint32_t reserved = 0;
        Opening opening;
        Challenge challenge;
    } said{.token = identity_->token, .side = initiator ? 1U : 2U, .opening = opening_, .challenge = challenge_};
    static_assert(sizeof said == 96, "no padding: all of it is hashed");
    Proof proof;
    crypto_generichash(proof.data(), proof.size(), reinterpret_cast<const unsigned char*>(&said), sizeof said,
                       identity_->secret.bytes.data(), identity_->secret.bytes.size());
    return proof;
}

bool Handshake::is_proof(std::span<const std::byte> bytes, bool initiator) const {
    const Proof expected = prove(initiator);
    return sodium_memcmp(expected.data(), bytes.data(), expected.size()) == 0;
}

}  // namespace coppice::transport::tcp
