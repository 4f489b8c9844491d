// A file descriptor that is closed with its owner, and that a forked child does not keep.
//
// A child of fork() shares sockets and epoll sets with its parent: the parent's death would not end its connections while
// the child lives, and what the child did to them the parent would feel. So they are closed in the child, between fork() and
// its return. (vfork, posix_spawn and clone run no such code, but exec comes next, and all descriptors close on exec.)
#pragma once

#include <cstdint>
#include <mutex>
#include <utility>

namespace coppice::transport::tcp {

class Descriptor {
  public:
    Descriptor() = default;
    explicit Descriptor(int number);  // −1: none
    // Of what `open` opens, which returns a number or −1. A child that another thread forks just then does not keep it either.
    template <class Open>
    static Descriptor from(Open&& open) {
        const auto lock = no_fork();
        Descriptor made;
        made.take(open());
        return made;
    }
    Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)), forks_(other.forks_) {}
    Descriptor& operator=(Descriptor&& other) noexcept {
        if (this != &other) {
            close();
            number_ = std::exchange(other.number_, -1);
            forks_ = other.forks_;
        }
        return *this;
    }
    ~Descriptor() { close(); }

    int get() const { return number_; }
    explicit operator bool() const { return number_ >= 0; }
    void close();

  private:
    static std::unique_lock<std::mutex> no_fork();
    void take(int number);  // under that lock

    int number_ = -1;
    std::uint64_t forks_ = 0;
};

// How many forks lie between the first process and this one: a transport works in the process that made it, and no other.
std::uint64_t forks_so_far();

}  // namespace coppice::transport::tcp
