// Bootstrap over a launcher's store of keys and values, as PMIx and PMI have it: put, a fence among all, get.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bootstrap/bootstrap.hpp"

namespace coppice::bootstrap {

// The store as one rank sees it. Each key is put once.
class Store {
  public:
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

    // Whether a fence waits also for ranks that have ended an earlier session and have yet to begin this one. Otherwise
    // ranks wait for what each other one puts, from the second session on.
    virtual bool fences_in_later_sessions() const { return true; }
    // What the rank has put or puts within a moment; nullopt if it does not. Without a fence.
    virtual Result<std::optional<std::vector<std::byte>>> wait_for(Rank rank, const std::string& key) {
        return get(rank, key, 0);
    }
};

// The n-th StoreBootstrap of each rank's process meets the n-th of the others.
class StoreBootstrap final : public Bootstrap {
  public:
    explicit StoreBootstrap(std::unique_ptr<Store> store);

    Rank rank() const override { return store_->rank(); }
    std::uint32_t size() const override { return store_->size(); }
    const char* name() const override { return store_->name(); }
    Result<std::vector<std::vector<std::byte>>> allgather(std::span<const std::byte> mine,
                                                          std::uint64_t deadline_ns) override;

  private:
    using Piece = std::vector<std::byte>;
    Result<std::vector<Piece>> exchange(std::span<const std::byte> mine, std::uint64_t deadline_ns);
    Result<std::optional<Piece>> fetch(Rank from, const std::string& key, std::uint64_t deadline_ns);
    Result<bool> is_dead(Rank rank);

    std::unique_ptr<Store> store_;
    std::uint32_t generation_;  // of sessions of this process
    bool fences_;
    std::uint32_t round_ = 0;
    bool broken_ = false;
    std::vector<Rank> dead_;  // found in this session
};

}  // namespace coppice::bootstrap
