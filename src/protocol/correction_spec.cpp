// The names of corrections and messages, as people write and read them.
#include <algorithm>
#include <array>

#include "protocol/failure_proof.hpp"
#include "protocol/names.hpp"
#include "topology/number.hpp"

namespace coppice::protocol {
namespace {

constexpr std::array kNames{
    CorrectionName{"none", "none", CorrectionKind::none, Takes::nothing_at_all},
    CorrectionName{"ack", "ack", CorrectionKind::acknowledged, Takes::nothing_at_all},
    CorrectionName{"opportunistic", "opportunistic[:D][:one-directional]", CorrectionKind::opportunistic,
                   Takes::distance},
    CorrectionName{"optimized", "optimized[:D][:one-directional]", CorrectionKind::optimized_opportunistic,
                   Takes::distance},
    CorrectionName{"checked", "checked", CorrectionKind::checked, Takes::nothing},
    CorrectionName{"delayed", "delayed:T", CorrectionKind::delayed, Takes::delay},
    CorrectionName{"failure-proof", "failure-proof[:F[:T]]", CorrectionKind::failure_proof, Takes::failures},
};
constexpr std::array kPrintedNames{
    CorrectionName{"opportunistic-paper", "opportunistic-paper[:D][:one-directional]",
                   CorrectionKind::opportunistic_paper, Takes::distance},
    CorrectionName{"optimized-paper", "optimized-paper[:D][:one-directional]", CorrectionKind::optimized_paper,
                   Takes::distance},
};

constexpr std::string_view kOneDirectional = "one-directional";
constexpr std::string_view kOverlapped = "overlapped";
constexpr std::string_view kSynchronized = "synchronized";

tl::unexpected<std::string> refused(std::string_view text, std::string_view why,
                                    std::span<const CorrectionName> names) {
    std::string sentence = "correction \"";
    sentence.append(text).append("\" ").append(why).append("; known are: ");
    bool first = true;
    for (const CorrectionName& known : names) {
        if (!first) sentence.append(", ");
        first = false;
        sentence.append(known.form);
    }
    sentence.append("; all but none and ack also with :overlapped or :synchronized at the end");
    return tl::unexpected<std::string>(std::move(sentence));
}

// Takes the next part of `rest` up to a colon; nothing when no part is left.
std::optional<std::string_view> take_part(std::optional<std::string_view>& rest) {
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

// Takes the next part if it is this word.
bool take_word(std::optional<std::string_view>& rest, std::string_view word) {
    std::optional<std::string_view> ahead = rest;
    if (take_part(ahead) != word) return false;
    rest = ahead;
    return true;
}

bool is_number(const std::optional<std::string_view>& rest) {
    std::optional<std::string_view> ahead = rest;
    const auto part = take_part(ahead);
    return part && part != kOneDirectional && part != kOverlapped && part != kSynchronized;
}

}  // namespace

std::span<const CorrectionName> correction_names() {
    return kNames;
}
std::span<const CorrectionName> printed_correction_names() {
    return kPrintedNames;
}

const std::vector<std::string_view>& known_corrections() {
    static const std::vector<std::string_view> forms = forms_of(kNames);
    return forms;
}

tl::expected<CorrectionSpec, std::string> parse_correction(std::string_view text) {
    return parse_correction(text, kNames);
}

tl::expected<CorrectionSpec, std::string> parse_correction(std::string_view text,
                                                           std::span<const CorrectionName> names) {
    const auto refuse = [text, names](std::string_view why) { return refused(text, why, names); };
    std::optional<std::string_view> rest = text;
    const std::string_view head = *take_part(rest);
    const auto name = std::ranges::find(names, head, &CorrectionName::text);
    if (name == names.end()) {
        const bool is_printed = std::ranges::count(kPrintedNames, head, &CorrectionName::text) != 0;
        return refuse(is_printed ? kOnlyToCompare : "is unknown");
    }

    CorrectionSpec spec;
    spec.kind = name->kind;
    if (name->takes == Takes::nothing_at_all && rest) return refuse("takes nothing behind its name");
    if (name->takes == Takes::delay && !is_number(rest)) return refuse("needs a delay");
    if (name->takes == Takes::distance && is_number(rest)) {
        const auto distance = topology::parse_number(*take_part(rest), 1U, kMaxDistance);
        if (!distance) return refuse("needs a distance of 1 to " + std::to_string(kMaxDistance));
        spec.distance = *distance;
    }
    if (name->takes == Takes::failures && is_number(rest)) {
        const auto failures = topology::parse_number(*take_part(rest), 1U, kMaxFailures);
        if (!failures) return refuse("needs a number of failures from 1 to " + std::to_string(kMaxFailures));
        spec.failures = *failures;
    }
    if (name->takes == Takes::delay || (name->takes == Takes::failures && is_number(rest))) {
        const auto delay = topology::parse_number<std::uint64_t>(*take_part(rest), 1, kMaxDelay);
        if (!delay) return refuse("needs a delay of 1 to " + std::to_string(kMaxDelay));
        spec.delay = Nanoseconds{*delay};
    }
    if (name->takes == Takes::distance) spec.one_directional = take_word(rest, kOneDirectional);
    spec.synchronized = take_word(rest, kSynchronized);
    if (!spec.synchronized) take_word(rest, kOverlapped);
    if (rest) return refuse("has something behind its end that is not understood");
    return spec;
}

std::string to_string(const CorrectionSpec& spec) {
    for (const std::span<const CorrectionName> names : {correction_names(), printed_correction_names()}) {
        const auto name = std::ranges::find(names, spec.kind, &CorrectionName::kind);
        if (name == names.end()) continue;
        std::string text{name->text};
        if (name->takes == Takes::nothing_at_all) return text;
        if (name->takes == Takes::distance) text.append(":").append(std::to_string(spec.distance));
        if (name->takes == Takes::failures) text.append(":").append(std::to_string(spec.failures));
        if (spec.delay.value > 0) text.append(":").append(std::to_string(spec.delay.value));
        if (spec.one_directional) text.append(":").append(kOneDirectional);
        if (spec.synchronized) text.append(":").append(kSynchronized);
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
        case MessageKind::gossip:
            return "gossip";
    }
    return "unknown";
}

}  // namespace coppice::protocol
