// The requests of a group's non-blocking calls. All are allocated when the group is made.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/error.hpp"
#include "engine/requests/request.hpp"

namespace coppice::engine {

class RequestPool {
  public:
    explicit RequestPool(std::uint32_t size) : size_(size), places_(std::make_unique<Request[]>(size)) {
        free_.reserve(size);
        for (std::uint32_t i = size; i > 0; --i)
            free_.push_back(&places_[i - 1]);
    }

    // Hands out a request that `start` (Request& -> Result<void>) has made wait. COPPICE_ERR_BUSY when all are in use.
    template <class Start>
    Result<Request*> start(Start&& start) {
        if (free_.empty())
            return fail(COPPICE_ERR_BUSY, "all {} requests are in use: free those that have ended", size_);
        Request* const request = free_.back();
        free_.pop_back();  // before, because a callback within may start another one
        if (auto started = start(*request); !started) {
            free_.push_back(request);
            return tl::unexpected(std::move(started.error()));
        }
        return request;
    }

    // The caller has no more use for it. Requests that are not from here are only marked as free.
    void give_back(Request& request) {
        request.state = RequestState::free;
        request.message.clear();
        request.agreed.reset();
        if (&request < places_.get() || &request >= places_.get() + size_) return;
        request.use = static_cast<std::uint8_t>((request.use + 1) % Request::kUses);
        free_.push_back(&request);
    }

    // Those whose operation has not ended.
    template <class Tell>
    void for_each_waiting(Tell&& tell) {
        if (in_use() == 0) return;
        for (std::uint32_t i = 0; i < size_; ++i)
            if (places_[i].state == RequestState::waiting) tell(places_[i]);
    }

    std::uint32_t in_use() const { return size_ - static_cast<std::uint32_t>(free_.size()); }

  private:
    std::uint32_t size_;
    std::unique_ptr<Request[]> places_;
    std::vector<Request*> free_;
};

}  // namespace coppice::engine
