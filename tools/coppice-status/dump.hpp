// What gather() has found, as bytes for the same version of this tool on another host, and from them.
#pragma once

#include <string>
#include <string_view>

#include "status/gather.hpp"

namespace coppice::show {

std::string dump(const Everything& all);
// Appends what such bytes hold, of which nothing is trusted; times are then those of this host's clock. False, and nothing is appended,
// where they are no dump of this version.
bool take_dump(std::string_view bytes, const std::string& host, Everything& all);

}  // namespace coppice::show
