// Memory that the device may read or write: mapped pages with their registration, and the pool of message buffers.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "transport/verbs/wire.hpp"

namespace coppice::transport::verbs {

// Zeroed pages of our own, registered once. The pages outlive revoke(), after which no device can touch them.
class Region {
  public:
    // `access` as ibv_reg_mr(). The error of a limit that is too small names limit, need and command.
    static Result<Region> make(ibv_pd* domain, std::size_t bytes, int access, const char* what);
    Region() = default;
    Region(Region&& other) noexcept { *this = std::move(other); }
    Region& operator=(Region&& other) noexcept {
        std::swap(mr_, other.mr_);
        std::swap(base_, other.base_);
        std::swap(bytes_, other.bytes_);
        return *this;
    }
    ~Region();

    std::byte* base() const { return base_; }
    std::size_t bytes() const { return bytes_; }
    ibv_mr* registration() const { return mr_; }
    std::uint32_t local_key() const { return mr_->lkey; }
    std::uint32_t remote_key() const { return mr_->rkey; }
    // Ends every right to this memory, local and remote.
    void revoke();

  private:
    ibv_mr* mr_ = nullptr;
    std::byte* base_ = nullptr;
    std::size_t bytes_ = 0;
};

// A memory window of type 2: one queue pair's right to write to a region that is not open to anybody else. The device
// opens it by a work request of that queue pair; its end is the right's end, at once, whichever process knows the key.
class Window {
  public:
    Window() = default;
    Window(const Window&) = delete;
    Window& operator=(const Window&) = delete;
    ~Window() { revoke(); }

    // False where the device has none left.
    bool make(ibv_pd* domain);
    // Before the queue pair and the region that it was opened with.
    void revoke();

    explicit operator bool() const { return window_ != nullptr; }
    // With which it can be written to once it is open; known before that.
    std::uint32_t remote_key() const { return key_; }
    // The work request that opens it to `region` for the peer that is connected to the queue pair.
    ibv_send_wr opening(const Region& region) const;

  private:
    ibv_mw* window_ = nullptr;
    std::uint32_t key_ = 0;
};

// Why the device gave no more of something, for people.
std::string reason_of(int error);
// What ibv_reg_mr refused, for people.
tl::unexpected<Error> registration_failed(int error, std::size_t bytes, const char* what);

// Buffers of one size, each for a message.
// Growing only: a buffer may be posted to a device at any time.
class Pool {
  public:
    static constexpr std::size_t kStride = (kMaxMessage + 63) / 64 * 64;

    void add(Region region);

    std::uint32_t size() const { return static_cast<std::uint32_t>(buffers_.size()); }
    std::uint32_t available() const { return static_cast<std::uint32_t>(free_.size()); }
    bool empty() const { return free_.empty(); }
    std::uint32_t take() {
        const std::uint32_t index = free_.back();
        free_.pop_back();
        return index;
    }
    void give(std::uint32_t index) { free_.push_back(index); }
    std::byte* at(std::uint32_t index) const { return buffers_[index].base; }
    std::uint32_t key(std::uint32_t index) const { return buffers_[index].key; }
    bool kept(std::uint32_t index) const { return buffers_[index].kept; }
    void set_kept(std::uint32_t index, bool kept) { buffers_[index].kept = kept; }

  private:
    struct Buffer {
        std::byte* base;
        std::uint32_t key;
        bool kept = false;
    };
    std::vector<Region> regions_;
    std::vector<Buffer> buffers_;
    std::vector<std::uint32_t> free_;
};

}  // namespace coppice::transport::verbs
