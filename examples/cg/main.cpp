// Solves Poisson's equation on a cube by conjugate gradients, and goes on when ranks die.
//
//   coppice-run -n 8 --kill 5@2s examples/cg --grid 96
//   coppice-run -n 6 --spares 2 --kill 2@2s --kill 4@3s examples/cg --grid 96
//
// The pattern to copy is in run(): compute, and agree often. When a rank dies, the ranks that notice revoke the group,
// so that nobody waits in it any more; the survivors renew it, with processes that wait to join, restore what the dead
// had from copies in their neighbours' memory, hand it to newcomers, and compute on. A death on the way there begins it
// again. A process that comes later is taken in at the next checkpoint.
#include <CLI/CLI.hpp>
#include <array>
#include <bit>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "solver.hpp"

namespace {

constexpr std::uint8_t kNoName = 255;

struct Options {
    std::size_t grid = 48;
    std::uint64_t sources = 6;
    double tolerance = 1e-12;
    std::uint64_t checkpoint_every = 20;
};

bool is_about_a_death(coppice::Status status) {
    return status == coppice::Status::kRevoked || status == coppice::Status::kPeerFailed ||
           status == coppice::Status::kRootFailed;
}

// Ranks go by the numbers that they have first, their names: a newcomer takes one that is free. As bits: a name each.
struct Muster {
    std::uint32_t came = 0;  // had a name before
    std::uint32_t here = 0;
    std::uint32_t late = 0;                  // have nothing yet, though others have begun
    std::optional<std::uint32_t> has_state;  // the first rank that has begun; none: nobody has
    bool all_have_mail = false;
};

// What all know of each other at the start of a group. Collective.
Muster muster(coppice::Group& group, std::uint8_t& name, std::size_t& slabs, bool has_mail, bool has_state) {
    struct Said {
        std::array<std::uint8_t, cg::kMostSlabs> names, lacks_state;  // by rank
        std::uint8_t slabs, has_mail;
    } said;
    std::memset(&said, 255, sizeof said);  // the least that anybody says counts
    const std::uint32_t rank = group.rank();
    const std::uint32_t size = group.size();
    if (size > cg::kMostSlabs) throw std::runtime_error("more ranks than slabs");
    said.names[rank] = name;
    said.lacks_state[rank] = has_state ? 0 : 1;
    if (slabs > 0) said.slabs = static_cast<std::uint8_t>(slabs);
    said.has_mail = has_mail ? 1 : 0;
    if (!group
             .agree(std::as_writable_bytes(std::span(&said, 1)),
                    {.operation = coppice::Operation::kMin, .type = coppice::Type::kUint8})
             .acknowledged)
        throw cg::RankDied();
    slabs = said.slabs;
    Muster found;
    found.all_have_mail = said.has_mail == 1;
    for (std::uint32_t other = 0; other < size; ++other) {
        if (said.names[other] != kNoName) found.came |= std::uint32_t{1} << said.names[other];
        if (said.lacks_state[other] == 0 && !found.has_state) found.has_state = other;
    }
    found.here = found.came;
    for (std::uint32_t other = 0; other < size; ++other) {
        if (said.names[other] == kNoName) {
            if (std::popcount(found.here) == said.slabs) throw std::runtime_error("more ranks than slabs");
            said.names[other] = static_cast<std::uint8_t>(std::countr_one(found.here));
            found.here |= std::uint32_t{1} << said.names[other];
        }
        if (found.has_state && said.lacks_state[other] != 0) found.late |= std::uint32_t{1} << said.names[other];
    }
    name = said.names[rank];
    return found;
}

// To a group of the survivors and of processes that wait, over the connections that are there.
void renew(coppice::Group& group, std::size_t slabs) {
    group.revoke();
    // One that has just been taken in may not know yet how many slabs there are: the others do.
    coppice::Group next = group.renew({.most = static_cast<std::uint32_t>(slabs), .as_others = slabs == 0});
    group.leave();  // in a revoked group this waits for nobody's calls
    group = std::move(next);
}

void tell(const cg::Solver& solver, const cg::Solver::Owners& before, std::size_t slabs, const Muster& now,
          std::uint32_t dead, double ms) {
    for (; dead != 0; dead &= dead - 1)
        std::printf("cg: rank %d died\n", std::countr_zero(dead));
    for (std::size_t slab = 0; slab < slabs; ++slab) {
        if (before[slab] == cg::Solver::kNobody)
            std::printf("cg: slab %zu restored by rank %u from its copy\n", slab, unsigned{solver.holders()[slab]});
        if ((now.late >> slab & 1) != 0) std::printf("cg: a newcomer is rank %zu, and has slab %zu\n", slab, slab);
    }
    std::printf("cg: back at source %u, iteration %u; a new group and what was lost took %.1f ms\n",
                static_cast<unsigned>(solver.source()), static_cast<unsigned>(solver.iteration()), ms);
    std::fflush(stdout);
}

struct Job {
    std::size_t unknowns;
    double seconds;
    int living;  // ranks
    std::size_t slabs;
};

// One rank prints the results, and the others stay until it has. Collective. If that rank dies before, they throw RankDied, and
// another prints. If it dies just after, the results may be printed twice.
void report(coppice::Group& group, const cg::Solver& solver, bool prints, const Job& job) {
    for (std::size_t source = 0; prints && source < solver.results().size(); ++source) {
        const cg::Solver::Result& result = solver.results()[source];
        std::printf("cg: source %zu: residual %.17g after %u iterations, off the solution by %.3g at most\n", source,
                    result.residual, static_cast<unsigned>(result.iterations), result.error);
    }
    if (prints) {
        std::printf("cg: %zu unknowns solved in %.2f s; %d of %zu ranks live\n", job.unknowns, job.seconds, job.living,
                    job.slabs);
        std::fflush(stdout);
    }
    const auto [printed, agreed] = group.agree(std::uint64_t{prints ? 1U : 0U}, coppice::Operation::kMax);
    if (printed == 0) throw cg::RankDied();
}

void run(const Options& options) {
    using Clock = std::chrono::steady_clock;
    coppice::Context context = coppice::Context::create();
    coppice::Group group = coppice::Group::create(context);  // one that was started late is taken in here
    const bool is_first = group.info().epoch == 0;
    std::size_t slabs = is_first ? group.size() : 0;
    if (slabs > cg::kMostSlabs || slabs > options.grid)
        throw std::runtime_error("there may be " + std::to_string(cg::kMostSlabs) + " ranks, and one for each plane");
    auto name = is_first ? static_cast<std::uint8_t>(group.rank()) : kNoName;
    std::optional<cg::Mailboxes> mail;
    std::optional<cg::Solver> solver;
    std::uint32_t living = is_first ? UINT32_MAX >> (32 - slabs) : 0;
    std::uint32_t dead = 0;  // and not told yet

    const Clock::time_point start = Clock::now();
    Clock::time_point broken = start;
    bool whole = true;  // this group, as far as this rank knows
    while (true) {
        try {
            if (!whole) renew(group, slabs);
            const Muster now = muster(group, name, slabs, mail.has_value(), solver.has_value() && solver->has_state());
            dead |= living & ~now.came;
            living = now.here;
            if (!now.all_have_mail)
                mail.emplace(group, cg::Solver::boxes(slabs), cg::Solver::numbers(options.grid, slabs));
            if (!solver) solver.emplace(*mail, options.grid, slabs, name, options.checkpoint_every);
            if ((now.late >> name & 1) != 0) solver->begin_late();
            if (group.info().epoch > 0) {
                const cg::Solver::Owners before = solver->restore(group, now.late, now.has_state.value_or(0));
                const std::chrono::duration<double, std::milli> took = Clock::now() - broken;
                if (name == std::countr_zero(now.came)) tell(*solver, before, slabs, now, dead, took.count());
                dead = 0;
            }
            whole = true;
            solver->solve(group, options.sources, options.tolerance);
            const std::chrono::duration<double> took = Clock::now() - start;
            report(group, *solver, name == std::countr_zero(living),
                   {.unknowns = options.grid * options.grid * options.grid,
                    .seconds = took.count(),
                    .living = std::popcount(living),
                    .slabs = slabs});
            break;
        } catch (const cg::RankDied&) {
        } catch (const cg::NewcomerWaits&) {
        } catch (const coppice::Error& caught) {
            if (!is_about_a_death(caught.status())) throw;
        }
        if (whole) broken = Clock::now();
        whole = false;
    }
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
