#include "bootstrap/presence.hpp"

#include <cstring>
#include <utility>
#include <vector>

#include "base/mix.hpp"
#include "base/process.hpp"

namespace coppice::bootstrap {

Presence::Presence(std::shared_ptr<const Witness> witness, std::uint64_t token, Who self)
    : witness_(std::move(witness)), token_(token), place_(witness_->take(name_of(self))) {}

Presence::~Presence() {
    if (place_ && !process::in_forked_child()) witness_->give_back(*place_);
}

Witness::About Presence::name_of(const Who& who) const {
    return {.group = mix(token_ + kWeyl * (std::uint64_t{who.incarnation} + 1)), .rank = who.number};
}

bool Presence::note_unknown(std::uint32_t epoch) {
    if (epoch < known_from_) return true;
    const std::uint32_t from = epoch + 1;
    if (place_ && !witness_->write(*place_, std::as_bytes(std::span(&from, 1)))) return false;
    known_from_ = from;
    return true;
}

std::optional<std::uint32_t> Presence::known_from(const Who& who) const {
    const auto words = witness_->last_words_of(name_of(who));
    if (!words) return std::nullopt;
    if (words->empty()) return 0;
    std::uint32_t from = 0;
    if (words->size() != sizeof from) return std::nullopt;
    std::memcpy(&from, words->data(), sizeof from);
    return from;
}

// It has ended, so nothing is added any more. But a later process may take its places with the witness, this one first.
bool Presence::was_never_there(const Who& who, const Witness::About& name, std::uint32_t epoch) const {
    const auto from = known_from(who);
    return from && epoch >= *from && !witness_->knows(name) && known_from(who) == from;
}

}  // namespace coppice::bootstrap
