// Shrinks and renewals that nobody waits for. Programs include <coppice/coppice.hpp>, of which this is a part.
#pragma once

#include <coppice/membership.h>
#include <coppice/group.hpp>
#include <coppice/request.hpp>
#include <coppice/status.hpp>

#include <memory>
#include <new>
#include <utility>

namespace coppice {
inline namespace v0 {

// A shrink or renewal under way. It must be gone, or have ended, before its group is left. One that is destroyed before it has ended goes on
// as after a timeout; a group that nobody has taken is left then.
class Shrinking {
  public:
    Shrinking() = default;
    Shrinking(Shrinking&& other) noexcept
        : place_(std::move(other.place_)),
          request_(std::move(other.request_)),
          made_(std::move(other.made_)),
          has_ended_(std::exchange(other.has_ended_, false)) {}
    Shrinking& operator=(Shrinking&& other) noexcept {
        Shrinking taken(std::move(other));
        std::swap(place_, taken.place_);
        std::swap(request_, taken.request_);
        std::swap(made_, taken.made_);
        std::swap(has_ended_, taken.has_ended_);
        return *this;
    }

    // Whether the group of the survivors is there, to be taken by wait(). Makes progress; throws when there will be none.
    bool test() {
        const Status status = try_test();
        if (status == Status::kInProgress) return false;
        detail::throw_unless_ok(status);
        return true;
    }
    Status try_test() noexcept { return has_ended_ ? Status::kOk : end(request_.try_test()); }

    // The group, once. kTimeout leaves the shrink under way: wait again, or let go of this object.
    Group wait(Timeout timeout = kNoTimeout) {
        Group group;
        detail::throw_unless_ok(try_wait(group, timeout));
        return group;
    }
    Status try_wait(Group& group, Timeout timeout = kNoTimeout) noexcept {
        const Status status = has_ended_ ? Status::kOk : end(request_.try_wait(timeout));
        if (status != Status::kOk) return status;
        group = std::move(made_);
        has_ended_ = false;
        return status;
    }

    // While it is under way, or its group has not been taken.
    explicit operator bool() const noexcept { return static_cast<bool>(request_) || has_ended_; }

  private:
    friend class Group;

    // Where the library stores the new group, and whose callback that has.
    struct Place {
        coppice_group_t* handle;
        std::shared_ptr<Group::State> state;
    };

    Status end(Status status) noexcept {
        if (status != Status::kOk) return status;
        has_ended_ = true;
        made_.handle_ = place_->handle;
        if (made_) made_.state_ = place_->state;
        request_ = Request();
        return status;
    }

    std::unique_ptr<Place> place_;  // outlives the request
    Request request_;
    Group made_;              // empty where this rank has left
    bool has_ended_ = false;  // and has not been taken
};

inline Shrinking Group::shrink_nb() {
    Shrinking shrinking;
    detail::throw_unless_ok(try_shrink_nb(shrinking));
    return shrinking;
}

inline Status Group::try_shrink_nb(Shrinking& shrinking) noexcept {
    return begin(shrinking, [this](coppice_group_t** next, coppice_request_t** request) {
        return coppice_group_shrink_nb(handle_, next, request);
    });
}

inline Shrinking Group::renew_nb(const RenewOptions& options) {
    Shrinking renewing;
    detail::throw_unless_ok(try_renew_nb(renewing, options));
    return renewing;
}

inline Status Group::try_renew_nb(Shrinking& renewing, const RenewOptions& options) noexcept {
    const coppice_renew_options_t plain = options.to_c();
    const coppice_renew_options_t* const given = options.as_others ? nullptr : &plain;
    return begin(renewing, [this, given](coppice_group_t** next, coppice_request_t** request) {
        return coppice_group_renew_nb(handle_, given, next, request);
    });
}

template <class Begin>
Status Group::begin(Shrinking& shrinking, Begin&& begin) noexcept {
    Shrinking made;
    made.place_.reset(new (std::nothrow) Shrinking::Place{nullptr, state_});
    if (!made.place_) return Status::kNoMemory;
    coppice_request_t* request = nullptr;
    const Status status = detail::from_c(begin(&made.place_->handle, &request));
    if (status != Status::kOk) return status;
    made.request_ = Request(request);
    shrinking = std::move(made);
    return status;
}

}  // namespace v0
}  // namespace coppice
