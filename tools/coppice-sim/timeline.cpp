// coppice-sim timeline: one broadcast as a picture.
#include <fmt/format.h>

#include "files.hpp"
#include "memory.hpp"
#include "picture.hpp"
#include "setup_options.hpp"
#include "subcommand.hpp"

namespace coppice::sim {
namespace {

constexpr const char* kDescription =
    "Draws one broadcast as SVG: a row for each rank, sending above its line, receiving below it, messages as "
    "arrows.\n";

constexpr const char* kFooter =
    R"(Exit code: 0; 1 when FILE could not be written; 2 bad options.

Examples:
  coppice-sim timeline --ranks 9 --tree lame:3 --correction none --latency 1 --out lame3.svg
  coppice-sim timeline --ranks 16 --correction checked:synchronized --failed 2,3 --out failed.svg
  coppice-sim timeline --ranks 32 --tree lame:2 --failed 1 --dot | neato -n -Tsvg > tree.svg
)";

// Beyond, nobody can read it.
constexpr std::uint32_t kMostRanks = 512;
constexpr std::size_t kMostEvents = 100'000;

struct Options {
    SetupOptions setup;
    std::uint64_t seed = 1;
    std::string out = "-";
    bool dot = false;
};

Caption caption_of(const Experiment& experiment, std::uint64_t seed, const Story& story) {
    const simulation::LogP& model = experiment.model;
    Caption caption;
    caption.title = fmt::format("{}, P = {}", experiment.title, experiment.ranks);
    caption.subtitle =
        fmt::format("L = {}, o = {}{}{}{}; seed {}; coloring latency {}, quiescence latency {}, {} messages",
                    model.latency, model.overhead, model.gap > model.overhead ? fmt::format(", g = {}", model.gap) : "",
                    model.overlap ? "" : ", one port", model.one_sided_ring ? ", ring one-sided" : "", seed,
                    story.coloring_latency, story.quiescence_latency, story.flights.size());
    return caption;
}

// The title of an experiment with a tree begins with the tree's name; gossip has none.
std::optional<topology::Tree> tree_of(const Experiment& experiment) {
    const auto spec = topology::parse_tree(experiment.title.substr(0, experiment.title.find(' ')));
    if (!spec) return std::nullopt;
    return topology::Tree::make(*spec, experiment.ranks).value();
}

int draw(const Options& options, const Experiment& experiment) {
    const auto simulator = experiment.make();
    const simulation::Faults faults = experiment.faults.draw(experiment.ranks, options.seed);
    const auto events = simulator->conversation(faults, options.seed, kMostEvents + 1);
    if (events.size() > kMostEvents) {
        return refuse(fmt::format("this broadcast has more than {} events: too many for a picture", kMostEvents));
    }
    const Story story = tell(experiment.model, experiment.ranks, faults, events);
    Caption caption = caption_of(experiment, options.seed, story);
    caption.correction_start = simulator->correction_start();
    std::string picture;
    if (options.dot) {
        const auto tree = tree_of(experiment);
        picture = draw_dot(story, caption, tree ? &*tree : nullptr);
    } else {
        picture = draw_timeline(story, caption);
    }
    if (options.out == "-") {
        const bool written = std::fwrite(picture.data(), 1, picture.size(), stdout) == picture.size();
        if (written && std::fflush(stdout) == 0) return kFine;
        fmt::print(stderr, "coppice-sim: cannot write to standard output\n");
        return kFailed;
    }
    if (const auto reason = write_file(options.out, picture)) {
        fmt::print(stderr, "coppice-sim: {}\n", *reason);
        return kFailed;
    }
    return kFine;
}

}  // namespace

int run_timeline(int argc, char** argv) {
    Options options;
    CLI::App app(kDescription, "coppice-sim timeline");
    app.footer(kFooter);
    options.setup.add_to(app);
    options.setup.add_faults_to(app);
    app.add_option("--seed", options.seed, "of the broadcast")->capture_default_str();
    app.add_option("--out", options.out, "FILE to write; -, the default, is standard output");
    app.add_flag("--dot", options.dot, "the tree and the ring instead, with the dead and the uncolored, for Graphviz");
    if (const auto code = parse(app, argc, argv)) return *code;

    const auto experiment = options.setup.experiment();
    if (!experiment) return refuse(experiment.error());
    if (experiment->ranks > kMostRanks) {
        return refuse(
            fmt::format("a picture of {} ranks cannot be read; {} are the most", experiment->ranks, kMostRanks));
    }
    return draw(options, *experiment);
}

}  // namespace coppice::sim
