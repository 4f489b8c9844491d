#include "advice_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

namespace coppice::sim {
namespace {

using simulation::Advice;
using simulation::Candidate;
using simulation::Family;
using simulation::Wishes;

// What every figure rests on.
std::vector<std::string> assumptions(const Advice& advice) {
    return {
        "A rank is what fails by itself and what has a place in the tree: a host, with COPPICE_HIERARCHY=host (the "
        "default), a process with flat. --ranks and --mtbf mean these.",
        fmt::format(
            "Dead before: ranks die independently and none comes back. All is said of a broadcast at the end of "
            "the job, when each rank but the root is dead with probability {:.3g}; earlier ones are safer.",
            advice.dead_share),
        "Dying on the way: counted as if any death while a broadcast runs (from the first send until all is quiet) "
        "left "
        "somebody out, beyond what the protocol withstands. Very few do.",
        "Nobody is told of a death. Groups of processes are: then a live root's payload reaches every live rank in any "
        "case, and what is counted here as left out is only late, until the death is noticed.",
        "The broadcasts of a job are taken to be independent of each other. A tree with one root leaves out the same "
        "ranks under the same dead: fewer jobs are hit than that says, and those repeatedly.",
        "Latencies are of the LogP model, without load and payload; measure on the machine with coppice-perf "
        "broadcast.",
    };
}

// Lines of at most 110 columns, two blanks before the first and four before the others.
std::string wrapped(const std::string& sentence) {
    constexpr std::size_t kColumns = 110;
    std::string text = " ";
    std::size_t column = 1;
    for (std::size_t at = 0; at < sentence.size();) {
        const std::size_t end = std::min(sentence.find(' ', at), sentence.size());
        if (column + 1 + end - at > kColumns) {
            text += "\n   ";
            column = 3;
        }
        text.append(" ").append(sentence, at, end - at);
        column += 1 + end - at;
        at = end + 1;
    }
    return text + "\n";
}

const char* plural(double count) {
    return count == 1 ? "" : "s";
}

std::string reason_for_distance(const Advice& advice) {
    const Candidate& best = advice.recommended();
    if (best.family != Family::tree || best.distance == 0) return {};
    if (best.distance == 1) {
        return fmt::format(
            "Distance 1 is enough: it leaves a live rank out with probability {:.2g} because of ranks "
            "dead before.",
            best.unreached_dead);
    }
    return fmt::format(
        "Distance {}, so many corrections a side, is the smallest that will do: because of ranks dead before it leaves "
        "a "
        "live rank out with probability {:.2g}, distance {} with {:.2g}.",
        best.distance, best.unreached_dead, best.distance - 1, advice.shorter_distance);
}

std::vector<std::string> reasons(const Advice& advice) {
    const Candidate& best = advice.recommended();
    std::vector<std::string> all;
    if (!best.is_reliable) {
        all.push_back(
            fmt::format("None of them is as reliable as was asked for; this comes nearest: {:.2g} instead of "
                        "{:.2g}.",
                        best.unreached(), advice.tolerated));
    }
    if (std::string distance = reason_for_distance(advice); !distance.empty()) all.push_back(std::move(distance));
    all.push_back(
        fmt::format("Somebody dies while one such broadcast runs with probability {:.2g}, two do with {:.2g}.",
                    advice.death_during, advice.two_deaths_during));
    const bool is_failure_proof = best.correction.starts_with("failure-proof") || best.correction.starts_with("fcg");
    if (is_failure_proof && advice.death_during > advice.tolerated) {
        all.push_back(
            "That is more than is tolerated, so a failure-proof correction is taken, which withstands it and "
            "sends a multiple of the messages.");
    }
    all.push_back(
        fmt::format("Of those that are reliable enough it is quiet first, or within 5 % of that with fewer "
                    "messages: {:.1f} steps, {:.2f} messages a rank.",
                    best.quiescence, best.messages));
    const Candidate& gossip = advice.gossip();
    all.push_back(fmt::format("The best gossip takes {:.1f} steps and {:.2f} messages a rank.", gossip.quiescence,
                              gossip.messages));
    return all;
}

// The recommended tree with every correction, the recommended correction on every tree, and what has no tree.
bool is_shown(const Candidate& candidate, const Advice& advice) {
    const Candidate& best = advice.recommended();
    if (candidate.family != Family::tree || best.family != Family::tree) return true;
    const auto head = [](const std::string& correction) { return correction.substr(0, correction.find(':')); };
    return candidate.tree == best.tree || head(candidate.correction) == head(best.correction);
}

std::string table(const Advice& advice) {
    std::string text = fmt::format("  {:<34}{:>12}{:>12}{:>9}{:>9}{:>11}  {}\n", "", "dead before", "dying", "colored",
                                   "quiet", "msgs/rank", "reliable");
    for (std::size_t i = 0; i < advice.candidates.size(); ++i) {
        const Candidate& candidate = advice.candidates[i];
        if (!is_shown(candidate, advice)) continue;
        text += fmt::format("{} {:<34}{:>12.2g}{:>12.2g}{:>9.1f}{:>9.1f}{:>11.2f}  {}{}\n",
                            i == advice.best ? '>' : ' ', candidate.name(), candidate.unreached_dead,
                            candidate.unreached_dying, candidate.coloring, candidate.quiescence, candidate.messages,
                            candidate.is_reliable ? "yes" : "no", candidate.is_eligible ? "" : ", to compare");
    }
    return text;
}

}  // namespace

std::string advice_as_text(const Wishes& wishes, const Advice& advice) {
    const Candidate& best = advice.recommended();
    const Candidate& gossip = advice.gossip();
    std::string text = fmt::format(
        "{} ranks, L={} o={}, a step is {:.3g} us; a rank lives {:g} h on average, a job {:g} h\n", wishes.ranks,
        wishes.model.latency, wishes.model.overhead, wishes.step_seconds * 1e6, wishes.mtbf_hours, wishes.job_hours);
    text +=
        fmt::format("At the job's end {:.3g} ranks are expected to be dead, no more than {} in 99.9 % of all jobs.\n",
                    advice.expected_dead, advice.dead_999);
    text += fmt::format(
        "{:.10g} broadcast{} with reliability {:.10g}: each may leave a live rank out with probability "
        "{:.3g}.\n\n",
        wishes.broadcasts, plural(wishes.broadcasts), wishes.reliability, advice.tolerated);
    text += fmt::format("Recommended: {}\n  {}\n", best.name(), best.settings);
    text += fmt::format(
        "  colored after {:.1f} steps ({:.1f} us), quiet after {:.1f} ({:.1f} us), {:.2f} messages a rank, "
        "a live rank left out: {:.2g}\n\nWhy\n",
        best.coloring, best.coloring * wishes.step_seconds * 1e6, best.quiescence,
        best.quiescence * wishes.step_seconds * 1e6, best.messages, best.unreached());
    for (const std::string& reason : reasons(advice))
        text += wrapped(reason);
    text += fmt::format("\nInstead of a tree: gossip for T = {} steps, {}\n  {}\n", gossip.gossip_time,
                        gossip.correction, gossip.settings);
    text +=
        "\nCompared: probability that a live rank is left out, steps until all have it and until all is quiet, "
        "messages\n" +
        table(advice);
    text += wrapped(fmt::format(
        "big withstands one dead fewer than it has neighbours, log2 P, wherever they are; more seldom do harm. As "
        "many are expected from {:.0f} ranks on.",
        advice.binomial_graph_until));
    text += "\nAssumed\n";
    for (const std::string& assumption : assumptions(advice))
        text += wrapped(assumption);
    text +=
        fmt::format("\nSimulated: {} broadcast{} of each, seeds {} to {}.\n", advice.runs,
                    plural(static_cast<double>(advice.runs)), advice.first_seed, advice.first_seed + advice.runs - 1);
    return text;
}

namespace {

nlohmann::ordered_json as_json(const Candidate& candidate) {
    nlohmann::ordered_json one;
    one["name"] = candidate.name();
    if (!candidate.tree.empty()) one["tree"] = candidate.tree;
    one["correction"] = candidate.correction;
    if (candidate.distance != 0) one["distance"] = candidate.distance;
    if (candidate.gossip_time != 0) one["gossip_time"] = candidate.gossip_time;
    if (!candidate.settings.empty()) one["settings"] = candidate.settings;
    one["coloring_latency"] = candidate.coloring;
    one["quiescence_latency"] = candidate.quiescence;
    one["messages_per_rank"] = candidate.messages;
    one["unreached_probability"] = candidate.unreached();
    one["unreached_probability_dead_before"] = candidate.unreached_dead;
    one["unreached_probability_dying"] = candidate.unreached_dying;
    one["incomplete_runs"] = candidate.incomplete;
    one["reliable"] = candidate.is_reliable;
    return one;
}

}  // namespace

std::string advice_as_json(const Wishes& wishes, const Advice& advice,
                           const std::vector<ChunkedOptions::Row>& payload) {
    nlohmann::ordered_json all;
    all["ranks"] = wishes.ranks;
    all["latency"] = wishes.model.latency;
    all["overhead"] = wishes.model.overhead;
    all["step_seconds"] = wishes.step_seconds;
    all["mtbf_hours"] = wishes.mtbf_hours;
    all["job_hours"] = wishes.job_hours;
    all["reliability"] = wishes.reliability;
    all["broadcasts"] = wishes.broadcasts;
    all["expected_dead"] = advice.expected_dead;
    all["dead_in_999_of_1000_jobs"] = advice.dead_999;
    all["tolerated_probability"] = advice.tolerated;
    all["death_during_broadcast_probability"] = advice.death_during;
    all["two_deaths_during_broadcast_probability"] = advice.two_deaths_during;
    all["binomial_graph_until_ranks"] = advice.binomial_graph_until;
    all["recommended"] = as_json(advice.recommended());
    all["reasons"] = reasons(advice);
    all["gossip_instead"] = as_json(advice.gossip());
    auto& candidates = all["candidates"] = nlohmann::ordered_json::array();
    for (const Candidate& candidate : advice.candidates)
        candidates.push_back(as_json(candidate));
    if (!payload.empty()) {
        const auto row_as_json = [](const ChunkedOptions::Row& row) {
            nlohmann::ordered_json one;
            one["shape"] = to_string(row.setup.shape);
            one["chunk"] = row.setup.chunk;
            one["steps"] = row.outcome.steps;
            return one;
        };
        auto& large = all["payload"];
        large["bytes"] = payload.front().setup.bytes;
        large["recommended"] = row_as_json(first_of(payload, true));
        large["fastest"] = row_as_json(first_of(payload, false));
        for (const ChunkedOptions::Row& row : payload)
            large["compared"].push_back(row_as_json(row));
    }
    all["assumptions"] = assumptions(advice);
    all["runs"] = advice.runs;
    all["first_seed"] = advice.first_seed;
    return all.dump() + "\n";
}

}  // namespace coppice::sim
