#include "simulation/model.hpp"

#include <algorithm>
#include <cstdio>

namespace coppice::simulation {
namespace {

constexpr Step kLongest = 1U << 24;

const char* verb(Event::What what) {
    switch (what) {
        case Event::What::send:
            return "send";
        case Event::What::receive:
            return "receive";
        case Event::What::vanish:
            return "vanish";
        case Event::What::ignore:
            return "ignore";
        case Event::What::color:
            return "color";
        case Event::What::die:
            return "die";
    }
    return "";
}

}  // namespace

std::optional<std::string> reason_against(const LogP& model) {
    if (model.overhead == 0) return "the overhead o must be at least 1 step";
    if (model.latency > kLongest || model.overhead > kLongest || model.gap > kLongest) {
        return "L, o and g are " + std::to_string(kLongest) + " steps at most: use coarser steps";
    }
    return std::nullopt;
}

bool root_dies(const Faults& faults) {
    const auto is_root = [](Position position) { return position.value == 0; };
    return std::ranges::any_of(faults.dead, is_root) || std::ranges::any_of(faults.dying, is_root, &Death::position);
}

std::string to_string(const Event& event) {
    char text[96];
    if (event.what == Event::What::die) {
        std::snprintf(text, sizeof text, "%8u  die      %u", event.time, event.to.value);
    } else {
        std::snprintf(text, sizeof text, "%8u  %-7s  %u -> %u  %.*s", event.time, verb(event.what), event.from.value,
                      event.to.value, static_cast<int>(event.kind_name.size()), event.kind_name.data());
    }
    return text;
}

}  // namespace coppice::simulation
