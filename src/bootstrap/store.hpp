// Bootstrap over a launcher's store of keys and values, as PMIx and PMI have it: put, a fence among all, get.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bootstrap/bootstrap.hpp"
#include "bootstrap/subset.hpp"

namespace coppice::bootstrap {

// The store as one rank sees it. Each key is put once.
class Store {
  public:
    using Answers = std::vector<std::optional<std::vector<std::byte>>>;
    virtual ~Store() = default;
    virtual Rank rank() const = 0;
    virtual std::uint32_t size() const = 0;
    virtual const char* name() const = 0;     // "pmix", "pmi"
    virtual std::string carrier() const = 0;  // for messages: "PMIx"

    // Others can get it after the next fence.
    virtual Result<void> put(const std::string& key, std::span<const std::byte> value) = 0;
    // Returns when all live ranks have called it. CLOCK_MONOTONIC.
    virtual Result<void> fence(std::uint64_t deadline_ns) = 0;
    // What the rank has put before the last fence; nullopt where the launcher has nothing of it, because it is dead.
    virtual Result<std::optional<std::vector<std::byte>>> get(Rank rank, const std::string& key,
                                                              std::uint64_t deadline_ns) = 0;

    // What each of them has put under that key, in their order.
    virtual Result<Answers> get_all(std::span<const Rank> ranks, const std::string& key, std::uint64_t deadline_ns);

    // Whether wait_for() gets what a rank puts without a fence: what a group of some of the ranks needs.
    virtual bool waits_for_single_ranks() const { return false; }
    // Whether a fence waits also for ranks that have ended an earlier session and have yet to begin this one. Otherwise
    // ranks wait for what each other one puts, from the second session on.
    virtual bool fences_in_later_sessions() const { return true; }
    // What the rank has put or puts within a moment; nullopt if it does not. Without a fence.
    virtual Result<std::optional<std::vector<std::byte>>> wait_for(Rank rank, const std::string& key) {
        return get(rank, key, 0);
    }
    // As Bootstrap::reports(), by the launcher's numbers.
    virtual Result<std::unique_ptr<Reports>> reports() { return std::unique_ptr<Reports>(); }
};

// What the sessions of a process have in common. They may be made by several threads.
struct StoreHistory {
    // Which process a rank is. Each rank tells it before the first bytes of a session, and those of its host look later whether it lives.
    struct Process {
        std::uint64_t host = 0;  // equal for those that see each other's processes
        std::uint64_t started = 0;
        std::uint32_t number = 0;
        std::uint32_t reserved = 0;
    };

    static StoreHistory& of_this_process();

    std::mutex mutex;
    std::map<std::uint64_t, std::uint32_t> begun;  // how many sessions, among all ranks and by the marks of lists
    // Ranks that have been in one, by the launcher's numbers; nullopt: it was dead by then.
    std::map<std::uint32_t, std::optional<Process>> met;
};

// The n-th StoreBootstrap of each rank's process meets the n-th of the others; of some ranks, the n-th of the same list.
class StoreBootstrap final : public Bootstrap {
  public:
    // `ranks`: as for Subset::of(). COPPICE_ERR_BOOTSTRAP where the store brings together all or none.
    static Result<std::unique_ptr<StoreBootstrap>> create(std::unique_ptr<Store> store,
                                                          std::span<const std::uint32_t> ranks = {},
                                                          StoreHistory& history = StoreHistory::of_this_process());

    Rank rank() const override { return subset_.self(store_->rank()); }
    std::uint32_t size() const override { return subset_.size(store_->size()); }
    const char* name() const override { return store_->name(); }
    Result<std::vector<std::vector<std::byte>>> allgather(std::span<const std::byte> mine,
                                                          std::uint64_t deadline_ns) override;
    Result<std::vector<std::vector<std::byte>>> exchange_with(std::span<const Rank> wanted,
                                                              std::span<const std::byte> mine,
                                                              std::uint64_t deadline_ns) override;
    // Without a fence a rank may end its session while others have yet to ask for what it has put: then all wait for all.
    bool has_store() const override { return fences_; }
    Result<std::unique_ptr<Reports>> reports() override;

  private:
    using Piece = std::vector<std::byte>;
    StoreBootstrap(std::unique_ptr<Store> store, Subset subset, StoreHistory& history, std::string name, bool fences);
    Result<std::vector<Piece>> exchange(std::span<const Rank> wanted, std::span<const std::byte> mine,
                                        std::uint64_t deadline_ns);
    Result<Store::Answers> fetch(std::span<const Rank> wanted, const std::string& key, std::uint64_t deadline_ns);
    Result<std::optional<Piece>> fetch_one(Rank from, const std::string& key, std::uint64_t deadline_ns);
    Result<bool> is_dead(Rank rank);

    std::unique_ptr<Store> store_;
    Subset subset_;
    StoreHistory& history_;
    std::string name_;  // of this session, the same at all its ranks: what its keys begin with
    bool fences_;
    std::uint32_t round_ = 0;
    bool broken_ = false;
    // By the launcher's numbers:
    std::vector<Rank> dead_;  // found in this session
};

}  // namespace coppice::bootstrap
