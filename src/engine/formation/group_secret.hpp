// The secret of a group: every process that took part in the exchange of its first greetings knows it, and no other
// does.
//
// Each greeting carries a nonce of 32 random bytes; the secret is a keyed hash over those of all ranks, in the order of the
// ranks. So it is as secret as the exchange: made by the launcher or the caller, it never stands in an argument or the
// environment.
#pragma once

#include <span>
#include <string>

#include "base/error.hpp"
#include "transport/secret.hpp"

namespace coppice::engine {

// 64 hexadecimal digits.
Result<std::string> draw_nonce();

// `nonces` by rank; those of the dead are empty.
transport::GroupSecret derive_secret(std::span<const std::string> nonces);

}  // namespace coppice::engine
