// Solves Poisson's equation on a cube by conjugate gradients, and goes on when ranks die.
//
//   coppice-run -n 8 --kill 5@2s examples/cg --grid 96
//
// The pattern to copy is in run(): compute, and agree often. When a rank dies, the ranks that notice revoke the group,
// so that nobody waits in it any more; the survivors shrink it to themselves, restore what the dead had from copies in
// their neighbours' memory, and compute on. A death on the way there begins it again.
#include <CLI/CLI.hpp>
#include <bit>
#include <chrono>
#include <cstdio>
#include <optional>
#include <string>
#include <utility>

#include "solver.hpp"

namespace {

struct Options {
    std::size_t grid = 48;
    std::uint64_t sources = 6;
    double tolerance = 1e-12;
    std::uint64_t checkpoint_every = 20;
};

bool is_about_a_death(coppice::Status status) {
    return status == coppice::Status::kRevoked || status == coppice::Status::kPeerFailed;
}

// Ranks, by the numbers that they had first, as bits: those that are in this group.
std::uint32_t who_is_here(coppice::Group& group, std::uint8_t self) {
    const auto [ranks, agreed] = group.agree(std::uint32_t{1} << self, coppice::Operation::kOr);
    if (!agreed.acknowledged) throw cg::RankDied();
    return ranks;
}

// To a group of the survivors, over the connections that are there.
void leave_the_dead(coppice::Group& group) {
    group.revoke();
    coppice::Group survivors = group.shrink();
    group.leave();  // in a revoked group this waits for nobody's calls
    group = std::move(survivors);
}

void tell(const cg::Solver& solver, const cg::Solver::Owners& before, std::size_t slabs, std::uint32_t dead,
          double ms) {
    for (; dead != 0; dead &= dead - 1)
        std::printf("cg: rank %d died\n", std::countr_zero(dead));
    for (std::size_t slab = 0; slab < slabs; ++slab) {
        if (before[slab] == cg::Solver::kNobody)
            std::printf("cg: slab %zu restored by rank %u from its copy\n", slab, unsigned{solver.owners()[slab]});
    }
    std::printf("cg: back at source %u, iteration %u; a new group and what was lost took %.1f ms\n",
                static_cast<unsigned>(solver.source()), static_cast<unsigned>(solver.iteration()), ms);
    std::fflush(stdout);
}

void run(const Options& options) {
    using Clock = std::chrono::steady_clock;
    coppice::Context context = coppice::Context::create();
    coppice::Group group = coppice::Group::create(context);
    const std::size_t slabs = group.size();
    const auto self = static_cast<std::uint8_t>(group.rank());
    if (slabs > cg::kMostSlabs || slabs > options.grid)
        throw std::runtime_error("there may be " + std::to_string(cg::kMostSlabs) + " ranks, and one for each plane");
    std::optional<cg::Mailboxes> mail;  // these two are there at all ranks, or at none
    std::optional<cg::Solver> solver;
    std::uint32_t living = UINT32_MAX >> (32 - slabs);

    const Clock::time_point start = Clock::now();
    Clock::time_point broken;
    bool whole = true;
    while (true) {
        try {
            if (!whole) leave_the_dead(group);
            if (!mail) {
                mail.emplace(context, group, cg::Solver::boxes(slabs), cg::Solver::numbers(options.grid, slabs));
                solver.emplace(*mail, options.grid, slabs, self, options.checkpoint_every);
            }
            if (!whole) {
                const cg::Solver::Owners before = solver->restore(group);
                const std::uint32_t here = who_is_here(group, self);
                whole = true;
                const std::chrono::duration<double, std::milli> took = Clock::now() - broken;
                if (self == std::countr_zero(here)) tell(*solver, before, slabs, living & ~here, took.count());
                living = here;
            }
            solver->solve(group, options.sources, options.tolerance);
            break;
        } catch (const cg::RankDied&) {
        } catch (const coppice::Error& caught) {
            if (!is_about_a_death(caught.status())) throw;
        }
        if (whole) broken = Clock::now();
        whole = false;
    }
    if (self != std::countr_zero(living)) return;
    for (std::size_t source = 0; source < solver->results().size(); ++source) {
        const cg::Solver::Result& result = solver->results()[source];
        std::printf("cg: source %zu: residual %.17g after %u iterations, off the solution by %.3g at most\n", source,
                    result.residual, static_cast<unsigned>(result.iterations), result.error);
    }
    const std::chrono::duration<double> took = Clock::now() - start;
    std::printf("cg: %zu unknowns solved in %.2f s; %d of %zu ranks live\n", options.grid * options.grid * options.grid,
                took.count(), std::popcount(living), slabs);
}

}  // namespace

int main(int argc, char** argv) {
    Options options;
    CLI::App app("Solves Poisson's equation on a cube by conjugate gradients, and goes on when ranks die.", "cg");
    app.add_option("--grid", options.grid, "points along each side of the cube")
        ->check(CLI::Range(2, 512))
        ->capture_default_str();
    app.add_option("--sources", options.sources, "so many equations, one after the other")
        ->check(CLI::Range(1, 1000))
        ->capture_default_str();
    app.add_option("--tolerance", options.tolerance, "until the residual has fallen by this factor")
        ->check(CLI::Range(1e-15, 1.0))
        ->capture_default_str();
    app.add_option("--checkpoint-every", options.checkpoint_every, "so many iterations")
        ->check(CLI::PositiveNumber)
        ->capture_default_str();
    CLI11_PARSE(app, argc, argv);
    try {
        run(options);
        return 0;
    } catch (const std::exception& trouble) {
        std::fprintf(stderr, "cg: %s\n", trouble.what());
        return 1;
    }
}
