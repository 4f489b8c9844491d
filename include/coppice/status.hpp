// Statuses, errors and deadlines. Programs include <coppice/coppice.hpp>, of which this is a part.
#pragma once

#include <coppice/status.h>

#include <chrono>
#include <cstdint>
#include <stdexcept>
#include <string>

namespace coppice {
inline namespace v0 {

// The numbers of coppice_status_t. A newer library may return numbers that have no name here.
enum class [[nodiscard]] Status : int{
    kOk = COPPICE_OK,
    kInProgress = COPPICE_IN_PROGRESS,
    kInvalidArgument = COPPICE_ERR_INVALID_ARGUMENT,
    kOutOfRange = COPPICE_ERR_OUT_OF_RANGE,
    kTooLarge = COPPICE_ERR_TOO_LARGE,
    kTruncated = COPPICE_ERR_TRUNCATED,
    kTimeout = COPPICE_ERR_TIMEOUT,
    kRootFailed = COPPICE_ERR_ROOT_FAILED,
    kPeerFailed = COPPICE_ERR_PEER_FAILED,
    kFenced = COPPICE_ERR_FENCED,
    kRevoked = COPPICE_ERR_REVOKED,
    kMismatch = COPPICE_ERR_MISMATCH,
    kNoMemory = COPPICE_ERR_NO_MEMORY,
    kNoResources = COPPICE_ERR_NO_RESOURCES,
    kNoTransport = COPPICE_ERR_NO_TRANSPORT,
    kBootstrap = COPPICE_ERR_BOOTSTRAP,
    kBusy = COPPICE_ERR_BUSY,
    kConfig = COPPICE_ERR_CONFIG,
    kInternal = COPPICE_ERR_INTERNAL,
    kForked = COPPICE_ERR_FORKED,
    kNoQuorum = COPPICE_ERR_NO_QUORUM,
};

// A static sentence for any number. Any thread.
inline const char* to_string(Status status) noexcept {
    return coppice_status_string(static_cast<coppice_status_t>(status));
}

// The sentence of this thread's last call that failed, "" before that; good until the next one that fails.
inline const char* last_error() noexcept {
    return coppice_last_error();
}

// The version of the library that is linked at run time.
inline const char* version() noexcept {
    return coppice_version();
}

// what() is last_error() as it was when the call failed, or to_string(status()) where that says nothing.
class Error : public std::runtime_error {
  public:
    explicit Error(Status status) : Error(status, last_error()) {}
    Error(Status status, const std::string& sentence)
        : std::runtime_error(sentence.empty() ? std::string(to_string(status)) : sentence), status_(status) {}

    Status status() const noexcept { return status_; }

  private:
    Status status_;
};

using Timeout = std::chrono::nanoseconds;
inline constexpr Timeout kNoTimeout = Timeout::max();

namespace detail {

constexpr Status from_c(coppice_status_t status) noexcept {
    return static_cast<Status>(status);
}

inline void throw_unless_ok(Status status) {
    if (status != Status::kOk) throw Error(status);
}

constexpr std::uint64_t to_c(Timeout timeout) noexcept {
    if (timeout == kNoTimeout) return COPPICE_NO_TIMEOUT;
    return timeout.count() < 0 ? 0 : static_cast<std::uint64_t>(timeout.count());
}

// C takes NULL for "the environment variable, else the default".
inline const char* or_null(const std::string& text) noexcept {
    return text.empty() ? nullptr : text.c_str();
}

}  // namespace detail

}  // namespace v0
}  // namespace coppice
