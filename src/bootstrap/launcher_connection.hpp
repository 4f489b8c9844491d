// A connection of a rank's to its launcher: frames there and back (launcher_protocol.hpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/words.hpp"
#include "bootstrap/launcher_protocol.hpp"

namespace coppice::bootstrap {

struct LauncherFrame {
    FrameKind kind = FrameKind::bye;
    std::vector<std::byte> body;
};

// Deadlines are on CLOCK_MONOTONIC. One thread at a time.
class LauncherConnection {
  public:
    // `rank` is for messages to people; longer frames than `most_bytes` are an error. COPPICE_ERR_BOOTSTRAP: the launcher is gone, or another
    // user's.
    static Result<std::unique_ptr<LauncherConnection>> open(const std::string& path, Rank rank,
                                                            std::uint64_t most_bytes, std::uint64_t deadline_ns);
    ~LauncherConnection();
    LauncherConnection(const LauncherConnection&) = delete;
    LauncherConnection& operator=(const LauncherConnection&) = delete;

    int descriptor() const { return descriptor_; }
    Result<void> send_all(std::span<const std::byte> bytes, std::uint64_t deadline_ns);
    // The next whole frame, or nullopt at the deadline; what has arrived of it by then is kept. A refusal is an error, with what the
    // launcher says; so is its end.
    Result<std::optional<LauncherFrame>> receive_frame(std::uint64_t deadline_ns);

    // The same without waiting.
    Result<std::optional<LauncherFrame>> next_frame();
    // Sends now what can be sent now, and the rest with flush().
    void post(std::span<const std::byte> frame);
    void flush();
    // Readable when something may have come, or when what is unsent can be sent. The socket alone where no other descriptor is to be had.
    int poll_descriptor();

  private:
    LauncherConnection(std::string path, Rank rank, std::uint64_t most_bytes, int descriptor)
        : path_(std::move(path)), rank_(rank), most_bytes_(most_bytes), descriptor_(descriptor) {}
    Result<std::optional<LauncherFrame>> parse_frame();
    Error launcher_died() const;
    void watch(int operation);

    std::string path_;
    Rank rank_;
    std::uint64_t most_bytes_;
    int descriptor_;
    int poll_ = -1;
    bool room_wanted_ = false;       // as the kernel knows it there
    std::vector<std::byte> input_;   // received and not parsed yet
    std::vector<std::byte> unsent_;  // of post()
};

}  // namespace coppice::bootstrap
