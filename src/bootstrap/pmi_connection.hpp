// The connection to a launcher that serves PMI-1: requests and answers are lines of "name=value" words.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"

namespace coppice::bootstrap {

// The value of a word of such a line; empty where there is none.
std::string_view pmi_word(std::string_view line, std::string_view name);

// In each value, in hexadecimal, before the bytes: how many bytes all values of the key have together.
inline constexpr std::size_t kPmiTotalDigits = 8;

// Appends the bytes of the next value of a key to those of the ones before it, and says how many there are in all. False: the value
// is garbage, or brings the bytes no nearer to their end.
bool take_pmi_value(std::string_view text, std::vector<std::byte>& bytes, std::uint32_t& total);

class PmiConnection {
  public:
    // Of this process; the descriptor stays the launcher's.
    PmiConnection(int descriptor, std::uint32_t rank) : descriptor_(descriptor), rank_(rank) {}

    Result<void> shake_hands(std::uint64_t deadline_ns);
    // One request, without its end of line; its answer, which must be `command`. An error when the launcher is gone, sends
    // something else, or the deadline (CLOCK_MONOTONIC) passes; then the connection is of no use any more.
    Result<std::string> ask(std::string_view request, std::string_view command, std::uint64_t deadline_ns);
    // The same, and the launcher must have been able to do it.
    Result<std::string> demand(std::string_view request, std::string_view command, std::uint64_t deadline_ns);
    void say_goodbye();

    const std::string& space() const { return space_; }           // the name of the job's store
    std::size_t largest_value() const { return largest_value_; }  // in characters

  private:
    Result<std::string> read_line(std::uint64_t deadline_ns);
    tl::unexpected<Error> broken(std::string_view how);

    int descriptor_;
    std::uint32_t rank_;
    std::string space_;
    std::size_t largest_value_ = 0;
    std::string input_;
    bool broken_ = false;
};

}  // namespace coppice::bootstrap
