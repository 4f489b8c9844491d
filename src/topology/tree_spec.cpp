// Names of trees: strict reading, writing, and what can't be made at all.
#include <numeric>

#include "topology/number.hpp"
#include "topology/tree.hpp"

namespace coppice::topology {
namespace {

constexpr std::string_view kInOrderSuffix = ":inorder";
constexpr std::string_view kLevelOrderSuffix = ":heap";

using Refusal = tl::unexpected<std::string>;

std::string known_list() {
    std::string list;
    for (const std::string_view name : known_trees()) {
        if (!list.empty()) list += ", ";
        list += name;
    }
    return list + "; kary, lame, binomial and optimal (where O divides L) may end in " + std::string(kInOrderSuffix) +
           ", kary in " + std::string(kLevelOrderSuffix);
}

// A name that somebody typed, made fit for a message.
std::string quoted(std::string_view text) {
    constexpr std::size_t kLongest = 40;
    std::string result = "\"";
    for (const char c : text.substr(0, kLongest))
        result += (c >= ' ' && c <= '~') ? c : '?';
    if (text.size() > kLongest) result += "...";
    return result + "\"";
}

Refusal refuse(std::string_view text, std::string_view why) {
    return Refusal("tree " + quoted(text) + ": " + std::string(why) + "; known trees: " + known_list());
}

std::optional<TreeShape> parse_shape(std::string_view name) {
    if (name == "binomial") return TreeShape::binomial;
    if (name == "kary") return TreeShape::kary;
    if (name == "lame") return TreeShape::lame;
    if (name == "optimal") return TreeShape::optimal;
    if (name == "chain") return TreeShape::chain;
    if (name == "star") return TreeShape::star;
    return std::nullopt;
}

// Fills in what stands behind the shape's colon. False when it is not what the shape takes.
bool parse_parameters(TreeSpec& spec, std::optional<std::string_view> parameters) {
    switch (spec.shape) {
        case TreeShape::kary:
        case TreeShape::lame: {
            const auto order = parameters ? parse_number(*parameters) : std::nullopt;
            if (order) spec.order = *order;
            return order.has_value();
        }
        case TreeShape::optimal: {
            if (!parameters) return true;
            const std::size_t comma = parameters->find(',');
            if (comma == std::string_view::npos) return false;
            const auto overhead = parse_number(parameters->substr(0, comma));
            const auto latency = parse_number(parameters->substr(comma + 1));
            if (!overhead || !latency) return false;
            spec.overhead = *overhead;
            spec.latency = *latency;
            return true;
        }
        case TreeShape::binomial:
        case TreeShape::chain:
        case TreeShape::star:
            return !parameters;
    }
    return false;
}

}  // namespace

const std::vector<std::string_view>& known_trees() {
    static const std::vector<std::string_view> kNames = {"binomial",    "kary:K", "lame:K", "optimal",
                                                         "optimal:O,L", "chain",  "star"};
    return kNames;
}

TreeSpec automatic_tree(std::uint32_t positions) {
    constexpr std::uint32_t kStarUpTo = 16;
    return {.shape = positions <= kStarUpTo ? TreeShape::star : TreeShape::binomial};
}

std::optional<std::string> reason_against(const TreeSpec& spec) {
    const bool in_order = spec.numbering == Numbering::in_order;
    if (spec.numbering == Numbering::level_order && spec.shape != TreeShape::kary) return "only a k-ary tree is a heap";
    switch (spec.shape) {
        case TreeShape::kary:
            if (spec.order == 0) return "a k-ary tree needs at least 1 child per process";
            return std::nullopt;
        case TreeShape::lame:
            if (spec.order == 0 || spec.order > kMaxLameOrder) {
                return "the order of a Lamé tree is 1 to " + std::to_string(kMaxLameOrder);
            }
            return std::nullopt;
        case TreeShape::optimal: {
            if (spec.overhead == 0) return "an optimal tree needs an overhead O of at least 1 step";
            const std::uint32_t unit = std::gcd(spec.overhead, spec.latency);
            const std::uint64_t delay = 2ULL * (spec.overhead / unit) + spec.latency / unit;
            if (delay > kMaxLameOrder) {
                return "for an optimal tree (2*O + L) / gcd(O, L) is " + std::to_string(delay) + ", more than " +
                       std::to_string(kMaxLameOrder) + ": use coarser steps";
            }
            if (in_order && spec.latency % spec.overhead != 0) {
                return "an optimal tree has an in-order numbering only where O divides L";
            }
            return std::nullopt;
        }
        case TreeShape::binomial:
            return std::nullopt;
        case TreeShape::chain:
        case TreeShape::star:
            if (in_order) return "chain and star have one numbering only";
            return std::nullopt;
    }
    return "there is no such shape";
}

tl::expected<TreeSpec, std::string> parse_tree(std::string_view text) {
    TreeSpec spec;
    std::string_view rest = text;
    if (rest.ends_with(kInOrderSuffix)) {
        spec.numbering = Numbering::in_order;
        rest.remove_suffix(kInOrderSuffix.size());
    } else if (rest.ends_with(kLevelOrderSuffix)) {
        spec.numbering = Numbering::level_order;
        rest.remove_suffix(kLevelOrderSuffix.size());
    }
    const std::size_t colon = rest.find(':');
    const auto shape = parse_shape(rest.substr(0, colon));
    if (!shape) return refuse(text, "unknown");
    spec.shape = *shape;
    std::optional<std::string_view> parameters;
    if (colon != std::string_view::npos) parameters = rest.substr(colon + 1);
    if (!parse_parameters(spec, parameters)) return refuse(text, "its parameters are not what this shape takes");
    if (const auto reason = reason_against(spec)) return refuse(text, *reason);
    return spec;
}

std::string to_string(const TreeSpec& spec) {
    std::string text;
    switch (spec.shape) {
        case TreeShape::kary:
            text = "kary:" + std::to_string(spec.order);
            break;
        case TreeShape::binomial:
            text = "binomial";
            break;
        case TreeShape::lame:
            text = "lame:" + std::to_string(spec.order);
            break;
        case TreeShape::optimal:
            text = "optimal:" + std::to_string(spec.overhead) + "," + std::to_string(spec.latency);
            break;
        case TreeShape::chain:
            text = "chain";
            break;
        case TreeShape::star:
            text = "star";
            break;
    }
    if (spec.numbering == Numbering::in_order) text += kInOrderSuffix;
    if (spec.numbering == Numbering::level_order) text += kLevelOrderSuffix;
    return text;
}

}  // namespace coppice::topology
