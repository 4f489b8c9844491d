// A trace of what this process does: a file in Chrome's trace event format (a JSON array), which Perfetto opens.
//
// Records are appended to a mapping of the file, so what was recorded is there however the process ends. What is behind the last
// record is spaces; the bracket that ends the array is there only when the context was destroyed, and readers of the format
// do without. A process that is killed within a record leaves a part of it on the last line.
//
// Under the context's guard. Nothing is allocated after make().
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "status/page.hpp"

namespace coppice::trace {

struct Operation {
    status::Kind kind = status::Kind::none;
    std::uint32_t token = 0;  // of its group
    std::uint32_t epoch = 0;
    std::uint64_t number = 0;
    std::uint32_t root = 0;  // of a broadcast
};

const char* name_of(status::Kind kind);

class Recorder {
  public:
    // The trace of this process becomes FILE.HOST.PID, or FILE.HOST.PID.2 … where that is there. Why not, in words.
    static Result<std::unique_ptr<Recorder>> make(const std::string& file, const Clock& clock);
    ~Recorder();
    Recorder(const Recorder&) = delete;
    Recorder& operator=(const Recorder&) = delete;

    // Which rank of which group this process is.
    void is_rank(std::uint32_t rank, std::uint32_t size, const Operation& group);

    // A call that may block, of the calling thread. Its number and group may be known only when it ends.
    void call_begins(std::string_view name, const Operation& operation, std::size_t bytes);
    void call_ends(const Operation& operation, int status);

    // A non-blocking operation: from its start to its end, whichever thread sees that.
    void request_begins(const Operation& operation, std::size_t bytes, std::uint64_t at_ns);
    void request_ends(const Operation& operation, int status);

    // The payload of a broadcast is here. At the root: it is given to the group.
    void payload(const Operation& operation, std::size_t bytes, bool is_root);

    // Something that a rank has learned of another one: "failed", "left".
    void member(std::string_view what, const Operation& group, std::uint32_t rank);

    std::uint64_t now_ns() const { return clock_.now_ns(); }

  private:
    // The most that a trace may have.
    static constexpr std::uint64_t kMostBytes = std::uint64_t{256} << 20;
    static constexpr std::size_t kChunk = std::size_t{1} << 20;
    static constexpr std::size_t kLongest = 512;

    Recorder(const Clock& clock, int descriptor, std::string path)
        : clock_(clock), descriptor_(descriptor), path_(std::move(path)) {}
    template <class... Arguments>
    void record(std::string_view format, const Arguments&... arguments);
    void append(std::string_view text);
    bool next_chunk();
    void stop(const char* why);
    void unmap();

    const Clock& clock_;
    int descriptor_;
    std::string path_;
    char* chunk_ = nullptr;      // of the file, mapped
    std::size_t used_ = kChunk;  // of the chunk
    std::uint64_t chunks_ = 0;   // with that one
    bool stopped_ = false;
};

}  // namespace coppice::trace
