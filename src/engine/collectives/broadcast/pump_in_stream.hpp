// What a root's blocking call sends may stay for what its next one sends (stream.hpp). In a header so that it becomes a part of
// the call.
#pragma once

#include "engine/collectives/broadcast/broadcasts.hpp"

namespace coppice::engine {

// `pump` sends; it says whether all has been accepted, and so does this.
template <class Pump>
bool Broadcasts::pump_in_stream(Pump&& pump) {
    if (!streams_) return pump();
    const bool may_stay = stream_.may_stay(around_.now_ns());
    bool done = false;
    {
        Router::Batch batch(router_);
        done = pump();
        if (may_stay && done && batch.keep()) around_.context().watch_closely();
    }
    if (!may_stay) stream_.ended(around_.now_ns());  // system calls take their time
    return done;
}

}  // namespace coppice::engine
