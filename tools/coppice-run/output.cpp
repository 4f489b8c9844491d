#include "output.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

namespace coppice::run {
namespace {

// A line longer than this is broken up: a rank that never ends its line must not fill the launcher's memory.
constexpr std::size_t kLongestLine = 64UL * 1024;

void write_all(int sink, std::string_view text) {
    while (!text.empty()) {
        const auto written = ::write(sink, text.data(), text.size());
        if (written > 0) {
            text.remove_prefix(static_cast<std::size_t>(written));
        } else if (errno == EAGAIN) {
            pollfd entry{sink, POLLOUT, 0};
            ::poll(&entry, 1, -1);
        } else if (errno != EINTR) {
            return;  // nobody reads it any more
        }
    }
}

}  // namespace

TaggedStream::TaggedStream(std::uint32_t rank, int source, int sink)
    : source_(source), sink_(sink), tag_(fmt::format("[{}] ", rank)) {
    ::fcntl(source_, F_SETFL, ::fcntl(source_, F_GETFL) | O_NONBLOCK);
}

TaggedStream::~TaggedStream() {
    finish();
}

TaggedStream::TaggedStream(TaggedStream&& other) noexcept
    : source_(std::exchange(other.source_, -1)),
      sink_(other.sink_),
      tag_(std::move(other.tag_)),
      pending_(std::move(other.pending_)) {}

bool TaggedStream::pump() {
    if (source_ < 0) return false;
    std::array<char, 16384> chunk{};
    // Bounded, so that one chatty rank does not keep the launcher from the others.
    for (int i = 0; i < 16; ++i) {
        const auto got = ::read(source_, chunk.data(), chunk.size());
        if (got > 0) {
            pending_.append(chunk.data(), static_cast<std::size_t>(got));
            write_lines(false);
            continue;
        }
        if (got < 0 && errno == EINTR) continue;
        if (got < 0 && errno == EAGAIN) return true;
        write_lines(true);
        ::close(source_);
        source_ = -1;
        return false;
    }
    return true;
}

void TaggedStream::finish() {
    if (source_ < 0) return;
    pollfd entry{source_, POLLIN, 0};
    while (source_ >= 0 && ::poll(&entry, 1, 0) > 0 && pump()) {
    }
    if (source_ < 0) return;
    write_lines(true);
    ::close(source_);
    source_ = -1;
}

void TaggedStream::write_lines(bool all) {
    std::string out;
    std::size_t begin = 0;
    while (begin < pending_.size()) {
        auto end = pending_.find('\n', begin);
        if (end == std::string::npos) {
            if (!all && pending_.size() - begin < kLongestLine) break;
            end = pending_.size();
        }
        out += tag_;
        out.append(pending_, begin, end - begin);
        out += '\n';
        begin = end + 1;
    }
    pending_.erase(0, std::min(begin, pending_.size()));
    write_all(sink_, out);
}

}  // namespace coppice::run
