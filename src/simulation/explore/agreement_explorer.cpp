#include "simulation/explore/agreement_explorer.hpp"

#include <algorithm>
#include <deque>

#include "simulation/explore/agreement_locals.hpp"
#include "simulation/explore/seen.hpp"

namespace coppice::simulation {
namespace {

constexpr std::size_t kMostMessages = 88;

struct State {
    std::array<std::uint32_t, kMostExplored> locals{};
    std::uint8_t dead = 0;
    std::uint8_t crashes_left = 0;
    std::uint16_t messages = 0;
    std::array<std::uint32_t, kMostMessages> bag{};  // ascending
};

struct Step {
    enum class Kind : std::uint8_t { none, start, send, receive, notice, crash, leave };
    Kind kind = Kind::none;
    std::uint8_t rank = 0;
    std::uint32_t detail = 0;  // the message, or the dead
};

bool has(std::uint32_t bits, std::uint32_t rank) {
    return (bits >> rank & 1) != 0;
}

class Explorer {
  public:
    explicit Explorer(const AgreementScenario& scenario)
        : scenario_(scenario), ranks_(scenario.plan.tree.ranks()), locals_(scenario) {}

    AgreementExploration run() {
        State state = initial();
        depth_first(state, 0);
        finish();
        return result_;
    }

    // Breadth first, until the first violation, within so many states.
    AgreementExploration run_for_shortest(std::uint64_t max_states) {
        struct Entry {
            State state;
            std::uint32_t node;
        };
        struct Node {
            std::uint32_t parent;
            Step step;
        };
        std::vector<Node> nodes;
        std::deque<Entry> open;
        const State first = initial();
        seen_.enter(hash_of(first));
        nodes.push_back({0, {}});
        open.push_back({first, 0});
        std::uint32_t reached = 0;
        while (!open.empty() && result_.violation.empty() && nodes.size() < max_states) {
            const Entry entry = std::move(open.front());
            open.pop_front();
            reached = entry.node;
            way_.clear();
            const bool fine = each_successor(entry.state, [&](const State& next, const Step& step) {
                if (!check(next)) {
                    way_ = {step};
                    return false;
                }
                if (seen_.enter(hash_of(next)) != Seen::Found::is_new) return true;
                nodes.push_back({entry.node, step});
                open.push_back({next, static_cast<std::uint32_t>(nodes.size() - 1)});
                return true;
            });
            if (!fine) break;
        }
        std::vector<Step> last = way_;
        way_.clear();
        for (std::uint32_t node = reached; node != 0; node = nodes[node].parent)
            way_.push_back(nodes[node].step);
        std::reverse(way_.begin(), way_.end());
        way_.insert(way_.end(), last.begin(), last.end());
        finish();
        result_.shortest = true;
        return result_;
    }

  private:
    State initial() {
        State state;
        state.crashes_left = static_cast<std::uint8_t>(scenario_.crashes);
        for (std::uint32_t rank = 0; rank < ranks_; ++rank)
            state.locals[rank] = locals_.initial(rank);
        return state;
    }

    void finish() {
        result_.states = seen_.count();
        result_.machine_states = locals_.count();
        result_.messages = locals_.message_count();
        if (result_.violation.empty()) return;
        for (const Step& step : way_)
            result_.way.push_back(describe(step));
    }

    std::uint64_t hash_of(const State& state) const {
        std::uint64_t hash = hash_bytes(state.locals.data(), ranks_ * sizeof(std::uint32_t), 5);
        hash = mix(hash, std::uint64_t{state.dead} << 8 | state.crashes_left);
        return hash_bytes(state.bag.data(), state.messages * sizeof(std::uint32_t), hash);
    }

    bool fail(const std::string& what) {
        if (result_.violation.empty()) result_.violation = what;
        return false;
    }

    bool depth_first(const State& state, std::uint32_t depth) {
        const std::uint64_t hash = hash_of(state);
        switch (seen_.enter(hash)) {
            case Seen::Found::known:
                return true;
            case Seen::Found::on_the_way:
                return fail("Termination: the ranks can go round in circles");
            case Seen::Found::is_new:
                break;
        }
        result_.depth = std::max(result_.depth, depth);
        if (seen_.count() > scenario_.max_states) {
            result_.complete = false;
            return false;
        }
        if (!check(state)) return false;
        const bool fine = each_successor(state, [&](const State& next, const Step& step) {
            way_.push_back(step);
            if (!depth_first(next, depth + 1)) return false;
            way_.pop_back();
            return true;
        });
        seen_.leave(hash);
        return fine;
    }

