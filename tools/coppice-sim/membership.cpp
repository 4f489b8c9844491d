// coppice-sim membership: how long a group takes for its next view.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "memory.hpp"
#include "simulation/explore/membership_clock.hpp"
#include "simulation/random.hpp"
#include "subcommand.hpp"

namespace coppice::sim {
namespace {

using simulation::MembershipNetwork;
using simulation::MembershipSetup;
using simulation::MembershipTime;

constexpr const char* kDescription =
    R"(Runs one change of a group's view with the machine that ships, on a clock of microseconds: from the root's proposal until
it has all acknowledgements ("stable", the T_s of Varma et al., ICS'06), and until all have the view.
)";

constexpr const char* kFooter =
    R"(Networks: uniform (L for each message), torus (L for each hop; --torus X,Y,Z), switch (of L, the switch is busy for
--switch-us with each message, one at a time). With --send-us the members of a flat tree wait for their parent, which sends to one child
after the other.
"base" is the paper's model, 2 L (H - 1) + Ocp H.
Exit code: 0; 1 when the living have different views; 2 bad options.

Examples:
  coppice-sim membership --ranks 1048576 --radix 4 --failures 5
  coppice-sim membership --ranks 1024 --radix 2 --network torus --torus 8,8,16
  coppice-sim membership --ranks 1024 --radix 256 --send-us 1
  coppice-sim membership --ranks 47 --radix 2 --network switch --latency-us 118
)";

struct Options {
    std::uint32_t ranks = 1024;
    std::uint32_t radix = 2;
    std::uint32_t failures = 1;
    bool root_fails = false;
    std::string network = "uniform";
    std::vector<std::uint32_t> torus{8, 8, 16};
    std::uint64_t seed = 1;
    MembershipSetup setup;
};

void draw_dead(const Options& options, MembershipSetup& setup) {
    simulation::Random random(options.seed);
    if (options.root_fails) setup.dead.push_back(0);
    while (setup.dead.size() < options.failures) {
        const std::uint32_t rank = 1 + random.below(options.ranks - 1);
        if (std::ranges::find(setup.dead, rank) == setup.dead.end()) setup.dead.push_back(rank);
    }
}

}  // namespace

int run_membership(int argc, char** argv) {
    Options options;
    MembershipSetup& setup = options.setup;
    CLI::App app(kDescription, "coppice-sim membership");
    app.footer(kFooter);
    app.add_option("--ranks", options.ranks)->capture_default_str()->check(CLI::Range(1U, 1U << 22));
    app.add_option("--radix", options.radix, "children of a member, a power of two")->capture_default_str();
    app.add_option("--failures", options.failures, "how many ranks are dead, at random")->capture_default_str();
    app.add_flag("--root-fails", options.root_fails, "rank 0 is one of them");
    app.add_option("--network", options.network)
        ->capture_default_str()
        ->check(CLI::IsMember({"uniform", "torus", "switch"}));
    app.add_option("--latency-us", setup.network.latency_us, "L")->capture_default_str()->check(CLI::PositiveNumber);
    app.add_option("--compute-us", setup.compute_us, "Ocp, for each order")
        ->capture_default_str()
        ->check(CLI::NonNegativeNumber);
    app.add_option("--torus", options.torus, "nodes along x, y and z")->delimiter(',')->expected(3);
    app.add_option("--switch-us", setup.network.switch_us)->capture_default_str()->check(CLI::PositiveNumber);
    app.add_option("--send-us", setup.network.send_us, "for which a member is busy with each message that it sends")
        ->capture_default_str()
        ->check(CLI::NonNegativeNumber);
    app.add_option("--seed", options.seed, "of the dead")->capture_default_str();
    if (const auto code = parse(app, argc, argv)) return *code;
    if (setup.network.send_us > 0 && options.network == "switch")
        return refuse("--send-us: a switch is busy with each message itself; choose uniform or torus");
    if (!std::has_single_bit(options.radix) || options.radix < 2 || options.radix > 65536)
        return refuse("--radix: a power of two, 2 to 65536");
    if (options.failures >= options.ranks) return refuse("--failures: at least one rank has to survive");
    if (options.root_fails && options.failures == 0) return refuse("--root-fails: then --failures is 1 at least");
    if (std::ranges::find(options.torus, 0U) != options.torus.end()) return refuse("--torus: 1 or more along each");
    setup.ranks = options.ranks;
    setup.radix_bits = static_cast<std::uint32_t>(std::countr_zero(options.radix));
    setup.network.kind = options.network == "torus"    ? MembershipNetwork::Kind::torus
                         : options.network == "switch" ? MembershipNetwork::Kind::one_switch
                                                       : MembershipNetwork::Kind::uniform;
    std::ranges::copy(options.torus, setup.network.torus.begin());
    if (setup.network.switch_us > setup.network.latency_us && options.network == "switch")
        return refuse("--switch-us: no more than --latency-us");
    if (const auto reason = reason_against_size(simulation::bytes_needed(setup), 1)) return refuse(*reason);
    draw_dead(options, setup);

    const MembershipTime time = time_of_next_view(setup);
    fmt::print("{} ranks, radix {}, {} dead, network {}: height {}\n", setup.ranks, options.radix, setup.dead.size(),
               options.network, time.height);
    fmt::print("stable after {:.1f} us, all told after {:.1f} us, {} messages; base {:.1f} us", time.stable_us,
               time.told_us, time.messages, base_model_us(setup));
    if (options.network == "torus") fmt::print(", distance {:.1f} us", distance_model_us(setup));
    if (options.network == "switch") fmt::print(", contention {:.1f} us", contention_model_us(setup));
    fmt::print("\nnext view: {} members, {}\n", time.members,
               time.agreed ? "the same at all that live" : "NOT the same at all that live");
    return time.agreed ? kFine : kFailed;
}

}  // namespace coppice::sim
