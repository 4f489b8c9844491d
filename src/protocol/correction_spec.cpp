// The names of corrections and messages, as people write and read them.
#include <array>
#include <charconv>

#include "protocol/broadcast.hpp"

namespace coppice::protocol {
namespace {

struct Name {
    std::string_view text;
    CorrectionKind kind;
    bool takes_distance;
};

constexpr std::array<Name, 7> kNames{{
    {"none", CorrectionKind::none, false},
    {"ack", CorrectionKind::acknowledged, false},
    {"opportunistic", CorrectionKind::opportunistic, true},
    {"opportunistic-paper", CorrectionKind::opportunistic_paper, true},
    {"optimized", CorrectionKind::optimized_opportunistic, true},
    {"optimized-paper", CorrectionKind::optimized_paper, true},
    {"checked", CorrectionKind::checked, false},
}};

constexpr std::string_view kOneDirectional = "one-directional";

tl::unexpected<std::string> refuse(std::string_view text, std::string_view why) {
    std::string sentence = "correction \"";
    sentence.append(text).append("\" ").append(why).append("; known are: ");
    bool first = true;
    for (const std::string_view known : known_corrections()) {
        if (!first) sentence.append(", ");
        first = false;
        sentence.append(known);
    }
    return tl::unexpected<std::string>(std::move(sentence));
}

// The next part of `rest` up to a colon; `rest` keeps what is behind it. Nothing when no part is left.
std::optional<std::string_view> next_part(std::optional<std::string_view>& rest) {
    if (!rest) return std::nullopt;
    const std::size_t colon = rest->find(':');
    const std::string_view part = rest->substr(0, colon);
    if (colon == std::string_view::npos) {
        rest = std::nullopt;
    } else {
        rest = rest->substr(colon + 1);
    }
    return part;
}

// 1 … kMaxDistance in plain decimal digits.
std::optional<std::uint32_t> parse_distance(std::string_view text) {
    if (text.empty() || text.front() < '1' || text.front() > '9') return std::nullopt;
    std::uint32_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size() || value > kMaxDistance) return std::nullopt;
    return value;
}

}  // namespace

const std::vector<std::string_view>& known_corrections() {
    static const std::vector<std::string_view> names{"none",
                                                     "ack",
                                                     "opportunistic[:D][:one-directional]",
                                                     "optimized[:D][:one-directional]",
                                                     "checked",
                                                     "opportunistic-paper[:D][:one-directional]",
                                                     "optimized-paper[:D][:one-directional]"};
    return names;
}

tl::expected<CorrectionSpec, std::string> parse_correction(std::string_view text) {
    std::optional<std::string_view> rest = text;
    const std::string_view head = *next_part(rest);
    const Name* name = nullptr;
    for (const Name& candidate : kNames) {
        if (candidate.text == head) name = &candidate;
    }
    if (name == nullptr) return refuse(text, "is unknown");

    CorrectionSpec spec;
    spec.kind = name->kind;
    std::optional<std::string_view> part = next_part(rest);
    if (part && !name->takes_distance) return refuse(text, "takes nothing behind its name");
    if (part && *part != kOneDirectional) {
        const std::optional<std::uint32_t> distance = parse_distance(*part);
        if (!distance) {
            return refuse(text, "needs a distance of 1 to " + std::to_string(kMaxDistance));
        }
        spec.distance = *distance;
        part = next_part(rest);
    }
    if (part) {
        if (*part != kOneDirectional) return refuse(text, "may only end in \":one-directional\"");
        spec.one_directional = true;
    }
    if (rest) return refuse(text, "has something behind its end");
    return spec;
}

std::string to_string(const CorrectionSpec& spec) {
    for (const Name& name : kNames) {
        if (name.kind != spec.kind) continue;
        std::string text{name.text};
        if (!name.takes_distance) return text;
        text.append(":").append(std::to_string(spec.distance));
        if (spec.one_directional) text.append(":").append(kOneDirectional);
        return text;
    }
    return "unknown";
}

std::string_view to_string(MessageKind kind) {
    switch (kind) {
        case MessageKind::tree:
            return "tree";
        case MessageKind::correction_left:
            return "correction_left";
        case MessageKind::correction_right:
            return "correction_right";
        case MessageKind::rescue:
            return "rescue";
        case MessageKind::acknowledgement:
            return "acknowledgement";
        case MessageKind::query:
            return "query";
        case MessageKind::denial:
            return "denial";
        case MessageKind::verdict:
            return "verdict";
    }
    return "unknown";
}

}  // namespace coppice::protocol
