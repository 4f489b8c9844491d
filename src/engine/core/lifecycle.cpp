#include "engine/core/lifecycle.hpp"

#include <fmt/format.h>

namespace coppice::engine {
namespace {

// Of a rank that leaves (protocol/departure/).
constexpr Nanoseconds kAskAfter{20'000'000};
constexpr Nanoseconds kAskAgain{50'000'000};
constexpr Nanoseconds kLongestPause{400'000'000};
constexpr Nanoseconds kAnswerAfter{1'000'000'000};

}  // namespace

Lifecycle::Lifecycle(const Members& members, LocalPeers& local_peers, const Subscribers& subscribers, News& news,
                     bool is_successor)
    : members_(members),
      local_peers_(local_peers),
      subscribers_(subscribers),
      news_(news),
      departure_({.nodes = &members_.nodes_table(),
                  .ask_after = kAskAfter,
                  .ask_again = kAskAgain,
                  .longest_pause = kLongestPause,
                  .answer_after = kAnswerAfter,
                  .unclaimed = is_successor},
                 members_.self()) {}

void Lifecycle::be_fenced() {
    if (fenced()) return;
    standing_ = Standing::fenced;
    // The ranks of its host may know nothing of the others but through this one. They stop to wait for it, and ask others.
    if (local_peers_.board() != nullptr) {
        local_peers_.log_failure(members_.self());
        local_peers_.wake();
    }
    departure_.be_fenced();
    subscribers_.end_all(COPPICE_ERR_FENCED,
                         fmt::format("the others take this rank {} for dead", members_.self().value));
}

bool Lifecycle::taken_for_dead() const {
    return fenced() || (local_peers_.board() != nullptr && local_peers_.board()->fenced());
}

}  // namespace coppice::engine
