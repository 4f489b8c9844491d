#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "picture.hpp"
#include "svg.hpp"

namespace coppice::sim {
namespace {

using simulation::Step;

constexpr double kLeft = 96;  // of step 0
constexpr double kRight = 40;
constexpr double kTop = 74;  // of the first row
constexpr double kRow = 38;
constexpr double kBox = 13;  // height of a sending or receiving

struct Color {
    std::string_view kind;
    const char* fill;
    const char* text;  // in the legend
};
// Okabe and Ito's palette, which the colour-blind can tell apart.
constexpr std::array<Color, 8> kColors{{
    {"tree", "#0072B2", "tree"},
    {"gossip", "#0072B2", "gossip"},
    {"forward", "#0072B2", "forward"},
    {"correction_left", "#D55E00", "correction to the left"},
    {"correction_right", "#E69F00", "correction to the right"},
    {"acknowledgement", "#009E73", "acknowledgement"},
    {"rescue", "#CC79A7", "rescue"},
    {"sos", "#CC79A7", "SOS"},
}};
constexpr Color kOther{"", "#56B4E9", ""};

const Color& color_of(std::string_view kind) {
    for (const Color& color : kColors) {
        if (color.kind == kind) return color;
    }
    return kOther;
}

// 1, 2, 5, 10, 20, …: the first that leaves `pixels` between two ticks.
Step tick_distance(double step_width, double pixels) {
    for (Step decade = 1;; decade *= 10) {
        for (const Step factor : {1U, 2U, 5U}) {
            if (step_width * decade * factor >= pixels) return decade * factor;
        }
    }
}

class TimelinePicture {
  public:
    TimelinePicture(const Story& story, const Caption& caption)
        : story_(story),
          caption_(caption),
          ranks_(static_cast<double>(story.actors.size())),
          end_(std::max<Step>(story.quiescence_latency, 1)),
          step_(std::clamp(900.0 / end_, 14.0, 64.0)),
          width_(std::max(kLeft + step_ * end_ + kRight, 640.0)),
          bottom_(kTop + kRow * ranks_),
          svg_(width_, bottom_ + 96, "Timeline of a broadcast: " + caption.title) {}

    std::string draw() {
        define();
        svg_.rect(0, 0, width_, bottom_ + 96, "fill=\"white\"");
        svg_.text(12, 24, caption_.title, "class=\"title\"");
        svg_.text(12, 42, caption_.subtitle, "class=\"small\"");
        draw_axis();
        for (std::size_t rank = 0; rank < story_.actors.size(); ++rank)
            draw_row(rank);
        for (const Flight& flight : story_.flights)
            draw_arrow(flight);
        for (const Flight& flight : story_.flights)
            draw_boxes(flight);
        for (std::size_t rank = 0; rank < story_.actors.size(); ++rank)
            draw_state(rank);
        draw_legend();
        return svg_.finish();
    }

  private:
    double x(Step at) const { return kLeft + step_ * at; }
    double y(std::size_t rank) const { return kTop + kRow * (static_cast<double>(rank) + 0.5); }

    void define();
    void draw_axis();
    void draw_mark(Step at, const std::string& name, double height);
    void draw_row(std::size_t rank);
    void draw_arrow(const Flight& flight);
    void draw_boxes(const Flight& flight);
    void draw_state(std::size_t rank);
    void draw_legend();

