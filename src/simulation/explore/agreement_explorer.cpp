#include "simulation/explore/agreement_explorer.hpp"

#include <algorithm>
#include <bit>
#include <deque>

#include "simulation/explore/agreement_locals.hpp"
#include "simulation/explore/seen.hpp"

namespace coppice::simulation {
namespace {

constexpr std::size_t kMostMessages = 88;
constexpr std::uint32_t kDeepest = 4000;  // far beyond what a group of this size can do
constexpr std::uint8_t kEverything = 0xff;

struct State {
    std::array<std::uint32_t, kMostExplored> locals{};
    std::uint8_t dead = 0;
    std::uint8_t suspected = 0;  // live or dead
    std::uint8_t crashes_left = 0;
    std::uint8_t suspicions_left = 0;
    std::uint16_t messages = 0;
    std::array<std::uint8_t, kMostExplored> pauses{};  // in the middle of a look at the board
    std::array<std::uint32_t, kMostExplored> pages{};  // of the board
    // How far each suspected rank had decided when the suspicion started: a rank that has decided and is taken for dead
    // later is like one that died then. Without a board a suspected rank may decide until it is told.
    std::array<std::uint8_t, kMostExplored> had_decided{};
    std::array<std::uint32_t, kMostMessages> bag{};  // ascending
};

struct Step {
    enum class Kind : std::uint8_t { none, start, send, receive, notice, crash, leave, look, pause, go_on, suspect };
    Kind kind = Kind::none;
    std::uint8_t rank = 0;
    std::uint32_t detail = 0;  // the message, or the dead
};

bool has(std::uint32_t bits, std::uint32_t rank) {
    return (bits >> rank & 1) != 0;
}

bool is_of_a_look(Step::Kind kind) {
    return kind == Step::Kind::look || kind == Step::Kind::pause || kind == Step::Kind::go_on;
}

// Which rank was missing, and whether the look is a thorough one.
std::uint8_t pause_of(std::uint32_t missing, bool thoroughly) {
    return static_cast<std::uint8_t>(1 + missing * 2 + (thoroughly ? 1 : 0));
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
            const Entry entry = open.front();
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
        state.suspicions_left = static_cast<std::uint8_t>(scenario_.suspicions);
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
        hash = mix(hash, std::uint64_t{state.suspicions_left} << 24 | std::uint64_t{state.suspected} << 16 |
                             std::uint64_t{state.dead} << 8 | state.crashes_left);
        if (scenario_.published) {
            hash = hash_bytes(state.pauses.data(), ranks_, hash);
            hash = hash_bytes(state.had_decided.data(), ranks_, hash);
            hash = hash_bytes(state.pages.data(), ranks_ * sizeof(std::uint32_t), hash);
        }
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
                return only_looks_since(hash) || fail("Termination: the ranks can go round in circles");
            case Seen::Found::is_new:
                break;
        }
        result_.depth = std::max(result_.depth, depth);
        if (depth > kDeepest) return fail("Termination: the ranks go on for ever");
        if (seen_.count() > scenario_.max_states) {
            result_.complete = false;
            return false;
        }
        if (!check(state)) return false;
        path_.push_back(hash);
        const bool fine = each_successor(state, [&](const State& next, const Step& step) {
            way_.push_back(step);
            if (!depth_first(next, depth + 1)) return false;
            way_.pop_back();
            return true;
        });
        path_.pop_back();
        seen_.leave(hash);
        return fine;
    }

    // A rank that looks and finds nothing is where it was. A look that decides or enters a recovery never leads back.
    bool only_looks_since(std::uint64_t hash) const {
        for (std::size_t i = path_.size(); i-- > 0;) {
            if (!is_of_a_look(way_[i].kind)) return false;
            if (path_[i] == hash) return true;
        }
        return false;
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
            if (!has(next.dead, rank)) {
                const LocalFacts& facts = locals_.facts(next.locals[rank]);
                next.pages[rank] = facts.page;
                if (facts.fenced && !has(next.suspected, rank)) {
                    way_.push_back(step);
                    return fail("rank " + std::to_string(rank) + " believes to be taken for dead");
                }
                if (facts.fenced) bury(next, rank);
            }
            remove_void_messages(next, rank);
            return visit(static_cast<const State&>(next), step);
        };
        for (std::uint32_t rank = 0; rank < ranks_; ++rank) {
            if (has(state.dead, rank)) continue;
            const LocalFacts facts = locals_.facts(state.locals[rank]);
            if (state.pauses[rank] != 0) {
                moved = true;
                if (!end_pause(state, rank, go)) return false;
                continue;
            }
            if (scenario_.published && !look_at_board(state, rank, moved, go)) return false;
            if (state.suspicions_left > 0 && !suspect(state, rank, go)) return false;
            if (facts.can_start) {
                moved = true;
                State next = state;
                next.locals[rank] = locals_.start(state.locals[rank]);
                if (!go(next, rank, step(Step::Kind::start, rank, facts.started))) return false;
            }
            if (facts.next && !send(state, rank, facts, moved, go)) return false;
            const std::uint32_t unknown = (state.dead | state.suspected) & ~(facts.known_dead | 1U << rank);
            for (std::uint32_t dead = unknown; dead != 0; dead = (dead - 1) & unknown) {
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
            if (state.pauses[to] != 0) continue;  // it is within another call
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
            if (nobody_survives(next)) continue;
            if (!go(next, rank, step(Step::Kind::crash, rank, 0))) return false;
        }
        return true;
    }

