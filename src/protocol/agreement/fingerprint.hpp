// Parts of a machine's fingerprint: plain bytes, one after the other.
#pragma once

#include <cstdint>
#include <string>

#include "protocol/failed_set.hpp"

namespace coppice::protocol {

template <class Number>
void put(std::string& out, Number number) {
    out.append(reinterpret_cast<const char*>(&number), sizeof(number));
}

inline void put(std::string& out, const FailedSet& failed) {
    put(out, static_cast<std::uint32_t>(failed.intervals().size()));
    for (const FailedSet::Interval& interval : failed.intervals()) {
        put(out, interval.first);
        put(out, interval.last);
    }
}

}  // namespace coppice::protocol
