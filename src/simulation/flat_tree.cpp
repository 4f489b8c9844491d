#include "simulation/flat_tree.hpp"

#include <algorithm>

namespace coppice::simulation {

// Parents stand before their children.
FlatTree::FlatTree(const topology::Tree& tree, const LogP& model)
    : first_child(tree.processes() + 1), parents(tree.processes()), colored_at(tree.processes()) {
    children.reserve(tree.processes());
    for (std::uint32_t position = 0; position < tree.processes(); ++position) {
        const std::uint32_t count = tree.child_count(Position{position});
        for (std::uint32_t index = 0; index < count; ++index) {
            const std::uint32_t child = tree.child(Position{position}, index).value;
            children.push_back(child);
            parents[child] = position;
            colored_at[child] = colored_at[position] + (index + 2) * model.overhead + model.latency;
            end = std::max(end, colored_at[child]);
        }
        first_child[position + 1] = static_cast<std::uint32_t>(children.size());
    }
}

}  // namespace coppice::simulation
