#include "simulation/world/explore.hpp"

#include <algorithm>

#include "base/mix.hpp"
#include "simulation/world/caller.hpp"
#include "simulation/world/world.hpp"

namespace coppice::world {
namespace {

constexpr std::uint64_t kMostNs = 60'000'000'000;
constexpr std::uint64_t kSlackNs = 10'000'000;

// A rank that sleeps looks again after a second, whether it was woken or not: no call may take so long, whatever else there was to
// wait for. A revocation may wait for half a second.
constexpr std::uint64_t kUnaccountedNs = 900'000'000;

// Over a slow link. Chunks that are read take two, of the word that tells of them and their own, for as many as go together.
std::uint64_t round_trips(const Drawn& drawn, const Step& step) {
    const Program& program = drawn.program;
    if (!drawn.fate.has_reads || program.chunk == 0 || step.bytes <= program.chunk) return 1;
    const std::uint64_t chunks = (step.bytes + program.chunk - 1) / program.chunk;
    return 1 + 2 * ((chunks + program.ahead - 1) / program.ahead);
}

std::uint64_t accounted_ns(const Drawn& drawn) {
    const Fate& fate = drawn.fate;
    const std::uint64_t late = fate.late_one_in > 0 ? fate.late_times : 1;
    const std::uint64_t slow = fate.slow_link_one_in > 0 ? fate.slow_times : 1;
    std::uint64_t time = kUnaccountedNs;
    time += fate.connect_ns * slow * (1 + fate.deaths.size());
    time += fate.deaths.size() * late * std::max(fate.near_detection_ns, fate.far_detection_ns);
    for (const Stop& stop : fate.stops)
        time += stop.for_ns + 3 * fate.detection_bound_ns;
    // Those beyond a cut may be noticed one after the other, as each is observed when the one before it is known to be dead.
    for (const Cut& cut : fate.cuts)
        time += fate.breaks_connections(cut) ? fate.ranks * (fate.longest_detection_ns() + fate.connect_ns * slow)
                                             : cut.for_ns + 3 * fate.detection_bound_ns;
    for (const Step& step : drawn.program.steps)
        time += step.away_ns + 2 * round_trips(drawn, step) * (fate.latency_ns * slow + fate.jitter_ns);
    return time;
}

// A rank that was stopped for so long that it may be taken for dead, and that is told so or of which others are told, counts as one
// that died when it stopped.
void count_the_silent(const Fate& fate, promises::History& history) {
    history.taken_for_dead.assign(fate.processes(), false);
    if (fate.detection_bound_ns == 0) return;
    for (const Stop& stop : fate.stops) {
        if (2 * stop.for_ns < fate.detection_bound_ns) continue;
        const bool is_told = std::ranges::any_of(history.calls, [&stop](const promises::Call& call) {
            return call.rank == stop.rank ? call.status == COPPICE_ERR_FENCED
                                          : promises::contains(call.failed, stop.rank);
        });
        if (!is_told) continue;
        std::uint64_t& died_ns = history.died_ns[stop.rank];
        history.taken_for_dead[stop.rank] = true;
        died_ns = std::min(died_ns, kStartNs + stop.at_ns);
    }
}

promises::Quorum quorum_of(const std::string& name) {
    if (name == "certain") return promises::Quorum::certain;
    return name == "majority" ? promises::Quorum::majority : promises::Quorum::any;
}

void note_facts(const Drawn& drawn, promises::History& history) {
    const Fate& fate = drawn.fate;
    history.ranks = fate.processes();
    history.first_ranks = fate.ranks;
    for (std::uint32_t rank = 0; rank < fate.processes(); ++rank) {
        history.seat_of.push_back(fate.seat_of(rank));
        history.incarnation_of.push_back(fate.incarnation_of(rank));
    }
    history.host_of = fate.host_of;
    history.quorum = quorum_of(drawn.program.quorum);
    history.local_peers_see_deaths = drawn.program.hierarchy == "host" && drawn.program.transport.starts_with("shm");
    for (const Cut& cut : fate.cuts) {
        if (!fate.may_be_noticed(cut)) continue;
        promises::Cut noticed{.side = {}, .began_ns = cut.begins_ns(), .ended_ns = cut.ends_ns()};
        for (const std::uint32_t host : fate.host_of)
            noticed.side.push_back((cut.hosts >> host & 1) != 0);
        history.cuts.push_back(std::move(noticed));
    }
}

// What the launcher did not understand.
void count_nonsense(std::uint32_t count, promises::History& history) {
    if (count == 0) return;
    promises::Call call;
    call.action = promises::Action::destroy;
    call.bytes = count;
    call.ended_ns = history.ended_ns;
    call.status = COPPICE_OK;
    history.calls.push_back(call);
}

std::uint64_t mark_of(const promises::History& history) {
    std::uint64_t mark = 0;
    for (const promises::Call& call : history.calls) {
        for (const std::uint64_t word : {std::uint64_t{call.rank}, call.began_ns, call.ended_ns,
                                         static_cast<std::uint64_t>(call.status), call.payload, call.result})
            mark = mix(mark, word);
    }
    return mark;
}

}  // namespace

Outcome run(const Drawn& drawn, const Tell& tell, const Tell& tell_traffic) {
    promises::History history;
    std::vector<promises::Group> groups;
    note_facts(drawn, history);
    history.slack_ns = kSlackNs;
    history.accounted_ns = accounted_ns(drawn);
    Outcome outcome;
    std::uint32_t nonsense = 0;
    {
        World world(drawn.fate, drawn.program.seed, tell, tell_traffic);
        const auto application = [&](WorldRank& self) {
            Caller caller(self, drawn.program, history, groups);
            caller.run();
        };
        world.when_started(application);
        for (std::uint32_t rank = 0; rank < drawn.fate.ranks; ++rank)
            world.rank(rank).start(application, world.clockwork().draw(200'000));
        history.over = world.run(kMostNs);
        history.ended_ns = world.clockwork().now_ns();
        if (world.launcher() != nullptr) nonsense = world.launcher()->nonsense();
        for (std::uint32_t rank = 0; rank < drawn.fate.processes(); ++rank) {
            history.died_ns.push_back(world.clockwork().died_at_ns(rank));
            history.killed_ns.push_back(history.died_ns.back());
            outcome.deaths += world.clockwork().dead(rank);
            if (world.rank(rank).leaked() == 0) continue;
            promises::Call call;
            call.action = promises::Action::leak;
            call.rank = rank;
            call.bytes = world.rank(rank).leaked();
            call.ended_ns = history.ended_ns;
            call.status = COPPICE_ERR_NO_MEMORY;
            history.calls.push_back(call);
        }
    }
    count_the_silent(drawn.fate, history);
    count_nonsense(nonsense, history);
    outcome.calls = history.calls.size();
    outcome.virtual_ns = history.ended_ns;
    outcome.mark = mark_of(history);
    outcome.violations = promises::check(history, groups);
    return outcome;
}

Outcome run(const Drawn& drawn, Transcript& transcript) {
    const auto note = [&transcript](void (Transcript::*how)(std::string)) {
        return [&transcript, how](const std::string& line) {
            const Within outside(nullptr);  // it outlives the rank that tells it
            (transcript.*how)(line);
        };
    };
    return run(drawn, note(&Transcript::note_event), note(&Transcript::note_traffic));
}

Drawn shorten(const Drawn& drawn, const std::string& promise) {
    const auto fails = [&promise](const Drawn& candidate) {
        const Outcome outcome = run(candidate);
        return std::ranges::any_of(outcome.violations,
                                   [&](const auto& violation) { return violation.promise == promise; });
    };
    Drawn best = drawn;
    const auto leave_out = [&](auto member) {
        auto& items = member(best);
        for (std::size_t chunk = items.size(); chunk > 0; chunk /= 2) {
            for (std::size_t at = 0; at + chunk <= member(best).size();) {
                Drawn candidate = best;
                auto& left = member(candidate);
                left.erase(left.begin() + static_cast<std::ptrdiff_t>(at),
                           left.begin() + static_cast<std::ptrdiff_t>(at + chunk));
                if (fails(candidate)) {
                    best = std::move(candidate);
                } else {
                    at += chunk;
                }
            }
        }
    };
    leave_out([](Drawn & of) -> auto& { return of.fate.stops; });
    leave_out([](Drawn & of) -> auto& { return of.fate.cuts; });
    leave_out([](Drawn & of) -> auto& { return of.program.steps; });
    // The last ones: others are known by their place.
    while (!best.fate.newcomers.empty()) {
        Drawn candidate = best;
        candidate.fate.newcomers.pop_back();
        candidate.fate.host_of.pop_back();
        if (!fails(candidate)) break;
        best = std::move(candidate);
    }
    leave_out([](Drawn & of) -> auto& { return of.fate.deaths; });
    leave_out([](Drawn & of) -> auto& { return of.program.steps; });
    return best;
}

}  // namespace coppice::world
