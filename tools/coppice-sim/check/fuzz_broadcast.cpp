// coppice-sim fuzz broadcast: every seed is a broadcast of a shape, size, correction, model, order and deaths of its
// own.
#include <fmt/format.h>

#include <algorithm>
#include <thread>

#include "check/seeds.hpp"
#include "protocol/baselines/names.hpp"
#include "simulation/broadcast_simulation.hpp"
#include "simulation/buntinas_simulation.hpp"
#include "simulation/faults.hpp"
#include "simulation/gossip_simulation.hpp"
#include "subcommand.hpp"

namespace coppice::sim {
namespace {

using simulation::BinomialGraphSetup;
using simulation::BroadcastSetup;
using simulation::BuntinasSetup;
using simulation::Faults;
using simulation::GossipSetup;
using simulation::Random;
using simulation::Step;

constexpr const char* kDescription =
    R"(Draws broadcasts, one for each seed: tree, gossip, binomial graph or Buntinas' broadcast, number of ranks,
correction, model, which ranks are dead, which die when, and whether any is told. Half of them run on a LogP clock, half
in an order drawn by chance. Ends at the first one in which a promise is broken, and prints its conversation.
)";

constexpr const char* kFooter =
    R"(Exit code: 0; 1 when a promise was broken; 2 bad options.

Examples:
  coppice-sim fuzz broadcast --seeds 100000
  coppice-sim fuzz broadcast --seed 4711 --seeds 1 --verbose
)";

struct Case {
    BroadcastSetup setup;
    // Machines other than Broadcast's, with the ranks, model and options of `setup`.
    std::optional<GossipSetup> gossip{};
    bool is_binomial_graph = false;
    bool is_buntinas = false;
    Faults faults;
    bool shuffled = false;
};

std::uint32_t between(Random& random, std::uint32_t least, std::uint32_t most) {
    return least + random.below(most - least + 1);
}

template <std::size_t N>
std::string one_of(Random& random, const char* const (&names)[N]) {
    return names[random.below(N)];
}

std::string draw_tree(Random& random, const simulation::LogP& model) {
    static constexpr const char* kShapes[] = {"binomial", "kary", "lame", "optimal", "chain", "star"};
    std::string shape = one_of(random, kShapes);
    bool in_order_exists = shape != "chain" && shape != "star";
    if (shape == "kary" || shape == "lame") shape += fmt::format(":{}", between(random, 1, 6));
    if (shape == "optimal") {
        in_order_exists = model.latency % model.overhead == 0;
        shape += fmt::format(":{},{}", model.overhead, model.latency);
    }
    return shape + (in_order_exists && random.one_in(4) ? ":inorder" : "");
}

std::string draw_correction(Random& random) {
    static constexpr const char* kNames[] = {
        "none",           "ack",     "checked", "checked",       "opportunistic",
        "optimized",      "delayed", "checked", "failure-proof", "opportunistic-paper",
        "optimized-paper"};
    std::string name = one_of(random, kNames);
    const bool has_distance = name.starts_with("op");
    if (has_distance) {
        name += fmt::format(":{}", between(random, 1, 6));
        if (random.one_in(5)) name += ":one-directional";
    } else if (name == "delayed") {
        name += fmt::format(":{}", between(random, 1, 30));
    } else if (name == "failure-proof") {
        name += fmt::format(":{}", between(random, 1, 3));
    }
    return name == "none" || name == "ack" || !random.one_in(3) ? name : name + ":synchronized";
}

// Gossip by time ends only on a clock.
GossipSetup draw_gossip(Random& random, const BroadcastSetup& setup, bool shuffled) {
    GossipSetup gossip;
    gossip.processes = setup.processes;
    gossip.model = setup.model;
    gossip.options = setup.options;
    std::string name;
    switch (random.below(4)) {
        case 0:
            name = fmt::format("gos:{}", between(random, 1, 20));
            break;
        case 1:
            name = fmt::format("ocg:{}:{}", between(random, 1, 20), between(random, 1, 8));
            break;
        case 2:
            name = fmt::format("ccg:{}", between(random, 1, 20));
            break;
        default:
            name = fmt::format("fcg:{}:{}", between(random, 0, 3), between(random, 1, 20));
    }
    if (shuffled || random.one_in(2)) {
        name += ":rounds";
        gossip.hop = random.below(4);
    }
    gossip.spec = protocol::baselines::parse_gossip(name).value();
    return gossip;
}

Case draw_case(std::uint64_t seed) {
    Random random(seed);
    Case drawn;
    BroadcastSetup& setup = drawn.setup;
    drawn.shuffled = random.one_in(2);
    const std::uint32_t largest = random.one_in(20) ? (drawn.shuffled ? 200 : 2000) : 40;
    setup.processes = between(random, 1, largest);
    setup.model.latency = between(random, 0, 8);
    setup.model.overhead = between(random, 1, 4);
    if (random.one_in(8)) setup.model.gap = between(random, 1, 8);
    setup.model.overlap = !random.one_in(8);
    setup.model.one_sided_ring = random.one_in(8);
    setup.tree = topology::parse_tree(draw_tree(random, setup.model)).value();
    setup.correction = protocol::baselines::parse_correction(draw_correction(random)).value();
    if (setup.correction.synchronized && random.one_in(4)) setup.correction_start = random.below(100);
    const bool is_corrected = setup.correction.kind != protocol::CorrectionKind::none &&
                              setup.correction.kind != protocol::CorrectionKind::acknowledged;
    if (is_corrected && random.one_in(4)) setup.gossip = {between(random, 1, 8), random.below(4)};
    setup.options.give_up_at = 1U << 22;

    if (random.one_in(6)) drawn.gossip = draw_gossip(random, setup, drawn.shuffled);
    if (!drawn.gossip) {
        const std::uint32_t other = random.below(20);
        drawn.is_binomial_graph = other == 0;
        drawn.is_buntinas = other == 1;
    }

    simulation::FaultPlan plan;
    const std::uint32_t others = setup.processes - 1;
    plan.dead_count = random.one_in(3) ? 0 : random.below(std::min(others, 1 + random.below(others + 1)) + 1);
    if (random.one_in(2)) {
        plan.dying_count = random.below(std::min(others - plan.dead_count, 4U) + 1);
        plan.dying_until = drawn.shuffled ? 20 * setup.processes : 200;
    }
    if (random.one_in(2)) plan.notice_after = random.below(60);
    drawn.faults = plan.draw(setup.processes, random.next());
    if (random.one_in(10)) drawn.faults.dying.push_back({Position{0}, random.below(plan.dying_until + 1)});
    return drawn;
}

