// A rank's segment: made by its owner, mapped by its peers.
//
// It is a memfd, which has no name anywhere: when the last process that maps it is gone, so is the memory, however
// they died, and /dev/shm may be as full as it likes. Peers open it as /proc/<pid>/fd/<n>, which works for the same user
// in the same process-id namespace while the owner lives. It is sealed against shrinking, so nobody can make
// a peer's access fault.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/words.hpp"
#include "transport/shm/layout.hpp"

namespace coppice::transport::shm {

// What a peer must know to map a segment and to trust it: the transport's address.
struct Address {
    std::string host;
    pid_t pid = 0;
    std::uint64_t start_time = 0;
    std::int32_t fd = -1;
    std::uint32_t rank = 0;
    std::uint32_t group_size = 0;
    std::uint32_t window = 0;
    std::uint32_t inboxes = 0;
    std::uint64_t segment_size = 0;
    std::uint64_t nonce = 0;
    std::uint64_t bell = 0;  // its name (bell.hpp)
};

std::vector<std::byte> encode(const Address& address);
// `peer` is for the message only. COPPICE_ERR_MISMATCH for another version or word size, or damaged bytes.
Result<Address> decode(Seat peer, std::span<const std::byte> bytes);

// A mapping, unmapped at the end.
class Mapping {
  public:
    Mapping() = default;
    Mapping(std::byte* base, std::size_t size) : base_(base), size_(size) {}
    Mapping(Mapping&& other) noexcept { swap(other); }
    Mapping& operator=(Mapping&& other) noexcept {
        swap(other);
        return *this;
    }
    ~Mapping();

    std::byte* base() const { return base_; }
    explicit operator bool() const { return base_ != nullptr; }

  private:
    void swap(Mapping& other) noexcept {
        std::swap(base_, other.base_);
        std::swap(size_, other.size_);
    }
    std::byte* base_ = nullptr;
    std::size_t size_ = 0;
};

// The owner's. Holds the obituary from make() to its end.
class OwnSegment {
  public:
    // Checks limits before anything could exceed them: neither SIGXFSZ nor SIGBUS can follow. What is always used has its
    // memory when this returns.
    static Result<OwnSegment> make(Seat self, const Layout& layout);
    OwnSegment(OwnSegment&&) noexcept = default;
    OwnSegment& operator=(OwnSegment&&) = delete;
    ~OwnSegment();

    const Layout& layout() const { return layout_; }
    std::byte* base() const { return mapping_.base(); }
    Header& header() const { return *reinterpret_cast<Header*>(base()); }
    int fd() const { return fd_.number; }
    std::byte* panel(std::uint32_t number) const { return base() + layout_.panels_at + number * layout_.panel_stride; }
    // Gives memory to a panel, all zero. False: there is none.
    bool make_panel(std::uint32_t number);
    // A panel that has been made is as new again.
    void clear_panel(std::uint32_t number);

    // An inbox is as new again, and its memory is given back.
    void clear_inbox(std::uint32_t number);

    // False in a forked child, which must not write here.
    bool is_ours() const;

    // Frees the descriptor that is kept in reserve, so that a peer can be mapped though the application has used up
    // all others; take it back afterwards.
    void open_reserve();
    void close_reserve();

  private:
    struct Descriptor {
        int number = -1;
        explicit Descriptor(int n) : number(n) {}
        Descriptor(Descriptor&& other) noexcept : number(std::exchange(other.number, -1)) {}
        Descriptor& operator=(Descriptor&&) = delete;
        ~Descriptor();
        int take() { return std::exchange(number, -1); }
    };
    OwnSegment(const Layout& layout, Descriptor fd) : layout_(layout), fd_(std::move(fd)) {}

    Layout layout_;
    Descriptor fd_;
    Descriptor reserve_{-1};
    Mapping mapping_;
    pid_t owner_ = -1;
};

// A peer's: the first part read-only, the rest writable.
struct PeerSegment {
    Mapping board;     // from 0, [0, mailroom_at)
    Mapping mailroom;  // [mailroom_at, size)
    const Header& header() const { return *reinterpret_cast<const Header*>(board.base()); }
};

enum class MapFailure : std::uint8_t {
    gone,   // the process has ended
    retry,  // no descriptors or memory just now
    wrong,  // it is not what its address says, or may not be opened
};
struct MapError {
    MapFailure why;
    Error error;
};
tl::expected<PeerSegment, MapError> map_peer(const Address& address, const Layout& layout);

// Gives memory to a part of a file. False, with errno: there is none.
bool allocate(int file, std::size_t at, std::size_t bytes);
// Gives memory to [begin, begin + size) of a shared mapping, so that stores there can't fault. False: there is none.
bool populate(std::byte* begin, std::size_t size);

}  // namespace coppice::transport::shm
