// --tag-output: lines of the ranks with their number in front.
#pragma once

#include <cstdint>
#include <string>

namespace coppice::run {

// One stream (stdout or stderr) of one rank. Whole lines are written at once; what a rank leaves without a
// newline is written, with one, when the stream ends.
class TaggedStream {
  public:
    // Owns `source`, the reading end of a pipe, and writes to `sink`.
    TaggedStream(std::uint32_t rank, int source, int sink);
    ~TaggedStream();
    TaggedStream(TaggedStream&& other) noexcept;
    TaggedStream& operator=(TaggedStream&&) = delete;

    int descriptor() const { return source_; }
    // Passes on what is there now. False when the stream has ended (and is closed).
    bool pump();
    // Passes on what is there and closes.
    void finish();

  private:
    void write_lines(bool all);

    int source_;
    int sink_;
    std::string tag_;
    std::string pending_;
};

}  // namespace coppice::run