    template <class Visit>
    bool each_successor(const State& state, Visit&& visit) {
        bool moved = false;
        const auto go = [&](State& next, std::uint32_t rank, const Step& step) {
            if (!locals_.broken().empty()) {
                way_.push_back(step);
                return fail(locals_.broken());
            }
            ++result_.transitions;
            remove_void_messages(next, rank);
            return visit(static_cast<const State&>(next), step);
        };
        for (std::uint32_t rank = 0; rank < ranks_; ++rank) {
            if (has(state.dead, rank)) continue;
            const LocalFacts facts = locals_.facts(state.locals[rank]);
            if (facts.can_start) {
                moved = true;
                State next = state;
                next.locals[rank] = locals_.start(state.locals[rank]);
                if (!go(next, rank, step(Step::Kind::start, rank, facts.started))) return false;
            }
            if (facts.next) {
                moved = true;
                State next = state;
                next.locals[rank] = facts.after_pull;
                if (!add_message(next, *facts.next)) return false;
                if (has(facts.known_dead, locals_.message(*facts.next).to))
                    return fail("sent to a rank known to be dead");
                if (!go(next, rank, step(Step::Kind::send, rank, *facts.next))) return false;
            }
            for (std::uint32_t dead = 0; dead < ranks_; ++dead) {
                if (!has(state.dead, dead) || has(facts.known_dead, dead)) continue;
                moved = true;
                State next = state;
                next.locals[rank] = locals_.notice(state.locals[rank], dead);
                if (!go(next, rank, step(Step::Kind::notice, rank, dead))) return false;
            }
            if (facts.has_left) {
                State next = state;
                bury(next, rank);
                moved = true;
                if (!go(next, rank, step(Step::Kind::leave, rank, 0))) return false;
            }
        }
        for (std::uint16_t i = 0; i < state.messages; ++i) {
            const std::uint32_t message = state.bag[i];
            if (i > 0 && state.bag[i - 1] == message) continue;
            moved = true;
            State next = state;
            std::copy(next.bag.data() + i + 1, next.bag.data() + next.messages, next.bag.data() + i);
            --next.messages;
            const std::uint32_t to = locals_.message(message).to;
            next.locals[to] = locals_.receive(state.locals[to], message);
            if (!go(next, to, step(Step::Kind::receive, to, message))) return false;
        }
        if (!moved) {
            ++result_.final_states;
            if (!check_final(state)) return false;
        }
        if (state.crashes_left == 0) return true;
        for (std::uint32_t rank = 0; rank < ranks_; ++rank) {
            if (has(state.dead, rank) || !has(scenario_.may_crash, rank)) continue;
            State next = state;
            bury(next, rank);
            --next.crashes_left;
            if (next.dead == (1U << ranks_) - 1) continue;  // somebody survives
            if (!go(next, rank, step(Step::Kind::crash, rank, 0))) return false;
        }
        return true;
    }

    static Step step(Step::Kind kind, std::uint32_t rank, std::uint32_t detail) {
        return Step{kind, static_cast<std::uint8_t>(rank), detail};
    }

    // What a dead machine would have done tells states apart for nothing; what was sent to it is lost.
    void bury(State& state, std::uint32_t rank) {
        state.dead = static_cast<std::uint8_t>(state.dead | 1U << rank);
        state.locals[rank] = 0;
        std::uint16_t kept = 0;
        for (std::uint16_t i = 0; i < state.messages; ++i) {
            if (locals_.message(state.bag[i]).to != rank) state.bag[kept++] = state.bag[i];
        }
        state.messages = kept;
    }

    bool add_message(State& state, std::uint32_t message) {
        if (has(state.dead, locals_.message(message).to)) return true;
        if (state.messages == kMostMessages) return fail("more messages under way than can be");
        auto* const end = state.bag.data() + state.messages;
        auto* const place = std::lower_bound(state.bag.data(), end, message);
        std::copy_backward(place, end, end + 1);
        *place = message;
        ++state.messages;
        return true;
    }