    const Story& story_;
    const Caption& caption_;
    double ranks_;
    Step end_;
    double step_;
    double width_;
    double bottom_;
    Svg svg_;
};

void TimelinePicture::define() {
    std::string elements =
        "    <style>text { font-family: 'DejaVu Sans', Helvetica, Arial, sans-serif; font-size: 12px; fill: #222 }"
        " .title { font-size: 15px; font-weight: bold } .small { font-size: 11px; fill: #555 }"
        " .alarm { fill: #B00020 }</style>\n"
        "    <pattern id=\"dead\" width=\"7\" height=\"7\" patternUnits=\"userSpaceOnUse\" "
        "patternTransform=\"rotate(45)\"><rect width=\"7\" height=\"7\" fill=\"#eeeeee\"/>"
        "<line x1=\"0\" y1=\"0\" x2=\"0\" y2=\"7\" stroke=\"#c4c4c4\" stroke-width=\"2\"/></pattern>\n";
    std::vector<std::string_view> fills;
    for (const Color& color : kColors)
        fills.push_back(color.fill);
    fills.push_back(kOther.fill);
    std::sort(fills.begin(), fills.end());
    fills.erase(std::unique(fills.begin(), fills.end()), fills.end());
    for (const std::string_view fill : fills) {
        elements += fmt::format(
            "    <marker id=\"head-{0}\" viewBox=\"0 0 8 8\" refX=\"7.5\" refY=\"4\" markerWidth=\"7\" "
            "markerHeight=\"7\" orient=\"auto\"><path d=\"M0,1 L8,4 L0,7 z\" fill=\"{1}\"/></marker>\n",
            fill.substr(1), fill);
    }
    svg_.define(elements);
}

void TimelinePicture::draw_axis() {
    const Step every = tick_distance(step_, 36);
    svg_.open_group("stroke=\"#e4e4e4\" stroke-width=\"1\"");
    for (Step at = 0; at <= end_; at += every)
        svg_.line(x(at), kTop - 4, x(at), bottom_ + 4, {});
    svg_.close_group();
    svg_.line(x(0), bottom_ + 4, x(end_), bottom_ + 4, "stroke=\"#222\" stroke-width=\"1\"");
    for (Step at = 0; at <= end_; ++at) {
        const bool labelled = at % every == 0;
        svg_.line(x(at), bottom_ + 4, x(at), bottom_ + (labelled ? 10 : 7), "stroke=\"#222\" stroke-width=\"1\"");
        if (labelled) svg_.text(x(at), bottom_ + 23, std::to_string(at), "text-anchor=\"middle\"");
    }
    svg_.text(kLeft - 12, bottom_ + 23, "step", "text-anchor=\"end\" class=\"small\"");
    if (caption_.correction_start) draw_mark(*caption_.correction_start, "correction starts", 0);
    const bool together = story_.coloring_latency == story_.quiescence_latency;
    if (!together) draw_mark(story_.coloring_latency, "coloring", 0);
    draw_mark(story_.quiescence_latency, together ? "coloring and quiescence" : "quiescence", 0);
}

void TimelinePicture::draw_mark(Step at, const std::string& name, double height) {
    const double top = kTop - 8 - height;
    svg_.line(x(at), top, x(at), bottom_ + 4, "stroke=\"#777\" stroke-width=\"1\" stroke-dasharray=\"5 4\"");
    const bool near_the_end = x(at) > width_ - 100;
    svg_.text(x(at), top - 4, fmt::format("{} {}", name, at),
              near_the_end ? "text-anchor=\"end\" class=\"small\"" : "text-anchor=\"middle\" class=\"small\"");
}

void TimelinePicture::draw_row(std::size_t rank) {
    const Actor& actor = story_.actors[rank];
    if (actor.dead) {
        const double from = x(actor.died);
        svg_.rect(
            from, y(rank) - kBox - 2, x(end_) - from, 2 * kBox + 4, "fill=\"url(#dead)\"",
            fmt::format("rank {} is dead{}", rank, actor.died > 0 ? fmt::format(" since step {}", actor.died) : ""));
    }
    svg_.line(x(0), y(rank), x(end_), y(rank), "stroke=\"#999\" stroke-width=\"1\"");
    svg_.text(
        kLeft - 12, y(rank) + 4, fmt::format("rank {}", rank),
        actor.dead ? "text-anchor=\"end\" fill=\"#888\" text-decoration=\"line-through\"" : "text-anchor=\"end\"");
}

void TimelinePicture::draw_arrow(const Flight& flight) {
    const char* fill = color_of(flight.kind).fill;
    const bool downwards = flight.to > flight.from;
    const double from = y(flight.from) - (downwards ? 0 : kBox);
    const double to = y(flight.to) + (downwards ? (flight.fate == Flight::Fate::vanished ? -2 : 0) : kBox);
    const std::string_view dash = flight.fate == Flight::Fate::received ? "" : " stroke-dasharray=\"4 3\"";
    svg_.line(x(flight.sent + story_.model.overhead), from, x(flight.arrives), to,
              fmt::format("stroke=\"{}\" stroke-width=\"1.4\" marker-end=\"url(#head-{})\"{}", fill, fill + 1, dash));
}

void TimelinePicture::draw_boxes(const Flight& flight) {
    const Color& color = color_of(flight.kind);
    const std::string name = fmt::format("{} {} to {}", flight.kind, flight.from, flight.to);
    svg_.rect(x(flight.sent), y(flight.from) - kBox, step_ * story_.model.overhead, kBox,
              fmt::format("fill=\"{}\" stroke=\"white\" stroke-width=\"0.8\"", color.fill),
              fmt::format("{}, sent from step {} on", name, flight.sent));
    const double top = y(flight.to);
    if (flight.fate == Flight::Fate::vanished) {
        const double at = x(flight.arrives);
        svg_.open_group("stroke=\"#B00020\" stroke-width=\"2\"");
        svg_.line(at - 4, top - 4, at + 4, top + 4, {});
        svg_.line(at - 4, top + 4, at + 4, top - 4, {});
        svg_.close_group();
        return;
    }
    if (flight.fate == Flight::Fate::under_way) return;
    if (flight.begins > flight.arrives) {
        svg_.line(x(flight.arrives), top + kBox / 2, x(flight.begins), top + kBox / 2,
                  fmt::format("stroke=\"{}\" stroke-width=\"1.2\" stroke-dasharray=\"2 2\"", color.fill));
    }
    svg_.rect(x(flight.begins), top, step_ * (flight.received - flight.begins), kBox,
              fmt::format("fill=\"{0}\" fill-opacity=\"{1}\" stroke=\"{0}\" stroke-width=\"1\"", color.fill,
                          flight.fate == Flight::Fate::ignored ? "0.1" : "0.35"),
              fmt::format("{}, received at step {}", name, flight.received));
}

// When it was colored, on top of everything else.
void TimelinePicture::draw_state(std::size_t rank) {
    const Actor& actor = story_.actors[rank];
    if (actor.colored) {
        const char* fill = actor.by_ring ? "#E69F00" : "#222";
        svg_.circle(x(*actor.colored), y(rank), 4.2,
                    fmt::format("fill=\"{}\" stroke=\"white\" stroke-width=\"1\"", fill),
                    fmt::format("rank {} has the payload from step {} on", rank, *actor.colored));
    } else if (actor.dead) {
        svg_.text(x(actor.died) + 6, y(rank) + 4, "dead", "class=\"alarm\"");
    } else {
        svg_.text(x(end_) - 6, y(rank) - 4, "not reached", "class=\"alarm\" text-anchor=\"end\"");
    }
}

void TimelinePicture::draw_legend() {
    const double top = bottom_ + 44;
    double left = 12;
    const auto label = [&](const std::string& text) {
        svg_.text(left + 22, top + 10, text, "class=\"small\"");
        left += 22 + 6.6 * static_cast<double>(text.size()) + 18;
    };
    std::vector<std::string_view> shown;
    for (const Flight& flight : story_.flights) {
        if (std::find(shown.begin(), shown.end(), flight.kind) == shown.end()) shown.push_back(flight.kind);
    }
    for (const std::string_view kind : shown) {
        const Color& color = color_of(kind);
        svg_.rect(left, top, 16, 12, fmt::format("fill=\"{}\"", color.fill));
        label(color.text[0] != '\0' ? std::string(color.text) : std::string(kind));
    }
    svg_.circle(left + 8, top + 6, 4.2, "fill=\"#222\"");
    label("has the payload");
    const bool corrected =
        std::any_of(story_.actors.begin(), story_.actors.end(), [](const Actor& a) { return a.by_ring; });
    if (corrected) {
        svg_.circle(left + 8, top + 6, 4.2, "fill=\"#E69F00\"");
        label("has it by correction");
    }
    if (std::any_of(story_.actors.begin(), story_.actors.end(), [](const Actor& a) { return a.dead; })) {
        svg_.rect(left, top, 16, 12, "fill=\"url(#dead)\" stroke=\"#c4c4c4\"");
        label("dead");
    }
    svg_.text(12, top + 34,
              "Above a rank's line: sending, o steps. Below it: receiving, o steps. Arrows: L steps on the wire.",
              "class=\"small\"");
}

}  // namespace

std::string draw_timeline(const Story& story, const Caption& caption) {
    return TimelinePicture(story, caption).draw();
}

}  // namespace coppice::sim
