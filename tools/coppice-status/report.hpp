// What has been gathered, in three languages: for people, as JSON, for Prometheus.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "status/gather.hpp"

namespace coppice::show {

// Keys: coppice-status(1).
nlohmann::ordered_json as_json(const Everything& all);
std::string as_text(const Everything& all);
// The text exposition format.
std::string as_metrics(const Everything& all);

}  // namespace coppice::show
