// Requests, views and registered memory. Programs include <coppice/coppice.hpp>, of which this is a part.
#pragma once

#include <coppice/broadcast.h>
#include <coppice/request.h>
#include <coppice/status.hpp>

#include <cstddef>
#include <span>
#include <utility>

namespace coppice {
inline namespace v0 {

// The payload of a finished broadcast, in the memory in which it landed. A View that is kept for a whole
// window of further broadcasts holds them up.
class View {
  public:
    View() = default;
    View(View&& other) noexcept
        : request_(std::exchange(other.request_, nullptr)), bytes_(std::exchange(other.bytes_, {})) {}
    View& operator=(View&& other) noexcept {
        View taken(std::move(other));
        std::swap(request_, taken.request_);
        std::swap(bytes_, taken.bytes_);
        return *this;
    }
    ~View() { static_cast<void>(coppice_request_free(request_)); }

    // Good as long as this object holds it.
    std::span<const std::byte> bytes() const noexcept { return bytes_; }
    // After reading: kOk proves what has been read, kFenced says that the others have taken this rank for dead (it was silent for
    // too long, or the network has cut it off) and may have used the memory again.
    Status check() const noexcept {
        const void* payload = nullptr;
        std::size_t bytes = 0;
        return detail::from_c(coppice_request_view(request_, &payload, &bytes));
    }

    explicit operator bool() const noexcept { return request_ != nullptr; }

  private:
    friend class Request;
    View(coppice_request_t* request, std::span<const std::byte> bytes) noexcept : request_(request), bytes_(bytes) {}

    coppice_request_t* request_ = nullptr;
    std::span<const std::byte> bytes_;
};

// An operation under way. Its buffer must live until it has ended or this object is gone. Destroying the object before
// that gives the operation up at this rank, as by a timeout; the others are served all the same.
class Request {
  public:
    Request() = default;
    Request(Request&& other) noexcept
        : handle_(std::exchange(other.handle_, nullptr)), received_(std::exchange(other.received_, 0)) {}
    Request& operator=(Request&& other) noexcept {
        Request taken(std::move(other));
        std::swap(handle_, taken.handle_);
        std::swap(received_, taken.received_);
        return *this;
    }
    ~Request() { static_cast<void>(coppice_request_free(handle_)); }

    // Whether it has ended well; throws when it has ended otherwise. Makes progress.
    bool test() {
        const Status status = try_test();
        if (status == Status::kInProgress) return false;
        detail::throw_unless_ok(status);
        return true;
    }
    Status try_test() noexcept { return detail::from_c(coppice_request_test(handle_, &received_)); }

    // The size of the payload. kTimeout leaves the broadcast under way: wait again, or let go of the request.
    std::size_t wait(Timeout timeout = kNoTimeout) {
        detail::throw_unless_ok(try_wait(timeout));
        return received_;
    }
    Status try_wait(Timeout timeout = kNoTimeout) noexcept {
        return detail::from_c(coppice_request_wait(handle_, &received_, detail::to_c(timeout)));
    }

    // The size of the payload, after kOk.
    std::size_t received() const noexcept { return received_; }

    // After kOk of a request of broadcast_view_nb: its payload. The request is empty afterwards.
    View take_view() {
        View view;
        detail::throw_unless_ok(try_take_view(view));
        return view;
    }
    Status try_take_view(View& view) noexcept {
        const void* payload = nullptr;
        std::size_t bytes = 0;
        const Status status = detail::from_c(coppice_request_view(handle_, &payload, &bytes));
        if (status == Status::kOk) {
            view = View(std::exchange(handle_, nullptr), {static_cast<const std::byte*>(payload), bytes});
        }
        return status;
    }

    explicit operator bool() const noexcept { return handle_ != nullptr; }
    coppice_request_t* native() const noexcept { return handle_; }  // stays this object's

  private:
    friend class Group;
    explicit Request(coppice_request_t* handle) noexcept : handle_(handle) {}

    coppice_request_t* handle_ = nullptr;
    std::size_t received_ = 0;
};

// The library's memory for a root to fill (coppice_memory_allocate): it is freed when this object goes, which must be before its group does.
class Memory {
  public:
    Memory() = default;
    Memory(Memory&& other) noexcept
        : group_(std::exchange(other.group_, nullptr)), bytes_(std::exchange(other.bytes_, {})) {}
    Memory& operator=(Memory&& other) noexcept {
        Memory taken(std::move(other));
        std::swap(group_, taken.group_);
        std::swap(bytes_, taken.bytes_);
        return *this;
    }
    ~Memory() {
        if (group_ != nullptr) static_cast<void>(coppice_memory_free(group_, bytes_.data()));
    }

    // To be written to before the first broadcast from it, never after.
    std::span<std::byte> bytes() const noexcept { return bytes_; }
    explicit operator bool() const noexcept { return group_ != nullptr; }

  private:
    friend class Group;
    Memory(coppice_group_t* group, std::span<std::byte> bytes) noexcept : group_(group), bytes_(bytes) {}

    coppice_group_t* group_ = nullptr;
    std::span<std::byte> bytes_;
};

// Memory that the group's transports know, until this object goes.
class Registration {
  public:
    Registration() = default;
    Registration(Registration&& other) noexcept
        : group_(std::exchange(other.group_, nullptr)), address_(std::exchange(other.address_, nullptr)) {}
    Registration& operator=(Registration&& other) noexcept {
        Registration taken(std::move(other));
        std::swap(group_, taken.group_);
        std::swap(address_, taken.address_);
        return *this;
    }
    ~Registration() {
        if (group_ != nullptr) static_cast<void>(coppice_memory_deregister(group_, address_));
    }

    explicit operator bool() const noexcept { return group_ != nullptr; }

  private:
    friend class Group;
    Registration(coppice_group_t* group, void* address) noexcept : group_(group), address_(address) {}

    coppice_group_t* group_ = nullptr;
    void* address_ = nullptr;
};

}  // namespace v0
}  // namespace coppice
