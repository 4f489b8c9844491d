// A connection between a door and who has knocked there: a socket, and what is said over it (passage.hpp). Never waits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "bootstrap/door/passage.hpp"
#include "bootstrap/launcher_connection.hpp"

namespace coppice::bootstrap {

// A descriptor of process::open_own() that is closed with its owner.
class Handle {
  public:
    Handle() = default;
    explicit Handle(int number) : number_(number) {}
    Handle(Handle&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
    Handle& operator=(Handle&& other) noexcept {
        std::swap(number_, other.number_);
        return *this;
    }
    ~Handle();
    int get() const { return number_; }

  private:
    int number_ = -1;
};

// A socket that connects there, and goes on with it after the call; none: errno says why.
Handle start_to_connect(const DoorAddress::Ip& ip, std::uint16_t port);

class Line {
  public:
    // What the other side does not read is kept up to here, and one frame more: then it has stopped, and the line is over.
    static constexpr std::size_t kMostUnsent = 8UL * 1024 * 1024;

    Line(Handle socket, Passage passage) : socket_(std::move(socket)), passage_(std::move(passage)) {}

    int socket() const { return socket_.get(); }
    const Passage& passage() const { return passage_; }
    bool is_open() const { return passage_.state() == Passage::State::open; }
    // Nothing comes any more: the other side has closed it, or says what nobody says.
    bool is_over() const { return is_over_ || passage_.is_over(); }
    bool has_unsent() const { return !passage_.output().empty(); }

    // Reads what is there, and sends what can be sent.
    void move();
    // The next frame; a bad one ends the line.
    std::optional<LauncherFrame> next();
    // Header and body. Does nothing on a line that is over.
    void post(std::span<const std::byte> frame);
    // The other side may say what group there is now.
    void take_formed(std::uint32_t capacity) {
        longest_ = sizeof(FrameHeader) + max_formed_bytes(capacity);
        passage_.take_frames_of(longest_);
    }

  private:
    void flush();

    Handle socket_;
    Passage passage_;
    std::size_t longest_ = 0;  // frame that may wait besides what is kept of others
    bool is_over_ = false;
};

}  // namespace coppice::bootstrap
