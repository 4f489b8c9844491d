// Levels of trees that agreements run on (Herault et al., SC'15, §4, Topologies): "each level can have its own tree and root, and
// the roots of one level are the participants of the next". At the bottom the ranks of a host are a group, then the hosts of a leaf
// switch, then the leaves of a pod; at the top what is left forms one tree. A group's lowest rank stands for it in the level above.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "base/words.hpp"
#include "topology/nodes.hpp"
#include "topology/placement.hpp"
#include "topology/tree.hpp"

namespace coppice::protocol {

struct AgreementTreeSpec;

class AgreementLevels {
  public:
    static constexpr std::uint32_t kNobody = UINT32_MAX;
    // Of ranks, hosts, leaves and pods.
    static constexpr std::size_t kMostLevels = 4;

    // Over the ranks of `hosts`, which has to outlive this unless `keep` (then it is copied). sites[h]: where host h is, needed where the
    // spec has three levels or four; without any, all hosts are in one leaf, and all leaves in one pod. Refuses what
    // topology refuses.
    static tl::expected<AgreementLevels, std::string> make(const AgreementTreeSpec& spec, const topology::Nodes& hosts,
                                                           bool keep, std::span<const topology::Site> sites);

    std::uint32_t parent(std::uint32_t rank) const;  // kNobody for the root
    std::uint32_t child_count(std::uint32_t rank) const;
    // Children in the highest level come first: those messages travel farthest.
    std::uint32_t child(std::uint32_t rank, std::uint32_t index) const;
    // Which child of `rank` that is; none when it is no child of it.
    std::optional<std::uint32_t> child_index(std::uint32_t rank, std::uint32_t child) const;
    // No rank has more children.
    std::uint32_t max_degree() const { return max_degree_; }

  private:
    struct Level {
        const topology::Nodes* given = nullptr;
        std::optional<topology::Nodes> own;
        std::vector<topology::Tree> trees;  // one for each size of group, ascending

        const topology::Nodes& groups() const { return own ? *own : *given; }
        const topology::Tree& tree(std::uint32_t group) const;
    };
    // A rank's children in one level.
    struct Section {
        std::size_t level = 0;
        std::uint32_t group = 0;  // in the top level 0
        std::uint32_t place = 0;  // in the group
        std::uint32_t count = 0;
    };
    struct Sections {
        std::array<Section, kMostLevels> each{};  // from the bottom up
        std::size_t count = 0;
    };

    AgreementLevels() = default;
    tl::expected<void, std::string> add(Level level, const topology::TreeSpec& spec);
    // The rank that stands for participant `at` of a level.
    std::uint32_t leader(std::size_t level, std::uint32_t at) const;
    Sections sections(std::uint32_t rank) const;
    std::uint32_t child_in(const Section& section, std::uint32_t index) const;

    std::vector<Level> levels_;        // from the bottom up, without the top
    std::vector<topology::Tree> top_;  // one
    std::uint32_t max_degree_ = 0;
};

}  // namespace coppice::protocol
