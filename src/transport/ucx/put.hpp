// One-sided writes over UCX: the slots that a peer may write to here, and the way to those that it has given to this rank.
//
// Only where UCX's own puts are RDMA writes (WorkerOptions::put). The writes prove themselves (transport/landing.hpp); UCX tells
// nothing of them to the side where they land.
#pragma once

#include <ucp/api/ucp.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "transport/landing.hpp"
#include "transport/ucx/wire.hpp"

namespace coppice::transport::ucx {

// Memory of this rank that one peer writes to: mapped for it alone, so that fencing it can unmap it.
class OwnSlots {
  public:
    // `seed`: of the peer's writes to this rank.
    static Result<OwnSlots> make(ucp_context_h context, std::uint16_t slots, std::uint32_t seed);
    OwnSlots() = default;
    OwnSlots(OwnSlots&& other) noexcept { *this = std::move(other); }
    OwnSlots& operator=(OwnSlots&& other) noexcept;
    ~OwnSlots();

    explicit operator bool() const { return base_ != nullptr; }
    // What the peer has to know. The key is good until revoke().
    Offer offer() const { return {.address = reinterpret_cast<std::uint64_t>(base_), .slots = slots_}; }
    std::span<const std::byte> key() const { return {static_cast<const std::byte*>(key_), key_size_}; }
    // Ends the right to write here, immediately, whichever process has the key. The bytes stay.
    void revoke();

    // What the peer has yet to hear of, before it waits for room in vain.
    bool owes_credit() const { return landing.consumed() - told_ >= slots_ / 2U; }
    // What was sent just now said that so many were consumed.
    void told(std::uint32_t consumed) { told_ = consumed; }
    // All of the peer's writes have landed and were consumed, if it made so many.
    bool has_seen(std::uint32_t writes) const {
        return base_ == nullptr || static_cast<std::int32_t>(landing.consumed() - writes) >= 0;
    }

    Landing landing;

  private:
    ucp_context_h context_ = nullptr;
    ucp_mem_h mapping_ = nullptr;
    std::byte* base_ = nullptr;
    std::size_t bytes_ = 0;
    void* key_ = nullptr;
    std::size_t key_size_ = 0;
    std::uint32_t told_ = 0;
    std::uint16_t slots_ = 0;
};

// Memory of a peer that this rank writes to.
class PeerSlots {
  public:
    PeerSlots() = default;
    PeerSlots(const PeerSlots&) = delete;
    PeerSlots& operator=(const PeerSlots&) = delete;
    ~PeerSlots() { forget(); }

    // Takes a note: this is called from within UCX, which must not be asked for more there.
    void note(const Offer& offer, std::span<const std::byte> key);
    // Makes use of what was noted, on an endpoint that is connected. `seed`: of this rank's writes to the peer. Stays
    // without slots where UCX would emulate the puts.
    void attach(ucp_ep_h endpoint, std::uint32_t seed);
    // Before the endpoint is closed.
    void forget();

    bool noted() const { return !noted_key_.empty(); }
    explicit operator bool() const { return key_ != nullptr; }

    ucp_rkey_h key() const { return key_; }
    std::uint64_t next_address() const { return address_ + credit.next_offset(); }
    std::uint32_t seed() const { return seed_; }

    Credit credit;

  private:
    std::vector<std::byte> noted_key_;
    ucp_rkey_h key_ = nullptr;
    std::uint64_t address_ = 0;
    std::uint32_t seed_ = 0;
    std::uint16_t slots_ = 0;
};

}  // namespace coppice::transport::ucx
