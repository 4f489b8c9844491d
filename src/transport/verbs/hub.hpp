// What all connections of one rank share: protection domain, completion queues, the shared receive queue with its
// buffers, and the registered memory that payloads may leave from.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "base/error.hpp"
#include "transport/transport.hpp"
#include "transport/verbs/device.hpp"
#include "transport/verbs/memory.hpp"

namespace coppice::transport::verbs {

// Messages of the engine under way to one peer at most, and a few more for our own, so that these never have to wait.
inline constexpr std::uint32_t kSendDepth = 64;
inline constexpr std::uint32_t kReserved = 4;
// Every so many work requests of a queue pair one asks for a completion.
inline constexpr std::uint32_t kSignalEvery = 16;

struct HubOptions {
    std::uint32_t window = 32;
    std::uint32_t sends_ahead = 16;  // of each peer: as many receive buffers come with every connection
    bool memory_windows = true;      // are used if the device has them
};

class Hub {
  public:
    // `context` is not owned, and outlives the hub.
    static Result<std::unique_ptr<Hub>> make(ibv_context* context, const Device& device, const HubOptions& options);
    ~Hub();
    Hub(const Hub&) = delete;
    Hub& operator=(const Hub&) = delete;

    // A queue pair in its first state; completion queues and receive buffers grow with their number. The error names the
    // limit.
    Result<ibv_qp*> make_queue_pair();
    void destroy(ibv_qp* queue_pair);

    // Posts receive buffers when enough of them are missing.
    void refill(bool all = false);
    // A receive completion's buffer was taken out of the queue.
    void taken() { --posted_; }
    bool may_keep() const;

    Result<Region> make_region(std::size_t bytes, int access, const char* what);
    // Registers the caller's memory to send from. It must not overlap registered memory.
    Result<void> register_memory(const std::byte* address, std::size_t bytes);
    void deregister_memory(const std::byte* address);
    // Opens memory to reads of peers, and to this rank's own into it.
    Result<Exposure> expose(std::span<std::byte> memory);
    void withdraw(const Exposure& memory);
    // How many reads of a connection the device answers at a time, and has under way.
    std::uint8_t reads_answered() const;
    std::uint8_t reads_asked() const;
    // The key of registered memory that holds these bytes.
    bool find_key(std::span<const std::byte> bytes, std::uint32_t& key) const;

    const Device& device() const { return device_; }
    ibv_context* context() const { return context_; }
    std::uint32_t inline_bytes() const { return inline_bytes_; }
    // The device has memory windows of type 2, and they are wanted.
    bool has_windows() const;

    Pool pool;
    ibv_pd* domain = nullptr;
    // Wakes up a sleeper on it when something completes in either queue, once after each arm().
    int arm();

    ibv_comp_channel* wake_up = nullptr;
    ibv_cq* received = nullptr;
    ibv_cq* sent = nullptr;
    ibv_srq* shared_receives = nullptr;
    Counters counters;

  private:
    struct Known {
        const std::byte* address;
        std::size_t bytes;
        std::uint32_t key;
        ibv_mr* lent;  // null: a region of the pool
    };

    Hub(ibv_context* context, const Device& device, const HubOptions& options)
        : device_(device), context_(context), options_(options) {}
    void know(const Known& memory);
    Result<void> make_queues();
    Result<void> make_room(std::uint32_t links);
    Result<void> add_buffers(std::uint32_t count);
    Result<void> find_inline_size();
    ibv_qp* try_queue_pair(std::uint32_t inline_bytes, std::uint32_t* granted);

    Device device_;
    ibv_context* context_;
    ibv_device_attr limits_{};
    HubOptions options_;
    std::vector<Known> known_;  // by address
    std::vector<ibv_mr*> exposed_;
    std::vector<ibv_recv_wr> receives_;  // for refill()
    std::vector<ibv_sge> receive_parts_;
    std::uint32_t inline_bytes_ = 0;
    std::uint32_t most_ = 0;   // that the shared receive queue can take
    std::uint32_t depth_ = 0;  // that it is to hold
    std::uint32_t posted_ = 0;
    std::uint32_t links_ = 0;
    std::uint32_t link_room_ = 0;
};

}  // namespace coppice::transport::verbs
