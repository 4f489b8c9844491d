// Draws the story of one broadcast: over time (PPoPP'19, Figures 2 and 5a), or as a tree and a ring.
#pragma once

#include <optional>
#include <string>

#include "story.hpp"
#include "topology/tree.hpp"

namespace coppice::sim {

struct Caption {
    std::string title;     // "lame:3 checked, P = 9"
    std::string subtitle;  // "L = 2, o = 1, seed 1"
    std::optional<simulation::Step> correction_start{};
};

// SVG: a row for each rank, a box of o for each sending (above the row's line) and receiving (below it), an arrow of L
// between them.
std::string draw_timeline(const Story& story, const Caption& caption);

// Graphviz, for neato: ranks on a circle, the tree's edges and the ring's, which are dead, which were reached only by
// the correction and which not at all. The tree's edges are those of `tree`, or, without one, the dissemination
// messages that were sent.
std::string draw_dot(const Story& story, const Caption& caption, const topology::Tree* tree);

}  // namespace coppice::sim
