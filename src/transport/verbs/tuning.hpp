// What users may tune of the verbs transport: the settings COPPICE_VERBS_*.
#pragma once

#include <cstdint>
#include <string>

#include "base/words.hpp"

namespace coppice::transport {

struct VerbsTuning {
    std::string device;              // "NAME" or "NAME:PORT"; empty: the first that can be used
    int gid_index = -1;              // −1: chosen
    std::uint32_t mtu = 0;           // path MTU in bytes at most; 0: the port's
    std::uint16_t port = 0;          // where to listen: this plus the rank; 0: anywhere
    std::uint8_t timeout = 14;       // exponent: an answer is waited for 4.096 µs · 2^timeout (up to 4 times that)
    std::uint8_t retries = 6;        // not 7: "for ever" to soft-RoCE
    std::uint8_t service_level = 0;  // InfiniBand, and the PCP of RoCE's VLANs
    std::uint8_t traffic_class = 0;  // RoCE: DSCP in the upper six bits, ECN in the lower two
    bool memory_windows = true;      // where the device has them
    Nanoseconds probe_interval{500'000'000};  // 0: never
    Nanoseconds connect_timeout{0};           // 0: a peer may take as long as its kernel answers
};

}  // namespace coppice::transport
