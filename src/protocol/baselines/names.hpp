// All that the simulator can run, by name: what users may choose, and what is only there to be compared with.
#pragma once

#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "protocol/broadcast.hpp"
#include "protocol/gossip.hpp"

namespace coppice::protocol::baselines {

// As protocol::parse_correction(), and "opportunistic-paper:D", "optimized-paper:D", with what may stand behind "opportunistic:D".
tl::expected<CorrectionSpec, std::string> parse_correction(std::string_view text);
const std::vector<std::string_view>& known_corrections();

// As protocol::parse_gossip(), and "gos", with what may stand behind "ccg".
tl::expected<GossipSpec, std::string> parse_gossip(std::string_view text);
const std::vector<std::string_view>& known_gossips();

}  // namespace coppice::protocol::baselines
