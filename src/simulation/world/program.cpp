#include "simulation/world/program.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/mix.hpp"
#include "simulation/random.hpp"
#include "topology/acquaintance.hpp"

namespace coppice::world {
namespace {

using simulation::Random;

constexpr std::uint64_t kMicrosecond = 1'000;
constexpr std::uint64_t kMillisecond = 1'000'000;

std::uint32_t between(Random& random, std::uint32_t least, std::uint32_t most) {
    return least + random.below(most - least + 1);
}

// Up to `most`, each order of magnitude below it as likely as the others.
std::uint64_t some_time(Random& random, std::uint64_t least, std::uint64_t most) {
    std::uint32_t decades = 0;
    for (std::uint64_t time = least; time < most; time *= 10)
        ++decades;
    std::uint64_t time = least;
    for (std::uint32_t decade = random.below(decades + 1); decade > 0; --decade)
        time *= 10;
    return std::min(most, time + random.next() % (9 * time));
}

Fate draw_fate(Random& random, const Bounds& bounds) {
    Fate fate;
    fate.ranks = between(random, bounds.fewest_ranks, bounds.most_ranks);
    const std::uint32_t hosts =
        bounds.hosts > 0 ? std::min(bounds.hosts, fate.ranks) : 1 + random.below(std::min(fate.ranks, 6U));
    const bool in_blocks = random.one_in(2);
    for (std::uint32_t rank = 0; rank < fate.ranks; ++rank) {
        const std::uint32_t block = rank * hosts / fate.ranks;
        fate.host_of.push_back(in_blocks ? block : rank < hosts ? rank : random.below(hosts));
    }
    fate.latency_ns = some_time(random, kMicrosecond, 50 * kMicrosecond);
    fate.jitter_ns = random.one_in(3) ? 20 * fate.latency_ns : fate.latency_ns / 2;
    fate.connect_ns = some_time(random, 10 * kMicrosecond, 2 * kMillisecond);
    fate.queue_messages = random.one_in(4) ? between(random, 1, 4) : 64;
    fate.inbox_messages = random.one_in(4) ? between(random, 1, 4) : 64;
    if (random.one_in(4)) {
        fate.slow_link_one_in = between(random, 1, 8);
        fate.slow_times = between(random, 5, 200);
    }
    fate.waits_while_connecting = random.one_in(2);
    if (random.one_in(3)) fate.by_reference_one_in = between(random, 1, 4);
    fate.near_detection_ns = some_time(random, kMicrosecond, kMillisecond);
    fate.far_detection_ns = some_time(random, 50 * kMicrosecond, 20 * kMillisecond);
    if (random.one_in(3)) {
        fate.late_one_in = between(random, 2, 4);
        fate.late_times = between(random, 2, 30);
    }
    const std::array<std::uint32_t, 4> preempts{0, 300, 60, 12};
    fate.preempt_one_in = preempts[random.below(4)];
    fate.preempt_ns = some_time(random, kMicrosecond, 500 * kMicrosecond);
    fate.react_ns = some_time(random, 100, 50 * kMicrosecond);
    fate.polls_before_sleep = between(random, 1, 40);
    return fate;
}

Step draw_step(Random& random, std::uint32_t number) {
    Step step;
    step.number = number;
    step.who = random.below(kMostRanks);
    const std::uint32_t kind = random.below(100);
    const auto mode = [&random](std::uint32_t modes) { return static_cast<Step::Mode>(random.below(modes)); };
    if (kind < 50) {
        step.kind = Step::Kind::broadcast;
        step.mode = mode(3);
        const std::array<std::uint32_t, 6> sizes{0, 8, 40, 64 + random.below(1000), 4096, 8192};
        step.bytes = sizes[random.below(6)];
    } else if (kind < 72) {
        step.kind = Step::Kind::agree;
        step.mode = mode(2);
        const std::array operations{COPPICE_AND, COPPICE_OR, COPPICE_MAX, COPPICE_COMBINE};
        step.operation = operations[random.below(4)];
        step.is_barrier = kind >= 66;
        if (step.is_barrier) step.operation = COPPICE_OR;
    } else if (kind < 77) {
        step.kind = Step::Kind::settle;
    } else if (kind < 80) {
        step.kind = Step::Kind::learn;
    } else if (kind < 88) {
        step.kind = Step::Kind::away;
        step.away_ns = some_time(random, 10 * kMicrosecond, 20 * kMillisecond);
    } else if (kind < 92) {
        step.kind = Step::Kind::acknowledge;
    } else if (kind < 97) {
        step.kind = Step::Kind::shrink;
        step.mode = mode(2);
        step.keep_old = random.one_in(3);
    } else if (kind < 99) {
        step.kind = Step::Kind::revoke;
    } else {
        step.kind = Step::Kind::renew;
        step.keep_old = random.one_in(2);
    }
    if (random.one_in(12)) step.timeout_ns = some_time(random, kMicrosecond, 100 * kMillisecond);
    return step;
}

// Some broadcasts go in chunks, in half of the worlds. Drawn apart from everything else, which so is what it was for a seed.
void enlarge(Program& program, Fate& fate) {
    const std::uint64_t drawn = mix(program.seed * kWeyl + 1);
    if (drawn % 2 != 0) return;
    const std::array chunks{1024U, 3000U, 8192U, 16384U};
    program.chunk = chunks[(drawn >> 8) % chunks.size()];
    const std::array aheads{1U, 3U, 64U};
    program.ahead = aheads[(drawn >> 16) % aheads.size()];
    fate.has_reads = (drawn >> 24) % 2 != 0;
    for (Step& step : program.steps) {
        const std::uint64_t own = mix(drawn + step.number);
        if (step.kind == Step::Kind::broadcast && own % 3 == 0)
            step.bytes = 8193 + static_cast<std::uint32_t>((own >> 8) % (kMostBytes - 8193));
    }
}

Program draw_program(Random& random, std::uint64_t seed) {
    Program program;
    program.seed = seed;
    const std::uint32_t steps = between(random, 1, 24);
    for (std::uint32_t number = 1; number <= steps; ++number) {
        program.steps.push_back(draw_step(random, number));
        // What has been revoked is shrunk soon.
        if (program.steps.back().kind == Step::Kind::revoke && number + 1 < steps && !random.one_in(3)) {
            Step shrink;
            shrink.kind = Step::Kind::shrink;
            shrink.number = ++number;
            program.steps.push_back(shrink);
        }
    }
    // Some leave when they have been told of all deaths, while others have yet to be.
    if (random.one_in(3)) {
        Step learn;
        learn.kind = Step::Kind::learn;
        learn.number = steps + 1;
        program.steps.push_back(learn);
    }
    program.window = 2U << random.below(4);
    program.agreement_window = 1U << random.below(4);
    const std::array trees{"auto", "auto", "binomial", "kary:2", "star", "chain", "lame:2"};
    program.tree = trees[random.below(trees.size())];
    const std::array corrections{"optimized:2", "optimized:2", "opportunistic:1", "opportunistic:3", "checked"};
    program.correction = corrections[random.below(corrections.size())];
    if (random.one_in(4)) program.hierarchy = "flat";
    if (random.one_in(8)) program.transport = "tcp";
    return program;
}

// A bound that ranks keep which lose their cores and wait for slow links, and stops that are about as long.
void draw_bound(Random& random, Drawn& drawn) {
    Fate& fate = drawn.fate;
    const std::uint64_t slow = fate.slow_link_one_in > 0 ? fate.slow_times : 1;
    const std::uint64_t links = 20 * ((fate.latency_ns + fate.connect_ns) * slow + fate.jitter_ns + fate.preempt_ns);
    fate.detection_bound_ns = std::max(links, some_time(random, 20 * kMillisecond, 200 * kMillisecond));
    fate.detection_bound_ns -= fate.detection_bound_ns % kMillisecond;
    drawn.program.detection_bound_ns = fate.detection_bound_ns;
    if (fate.stops.empty())
        fate.stops.push_back(
            {.rank = random.below(fate.ranks), .at_ns = some_time(random, 10 * kMicrosecond, 5 * kMillisecond)});
    for (Stop& stop : fate.stops)
        stop.for_ns = some_time(random, fate.detection_bound_ns / 20, 4 * fate.detection_bound_ns);
    // An exchange would wait for those that are taken for dead.
    std::erase_if(drawn.program.steps, [](const Step& step) { return step.kind == Step::Kind::renew; });
}

// Where all that know a rank from the start may die before its address is copied, the others can't know that it lives: that breaks no
// promise (engine/addresses/copying.hpp).
std::uint32_t endangered(const Fate& fate) {
    std::vector<bool> ranks(fate.ranks);
    for (const Death& death : fate.deaths)
        ranks[death.rank] = true;
    // One that is stopped for too long may be taken for dead.
    for (const Stop& stop : fate.stops)
        if (fate.detection_bound_ns > 0) ranks[stop.rank] = true;
    return static_cast<std::uint32_t>(std::ranges::count(ranks, true));
}

std::uint32_t fewest_acquaintances(const Fate& fate) {
    std::size_t fewest = fate.ranks;
    const std::vector<std::uint64_t> hosts(fate.host_of.begin(), fate.host_of.end());
    for (const topology::Nodes& nodes : {topology::Nodes::by_host(hosts), topology::Nodes::flat(fate.ranks)}) {
        const topology::Acquaintance acquaintance(nodes, 1);
        for (std::uint32_t rank = 0; rank < fate.ranks; ++rank)
            fewest = std::min(fewest, acquaintance.mutual(Rank(rank)).size());
    }
    return static_cast<std::uint32_t>(fewest);
}

// Whether some rank of its host sees each death, in whichever group: a world has no other witness. Then nobody is ever without a quorum.
bool all_deaths_are_seen(const Drawn& drawn) {
    const Fate& fate = drawn.fate;
    if (fate.detection_bound_ns > 0 || drawn.program.hierarchy != "host" || !drawn.program.transport.starts_with("shm"))
        return false;
    // One that has not the time to leave in peace counts as failed, and lives.
    const auto loses_a_living_one = [](const Step& step) {
        const bool destroys = step.kind == Step::Kind::renew || step.kind == Step::Kind::drop;
        return step.leaves || (destroys && step.timeout_ns != COPPICE_NO_TIMEOUT);
    };
    if (std::ranges::any_of(drawn.program.steps, loses_a_living_one)) return false;
    std::vector<bool> lives(fate.ranks, true);
    for (const Death& death : fate.deaths)
        lives[death.rank] = false;
    std::vector<bool> sees(fate.ranks);  // by host
    for (std::uint32_t rank = 0; rank < fate.ranks; ++rank)
        if (lives[rank]) sees[fate.host_of[rank]] = true;
    return std::ranges::all_of(fate.deaths, [&](const Death& death) { return sees[fate.host_of[death.rank]]; });
}

// Processes that come later, on seats of their own or of the dead, some of which die in their turn. Drawn apart, too.
void draw_joins(std::uint64_t seed, Drawn& drawn) {
    Fate& fate = drawn.fate;
    Random random(mix(seed * kWeyl + 6));
    if (!random.one_in(4)) return;
    // Both sides of a cut may go on there, and each may take in the same process.
    if (!fate.cuts.empty() && drawn.program.quorum == "any") return;
    const std::uint32_t most = std::min(6U, kMostRanks - fate.ranks);
    for (std::uint32_t i = most == 0 ? 0 : 1 + random.below(most); i > 0; --i) {
        const std::uint64_t latest = random.one_in(2) ? kMillisecond : 30 * kMillisecond;
        Newcomer one{.seat = fate.seats(), .after_ns = some_time(random, 10 * kMicrosecond, latest)};
        one.host = fate.host_of[random.below(fate.processes())];
        if (!fate.deaths.empty() && random.one_in(2)) {
            const std::uint32_t dead = fate.deaths[random.below(static_cast<std::uint32_t>(fate.deaths.size()))].rank;
            const bool is_followed =
                std::ranges::any_of(fate.newcomers, [dead](const Newcomer& other) { return other.follows == dead; });
            if (!is_followed) {
                one.follows = dead;
                one.seat = fate.seat_of(dead);
                one.incarnation = fate.incarnation_of(dead) + 1;
                one.host = fate.host_of[dead];
            }
        }
        const std::uint32_t rank = fate.processes();
        fate.newcomers.push_back(one);
        fate.host_of.push_back(one.host);
        if (!random.one_in(3)) continue;
        Death death{.rank = rank};
        death.at_action = some_time(random, 1, 2000);
        fate.deaths.push_back(death);
    }
    drawn.program.addresses = "all";
    std::vector<Step>& steps = drawn.program.steps;
    std::erase_if(steps, [](const Step& step) { return step.kind == Step::Kind::renew; });
    const bool may_renew_at_once =
        std::ranges::none_of(steps, [](const Step& step) { return step.kind == Step::Kind::revoke; });
    for (Step& step : steps) {
        const bool is_spare = step.kind == Step::Kind::settle || step.kind == Step::Kind::acknowledge;
        if (is_spare && random.one_in(2)) step.kind = Step::Kind::shrink;
        if (step.kind == Step::Kind::shrink) step.admits = !random.one_in(4);
        const bool is_told_together = step.kind == Step::Kind::agree && step.mode == Step::Mode::blocking &&
                                      step.timeout_ns == COPPICE_NO_TIMEOUT;
        step.renews = is_told_together && may_renew_at_once && random.one_in(2);
    }
}

// Its own stream of chance: all else is what it was for a seed.
void draw_cuts(std::uint64_t seed, Drawn& drawn) {
    Fate& fate = drawn.fate;
    const std::uint32_t hosts = 1 + *std::ranges::max_element(fate.host_of);
    Random random(mix(seed * kWeyl + 5));
    if (hosts < 2 || !random.one_in(4)) return;
    for (std::uint32_t i = random.one_in(4) ? 2 : 1; i > 0; --i) {
        Cut cut{.at_ns = some_time(random, 10 * kMicrosecond, 20 * kMillisecond)};
        cut.hosts = 1 + random.next() % ((std::uint64_t{1} << hosts) - 2);
        const std::uint64_t longest = fate.longest_detection_ns();
        if (random.one_in(3)) cut.for_ns = longest + some_time(random, kMillisecond, 20 * kMillisecond);
        if (random.one_in(3)) cut.for_ns = some_time(random, 10 * kMicrosecond, longest);
        fate.cuts.push_back(cut);
    }
    const std::array quorums{"certain", "certain", "majority", "any"};
    drawn.program.quorum = quorums[random.below(4)];
    const bool is_noticed =
        std::ranges::any_of(fate.cuts, [&fate](const Cut& cut) { return fate.may_be_noticed(cut); });
    if (!is_noticed) return;
    // All that know a rank may be beyond the cut. And an exchange would go on where messages do not.
    drawn.program.addresses = "all";
    std::erase_if(drawn.program.steps, [](const Step& step) { return step.kind == Step::Kind::renew; });
}

}  // namespace

Drawn draw(std::uint64_t seed, const Bounds& bounds) {
    Random random(seed);
    Drawn drawn;
    drawn.fate = draw_fate(random, bounds);
    drawn.program = draw_program(random, seed);
    if (bounds.chunks) enlarge(drawn.program, drawn.fate);
    drawn.program.has_thread = drawn.fate.has_thread = !random.one_in(4);
    // Without a thread coppice_group_create makes progress in no other group.
    if (!drawn.program.has_thread)
        std::erase_if(drawn.program.steps, [](const Step& step) { return step.kind == Step::Kind::renew; });
    if (bounds.kills && !random.one_in(4)) {
        const std::uint32_t most = random.one_in(4) ? drawn.fate.ranks : std::min(drawn.fate.ranks, 3U);
        const std::uint32_t deaths = 1 + random.below(most);
        for (std::uint32_t i = 0; i < deaths; ++i) {
            Death death{.rank = random.below(drawn.fate.ranks)};
            if (random.one_in(4)) {
                death.at_ns = some_time(random, 10 * kMicrosecond, 30 * kMillisecond);
            } else {
                death.at_action = some_time(random, 1, 2000);
            }
            drawn.fate.deaths.push_back(death);
        }
        // Ranks that die one soon after the other: the second may be the one that has noticed the first, or is to be told.
        if (random.one_in(4)) {
            std::uint32_t before = drawn.fate.deaths.front().rank;
            for (std::uint32_t i = 1 + random.below(3); i > 0; --i) {
                const std::uint32_t next = random.below(drawn.fate.ranks);
                drawn.fate.deaths.push_back({.rank = next,
                                             .follows = before,
                                             .after_ns = some_time(random, kMicrosecond, drawn.fate.far_detection_ns)});
                before = next;
            }
        }
        // A host that is lost.
        if (random.one_in(8)) {
            const std::uint32_t host = drawn.fate.host_of[random.below(drawn.fate.ranks)];
            const std::uint64_t time = some_time(random, 10 * kMicrosecond, 20 * kMillisecond);
            for (std::uint32_t rank = 0; rank < drawn.fate.ranks; ++rank)
                if (drawn.fate.host_of[rank] == host) drawn.fate.deaths.push_back({.rank = rank, .at_ns = time});
        }
    }
    if (random.one_in(3)) {
        for (std::uint32_t i = 1 + random.below(3); i > 0; --i) {
            drawn.fate.stops.push_back({.rank = random.below(drawn.fate.ranks),
                                        .at_ns = some_time(random, 10 * kMicrosecond, 20 * kMillisecond),
                                        .for_ns = some_time(random, 10 * kMicrosecond, 50 * kMillisecond)});
            // It dies without having read what came meanwhile.
            const Stop& stop = drawn.fate.stops.back();
            if (!drawn.fate.deaths.empty() && random.one_in(3))
                drawn.fate.deaths.push_back({.rank = stop.rank, .at_ns = stop.at_ns + stop.for_ns});
        }
    }
    drawn.program.calls_back_on_thread = drawn.program.has_thread && random.one_in(4);
    if (bounds.silence && random.one_in(2)) draw_bound(random, drawn);
    for (Step& step : drawn.program.steps)
        step.leaves = step.kind == Step::Kind::shrink && random.one_in(4);
    // Drawn apart, as what goes in chunks.
    if (mix(seed * kWeyl + 3) % 4 == 0 && endangered(drawn.fate) < fewest_acquaintances(drawn.fate))
        drawn.program.addresses = "few";
    if (mix(seed * kWeyl + 4) % 2 == 0 && all_deaths_are_seen(drawn)) drawn.program.quorum = "certain";
    if (bounds.cuts) draw_cuts(seed, drawn);
    if (bounds.joins) draw_joins(seed, drawn);
    return drawn;
}

// --------------------------------------------------------------------------------------------------- for people ---

std::string describe(const Step& step) {
    static constexpr std::array kKinds{"broadcast",   "agree",  "settle", "stay away", "learn of deaths",
                                       "acknowledge", "revoke", "shrink", "renew",     "drop what was kept"};
    static constexpr std::array kModes{"blocking", "a request", "a view"};
    std::string text = fmt::format("{:>3}  {}", step.number, kKinds[static_cast<std::size_t>(step.kind)]);
    switch (step.kind) {
        case Step::Kind::broadcast:
            text += fmt::format(", root {} modulo the size, {} bytes, {}", step.who, step.bytes,
                                kModes[static_cast<std::size_t>(step.mode)]);
            break;
        case Step::Kind::agree:
            if (step.is_barrier) {
                text += fmt::format(" in a barrier, {}", kModes[static_cast<std::size_t>(step.mode)]);
                break;
            }
            text += fmt::format(", operation {}, {}", static_cast<int>(step.operation),
                                kModes[static_cast<std::size_t>(step.mode)]);
            if (step.renews) text += ", and a renewal where one is pending";
            break;
        case Step::Kind::away:
            text += fmt::format(", up to {} us", step.away_ns / kMicrosecond);
            break;
        case Step::Kind::revoke:
            text += fmt::format(", by rank {} modulo the size", step.who);
            break;
        case Step::Kind::drop:
            text += fmt::format(", by rank {}", step.who);
            break;
        case Step::Kind::shrink:
        case Step::Kind::renew:
            text += fmt::format(", {}{}", kModes[static_cast<std::size_t>(step.mode)],
                                step.keep_old ? ", the old group is kept" : "");
            if (step.admits) text += ", newcomers are taken in";
            if (step.leaves) text += fmt::format(", rank {} modulo the size leaves", step.who);
            break;
        default:
            break;
    }
    if (step.timeout_ns != COPPICE_NO_TIMEOUT) text += fmt::format(", within {} ns", step.timeout_ns);
    return text;
}

namespace {

std::string describe(const Fate& fate) {
    std::string text = fmt::format(
        "wires: {} to {} ns, {} messages a link, {} in an inbox; up to {} us to connect; deaths noticed within {} us, "
        "on the same host "
        "{} us",
        fate.latency_ns, fate.latency_ns + fate.jitter_ns, fate.queue_messages, fate.inbox_messages,
        fate.connect_ns / kMicrosecond, fate.far_detection_ns / kMicrosecond, fate.near_detection_ns / kMicrosecond);
    if (fate.slow_link_one_in > 0)
        text += fmt::format("; one link in {} is {} times slower", fate.slow_link_one_in, fate.slow_times);
    if (fate.late_one_in > 0)
        text += fmt::format("; one rank in {} notices {} times later", fate.late_one_in, fate.late_times);
    if (fate.detection_bound_ns > 0)
        text += fmt::format("; silent for {} ms is dead", fate.detection_bound_ns / kMillisecond);
    if (fate.preempt_one_in > 0)
        text += fmt::format("; a rank loses its core at one action in {}, for up to {} us", fate.preempt_one_in,
                            fate.preempt_ns / kMicrosecond);
    return text;
}

}  // namespace

std::string describe(const Cut& cut, const Fate& fate) {
    std::string ranks;
    for (std::uint32_t rank = 0; rank < fate.ranks; ++rank)
        if ((cut.hosts >> fate.host_of[rank] & 1) != 0) ranks += fmt::format("{}{}", ranks.empty() ? "" : ", ", rank);
    return fmt::format("ranks {} from the others, {}", ranks.empty() ? "of no host" : ranks,
                       cut.for_ns == kNever ? "for good" : fmt::format("for {} us", cut.for_ns / kMicrosecond));
}

std::string describe(const Drawn& drawn) {
    const Fate& fate = drawn.fate;
    std::string hosts;
    for (const std::uint32_t host : fate.host_of)
        hosts += fmt::format("{}{}", hosts.empty() ? "" : " ", host);
    std::string text = fmt::format(
        "{} ranks on hosts {}; window {}, chunks of {}, {} ahead, tree {}, correction {}, hierarchy {}, transport {}, "
        "addresses {}, quorum {}, {}",
        fate.ranks, hosts, drawn.program.window, drawn.program.chunk, drawn.program.ahead, drawn.program.tree,
        drawn.program.correction, drawn.program.hierarchy, drawn.program.transport, drawn.program.addresses,
        drawn.program.quorum,
        !drawn.program.has_thread            ? "without a progress thread"
        : drawn.program.calls_back_on_thread ? "with a progress thread that calls back"
                                             : "with a progress thread");
    if (fate.has_reads) text += "; one-sided reads";
    for (const Death& death : fate.deaths) {
        text += death.at_ns != kNever ? fmt::format("; rank {} dies at {} us", death.rank, death.at_ns / kMicrosecond)
                : death.follows < kMostRanks
                    ? fmt::format("; rank {} dies {} us after rank {}", death.rank, death.after_ns / kMicrosecond,
                                  death.follows)
                    : fmt::format("; rank {} dies at its action {}", death.rank, death.at_action);
    }
    for (const Stop& stop : fate.stops)
        text += fmt::format("; rank {} stops at {} us for {} us", stop.rank, stop.at_ns / kMicrosecond,
                            stop.for_ns / kMicrosecond);
    for (std::uint32_t rank = fate.ranks; rank < fate.processes(); ++rank) {
        const Newcomer& one = fate.newcomers[rank - fate.ranks];
        text +=
            fmt::format("; rank {} is started on seat {} {} us after {}", rank, one.seat, one.after_ns / kMicrosecond,
                        one.follows == kMostRanks ? "the begin" : fmt::format("the end of rank {}", one.follows));
    }
    for (const Cut& cut : fate.cuts)
        text += fmt::format("; cut at {} us: {}", cut.at_ns / kMicrosecond, describe(cut, fate));
    return text + "\n" + describe(fate);
}

}  // namespace coppice::world
