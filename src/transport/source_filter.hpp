// A classic BPF program for a listening socket: packets from elsewhere than the admitted hosts are dropped before TCP sees
// them. Their sender gets no answer, as if nobody were there.
//
// No privilege is needed, and the connections that come of the socket keep the program: it also looks at their packets,
// which costs about a tenth of a microsecond each. What a packet says of its source is all that is known: on a network where
// others can send with the address of a host of the job, and see the answers, this keeps nobody out.
#pragma once

#include <linux/filter.h>

#include <optional>
#include <vector>

#include "transport/ip_addresses.hpp"

namespace coppice::transport {

// The kernel grants a socket about 20 KB for programs and options (net.core.optmem_max). So the IPv4 addresses of more hosts
// than this are admitted in ranges, with what lies between neighbours, the closest first;
inline constexpr std::size_t kMostRanges = 150;
// and more IPv6 addresses than this can't be told apart.
inline constexpr std::size_t kMostIpv6 = 40;

// None where there are more than kMostIpv6, or everybody is admitted.
std::optional<std::vector<sock_filter>> source_filter(const Admission& admitted);

}  // namespace coppice::transport
