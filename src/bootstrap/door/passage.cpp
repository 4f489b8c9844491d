#include "bootstrap/door/passage.hpp"

#include <sodium.h>

#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>

namespace coppice::bootstrap {
namespace {

constexpr std::size_t kTag = crypto_aead_xchacha20poly1305_ietf_ABYTES;
constexpr std::size_t kLengthBytes = 4;
constexpr std::size_t kMostBeforeProof = sizeof(Knock) + sizeof(DoorProof);

using SealNonce = std::array<unsigned char, crypto_aead_xchacha20poly1305_ietf_NPUBBYTES>;

// Each key is good for one direction of one connection: no number comes twice.
SealNonce nonce_of(std::uint64_t number) {
    SealNonce nonce{};
    std::memcpy(nonce.data(), &number, sizeof number);
    return nonce;
}

const unsigned char* raw(const std::byte* bytes) {
    return reinterpret_cast<const unsigned char*>(bytes);
}

}  // namespace

DoorNonce draw_door_nonce() {
    DoorNonce nonce;
    randombytes_buf(nonce.data(), nonce.size());
    return nonce;
}

Passage Passage::knock(const Key& key, const Knock& knock) {
    Passage made(true);
    made.key_ = key;
    made.knock_ = knock;
    made.say(&made.knock_, sizeof made.knock_);
    return made;
}

Passage Passage::answer(FindKey find_key, const DoorNonce& nonce) {
    Passage made(false);
    made.find_key_ = std::move(find_key);
    made.answer_.nonce = nonce;
    return made;
}

void Passage::say(const void* bytes, std::size_t size) {
    append_bytes(output_, std::span(static_cast<const std::byte*>(bytes), size));
}

void Passage::receive(std::span<const std::byte> bytes) {
    if (is_over()) return;
    // At the door one that has not proved anything says no more than that; one that knocks may be told more at once.
    if (state_ == State::under_way && !knocks_ && input_.size() + bytes.size() > kMostBeforeProof) {
        // It may have begun with its frames, whose key is that of its proof: there may be one read's worth behind it.
        const std::size_t wanted = (knock_came_ ? 0 : sizeof(Knock)) + sizeof(DoorProof);
        if (input_.size() >= wanted) {
            state_ = State::broken;
            return;
        }
    }
    append_bytes(input_, bytes);
    while (state_ == State::under_way) {
        const bool went_on = knocks_ ? take_answer() : knock_came_ ? take_proof() : take_knock();
        if (!went_on) return;
    }
}

bool Passage::take_knock() {
    if (input_.size() < sizeof(Knock)) {
        // A stranger that says something else waits for nothing.
        const std::size_t known = std::min(input_.size(), knock_.magic.size());
        if (std::memcmp(input_.data(), Knock{}.magic.data(), known) != 0) state_ = State::broken;
        return false;
    }
    std::memcpy(&knock_, input_.data(), sizeof knock_);
    input_.erase(input_.begin(), input_.begin() + sizeof(Knock));
    if (knock_.magic != Knock{}.magic) {
        state_ = State::broken;
        return false;
    }
    their_version_ = knock_.version;
    if (knock_.version != kDoorVersion || knock_.word_size != sizeof(void*) || knock_.byte_order != kByteOrderProbe) {
        answer_.refuses = 1;
        say(&answer_, sizeof answer_);
        state_ = State::misunderstood;
        return false;
    }
    const auto key = find_key_(knock_);
    find_key_ = nullptr;
    if (!key) {
        state_ = State::broken;
        return false;
    }
    key_ = *key;
    knock_came_ = true;
    answer_.proof = prove(false);
    say(&answer_, sizeof answer_);
    return true;
}

bool Passage::take_answer() {
    if (input_.size() < sizeof(Answer)) return false;
    std::memcpy(&answer_, input_.data(), sizeof answer_);
    input_.erase(input_.begin(), input_.begin() + sizeof(Answer));
    if (answer_.magic != Answer{}.magic) {
        state_ = State::broken;
        return false;
    }
    their_version_ = answer_.version;
    if (answer_.version != kDoorVersion || answer_.refuses != 0) {
        state_ = State::misunderstood;
        return false;
    }
    const DoorProof expected = prove(false);
    if (sodium_memcmp(expected.data(), answer_.proof.data(), expected.size()) != 0) {
        state_ = State::forged;
        return false;
    }
    const DoorProof proof = prove(true);
    say(proof.data(), proof.size());
    open();
    return false;
}

bool Passage::take_proof() {
    if (input_.size() < sizeof(DoorProof)) return false;
    const DoorProof expected = prove(true);
    const bool is_right = sodium_memcmp(expected.data(), input_.data(), expected.size()) == 0;
    input_.erase(input_.begin(), input_.begin() + sizeof(DoorProof));
    if (is_right) {
        open();
    } else {
        state_ = State::forged;
    }
    return false;
}

DoorProof Passage::prove(bool of_knocker) const {
    constexpr std::string_view kDoor = "coppice: proof of a door";
    constexpr std::string_view kKnocker = "coppice: proof of one that knocks";
    const std::string_view purpose = of_knocker ? kKnocker : kDoor;
    DoorProof proof;
    crypto_generichash_state state;
    crypto_generichash_init(&state, key_.data(), key_.size(), proof.size());
    crypto_generichash_update(&state, reinterpret_cast<const unsigned char*>(purpose.data()), purpose.size());
    crypto_generichash_update(&state, reinterpret_cast<const unsigned char*>(&knock_), sizeof knock_);
    crypto_generichash_update(&state, answer_.nonce.data(), answer_.nonce.size());
    crypto_generichash_final(&state, proof.data(), proof.size());
    return proof;
}

Key Passage::key_for(const char* purpose) const {
    Key key;
    crypto_generichash_state state;
    crypto_generichash_init(&state, key_.data(), key_.size(), key.size());
    crypto_generichash_update(&state, reinterpret_cast<const unsigned char*>(purpose), std::strlen(purpose));
    crypto_generichash_update(&state, knock_.nonce.data(), knock_.nonce.size());
    crypto_generichash_update(&state, answer_.nonce.data(), answer_.nonce.size());
    crypto_generichash_final(&state, key.data(), key.size());
    return key;
}

void Passage::open() {
    const Key to_door = key_for("coppice: frames to the door");
    const Key from_door = key_for("coppice: frames from the door");
    seal_ = knocks_ ? to_door : from_door;
    unseal_ = knocks_ ? from_door : to_door;
    state_ = State::open;
}

void Passage::send(std::span<const std::byte> frame) {
    if (state_ != State::open) return;
    append(output_, static_cast<std::uint32_t>(frame.size() + kTag));
    const std::size_t at = output_.size();
    output_.resize(at + frame.size() + kTag);
    const SealNonce nonce = nonce_of(sent_++);
    crypto_aead_xchacha20poly1305_ietf_encrypt(reinterpret_cast<unsigned char*>(output_.data() + at), nullptr,
                                               raw(frame.data()), frame.size(), nullptr, 0, nullptr, nonce.data(),
                                               seal_.data());
}

std::optional<std::vector<std::byte>> Passage::next() {
    std::uint32_t length = 0;
    if (state_ != State::open || input_.size() < kLengthBytes) return std::nullopt;
    std::memcpy(&length, input_.data(), sizeof length);
    if (length < kTag || length > most_frame_ + kTag) {
        state_ = State::broken;
        return std::nullopt;
    }
    if (input_.size() - kLengthBytes < length) return std::nullopt;
    std::vector<std::byte> frame(length - kTag);
    const SealNonce nonce = nonce_of(received_++);
    const int bad = crypto_aead_xchacha20poly1305_ietf_decrypt(reinterpret_cast<unsigned char*>(frame.data()), nullptr,
                                                               nullptr, raw(input_.data() + kLengthBytes), length,
                                                               nullptr, 0, nonce.data(), unseal_.data());
    if (bad != 0) {
        state_ = State::broken;
        return std::nullopt;
    }
    input_.erase(input_.begin(), input_.begin() + static_cast<std::ptrdiff_t>(kLengthBytes + length));
    return frame;
}

}  // namespace coppice::bootstrap