    // Messages that can't change anything any more at `rank`, whose state is new.
    void remove_void_messages(State& state, std::uint32_t rank) {
        if (has(state.dead, rank)) return;
        std::uint16_t kept = 0;
        for (std::uint16_t i = 0; i < state.messages; ++i) {
            const std::uint32_t message = state.bag[i];
            if (locals_.message(message).to == rank && locals_.is_stale(state.locals[rank], message)) continue;
            state.bag[kept++] = message;
        }
        state.messages = kept;
    }

    bool check(const State& state) {
        std::array<std::uint16_t, kMostAgreements> agreed{};
        std::uint32_t settled = 0;
        std::uint32_t least_decided = UINT32_MAX;
        for (std::uint32_t rank = 0; rank < ranks_; ++rank) {
            if (has(state.dead, rank)) continue;
            const LocalFacts& facts = locals_.facts(state.locals[rank]);
            settled = std::max<std::uint32_t>(settled, facts.settled_below);
            least_decided = std::min<std::uint32_t>(least_decided, facts.decided_below);
            for (std::uint32_t agreement = 0; agreement < kMostAgreements; ++agreement) {
                const std::uint16_t outcome = facts.outcome[agreement];
                if (outcome == 0) continue;
                if (agreed[agreement] == 0) agreed[agreement] = outcome;
                if (agreed[agreement] != outcome) {
                    return fail("Agreement: rank " + std::to_string(rank) + " decided " +
                                locals_.describe_outcome(outcome) + ", another live rank decided " +
                                locals_.describe_outcome(agreed[agreement]));
                }
                const std::uint32_t failed = locals_.failed_of(outcome);
                if ((failed & ~std::uint32_t{state.dead}) != 0) return fail("a live rank is in an agreed failed set");
            }
        }
        for (std::uint32_t agreement = 0; agreement < kMostAgreements; ++agreement) {
            if (agreed[agreement] == 0 || !locals_.is_acknowledged(agreed[agreement])) continue;
            for (std::uint32_t rank = 0; rank < ranks_; ++rank) {
                if (has(state.dead, rank)) continue;
                const LocalFacts& facts = locals_.facts(state.locals[rank]);
                if ((locals_.failed_of(agreed[agreement]) & ~std::uint32_t{facts.acknowledged[agreement]}) != 0) {
                    return fail("rank " + std::to_string(rank) + " is told that it acknowledged what it did not");
                }
            }
        }
        if (settled > least_decided) return fail("a result was given up that a live rank has not returned from");
        return true;
    }

    // Nothing moves any more, all deaths are known.
    bool check_final(const State& state) {
        const std::uint32_t total = scenario_.agreements + (scenario_.flush ? 1 : 0);
        for (std::uint32_t rank = 0; rank < ranks_; ++rank) {
            if (has(state.dead, rank)) continue;
            const LocalFacts& facts = locals_.facts(state.locals[rank]);
            if (facts.decided_below == total) continue;
            return fail("Termination: rank " + std::to_string(rank) + " never decides agreement " +
                        std::to_string(facts.decided_below));
        }
        return true;
    }

    std::string describe(const Step& step) const {
        const std::string rank = std::to_string(step.rank);
        switch (step.kind) {
            case Step::Kind::start:
                return rank + " starts agreement " + std::to_string(step.detail);
            case Step::Kind::send:
                return "send     " + locals_.describe(step.detail);
            case Step::Kind::receive:
                return "receive  " + locals_.describe(step.detail);
            case Step::Kind::notice:
                return rank + " learns that " + std::to_string(step.detail) + " is dead";
            case Step::Kind::crash:
                return rank + " dies";
            case Step::Kind::leave:
                return rank + " leaves";
            case Step::Kind::none:
                break;
        }
        return "";
    }

    const AgreementScenario& scenario_;
    std::uint32_t ranks_;
    Locals locals_;
    Seen seen_;
    std::vector<Step> way_;
    AgreementExploration result_;
};

// How many states a search for a shortest way may hold: about 500 bytes each.
constexpr std::uint64_t kMostForShortest = 8'000'000;

}  // namespace

AgreementExploration explore(const AgreementScenario& scenario) {
    AgreementExploration result = Explorer(scenario).run();
    if (result.violation.empty()) return result;
    AgreementExploration shortest = Explorer(scenario).run_for_shortest(kMostForShortest);
    return shortest.violation.empty() ? result : shortest;
}

}  // namespace coppice::simulation
