#include "bootstrap/store.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <mutex>
#include <new>
#include <thread>

#include "base/clock.hpp"
#include "base/host.hpp"
#include "bootstrap/piece.hpp"

namespace coppice::bootstrap {
namespace {

constexpr std::string_view kDuty = "start the same build of Coppice everywhere";

std::uint32_t next_generation() {
    static std::mutex mutex;
    static std::uint32_t generation = 0;
    const std::lock_guard lock(mutex);
    return generation++;
}

// Which process a rank is. Each rank tells it before its first bytes, and those of its host look later whether it lives.
struct Presence {
    std::uint64_t host = 0;  // equal for those that see each other's processes
    std::uint64_t started = 0;
    std::uint32_t process = 0;
    std::uint32_t reserved = 0;
};

Presence own_presence() {
    return {.host = std::hash<std::string>{}(host_identity("")),
            .started = process_start_time(getpid()),
            .process = static_cast<std::uint32_t>(getpid())};
}

// Of the ranks of this process's first session, by rank. Sessions may be made by several threads.
struct Presences {
    std::mutex mutex;
    std::vector<std::optional<Presence>> all;
};
Presences& presences() {
    static Presences all;
    return all;
}

}  // namespace

StoreBootstrap::StoreBootstrap(std::unique_ptr<Store> store)
    : store_(std::move(store)),
      generation_(next_generation()),
      fences_(generation_ == 0 || store_->fences_in_later_sessions()) {}

Result<std::vector<StoreBootstrap::Piece>> StoreBootstrap::exchange(std::span<const std::byte> mine,
                                                                    std::uint64_t deadline_ns) {
    PieceHeader header;
    header.rank = rank().value;
    header.size = size();
    header.round = round_++;
    header.bytes = static_cast<std::uint32_t>(mine.size());
    const bool is_first = generation_ == 0 && header.round == 0;
    const std::string key = fmt::format("coppice.{}.{}", generation_, header.round);
    Piece piece;
    append(piece, header);
    if (is_first) append(piece, own_presence());
    append_bytes(piece, mine);
    if (auto put = store_->put(key, piece); !put) return tl::unexpected(std::move(put.error()));
    if (fences_) {
        if (auto met = store_->fence(deadline_ns); !met) return tl::unexpected(std::move(met.error()));
    }
    std::vector<std::optional<Presence>> present(size());
    std::vector<Piece> result(size());
    for (std::uint32_t r = 0; r < size(); ++r) {
        auto got = fetch(Rank(r), key, deadline_ns);
        if (!got) return tl::unexpected(std::move(got.error()));
        if (!*got) continue;
        std::span<const std::byte> rest(**got);
        PieceHeader theirs;
        if (!take(rest, theirs)) theirs.magic = 0;
        if (auto ok = check_piece(header, theirs, r, store_->carrier(), kDuty); !ok) return tl::unexpected(ok.error());
        const bool is_whole = !is_first || take(rest, present[r].emplace());
        if (!is_whole || theirs.bytes != rest.size()) {
            return fail(COPPICE_ERR_BOOTSTRAP, "{} gave {} of the {} bytes of rank {}", store_->carrier(), rest.size(),
                        theirs.bytes, r);
        }
        result[r].assign(rest.begin(), rest.end());
    }
    if (is_first) {
        const std::lock_guard lock(presences().mutex);
        presences().all = std::move(present);
    }
    return result;
}

// Nullopt for one that is dead.
Result<std::optional<StoreBootstrap::Piece>> StoreBootstrap::fetch(Rank from, const std::string& key,
                                                                   std::uint64_t deadline_ns) {
    if (fences_) return store_->get(from, key, deadline_ns);
    if (std::ranges::find(dead_, from) != dead_.end()) return std::optional<Piece>();
    while (true) {
        auto got = store_->wait_for(from, key);
        if (!got || *got) return got;
        const auto dead = is_dead(from);
        if (!dead) return tl::unexpected(dead.error());
        if (*dead) {
            dead_.push_back(from);
            return store_->wait_for(from, key);  // what it had put before may have been on its way
        }
        if (now_ns() >= deadline_ns) {
            return fail(
                COPPICE_ERR_BOOTSTRAP,
                "rank {}: rank {} did not show up before the deadline: it does not make this group, or has ended "
                "on a host of which no rank is left",
                rank().value, from.value);
        }
    }
}

// Ranks of its host see whether its process is there, and tell the others.
Result<bool> StoreBootstrap::is_dead(Rank rank) {
    std::vector<std::optional<Presence>> all;
    {
        const std::lock_guard lock(presences().mutex);
        all = presences().all;
    }
    const std::uint32_t self = store_->rank().value;
    if (rank.value >= all.size() || !all[rank.value]) return true;  // dead before the first group
    const std::uint64_t host = all[rank.value]->host;
    const std::string key = fmt::format("coppice.{}.dead.{}", generation_, rank.value);
    if (all[self] && all[self]->host == host) {
        if (process_state(static_cast<pid_t>(all[rank.value]->process), all[rank.value]->started) != ProcessState::gone)
            return false;
        const std::byte yes{1};
        if (auto put = store_->put(key, {&yes, 1}); !put) return tl::unexpected(std::move(put.error()));
        return true;
    }
    for (std::uint32_t r = 0; r < all.size(); ++r) {
        if (r == rank.value || !all[r] || all[r]->host != host) continue;
        auto told = store_->wait_for(Rank(r), key);
        if (!told) return tl::unexpected(std::move(told.error()));
        if (*told) return true;
    }
    return false;
}

Result<std::vector<std::vector<std::byte>>> StoreBootstrap::allgather(std::span<const std::byte> mine,
                                                                      std::uint64_t deadline_ns) {
    if (broken_) return fail(COPPICE_ERR_BOOTSTRAP, "rank {}: an earlier exchange of this group failed", rank().value);
    if (mine.size() > kMaxBlob) {
        return fail(COPPICE_ERR_TOO_LARGE, "rank {} offers {} bytes to the exchange; {} are allowed", rank().value,
                    mine.size(), kMaxBlob);
    }
    broken_ = true;
    try {
        auto result = exchange(mine, deadline_ns);
        broken_ = !result;
        return result;
    } catch (const std::bad_alloc&) {
        return fail(COPPICE_ERR_NO_MEMORY, "rank {}: no memory for the exchange among {} ranks", rank().value, size());
    }
}

}  // namespace coppice::bootstrap
