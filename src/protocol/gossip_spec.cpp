// The names of gossips, as people write and read them.
#include <algorithm>
#include <array>

#include "protocol/names.hpp"
#include "topology/number.hpp"

namespace coppice::protocol {
namespace {

constexpr std::string_view kRounds = "rounds";

constexpr std::array kNames{
    GossipName{"ocg", "ocg[:T[:K]][:rounds]", GossipKind::opportunistic},
    GossipName{"ccg", "ccg[:T][:rounds]", GossipKind::checked},
    GossipName{"fcg", "fcg[:F[:T]][:rounds]", GossipKind::failure_proof},
};
constexpr std::array kPlainNames{GossipName{"gos", "gos[:T][:rounds]", GossipKind::gossip}};

tl::unexpected<std::string> refused(std::string_view text, std::string_view why, std::span<const GossipName> names) {
    std::string sentence = "gossip \"";
    sentence.append(text).append("\" ").append(why).append("; known are: ");
    bool first = true;
    for (const GossipName& known : names) {
        if (!first) sentence.append(", ");
        first = false;
        sentence.append(known.form);
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

std::string_view name_of(GossipKind kind) {
    const auto* const name = std::ranges::find(kNames, kind, &GossipName::kind);
    return name != kNames.end() ? name->text : kPlainNames.front().text;
}

}  // namespace

std::span<const GossipName> gossip_names() {
    return kNames;
}
std::span<const GossipName> plain_gossip_names() {
    return kPlainNames;
}

const std::vector<std::string_view>& known_gossips() {
    static const std::vector<std::string_view> forms = forms_of(kNames);
    return forms;
}

tl::expected<GossipSpec, std::string> parse_gossip(std::string_view text) {
    return parse_gossip(text, kNames);
}

tl::expected<GossipSpec, std::string> parse_gossip(std::string_view text, std::span<const GossipName> names) {
    const auto refuse = [text, names](std::string_view why) { return refused(text, why, names); };
    std::vector<std::string_view> parts = parts_of(text);
    const auto name = std::ranges::find(names, parts.front(), &GossipName::text);
    if (name == names.end()) return refuse(parts.front() == kPlainNames.front().text ? kOnlyToCompare : "is unknown");
    GossipSpec spec;
    spec.kind = name->kind;
    spec.by_rounds = parts.back() == kRounds;
    if (spec.by_rounds) parts.pop_back();

    std::size_t next = 1;
    if (spec.kind == GossipKind::failure_proof && next < parts.size()) {
        const auto failures = topology::parse_number(parts[next++], 0U, kMaxGossipFailures);
        if (!failures) return refuse("withstands 0 to " + std::to_string(kMaxGossipFailures) + " deaths");
        spec.failures = *failures;
    }
    if (next < parts.size()) {
        const auto limit = topology::parse_number(parts[next++], 1U, kMaxGossipLimit);
        if (!limit) return refuse("gossips for 1 to " + std::to_string(kMaxGossipLimit) + " steps or rounds");
        spec.limit = *limit;
        if (spec.kind == GossipKind::opportunistic && next < parts.size()) {
            const auto corrections = topology::parse_number(parts[next++], 1U, kMaxGossipLimit);
            if (!corrections) return refuse("takes, behind T, the number of corrections that each member sends");
            spec.corrections = *corrections;
        }
    }
    if (next < parts.size()) return refuse("has something behind its end");
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

}  // namespace coppice::protocol
