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
    Result<std::vector<std::vector<std::byte>>> exchange(std::span<const std::byte> mine, std::uint64_t deadline_ns);

    std::unique_ptr<Store> store_;
    std::uint32_t generation_;
    std::uint32_t round_ = 0;
    bool broken_ = false;
};

}  // namespace coppice::bootstrap
