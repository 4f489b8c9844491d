#include "protocol/agreement/agreement_tree.hpp"

#include <algorithm>
#include <cassert>

#include "protocol/agreement/find_child.hpp"

namespace coppice::protocol {
namespace {

constexpr std::uint32_t kNobody = AgreementTree::kNobody;

constexpr std::string_view kBinary = "kary:2:inorder";
constexpr std::string_view kHeap = "kary:2:heap";
constexpr const char* kMore =
    "; binary (kary:2:inorder), heap (kary:2:heap); X/Y across hosts and within them, X/Y/Z and W/X/Y/Z with "
    "leaf switches, and pods of those, above";

tl::expected<topology::TreeSpec, std::string> parse_level(std::string_view text) {
    if (text == "heap") return topology::parse_tree(kHeap);
    return topology::parse_tree(text == "binary" || text == "bin" ? kBinary : text);
}

std::string level_to_string(const topology::TreeSpec& spec) {
    const std::string text = topology::to_string(spec);
    if (text == kHeap) return "heap";
    return text == kBinary ? "binary" : text;
}

}  // namespace

tl::expected<AgreementTreeSpec, std::string> parse_agreement_tree(std::string_view text) {
    std::vector<topology::TreeSpec> levels;
    for (std::size_t begin = 0; begin != std::string_view::npos;) {
        const std::size_t slash = text.find('/', begin);
        const auto level = parse_level(text.substr(begin, slash == std::string_view::npos ? slash : slash - begin));
        if (!level) return tl::unexpected(level.error() + kMore);
        levels.push_back(*level);
        if (levels.size() > AgreementLevels::kMostLevels)
            return tl::unexpected(std::string("a tree has four levels at most") + kMore);
        begin = slash == std::string_view::npos ? slash : slash + 1;
    }
    AgreementTreeSpec spec{levels.front(), std::nullopt, {}};
    if (levels.size() == 1) return spec;
    spec.within = levels.back();
    spec.between.assign(levels.begin() + 1, levels.end() - 1);
    return spec;
}

std::string to_string(const AgreementTreeSpec& spec) {
    std::string text = level_to_string(spec.across);
    const auto below = [&text](const topology::TreeSpec& level) {
        text += '/';
        text += level_to_string(level);
    };
    for (const topology::TreeSpec& level : spec.between)
        below(level);
    if (spec.within) below(*spec.within);
    return text;
}

tl::expected<AgreementTree, std::string> AgreementTree::make(const AgreementTreeSpec& spec, std::uint32_t ranks,
                                                             const topology::Nodes* hosts, const FailedSet& excluded,
                                                             std::span<const topology::Site> sites) {
    if (!excluded.empty() && excluded.intervals().back().last >= ranks) {
        return tl::unexpected(std::string("an excluded rank is not in the group"));
    }
    AgreementTree tree;
    tree.spec_ = spec;
    tree.ranks_ = ranks;
    tree.standing_ = ranks - excluded.count();
    tree.excluded_ = excluded;
    std::uint32_t holes = 0;
    for (const FailedSet::Interval& interval : excluded.intervals()) {
        tree.holes_.push_back(holes);
        holes += interval.last - interval.first + 1;
    }
    if (spec.within) {
        if (hosts == nullptr || hosts->ranks() != ranks) {
            return tl::unexpected(std::string("a tree across hosts needs to know which ranks share a host"));
        }
        if (!sites.empty() && sites.size() != hosts->count())
            return tl::unexpected(
                std::string("it has to be known of each host which switches it hangs on, or of none"));
        if (const auto made = tree.make_levels(*hosts, sites); !made) return tl::unexpected(made.error());
        return tree;
    }
    auto flat = topology::Tree::make(spec.across, tree.standing_);
    if (!flat) return tl::unexpected(flat.error());
    tree.max_degree_ = flat->child_count(Position{0});
    tree.across_.push_back(std::move(*flat));
    return tree;
}

tl::expected<void, std::string> AgreementTree::make_levels(const topology::Nodes& hosts,
                                                           std::span<const topology::Site> sites) {
    tl::expected<AgreementLevels, std::string> levels = [&] {
        if (excluded_.empty()) return AgreementLevels::make(spec_, hosts, false, sites);
        std::vector<std::uint64_t> host_of(standing_);
        for (std::uint32_t index = 0; index < standing_; ++index)
            host_of[index] = hosts.node_of(Rank{to_rank(index)});
        const topology::Nodes left = topology::Nodes::by_host(host_of);
        std::vector<topology::Site> sites_left;
        for (std::uint32_t host = 0; !sites.empty() && host < left.count(); ++host)
            sites_left.push_back(sites[host_of[left.members(host).front().value]]);
        return AgreementLevels::make(spec_, left, true, sites_left);
    }();
    if (!levels) return tl::unexpected(levels.error());
    max_degree_ = levels->max_degree();
    levels_ = std::move(*levels);
    return {};
}

std::uint32_t AgreementTree::to_index(std::uint32_t rank) const {
    if (holes_.empty()) return rank;
    const auto intervals = excluded_.intervals();
    const auto after = std::upper_bound(intervals.begin(), intervals.end(), rank,
                                        [](std::uint32_t r, const FailedSet::Interval& i) { return r < i.first; });
    if (after == intervals.begin()) return rank;
    const auto before = static_cast<std::size_t>(after - intervals.begin()) - 1;
    return rank - holes_[before] - (intervals[before].last - intervals[before].first + 1);
}

std::uint32_t AgreementTree::to_rank(std::uint32_t index) const {
    if (holes_.empty()) return index;
    const auto intervals = excluded_.intervals();
    // The i-th interval lies before the rank if as many ranks as it leaves before itself are already used up.
    std::size_t low = 0;
    std::size_t high = holes_.size();
    while (low < high) {
        const std::size_t middle = low + (high - low) / 2;
        if (intervals[middle].first - holes_[middle] <= index) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    if (low == 0) return index;
    return index + holes_[low - 1] + (intervals[low - 1].last - intervals[low - 1].first + 1);
}

std::uint32_t AgreementTree::parent_index(std::uint32_t index) const {
    if (levels_) return levels_->parent(index);
    const std::optional<Position> parent = across_.front().parent(Position{index});
    return parent ? parent->value : kNobody;
}

std::uint32_t AgreementTree::children_of_index(std::uint32_t index) const {
    return levels_ ? levels_->child_count(index) : across_.front().child_count(Position{index});
}

std::uint32_t AgreementTree::child_of_index(std::uint32_t index, std::uint32_t which) const {
    return levels_ ? levels_->child(index, which) : across_.front().child(Position{index}, which).value;
}

std::uint32_t AgreementTree::parent(std::uint32_t rank) const {
    const std::uint32_t parent = parent_index(to_index(rank));
    return parent == kNobody ? kNobody : to_rank(parent);
}

std::uint32_t AgreementTree::child_count(std::uint32_t rank) const {
    return children_of_index(to_index(rank));
}

std::uint32_t AgreementTree::child(std::uint32_t rank, std::uint32_t index) const {
    return to_rank(child_of_index(to_index(rank), index));
}

std::optional<std::uint32_t> AgreementTree::child_index(std::uint32_t rank, std::uint32_t child) const {
    if (excluded_.contains(child)) return std::nullopt;
    const std::uint32_t self = to_index(rank);
    const std::uint32_t wanted = to_index(child);
    if (parent_index(wanted) != self) return std::nullopt;
    if (levels_) return levels_->child_index(self, wanted);
    return find_child(children_of_index(self), wanted, [&](std::uint32_t i) { return child_of_index(self, i); });
}

std::uint32_t AgreementTree::repaired_parent(const FailedSet& failed, std::uint32_t rank) const {
    std::uint32_t at = parent(rank);
    while (at != kNobody && failed.contains(at))
        at = parent(at);
    if (at != kNobody) return at;
    const std::uint32_t lowest = failed.lowest_absent();
    return lowest < rank ? lowest : kNobody;
}

// The nearest live descendants of a dead rank. Recursion is as deep as dead ranks stand above each other, which in a
// chain may be all: a stack of our own.
void AgreementTree::live_below(const FailedSet& failed, std::uint32_t dead, std::vector<std::uint32_t>& out) const {
    std::vector<std::uint32_t> open{dead};
    while (!open.empty()) {
        const std::uint32_t at = open.back();
        open.pop_back();
        const std::uint32_t count = child_count(at);
        for (std::uint32_t i = 0; i < count; ++i) {
            const std::uint32_t below = child(at, i);
            (failed.contains(below) ? open : out).push_back(below);
        }
    }
}

void AgreementTree::adopted(const FailedSet& failed, std::uint32_t rank, std::vector<std::uint32_t>& out) const {
    out.clear();
    if (failed.count() == excluded_.count()) return;
    const std::uint32_t count = child_count(rank);
    if (failed.count() - excluded_.count() < count) {
        for (const FailedSet::Interval& interval : failed.intervals()) {
            for (std::uint32_t dead = interval.first; dead <= interval.last; ++dead) {
                if (!excluded_.contains(dead) && parent(dead) == rank) live_below(failed, dead, out);
            }
        }
    } else {
        for (std::uint32_t i = 0; i < count; ++i) {
            const std::uint32_t dead = child(rank, i);
            if (failed.contains(dead)) live_below(failed, dead, out);
        }
    }
    const std::uint32_t top = to_rank(0);
    if (rank != top && failed.lowest_absent() == rank) {
        live_below(failed, top, out);
        std::erase(out, rank);
    }
    std::sort(out.begin(), out.end());
}

bool AgreementTree::is_degenerated(const FailedSet& failed) const {
    struct Change {
        std::uint32_t rank;
        std::int64_t children;
    };
    std::vector<Change> changes;
    std::uint32_t dead = 0;
    for (const FailedSet::Interval& interval : failed.intervals()) {
        for (std::uint32_t rank = interval.first; rank <= interval.last; ++rank) {
            if (excluded_.contains(rank)) continue;
            ++dead;
            if (const std::uint32_t above = parent(rank); above != kNobody) changes.push_back({above, -1});
            const std::uint32_t count = child_count(rank);
            for (std::uint32_t i = 0; i < count; ++i) {
                const std::uint32_t below = child(rank, i);
                if (failed.contains(below)) continue;
                if (const std::uint32_t heir = repaired_parent(failed, below); heir != kNobody)
                    changes.push_back({heir, 1});
            }
        }
    }
    if (dead == 0) return false;
    if (std::uint64_t{dead} * 2 >= standing_) return true;
    std::sort(changes.begin(), changes.end(), [](const Change& a, const Change& b) { return a.rank < b.rank; });
    for (std::size_t at = 0; at < changes.size();) {
        const std::uint32_t rank = changes[at].rank;
        std::int64_t children = child_count(rank);
        for (; at < changes.size() && changes[at].rank == rank; ++at)
            children += changes[at].children;
        if (children > 2 * std::int64_t{max_degree_}) return true;
    }
    return false;
}

}  // namespace coppice::protocol
