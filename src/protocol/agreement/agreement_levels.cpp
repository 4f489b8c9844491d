#include "protocol/agreement/agreement_levels.hpp"

#include <algorithm>
#include <utility>

#include "protocol/agreement/agreement_tree.hpp"
#include "protocol/agreement/find_child.hpp"

namespace coppice::protocol {
namespace {

std::uint32_t place_in(const topology::Nodes& groups, std::uint32_t group, std::uint32_t at) {
    const auto members = groups.members(group);
    return static_cast<std::uint32_t>(std::lower_bound(members.begin(), members.end(), Rank{at}) - members.begin());
}

}  // namespace

tl::expected<AgreementLevels, std::string> AgreementLevels::make(const AgreementTreeSpec& spec,
                                                                 const topology::Nodes& hosts, bool keep,
                                                                 std::span<const topology::Site> sites) {
    AgreementLevels levels;
    Level ranks;
    if (keep) {
        ranks.own = hosts;
    } else {
        ranks.given = &hosts;
    }
    if (auto added = levels.add(std::move(ranks), *spec.within); !added) return tl::unexpected(added.error());
    std::uint32_t participants = hosts.count();
    // By participant of the next level: any number that tells its leaves, then its pods, apart.
    std::vector<topology::Site> at(sites.begin(), sites.end());
    at.resize(participants);
    for (auto tree = spec.between.rbegin(); tree != spec.between.rend(); ++tree) {
        const bool by_leaf = tree == spec.between.rbegin();
        std::vector<std::uint64_t> keys;
        for (const topology::Site& site : at)
            keys.push_back(by_leaf ? site.leaf : site.pod);
        Level level;
        level.own = topology::Nodes::by_host(keys);
        std::vector<topology::Site> above;
        for (std::uint32_t group = 0; group < level.own->count(); ++group)
            above.push_back(at[level.own->members(group).front().value]);
        participants = level.own->count();
        at = std::move(above);
        if (auto added = levels.add(std::move(level), *tree); !added) return tl::unexpected(added.error());
    }
    auto top = topology::Tree::make(spec.across, participants);
    if (!top) return tl::unexpected(top.error());
    levels.max_degree_ += top->child_count(Position{0});
    levels.top_.push_back(std::move(*top));
    return levels;
}

tl::expected<void, std::string> AgreementLevels::add(Level level, const topology::TreeSpec& spec) {
    std::vector<std::uint32_t> sizes;
    for (std::uint32_t group = 0; group < level.groups().count(); ++group)
        sizes.push_back(static_cast<std::uint32_t>(level.groups().members(group).size()));
    std::sort(sizes.begin(), sizes.end());
    sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
    for (const std::uint32_t size : sizes) {
        auto tree = topology::Tree::make(spec, size);
        if (!tree) return tl::unexpected(tree.error());
        level.trees.push_back(std::move(*tree));
    }
    max_degree_ += level.trees.back().child_count(Position{0});
    levels_.push_back(std::move(level));
    return {};
}

const topology::Tree& AgreementLevels::Level::tree(std::uint32_t group) const {
    const std::size_t size = groups().members(group).size();
    return *std::lower_bound(trees.begin(), trees.end(), size,
                             [](const topology::Tree& tree, std::size_t s) { return tree.processes() < s; });
}

std::uint32_t AgreementLevels::leader(std::size_t level, std::uint32_t at) const {
    for (; level > 0; --level)
        at = levels_[level - 1].groups().members(at).front().value;
    return at;
}

std::uint32_t AgreementLevels::parent(std::uint32_t rank) const {
    std::uint32_t at = rank;
    for (std::size_t level = 0; level < levels_.size(); ++level) {
        const topology::Nodes& groups = levels_[level].groups();
        const std::uint32_t group = groups.node_of(Rank{at});
        const std::uint32_t place = place_in(groups, group, at);
        if (place > 0) {
            const Position above = *levels_[level].tree(group).parent(Position{place});
            return leader(level, groups.members(group)[above.value].value);
        }
        at = group;
    }
    const std::optional<Position> above = top_.front().parent(Position{at});
    return above ? leader(levels_.size(), above->value) : kNobody;
}

AgreementLevels::Sections AgreementLevels::sections(std::uint32_t rank) const {
    Sections found;
    std::uint32_t at = rank;
    for (std::size_t level = 0; level < levels_.size(); ++level) {
        const topology::Nodes& groups = levels_[level].groups();
        const std::uint32_t group = groups.node_of(Rank{at});
        const std::uint32_t place = place_in(groups, group, at);
        found.each[found.count++] = {level, group, place, levels_[level].tree(group).child_count(Position{place})};
        if (place > 0) return found;
        at = group;
    }
    found.each[found.count++] = {levels_.size(), 0, at, top_.front().child_count(Position{at})};
    return found;
}

std::uint32_t AgreementLevels::child_in(const Section& section, std::uint32_t index) const {
    if (section.level == levels_.size())
        return leader(section.level, top_.front().child(Position{section.place}, index).value);
    const Level& level = levels_[section.level];
    const Position below = level.tree(section.group).child(Position{section.place}, index);
    return leader(section.level, level.groups().members(section.group)[below.value].value);
}

std::uint32_t AgreementLevels::child_count(std::uint32_t rank) const {
    const Sections all = sections(rank);
    std::uint32_t count = 0;
    for (std::size_t i = 0; i < all.count; ++i)
        count += all.each[i].count;
    return count;
}

std::uint32_t AgreementLevels::child(std::uint32_t rank, std::uint32_t index) const {
    const Sections all = sections(rank);
    std::size_t at = all.count - 1;
    for (; at > 0 && index >= all.each[at].count; --at)
        index -= all.each[at].count;
    return child_in(all.each[at], index);
}

// Each level ascends or descends for itself.
std::optional<std::uint32_t> AgreementLevels::child_index(std::uint32_t rank, std::uint32_t child) const {
    const Sections all = sections(rank);
    std::uint32_t before = 0;
    for (std::size_t i = all.count; i-- > 0;) {
        const Section& section = all.each[i];
        const auto found =
            find_child(section.count, child, [&](std::uint32_t index) { return child_in(section, index); });
        if (found) return before + *found;
        before += section.count;
    }
    return std::nullopt;
}

}  // namespace coppice::protocol
