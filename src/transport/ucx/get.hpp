// One-sided reads over UCX: the memory of this rank that peers may read, and the keys to what peers have open.
//
// Only where UCX's own gets are RDMA reads (WorkerOptions::put). A key of UCX's is larger than what a rank is told of memory
// (transport::RemoteMemory). So that names a piece by a number, and a reader asks the piece's owner for its key once.
#pragma once

#include <ucp/api/ucp.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/error.hpp"
#include "transport/transport.hpp"

namespace coppice::transport::ucx {

// Pieces of this rank's memory that are open to reads.
class OwnMemory {
  public:
    struct Key {
        std::span<const std::byte> bytes;    // stay as long as
        std::uint32_t* in_flight = nullptr;  // that is not 0
    };

    explicit OwnMemory(ucp_context_h context) : context_(context) {}
    OwnMemory(const OwnMemory&) = delete;
    OwnMemory& operator=(const OwnMemory&) = delete;
    ~OwnMemory() { clear(); }

    Result<Exposure> expose(std::span<std::byte> memory);
    // Ends the right to read it, immediately, whichever process has the key.
    void withdraw(std::uint32_t number);
    // Without bytes where no piece has that number, or no longer.
    Key key_of(std::uint32_t number);
    // While the context lives, and no key is under way.
    void clear();

  private:
    struct Piece {
        std::uint32_t number = 0;
        ucp_mem_h mapping = nullptr;  // null: withdrawn
        void* key = nullptr;
        std::size_t key_size = 0;
        std::uint32_t in_flight = 0;  // of its key
    };
    void unmap(Piece& piece);
    void forget_withdrawn();

    ucp_context_h context_;
    std::vector<std::unique_ptr<Piece>> pieces_;
    std::uint32_t next_ = 1;
};

// The way to one piece of a peer's.
struct PeerKey {
    enum class State : std::uint8_t { wanted, asked, noted, good, refused };

    std::uint32_t number = 0;
    State state = State::wanted;
    std::vector<std::byte> bytes{};  // noted
    ucp_rkey_h handle = nullptr;     // good
    std::uint32_t users = 0;         // reads under way
};

// Those of one peer, the one that was used last at the end.
class PeerKeys {
  public:
    // Pieces that one peer's payloads have open at a time are fewer: two for each, and a window of payloads is bounded in bytes.
    static constexpr std::size_t kMost = 64;

    PeerKeys() = default;
    PeerKeys(const PeerKeys&) = delete;
    PeerKeys& operator=(const PeerKeys&) = delete;
    ~PeerKeys() { forget(); }

    // Null: all are in use.
    PeerKey* obtain(std::uint32_t number);
    // Takes a note: this is called from within UCX. Without bytes the peer has no such piece. False: it was not asked for.
    bool note(std::uint32_t number, std::span<const std::byte> key);
    // Makes use of what was noted.
    static void attach(PeerKey& key, ucp_ep_h endpoint);
    // While the worker lives, and no read of theirs is under way.
    void forget();

  private:
    std::vector<std::unique_ptr<PeerKey>> keys_;
};

}  // namespace coppice::transport::ucx
