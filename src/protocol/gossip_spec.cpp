// The names of gossips and of their messages, as people write and read them.

#include "protocol/gossip.hpp"
#include "topology/number.hpp"

namespace coppice::protocol {
namespace {

constexpr std::string_view kRounds = "rounds";

tl::unexpected<std::string> refuse(std::string_view text, std::string_view why) {
    std::string sentence = "gossip \"";
    sentence.append(text).append("\" ").append(why).append("; known are: ");
    bool first = true;
    for (const std::string_view known : known_gossips()) {
        if (!first) sentence.append(", ");
        first = false;
        sentence.append(known);
    }
    return tl::unexpected<std::string>(std::move(sentence));
}

std::vector<std::string_view> parts_of(std::string_view text) {
    std::vector<std::string_view> parts;
    for (;;) {
        const std::size_t colon = text.find(':');
        parts.push_back(text.substr(0, colon));
        if (colon == std::string_view::npos) return parts;
        text.remove_prefix(colon + 1);
    }
}

std::optional<GossipKind> kind_of(std::string_view name) {
    if (name == "gos") return GossipKind::gossip;
    if (name == "ocg") return GossipKind::opportunistic;
    if (name == "ccg") return GossipKind::checked;
    if (name == "fcg") return GossipKind::failure_proof;
    return std::nullopt;
}

std::string_view name_of(GossipKind kind) {
    switch (kind) {
        case GossipKind::gossip:
            return "gos";
        case GossipKind::opportunistic:
            return "ocg";
        case GossipKind::checked:
            return "ccg";
        case GossipKind::failure_proof:
            return "fcg";
    }
    return "unknown";
}

}  // namespace

const std::vector<std::string_view>& known_gossips() {
    static const std::vector<std::string_view> names{"gos[:T][:rounds]", "ocg[:T[:K]][:rounds]", "ccg[:T][:rounds]",
                                                     "fcg[:F[:T]][:rounds]"};
    return names;
}

tl::expected<GossipSpec, std::string> parse_gossip(std::string_view text) {
    std::vector<std::string_view> parts = parts_of(text);
    const std::optional<GossipKind> kind = kind_of(parts.front());
    if (!kind) return refuse(text, "is unknown");
    GossipSpec spec;
    spec.kind = *kind;
    spec.by_rounds = parts.back() == kRounds;
    if (spec.by_rounds) parts.pop_back();

    std::size_t next = 1;
    if (spec.kind == GossipKind::failure_proof && next < parts.size()) {
        const auto failures = topology::parse_number(parts[next++], 0U, kMaxGossipFailures);
        if (!failures) return refuse(text, "withstands 0 to " + std::to_string(kMaxGossipFailures) + " deaths");
        spec.failures = *failures;
    }
    if (next < parts.size()) {
        const auto limit = topology::parse_number(parts[next++], 1U, kMaxGossipLimit);
        if (!limit) return refuse(text, "gossips for 1 to " + std::to_string(kMaxGossipLimit) + " steps or rounds");
        spec.limit = *limit;
        if (spec.kind == GossipKind::opportunistic && next < parts.size()) {
            const auto corrections = topology::parse_number(parts[next++], 1U, kMaxGossipLimit);
            if (!corrections) return refuse(text, "takes, behind T, the number of corrections that each member sends");
            spec.corrections = *corrections;
        }
    }
    if (next < parts.size()) return refuse(text, "has something behind its end");
    return spec;
}

std::string to_string(const GossipSpec& spec) {
    std::string text{name_of(spec.kind)};
    if (spec.kind == GossipKind::failure_proof) text.append(":").append(std::to_string(spec.failures));
    if (spec.limit != 0) {
        text.append(":").append(std::to_string(spec.limit));
        if (spec.corrections != 0) text.append(":").append(std::to_string(spec.corrections));
    }
    if (spec.by_rounds) text.append(":").append(kRounds);
    return text;
}

std::string_view to_string(GossipMessageKind kind) {
    switch (kind) {
        case GossipMessageKind::gossip:
            return "gossip";
        case GossipMessageKind::correction_left:
            return "correction_left";
        case GossipMessageKind::correction_right:
            return "correction_right";
    }
    return "unknown";
}

}  // namespace coppice::protocol
