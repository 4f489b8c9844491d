#include "bootstrap/store.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <new>
#include <thread>

#include "base/clock.hpp"
#include "base/host.hpp"
#include "bootstrap/piece.hpp"

namespace coppice::bootstrap {
namespace {

constexpr std::string_view kDuty = "start the same build of Coppice everywhere";

StoreHistory::Process own_process() {
    return {.host = std::hash<std::string>{}(host_identity("")),
            .started = process_start_time(getpid()),
            .number = static_cast<std::uint32_t>(getpid())};
}

}  // namespace

Result<Store::Answers> Store::get_all(std::span<const Rank> ranks, const std::string& key, std::uint64_t deadline_ns) {
    Answers all;
    all.reserve(ranks.size());
    for (const Rank one : ranks) {
        auto got = get(one, key, deadline_ns);
        if (!got) return tl::unexpected(std::move(got.error()));
        all.push_back(std::move(*got));
    }
    return all;
}

StoreHistory& StoreHistory::of_this_process() {
    static StoreHistory all;
    return all;
}

StoreBootstrap::StoreBootstrap(std::unique_ptr<Store> store, Subset subset, StoreHistory& history, std::string name,
                               bool fences)
    : store_(std::move(store)),
      subset_(std::move(subset)),
      history_(history),
      name_(std::move(name)),
      fences_(fences) {}

Result<std::unique_ptr<StoreBootstrap>> StoreBootstrap::create(std::unique_ptr<Store> store,
                                                               std::span<const std::uint32_t> ranks,
                                                               StoreHistory& history) try {
    auto subset = Subset::of(ranks, store->rank(), store->size());
    if (!subset) return tl::unexpected(std::move(subset.error()));
    // Where all ranks are in the list they may fence.
    const bool are_all = subset->size(store->size()) == store->size();
    if (!are_all && !store->waits_for_single_ranks()) {
        return fail(
            COPPICE_ERR_BOOTSTRAP,
            "{} brings all {} ranks together, or none: make a group of some with coppice_group_options_t.exchange, "
            "by broadcasts in a group of all",
            store->carrier(), store->size());
    }
    const std::lock_guard lock(history.mutex);
    // A server may know nothing yet of ranks on other hosts; and the first fence waits only for ranks that have had no session.
    if (!are_all && !history.begun.contains(0) && !store->fences_in_later_sessions()) {
        return fail(COPPICE_ERR_BOOTSTRAP,
                    "rank {}: {} brings some ranks together only after all have been: make a group of all first",
                    store->rank().value, store->carrier());
    }
    const std::uint64_t mark = are_all ? 0 : subset->mark();
    const std::uint32_t count = history.begun[mark]++;
    const bool fences = are_all && (count == 0 || store->fences_in_later_sessions());
    std::string name = are_all ? fmt::format("coppice.{}", count) : fmt::format("coppice.{:x}.{}", mark, count);
    return std::unique_ptr<StoreBootstrap>(
        new StoreBootstrap(std::move(store), std::move(*subset), history, std::move(name), fences));
} catch (const std::bad_alloc&) {
    return fail(COPPICE_ERR_NO_MEMORY, "no memory for a group of {} ranks", ranks.size());
}

Result<std::vector<StoreBootstrap::Piece>> StoreBootstrap::exchange(std::span<const Rank> wanted,
                                                                    std::span<const std::byte> mine,
                                                                    std::uint64_t deadline_ns) {
    PieceHeader header;
    header.rank = rank().value;
    header.size = size();
    header.round = round_++;
    header.bytes = static_cast<std::uint32_t>(mine.size());
    header.subset = static_cast<std::uint32_t>(subset_.mark());
    const bool is_first = header.round == 0;
    const std::string key = fmt::format("{}.{}", name_, header.round);
    Piece piece;
    append(piece, header);
    if (is_first) append(piece, own_process());
    append_bytes(piece, mine);
    if (auto put = store_->put(key, piece); !put) return tl::unexpected(std::move(put.error()));
    if (fences_) {
        if (auto met = store_->fence(deadline_ns); !met) return tl::unexpected(std::move(met.error()));
    }
    const auto fetched = fetch(wanted, key, deadline_ns);
    if (!fetched) return tl::unexpected(fetched.error());
    std::vector<std::optional<StoreHistory::Process>> processes(wanted.size());
    std::vector<Piece> result(wanted.size());
    for (std::size_t i = 0; i < wanted.size(); ++i) {
        const std::uint32_t r = wanted[i].value;
        const auto& got = (*fetched)[i];
        if (!got) continue;
        std::span<const std::byte> rest(*got);
        PieceHeader theirs;
        if (!take(rest, theirs)) theirs.magic = 0;
        if (auto ok = check_piece(header, theirs, r, store_->carrier(), kDuty); !ok) return tl::unexpected(ok.error());
        const bool is_whole = !is_first || take(rest, processes[i].emplace());
        if (!is_whole || theirs.bytes != rest.size()) {
            return fail(COPPICE_ERR_BOOTSTRAP, "{} gave {} of the {} bytes of rank {}", store_->carrier(), rest.size(),
                        theirs.bytes, r);
        }
        result[i].assign(rest.begin(), rest.end());
    }
    if (is_first) {
        const std::lock_guard lock(history_.mutex);
        for (std::size_t i = 0; i < wanted.size(); ++i)
            history_.met.try_emplace(subset_.outside(wanted[i].value).value, processes[i]);
    }
    return result;
}

// Nullopt for those that are dead.
Result<Store::Answers> StoreBootstrap::fetch(std::span<const Rank> wanted, const std::string& key,
                                             std::uint64_t deadline_ns) {
    std::vector<Rank> outside;
    outside.reserve(wanted.size());
    for (const Rank one : wanted)
        outside.push_back(subset_.outside(one.value));
    if (fences_) return store_->get_all(outside, key, deadline_ns);
    Store::Answers all;
    all.reserve(outside.size());
    for (const Rank one : outside) {
        auto got = fetch_one(one, key, deadline_ns);
        if (!got) return tl::unexpected(std::move(got.error()));
        all.push_back(std::move(*got));
    }
    return all;
}

// Nullopt for one that is dead.
Result<std::optional<StoreBootstrap::Piece>> StoreBootstrap::fetch_one(Rank from, const std::string& key,
                                                                       std::uint64_t deadline_ns) {
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
                "on a host of which no rank is left, or the launcher's server is stopped, or hangs",
                store_->rank().value, from.value);
        }
    }
}

