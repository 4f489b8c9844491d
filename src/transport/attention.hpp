// Peers with something left to do once what arrived has been taken. One that is queued while they are attended to has its turn at
// the next poll. Peer: has a `bool queued`. Allocates nothing once there is room for all of them.
#pragma once

#include <vector>

namespace coppice::transport {

template <class Peer>
class Attention {
  public:
    bool empty() const { return waiting_.empty(); }
    void queue(Peer& peer) {
        if (peer.queued) return;
        peer.queued = true;
        waiting_.push_back(&peer);
    }
    // While none are attended to.
    void remove(Peer& peer) {
        std::erase(waiting_, &peer);
        peer.queued = false;
    }
    template <class AttendTo>
    void attend(AttendTo&& attend_to) {
        attending_.swap(waiting_);
        for (Peer* const peer : attending_) {
            peer->queued = false;
            attend_to(*peer);
        }
        attending_.clear();
    }

  private:
    std::vector<Peer*> waiting_;
    std::vector<Peer*> attending_;
};

}  // namespace coppice::transport
