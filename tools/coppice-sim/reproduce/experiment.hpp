// A figure or table of a paper as data: which protocols, over what, how often, what is drawn, and what the paper says
// came out. Everything that runs, writes or draws is the same for all of them (campaign.hpp, output.hpp).
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "reproduce/cell.hpp"

namespace coppice::sim {

enum class Scale : std::uint8_t { quick, normal, full };
// What differs between "good for CI", "an afternoon" and the paper's own numbers.
template <class T>
struct PerScale {
    T quick;
    T normal;
    T full;

    const T& at(Scale scale) const { return scale == Scale::quick ? quick : scale == Scale::normal ? normal : full; }
};

// One point of a series. A point of gossip with something to tune is run with so many shorter and longer gossip times
// than the given one, a few broadcasts each, nobody dead, and then with the time that had the lowest mean quiescence
// latency.
struct Point {
    std::string series;
    double x = 0;
    Cell cell;
    std::uint32_t tune_below = 0;
    std::uint32_t tune_above = 0;
};

// What came out, by series and x.
class Results {
  public:
    void add(const Point& point, Figures figures);
    // A series put together from others, for figures that do not tell them apart.
    void merge(const std::string& series, const std::vector<std::string>& parts);

    bool has(const std::string& series, double x) const { return points_.contains({series, x}); }
    // Asking for what was not run is a mistake in the table.
    const Figures& at(const std::string& series, double x) const;
    const Cell& cell(const std::string& series, double x) const;
    double mean(const std::string& series, double x, Metric metric) const { return at(series, x).of(metric).mean(); }
    double messages_per_rank(const std::string& series, double x) const;
    std::vector<double> xs(const std::string& series) const;
    std::vector<std::string> series() const { return names_; }
    // Every point's broadcasts as one part. As long as these results are.
    std::vector<std::pair<Cell, const Figures*>> parts() const;
    // Of all points that draw lots, or of those of one series.
    std::uint64_t least_runs(const std::string& series = {}) const;

  private:
    struct Entry {
        Cell cell;
        Figures figures;
    };
    std::map<std::pair<std::string, double>, Entry> points_;
    std::vector<std::string> names_;
};

// What a paper says, as a figure that can be measured, and between which bounds the paper is right.
struct Claim {
    std::string text;
    std::string where;     // "PPoPP'19 §4.3"
    std::string measured;  // what the figure is
    // Nothing: cannot be measured here; `remark` says why.
    std::function<std::optional<double>(const Results&)> measure;
    double least = -std::numeric_limits<double>::infinity();
    double most = std::numeric_limits<double>::infinity();
    std::string remark{};
    // With fewer broadcasts for each point, of this series if one is named, the figure says nothing.
    std::uint64_t runs_needed = 0;
    std::string rests_on{};
    // Where the paper gives no bound: why this one. Empty: the bound is the paper's, rounded as the paper rounds.
    std::string ours{};
};
inline Claim ours(std::string why, Claim claim) {
    claim.ours = std::move(why);
    return claim;
}

enum class Verdict : std::uint8_t { holds, does_not_hold, not_comparable };
struct Judgement {
    const Claim* claim = nullptr;
    std::optional<double> figure;
    Verdict verdict = Verdict::not_comparable;
    std::string why;  // it is not comparable
};

// How a point is drawn: its height, and, for whiskers and ribbons, from where to where.
struct Height {
    double y = 0;
    std::optional<double> low{};
    std::optional<double> high{};
};

enum class Style : std::uint8_t { line, whiskers, ribbon, points, bars };

struct Panel {
    std::string title{};
    std::string y_label;
    std::function<Height(const Figures&, const Cell&)> height;  // unused for pairs
    bool log_y = false;
    bool from_zero = false;
    std::function<bool(const std::string& series)> shows{};  // all series, unless told otherwise
    bool pairs = false;                                      // (g_max, correction latency) instead of series over x
};

// A curve that comes from an equation.
struct Formula {
    std::string name;
    std::function<std::optional<double>(double x)> value;
    std::size_t panel = 0;
};

struct Axis {
    std::string label;
    std::string scale = "linear";  // linear, log2, log10, category
    std::string column;            // its name in the CSV
};

struct Study {
    std::string name;    // "fig8"
    std::string title;   // "Average quiescence latency grows with the fault rate"
    std::string source;  // "PPoPP'19, Figure 8"
    Axis axis{};
    Style style = Style::line;
    std::vector<Point> points{};
    std::vector<Panel> panels{};
    std::vector<Formula> formulas{};
    std::vector<Claim> claims{};
    std::function<void(Results&)> derive{};  // merged series
    std::string reading{};                   // how to read the plot
    std::string remarks{};                   // where this is not what the paper did, and why
    bool projects = false;                   // says how long the paper's full scale would take
};

// Every name, in the order of the papers.
const std::vector<std::string>& known_experiments();
// `name` is known.
Study make_study(const std::string& name, Scale scale, std::uint64_t first_seed);

Judgement judge(const Claim& claim, const Results& results);

}  // namespace coppice::sim