std::string name_of(const Case& drawn) {
    const BroadcastSetup& setup = drawn.setup;
    if (drawn.is_binomial_graph) return "big";
    if (drawn.is_buntinas) return "bfb";
    if (drawn.gossip) return fmt::format("{}, hop {}", to_string(drawn.gossip->spec), drawn.gossip->hop);
    const std::string dissemination =
        setup.gossip.rounds == 0 ? to_string(setup.tree)
                                 : fmt::format("gossip of {} rounds, hop {},", setup.gossip.rounds, setup.gossip.hop);
    return fmt::format("{} {}", dissemination, to_string(setup.correction));
}

tl::expected<std::unique_ptr<simulation::Simulator>, std::string> make(const Case& drawn) {
    const BroadcastSetup& setup = drawn.setup;
    if (drawn.is_binomial_graph) return make_simulator(BinomialGraphSetup{setup.processes, setup.model, setup.options});
    if (drawn.is_buntinas) return make_simulator(BuntinasSetup{setup.processes, setup.model, setup.options});
    if (drawn.gossip) return make_simulator(*drawn.gossip);
    return make_simulator(setup);
}

std::string describe(const Case& drawn) {
    const BroadcastSetup& setup = drawn.setup;
    std::string text =
        fmt::format("{}, {} ranks, L={} o={} g={}{}{}", name_of(drawn), setup.processes, setup.model.latency,
                    setup.model.overhead, setup.model.interval(), setup.model.overlap ? "" : ", one port",
                    setup.model.one_sided_ring ? ", one-sided ring" : "");
    if (setup.correction_start) text += fmt::format(", correction from {}", *setup.correction_start);
    text += drawn.shuffled ? ", in an order by chance" : ", on the clock";
    text += drawn.faults.notice_after ? fmt::format(", notice after {}", *drawn.faults.notice_after) : ", no notice";
    return text;
}

// Runs one seed; what went wrong, if anything did.
std::optional<std::string> run_seed(std::uint64_t seed, bool verbose) {
    const Case drawn = draw_case(seed);
    auto simulator = make(drawn);
    if (!simulator) return describe(drawn) + ": " + simulator.error() + "\n";
    const auto result =
        drawn.shuffled ? (*simulator)->run_shuffled(drawn.faults, seed) : (*simulator)->run(drawn.faults, seed);
    if (!result) {
        simulation::Violation violation = result.error();
        violation.seed = seed;
        return describe(drawn) + "\n" + to_string(violation);
    }
    if (verbose) {
        fmt::print("seed {}: {}; {} dead, {} dying: {} messages, g_max {}, {} unreached\n", seed, describe(drawn),
                   drawn.faults.dead.size(), drawn.faults.dying.size(), result->messages, result->gaps.largest,
                   result->unreached.size());
    }
    return std::nullopt;
}

}  // namespace

int run_fuzz_broadcast(int argc, char** argv) {
    std::uint64_t first = 1;
    std::uint64_t seeds = 1000;
    unsigned threads = std::max(1U, std::thread::hardware_concurrency());
    bool verbose = false;
    CLI::App app(kDescription, "coppice-sim fuzz broadcast");
    app.footer(kFooter);
    app.add_option("--seeds", seeds, "how many")->capture_default_str()->check(CLI::PositiveNumber);
    app.add_option("--seed", first, "the first one")->capture_default_str();
    app.add_option("--threads", threads, "how many at a time")->capture_default_str()->check(CLI::Range(1U, 1024U));
    app.add_flag("--verbose,-v", verbose, "print what was drawn and what came out");
    if (const auto code = parse(app, argc, argv)) return *code;

    std::string worst_text;
    std::uint64_t lowest = UINT64_MAX;
    const auto worst = first_failing_seed(
        first, seeds, threads, "broadcasts", [&](std::uint64_t seed) { return run_seed(seed, verbose); },
        [&](std::uint64_t seed, const std::optional<std::string>& failure) {
            if (failure && seed < lowest) {
                lowest = seed;
                worst_text = *failure;
            }
            return failure.has_value();
        });
    if (worst) {
        fmt::print(stderr, "coppice-sim: {}Again: coppice-sim fuzz broadcast --seed {} --seeds 1\n", worst_text,
                   *worst);
        return kFailed;
    }
    fmt::print("{} broadcasts, seeds {} to {}: every promise held\n", seeds, first, first + seeds - 1);
    return kFine;
}

}  // namespace coppice::sim
