#include <fmt/format.h>

#include <cmath>
#include <iterator>
#include <numbers>

#include "picture.hpp"

namespace coppice::sim {
namespace {

std::string quoted(std::string_view text) {
    std::string result = "\"";
    for (const char letter : text) {
        if (letter == '"' || letter == '\\') result += '\\';
        result += letter;
    }
    return result + '"';
}

// What a rank looks like, and why.
std::string look(const Actor& actor) {
    if (actor.dead) return "style=filled fillcolor=\"#444444\" fontcolor=white shape=box tooltip=\"dead\"";
    if (!actor.reached()) return "style=filled fillcolor=\"#D55E00\" fontcolor=white tooltip=\"not reached\"";
    if (actor.by_ring) return "style=filled fillcolor=\"#F5C877\" tooltip=\"reached by the correction\"";
    return "style=filled fillcolor=\"#CFE5F5\" tooltip=\"reached by the dissemination\"";
}

}  // namespace

std::string draw_dot(const Story& story, const Caption& caption, const topology::Tree* tree) {
    const std::size_t ranks = story.actors.size();
    std::string dot = "// Draw with: neato -n -Tsvg FILE\ndigraph broadcast {\n";
    auto out = std::back_inserter(dot);
    fmt::format_to(out, "  graph [labelloc=t fontname=\"DejaVu Sans\" label={}]\n",
                   quoted(caption.title + "\n" + caption.subtitle +
                          "\nblue: by the dissemination; amber: by the correction; red: not reached; box: dead"));
    dot +=
        "  node [shape=circle fixedsize=true width=0.42 fontname=\"DejaVu Sans\" fontsize=11]\n"
        "  edge [arrowsize=0.6]\n";
    // The root on top, then clockwise; 44 points of the circle for each rank.
    const double radius = std::max(90.0, 44.0 * static_cast<double>(ranks) / (2 * std::numbers::pi));
    for (std::size_t rank = 0; rank < ranks; ++rank) {
        const double angle = 2 * std::numbers::pi * static_cast<double>(rank) / static_cast<double>(ranks);
        fmt::format_to(out, "  {} [pos=\"{:.1f},{:.1f}\" {}]\n", rank, radius * std::sin(angle),
                       radius * std::cos(angle), look(story.actors[rank]));
    }
    for (std::size_t rank = 0; ranks > 1 && rank < ranks; ++rank)
        fmt::format_to(out, "  {} -> {} [dir=none color=\"#BBBBBB\"]\n", rank, (rank + 1) % ranks);
    const auto edge = [&](std::uint32_t from, std::uint32_t to) {
        const bool cut = story.actors[from].dead || story.actors[to].dead;
        fmt::format_to(out, "  {} -> {} [{}]\n", from, to,
                       cut ? "color=\"#B00020\" style=dashed" : "color=\"#0072B2\"");
    };
    if (tree != nullptr) {
        for (std::uint32_t rank = 0; rank < ranks; ++rank) {
            for (std::uint32_t child = 0; child < tree->child_count(Position{rank}); ++child)
                edge(rank, tree->child(Position{rank}, child).value);
        }
    } else {
        for (const Flight& flight : story.flights) {
            if (!is_ring_kind(flight.kind)) edge(flight.from, flight.to);
        }
    }
    return dot + "}\n";
}

}  // namespace coppice::sim
