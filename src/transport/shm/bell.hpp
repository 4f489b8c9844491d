// Wakes up ranks of this host that sleep: a datagram socket for each rank, with a name that its address tells.
//
// Only processes that were given the address can wake a rank: the kernel drops every datagram that does not carry the
// key. A socket and not a futex, because a rank sleeps on its network connections at the same time.
#pragma once

#include <cstdint>
#include <utility>

namespace coppice::transport::shm {

class Bell {
  public:
    Bell() = default;
    // `key`: what a datagram has to carry. Without descriptors, or without such sockets, the bell is empty: nobody can
    // wake this rank then, nor can it wake others.
    static Bell make(std::uint64_t key);
    Bell(Bell&& other) noexcept : socket_(std::exchange(other.socket_, -1)), name_(other.name_) {}
    Bell& operator=(Bell&& other) noexcept {
        std::swap(socket_, other.socket_);
        std::swap(name_, other.name_);
        return *this;
    }
    ~Bell();

    explicit operator bool() const { return socket_ >= 0; }
    // Readable when it was rung, until silence().
    int descriptor() const { return socket_; }
    std::uint64_t name() const { return name_; }

    // Never blocks. A bell that nobody has any more is not rung.
    void ring(std::uint64_t name, std::uint64_t key) const;
    void silence() const;

  private:
    int socket_ = -1;
    std::uint64_t name_ = 0;
};

}  // namespace coppice::transport::shm