    template <class Go>
    bool send(const State& state, std::uint32_t rank, const LocalFacts& facts, bool& moved, Go& go) {
        moved = true;
        State next = state;
        next.locals[rank] = facts.after_pull;
        if (scenario_.published && !scenario_.suspects_silently && has(state.suspected, rank) &&
            !locals_.sends_when_shut_out(state.locals[rank])) {
            bury(next, rank);
            return go(next, rank, step(Step::Kind::look, rank, 0));
        }
        if (!add_message(next, *facts.next)) return false;
        if (has(facts.known_dead, locals_.message(*facts.next).to)) return fail("sent to a rank known to be dead");
        return go(next, rank, step(Step::Kind::send, rank, *facts.next));
    }

    bool nobody_survives(const State& state) const {
        return static_cast<std::uint32_t>(state.dead | state.suspected) == (1U << ranks_) - 1;
    }

    static BoardState board_of(const State& state) { return {.pages = state.pages, .shut_out = state.suspected}; }

    template <class Go>
    bool look_at_board(const State& state, std::uint32_t rank, bool& moved, Go& go) {
        LocalLook before;
        for (const bool thoroughly : {false, true}) {
            const LocalLook look = locals_.look(state.locals[rank], thoroughly, board_of(state));
            moved |= look.matters;
            const bool is_same = look.after == before.after && look.pauses == before.pauses;
            if (thoroughly && (is_same || (before.pauses && look.pauses))) continue;  // it does all that this one does
            before = look;
            State next = state;
            next.locals[rank] = look.after;
            if (look.pauses) {
                next.pauses[rank] = pause_of(look.missing, thoroughly);
                if (!go(next, rank, step(Step::Kind::pause, rank, look.missing))) return false;
            } else if (look.after != state.locals[rank]) {
                if (!go(next, rank, step(Step::Kind::look, rank, 0))) return false;
            }
        }
        return true;
    }

    template <class Go>
    bool end_pause(const State& state, std::uint32_t rank, Go& go) {
        const std::uint32_t pause = state.pauses[rank] - 1U;
        State next = state;
        next.pauses[rank] = 0;
        next.locals[rank] = locals_.look_after_pause(state.locals[rank], (pause & 1) != 0, pause >> 1, board_of(state));
        return go(next, rank, step(Step::Kind::go_on, rank, 0));
    }

    template <class Go>
    bool suspect(const State& state, std::uint32_t rank, Go& go) {
        for (std::uint32_t other = 0; other < ranks_; ++other) {
            if (other == rank || has(state.dead | state.suspected, other)) continue;
            State next = state;
            next.suspected = static_cast<std::uint8_t>(next.suspected | 1U << other);
            --next.suspicions_left;
            next.had_decided[other] =
                scenario_.published ? locals_.facts(state.locals[other]).decided_below : kEverything;
            if (nobody_survives(next)) continue;
            next.locals[rank] = locals_.notice(state.locals[rank], 1U << other);
            if (!go(next, rank, step(Step::Kind::suspect, rank, other))) return false;
        }
        return true;
    }

    static Step step(Step::Kind kind, std::uint32_t rank, std::uint32_t detail) {
        return Step{kind, static_cast<std::uint8_t>(rank), detail};
    }

    // What a dead machine would have done need not tell states apart; what was sent to it is lost.
    void bury(State& state, std::uint32_t rank) {
        state.dead = static_cast<std::uint8_t>(state.dead | 1U << rank);
        state.locals[rank] = 0;
        state.pauses[rank] = 0;
        state.had_decided[rank] = 0;
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
            if (!has(state.suspected, rank)) {
                settled = std::max<std::uint32_t>(settled, facts.settled_below);
                least_decided = std::min<std::uint32_t>(least_decided, facts.decided_below);
            }
            for (std::uint32_t agreement = 0; agreement < kMostAgreements; ++agreement) {
                const std::uint16_t outcome = facts.outcome[agreement];
                if (outcome == 0 || agreement < state.had_decided[rank]) continue;
                if (agreed[agreement] == 0) agreed[agreement] = outcome;
                if (agreed[agreement] != outcome) {
                    return fail("Agreement: rank " + std::to_string(rank) + " decided " +
                                locals_.describe_outcome(outcome) + ", another live rank decided " +
                                locals_.describe_outcome(agreed[agreement]));
                }
                const std::uint32_t failed = locals_.failed_of(outcome);
                if ((failed & ~std::uint32_t{state.dead} & ~std::uint32_t{state.suspected}) != 0)
                    return fail("a live rank is in an agreed failed set");
            }
        }
        for (std::uint32_t agreement = 0; agreement < kMostAgreements; ++agreement) {
            if (agreed[agreement] == 0 || !locals_.is_acknowledged(agreed[agreement])) continue;
            for (std::uint32_t rank = 0; rank < ranks_; ++rank) {
                if (has(state.dead | state.suspected, rank)) continue;
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
            if (has(state.dead | state.suspected, rank)) continue;
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
                return rank + " learns that " + ranks_of(step.detail) +
                       (std::has_single_bit(step.detail) ? " is dead" : " are dead");
            case Step::Kind::crash:
                return rank + " dies";
            case Step::Kind::leave:
                return rank + " leaves";
            case Step::Kind::look:
                return rank + " looks at the board";
            case Step::Kind::pause:
                return rank + " looks at the board; the contribution of " + std::to_string(step.detail) + " is missing";
            case Step::Kind::go_on:
                return rank + " has looked";
            case Step::Kind::suspect:
                return rank + " takes " + std::to_string(step.detail) + " for dead, which lives";
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
    std::vector<std::uint64_t> path_;  // the states on it
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
