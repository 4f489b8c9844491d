// The tree that agreements run on: any of topology's trees over the ranks, or levels of them over pods, leaf switches, hosts and the
// ranks of each host (agreement_levels.hpp); and how it is repaired around the dead (Herault et al., SC'15, §2, Parent and Children).
//
// A parent's rank is always below its children's. So the root is the lowest rank, of the repaired tree the lowest live
// one, whatever the shape, and the elders of the paper are the lower ranks.
//
// A tree stands over the ranks that were not `excluded` when it was made. Rebalancing is to make a new one.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "base/words.hpp"
#include "protocol/agreement/agreement_levels.hpp"
#include "protocol/failed_set.hpp"
#include "topology/nodes.hpp"
#include "topology/tree.hpp"

namespace coppice::protocol {

struct AgreementTreeSpec {
    topology::TreeSpec across{topology::TreeShape::kary, topology::Numbering::in_order, 2, 2, 1};
    // The tree among the ranks of one host, whose lowest rank stands in the tree above. None: hosts don't
    // matter.
    std::optional<topology::TreeSpec> within;
    // The trees of the levels in between, from the top down: none, `across` is a tree of hosts; one, of leaf switches, and this is among the
    // hosts of a leaf; two, of pods, and these are among the leaves of a pod and the hosts of a leaf. Only with `within`.
    std::vector<topology::TreeSpec> between{};

    bool operator==(const AgreementTreeSpec&) const = default;
};

// Reads what topology::parse_tree() reads, "binary" and "bin" for kary:2:inorder, "heap" for kary:2:heap, the paper's own
// binary tree, and "X/Y" for a tree X across hosts and Y within each, as the paper names them: "bin/bin", "bin/star"; "X/Y/Z" has X
// across leaf switches, "W/X/Y/Z" W across pods. The error lists the known names.
tl::expected<AgreementTreeSpec, std::string> parse_agreement_tree(std::string_view text);
std::string to_string(const AgreementTreeSpec& spec);

class AgreementTree {
  public:
    static constexpr std::uint32_t kNobody = UINT32_MAX;

    // `hosts` says which ranks share a host; it is needed, and has to outlive the tree, where the spec has levels,
    // and is not looked at otherwise. sites[h]: on which switches host h hangs; where that is not known all hosts are in one leaf. Refuses no
    // ranks, everybody excluded, and what topology refuses. Linear in the number of ranks for levels, else in the intervals of
    // `excluded`.
    static tl::expected<AgreementTree, std::string> make(const AgreementTreeSpec& spec, std::uint32_t ranks,
                                                         const topology::Nodes* hosts, const FailedSet& excluded,
                                                         std::span<const topology::Site> sites = {});

    const AgreementTreeSpec& spec() const { return spec_; }
    std::uint32_t ranks() const { return ranks_; }        // the excluded ones counted
    std::uint32_t standing() const { return standing_; }  // not counted
    // The largest number of children that anybody has.
    std::uint32_t max_degree() const { return max_degree_; }
    const FailedSet& excluded() const { return excluded_; }

    // The tree as made; the rank is not excluded. Logarithmic at worst.
    std::uint32_t parent(std::uint32_t rank) const;  // kNobody for the root
    std::uint32_t child_count(std::uint32_t rank) const;
    std::uint32_t child(std::uint32_t rank, std::uint32_t index) const;
    // Which child of `rank` that is; none when it is no child of it.
    std::optional<std::uint32_t> child_index(std::uint32_t rank, std::uint32_t child) const;

    // Parent(S, p): the nearest ancestor that is not in `failed`, else the lowest rank that is not, else (p itself is
    // that one) kNobody. `failed` holds all excluded. One step for each dead ancestor.
    std::uint32_t repaired_parent(const FailedSet& failed, std::uint32_t rank) const;

    // What Children(S, p) has beyond the live ones among p's own children: the nearest live descendants of its dead
    // children and, if p is the repaired tree's root, everybody without a live ancestor. Ascending. Steps: the dead
    // that are passed, times the degree.
    void adopted(const FailedSet& failed, std::uint32_t rank, std::vector<std::uint32_t>& out) const;

    // Whether the repaired tree has become a bad one: half of those standing have failed, or somebody has more than
    // twice max_degree() children. A pure function of the arguments: all ranks come to the same answer. Steps: as
    // adopted().
    bool is_degenerated(const FailedSet& failed) const;

  private:
    AgreementTree() = default;
    tl::expected<void, std::string> make_levels(const topology::Nodes& hosts, std::span<const topology::Site> sites);
    // Ranks that are not excluded, numbered without holes, and back.
    std::uint32_t to_index(std::uint32_t rank) const;
    std::uint32_t to_rank(std::uint32_t index) const;
    std::uint32_t parent_index(std::uint32_t index) const;
    std::uint32_t children_of_index(std::uint32_t index) const;
    std::uint32_t child_of_index(std::uint32_t index, std::uint32_t which) const;
    void live_below(const FailedSet& failed, std::uint32_t dead, std::vector<std::uint32_t>& out) const;

    AgreementTreeSpec spec_;
    std::uint32_t ranks_ = 0;
    std::uint32_t standing_ = 0;
    std::uint32_t max_degree_ = 0;
    FailedSet excluded_;
    std::vector<std::uint32_t> holes_;    // holes_[i]: excluded ranks in the intervals before the i-th
    std::vector<topology::Tree> across_;  // one, over ranks; none with levels
    std::optional<AgreementLevels> levels_;
};

}  // namespace coppice::protocol