// Ranks of its host see whether its process is there, and tell the others.
Result<bool> StoreBootstrap::is_dead(Rank rank) {
    std::map<std::uint32_t, std::optional<StoreHistory::Process>> met;
    {
        const std::lock_guard lock(history_.mutex);
        met = history_.met;
    }
    const auto theirs = met.find(rank.value);
    if (theirs == met.end()) return false;  // it has yet to come
    if (!theirs->second) return true;       // dead before the first group
    const std::uint64_t host = theirs->second->host;
    const std::string key = fmt::format("{}.dead.{}", name_, rank.value);
    const auto own = met.find(store_->rank().value);
    if (own != met.end() && own->second && own->second->host == host) {
        if (process_state(static_cast<pid_t>(theirs->second->number), theirs->second->started) != ProcessState::gone)
            return false;
        const std::byte yes{1};
        if (auto put = store_->put(key, {&yes, 1}); !put) return tl::unexpected(std::move(put.error()));
        return true;
    }
    for (std::uint32_t r = 0; r < size(); ++r) {
        const Rank witness = subset_.outside(r);
        const auto seen = met.find(witness.value);
        if (witness == rank || seen == met.end() || !seen->second || seen->second->host != host) continue;
        auto told = store_->wait_for(witness, key);
        if (!told) return tl::unexpected(std::move(told.error()));
        if (*told) return true;
    }
    return false;
}

namespace {

// By the group's numbers.
class SubsetReports final : public Reports {
  public:
    SubsetReports(std::unique_ptr<Reports> all, Subset subset) : all_(std::move(all)), subset_(std::move(subset)) {}
    int descriptor() const override { return all_->descriptor(); }
    std::vector<Rank> take() override {
        std::vector<Rank> here;
        const std::span<const std::uint32_t> ranks = subset_.ranks();
        for (const Rank outside : all_->take()) {
            const auto at = std::ranges::find(ranks, outside.value);
            if (at != ranks.end()) here.emplace_back(static_cast<std::uint32_t>(at - ranks.begin()));
        }
        return here;
    }

  private:
    std::unique_ptr<Reports> all_;
    Subset subset_;
};

}  // namespace

Result<std::unique_ptr<Reports>> StoreBootstrap::reports() {
    auto all = store_->reports();
    if (!all || *all == nullptr || subset_.is_all()) return all;
    return std::unique_ptr<Reports>(std::make_unique<SubsetReports>(std::move(*all), subset_));
}

Result<std::vector<std::vector<std::byte>>> StoreBootstrap::allgather(std::span<const std::byte> mine,
                                                                      std::uint64_t deadline_ns) {
    std::vector<Rank> all;
    for (std::uint32_t r = 0; r < size(); ++r)
        all.emplace_back(r);
    return exchange_with(all, mine, deadline_ns);
}

Result<std::vector<std::vector<std::byte>>> StoreBootstrap::exchange_with(std::span<const Rank> wanted,
                                                                          std::span<const std::byte> mine,
                                                                          std::uint64_t deadline_ns) {
    if (broken_) return fail(COPPICE_ERR_BOOTSTRAP, "rank {}: an earlier exchange of this group failed", rank().value);
    if (mine.size() > kMaxBlob) {
        return fail(COPPICE_ERR_TOO_LARGE, "rank {} offers {} bytes to the exchange; {} are allowed", rank().value,
                    mine.size(), kMaxBlob);
    }
    broken_ = true;
    try {
        auto result = exchange(wanted, mine, deadline_ns);
        broken_ = !result;
        return result;
    } catch (const std::bad_alloc&) {
        return fail(COPPICE_ERR_NO_MEMORY, "rank {}: no memory for the exchange among {} ranks", rank().value, size());
    }
}

}  // namespace coppice::bootstrap
