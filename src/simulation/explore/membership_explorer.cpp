#include "simulation/explore/membership_explorer.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <set>
#include <string>
#include <vector>

#include "simulation/explore/membership_locals.hpp"

namespace coppice::simulation {
namespace {

using Standing = protocol::Membership::Standing;

constexpr std::uint32_t kMost = MembershipScenario::kMostProcesses;
constexpr std::uint32_t kMostViews = 4;
constexpr std::uint32_t kBag = 56;

bool has(std::uint32_t bits, std::uint32_t process) {
    return (bits >> process & 1) != 0;
}

// A state is a few numbers: of each process that of its own state, or of the last vote that it has left behind.
class World {
  public:
    World(const MembershipScenario& scenario, MembershipLocals& locals, std::set<std::string>* outcomes)
        : scenario_(&scenario),
          machines_(&locals),
          outcomes_(outcomes),
          processes_(scenario.ranks + scenario.joins + scenario.rejoins),
          crashes_left_(static_cast<std::uint8_t>(scenario.crashes)),
          cuts_left_(static_cast<std::uint8_t>(scenario.cuts)),
          leaves_left_(static_cast<std::uint8_t>(scenario.leaves)),
          farewells_left_(static_cast<std::uint8_t>(scenario.farewells)) {
        started_ = static_cast<std::uint8_t>((1U << (scenario.ranks + scenario.joins)) - 1);
        for (std::uint32_t process = 0; process < scenario.ranks; ++process)
            put(process, machines_->member(process));
        for (std::uint32_t join = 0; join < scenario.joins; ++join) {
            const std::uint32_t process = scenario.ranks + join;
            put(process, machines_->newcomer({.process = protocol::Process(process), .waits = scenario.newcomers_go}));
        }
        call_early();
    }

    void moves(std::vector<Move>& moves) const {
        for (std::uint32_t process = 0; process < processes_; ++process) {
            if (lives(process)) moves_of(process, moves);
        }
        for (std::size_t i = 0; i < pending_.size(); ++i) {
            const std::uint32_t from = machines_->from(pending_[i]);
            if (i == 0 || machines_->from(pending_[i - 1]) != from)
                moves.push_back({kSend, static_cast<std::uint8_t>(from), static_cast<std::uint16_t>(i)});
        }
        if (may_start_again()) moves.push_back({kStartAgain, 0, 0, false});
        if (cuts_left_ > 0) {
            // Process 0 is on the first side, and somebody on the other.
            for (std::uint32_t side = 1; side < (1U << processes_) - 1; side += 2)
                moves.push_back({kCut, 0, static_cast<std::uint16_t>(side), false});
        }
        for (std::uint16_t i = 0; i < messages_; ++i) {
            if (i > 0 && bag_[i] == bag_[i - 1]) continue;
            moves.push_back({kReceive, static_cast<std::uint8_t>(machines_->to(bag_[i])), i});
        }
    }

    void make(const Move& move) {
        const std::uint32_t process = move.rank;
        switch (move.kind) {
            case kCall:
                step(process, machines_->call(states_[process]));
                break;
            case kLeave:
                --leaves_left_;
                step(process, machines_->leave(states_[process]));
                break;
            case kFarewell:
                say_farewell(process);
                break;
            case kReceive: {
                const std::uint32_t message = bag_[move.detail];
                std::copy(bag_.begin() + move.detail + 1, bag_.begin() + messages_, bag_.begin() + move.detail);
                --messages_;
                step(process, machines_->receive(states_[process], message));
                break;
            }
            case kSend: {
                const std::uint32_t message = pending_[move.detail];
                pending_.erase(pending_.begin() + move.detail);
                post(message);
                break;
            }
            case kSuspect:
                step(process, machines_->notice(states_[process], move.detail));
                break;
            case kNotice:
                step(process, machines_->notice_death(states_[process], move.detail, states_[move.detail]));
                break;
            case kCut:
                --cuts_left_;
                side_ = static_cast<std::uint8_t>(move.detail);
                break;
            case kStartAgain:
                start_again();
                break;
            default:
                --crashes_left_;
                crashed_ = static_cast<std::uint8_t>(crashed_ | 1U << process);
                if (process < scenario_->ranks && first_dead_ == kNobody) first_dead_ = move.rank;
                std::erase_if(pending_, [&](std::uint32_t message) { return machines_->from(message) == process; });
                end(process);
                break;
        }
        call_early();
        remove_void_messages();
    }

    std::string describe(const Move& move) const {
        const std::string process = std::to_string(move.rank);
        const std::string detail = std::to_string(move.detail);
        switch (move.kind) {
            case kCall:
                return process + " wants the next view";
            case kLeave:
                return process + " wants to leave";
            case kFarewell:
                return process + " goes, and says that it never voted";
            case kSend:
                return process + " sends " + std::to_string(machines_->to(pending_[move.detail])) + ": " +
                       machines_->describe(pending_[move.detail]);
            case kReceive:
                return process + " receives from " + std::to_string(machines_->from(bag_[move.detail])) + ": " +
                       machines_->describe(bag_[move.detail]);
            case kSuspect:
                return process + " can't reach " + detail;
            case kNotice:
                return process + " learns for certain that " + detail + " is dead";
            case kCut: {
                std::string sides[2];
                for (std::uint32_t one = 0; one < processes_; ++one)
                    sides[has(move.detail, one) ? 0 : 1].append(" ").append(std::to_string(one));
                return std::string("a cut:").append(sides[0]).append(" |").append(sides[1]);
            }
            case kStartAgain:
                return std::to_string(first_dead_) + " is started again, as " + std::to_string(processes_ - 1);
            default:
                return process + " dies";
        }
    }

    std::string broken() const { return broken_; }
    std::string check() const { return ""; }

    std::string check_end() const {
        if (outcomes_ != nullptr) outcomes_->insert(outcome());
        for (std::uint32_t process = 0; process < processes_; ++process) {
            if (!lives(process)) continue;
            const MembershipFacts& facts = machines_->facts(states_[process]);
            const bool joins = facts.standing == Standing::joining;
            const std::string wrong = joins ? check_joiner(facts) : check_member(facts);
            if (!wrong.empty()) return "process " + std::to_string(process) + wrong;
        }
        return "";
    }

    std::uint64_t hash() const {
        std::uint64_t hash = hash_bytes(states_.data(), processes_ * sizeof states_[0], 11);
        const std::array<std::uint8_t, 10> rest{ended_,        crashed_,   started_,     side_,           first_dead_,
                                                crashes_left_, cuts_left_, leaves_left_, farewells_left_, taken_in_};
        hash = hash_bytes(rest.data(), sizeof rest, hash);
        hash = hash_bytes(told_.data(), sizeof told_, hash);
        hash = hash_bytes(views_.data(), sizeof views_, hash);
        hash = hash_bytes(pending_.data(), pending_.size() * sizeof(std::uint32_t), hash);
        return hash_bytes(bag_.data(), messages_ * sizeof bag_[0], hash);
    }

  private:
    enum Kind : std::uint8_t {
        kCall,
        kLeave,
        kFarewell,
        kSend,
        kReceive,
        kSuspect,
        kNotice,
        kCut,
        kStartAgain,
        kCrash
    };
    static constexpr std::uint8_t kNobody = 255;

    bool lives(std::uint32_t process) const { return has(started_, process) && !has(ended_, process); }
    bool never_speaks(std::uint32_t process) const { return scenario_->newcomers_go && process >= scenario_->ranks; }
    bool is_cut_off(std::uint32_t a, std::uint32_t b) const { return side_ != 0 && has(side_, a) != has(side_, b); }
    bool share_a_host(std::uint32_t a, std::uint32_t b) const {
        return scenario_->hosts == 0 || a % scenario_->hosts == b % scenario_->hosts;
    }
    bool may_start_again() const {
        return scenario_->rejoins > 0 && first_dead_ != kNobody && !has(started_, processes_ - 1);
    }
    bool wants_a_view(const MembershipFacts& facts) const {
        return facts.standing == Standing::member && facts.epoch < scenario_->views && !facts.called;
    }

    void moves_of(std::uint32_t process, std::vector<Move>& moves) const {
        const auto number = static_cast<std::uint8_t>(process);
        const MembershipFacts& facts = machines_->facts(states_[process]);
        if (crashes_left_ > 0) moves.push_back({kCrash, number, 0, false});
        if (never_speaks(process)) return;
        if (wants_a_view(facts)) moves.push_back({kCall, number});
        const bool may_leave = leaves_left_ > 0 && facts.standing == Standing::member && !facts.leaving;
        if (may_leave && facts.epoch < scenario_->views) moves.push_back({kLeave, number, 0, false});
        const bool may_go = farewells_left_ > 0 && facts.standing == Standing::member &&
                            (scenario_->false_farewells || machines_->has_voted_for_nothing(states_[process]));
        if (may_go) moves.push_back({kFarewell, number, 0, false});
        for (std::uint16_t other = 0; other < processes_; ++other) {
            const bool is_gone = has(ended_, other);
            // A member that takes another for dead closes the connection.
            const bool is_shut_out = lives(other) && has(machines_->facts(states_[other]).suspects, process);
            const bool is_cut = is_cut_off(process, other) || is_shut_out;
            if (other == process || (!is_gone && !is_cut) || has(facts.certain, other)) continue;
            const bool is_minded = has(facts.minds, other) || hears_from(process, other);
            if (!is_minded && !scenario_->all_notices) continue;
            // The witness of a death may be on either side of a cut.
            const bool is_suspected = has(facts.unreachable, other);
            // What a process says last is on its way before its end is seen, and is not heard from one that is suspected.
            const bool is_told = has(told_[other], process) && !is_suspected;
            const bool is_seen = !scenario_->unwitnessed && share_a_host(process, other);
            const bool may_be_certain = is_gone && (is_seen || is_told);
            const bool must_be_certain = may_be_certain && !is_cut;
            const bool is_seen_late = !is_seen || (scenario_->late_witness && is_gone);
            const bool first_suspected = is_cut || (is_seen_late && !is_told);
            if (!is_suspected && first_suspected) moves.push_back({kSuspect, number, other});
            const bool is_its_turn = is_cut || is_suspected || is_told || !scenario_->late_witness;
            if (may_be_certain && is_its_turn) moves.push_back({kNotice, number, other, must_be_certain});
        }
    }

    bool hears_from(std::uint32_t process, std::uint32_t from) const {
        return std::any_of(bag_.begin(), bag_.begin() + messages_, [this, process, from](std::uint32_t message) {
            return machines_->to(message) == process && machines_->from(message) == from;
        });
    }

    // One that wants its views as early as can be need not be asked when.
    void call_early() {
        if (!scenario_->called) return;
        for (std::uint32_t process = 1; process < processes_; ++process) {
            if (lives(process) && wants_a_view(machines_->facts(states_[process])))
                step(process, machines_->call(states_[process]));
        }
    }

    // In peace; nothing of what it may have voted is left.
    void say_farewell(std::uint32_t process) {
        --farewells_left_;
        for (std::uint32_t other = 0; other < processes_; ++other)
            if (lives(other) && other != process && !is_cut_off(process, other))
                told_[process] = static_cast<std::uint8_t>(told_[process] | 1U << other);
        end(process);
        states_[process] = machines_->no_vote();
    }

    void start_again() {
        const std::uint32_t process = processes_ - 1;
        started_ = static_cast<std::uint8_t>(started_ | 1U << process);
        put(process,
            machines_->newcomer(
                {.process = protocol::Process(process), .seat = first_dead_, .waits = scenario_->newcomers_go}));
    }

    void step(std::uint32_t process, const MembershipLocals::Step& step) {
        if (!step.wrong.empty()) broken_ = step.wrong;
        put(process, step);
    }

    void put(std::uint32_t process, const MembershipLocals::Step& step) {
        states_[process] = step.local;
        for (const std::uint32_t message : step.sent) {
            if (!scenario_->sends_apart) {
                post(message);
                continue;
            }
            const auto later = [this](std::uint32_t from, std::uint32_t of) { return from < machines_->from(of); };
            pending_.insert(std::upper_bound(pending_.begin(), pending_.end(), process, later), message);
        }
        look(process);
    }

    void post(std::uint32_t message) {
        const std::uint32_t to = machines_->to(message);
        if (is_cut_off(machines_->from(message), to) || never_speaks(to)) return;
        if (messages_ == kBag) {
            broken_ = "too many messages are under way";
            return;
        }
        auto* const end = bag_.data() + messages_;
        auto* const place = std::lower_bound(bag_.data(), end, message);
        std::copy_backward(place, end, end + 1);
        *place = message;
        ++messages_;
    }

    // What it has become.
    void look(std::uint32_t process) {
        const MembershipFacts& facts = machines_->facts(states_[process]);
        if (facts.standing == Standing::joining) return;
        if (facts.standing == Standing::excluded && side_ == 0)
            broken_ = "process " + std::to_string(process) + " is excluded, and nobody was cut off";
        if (facts.standing != Standing::member) return end(process);
        if (scenario_->newcomers_go)
            taken_in_ = static_cast<std::uint8_t>(taken_in_ | facts.members >> scenario_->ranks << scenario_->ranks);
        std::uint32_t& view = views_[facts.epoch];
        if (view != 0 && view != facts.view && scenario_->quorum != protocol::Quorum::any) {
            broken_ = "process " + std::to_string(process) + " has " + machines_->describe_view(facts.view) +
                      ", another had " + machines_->describe_view(view);
        }
        if (view == 0) view = facts.view;
    }

    // What is left of it is its last vote.
    void end(std::uint32_t process) {
        ended_ = static_cast<std::uint8_t>(ended_ | 1U << process);
        states_[process] = machines_->last_vote(states_[process]);
    }

    // To those that have gone, and from those whose connection is closed.
    void remove_void_messages() {
        std::uint32_t kept = 0;
        for (std::uint32_t i = 0; i < messages_; ++i) {
            const std::uint32_t to = machines_->to(bag_[i]);
            if (has(ended_, to)) continue;
            if (has(machines_->facts(states_[to]).unreachable, machines_->from(bag_[i]))) continue;
            bag_[kept++] = bag_[i];
        }
        messages_ = kept;
    }

    std::string check_member(const MembershipFacts& facts) const {
        if (facts.epoch >= scenario_->views) return check_leaver(facts);
        if (facts.lacks_quorum) return check_quorum(facts);
        return " waits for view " + std::to_string(facts.epoch + 1) + " for ever";
    }

    // It came too late for these views; then it counts for the next.
    std::string check_leaver(const MembershipFacts& facts) const {
        if (!facts.leaving) return "";
        const bool is_known = lives(facts.root) && has(machines_->facts(states_[facts.root]).leaves, facts.process);
        return is_known || side_ != 0 ? "" : " wants to leave, and the root does not know it";
    }

    // Whether it is right that it is told that there is no quorum.
    std::string check_quorum(const MembershipFacts& facts) const {
        const bool costs_votes = scenario_->unwitnessed || scenario_->quorum == protocol::Quorum::majority;
        if (side_ == 0 && !(costs_votes && crashed_ != 0) && scenario_->hosts == 0)
            return " lacks a quorum, and nobody was cut off";
        if (side_ == 0 && scenario_->hosts > 0 && !costs_votes) return check_quorum_of_witnesses(facts);
        if (crashed_ != 0 || facts.epoch != 0) return "";
        const std::uint32_t side = has(side_, facts.process) ? side_ : ~std::uint32_t{side_};
        const std::uint32_t members = facts.members;
        const int here = std::popcount(members & side);
        const int all = std::popcount(members);
        const bool has_lowest = (members & side & (~members + 1)) != 0;
        const bool is_enough = 2 * here > all || (2 * here == all && has_lowest);
        return is_enough && ended_ == 0 ? " is told of no quorum, on the side that has it" : "";
    }

    // What any member that lives knows for certain has to be known to the root.
    std::string check_quorum_of_witnesses(const MembershipFacts& facts) const {
        std::uint32_t certain = 0;
        for (std::uint32_t process = 0; process < processes_; ++process)
            if (lives(process) && machines_->facts(states_[process]).standing == Standing::member)
                certain |= machines_->facts(states_[process]).certain;
        const std::uint32_t living = facts.members & ~std::uint32_t{ended_};
        const std::uint32_t rest = facts.members & ~(certain & ended_);
        const int missing = std::popcount(rest) - 2 * std::popcount(living);
        const bool has_lowest = (living & rest & (~rest + 1)) != 0;
        const bool is_enough = missing < 0 || (missing == 0 && has_lowest);
        return is_enough ? " lacks a quorum, and enough deaths are certain to those that live" : "";
    }

    std::string check_joiner(const MembershipFacts& facts) const {
        if (scenario_->newcomers_go) return check_newcomer(facts.process);
        const std::uint32_t asked = facts.asked;
        if (!lives(asked)) return " waits for one that has gone";
        const MembershipFacts& door = machines_->facts(states_[asked]);
        if (door.standing != Standing::member || !has(door.waiting, facts.process))
            return " waits for process " + std::to_string(asked) + ", which does not know it";
        if (door.lacks_quorum) return "";
        const std::uint32_t root = door.root;
        if (!lives(root) || !has(machines_->facts(states_[root]).waiting, facts.process))
            return " waits, and the root does not know it";
        return "";
    }

    // It is in a view, or all that may make the next one know that it waits.
    std::string check_newcomer(std::uint32_t newcomer) const {
        for (std::uint32_t process = 0; process < scenario_->ranks && !has(taken_in_, newcomer); ++process) {
            if (!lives(process) || is_cut_off(process, newcomer)) continue;
            const MembershipFacts& facts = machines_->facts(states_[process]);
            if (facts.lacks_quorum) continue;
            if (!lives(facts.root) || !has(machines_->facts(states_[facts.root]).waiting, newcomer))
                return " waits, and the root does not know it";
        }
        return "";
    }

    std::string outcome() const {
        std::string text = "cut " + std::to_string(side_) + ", dead " + std::to_string(crashed_);
        for (std::uint32_t process = 0; process < processes_; ++process) {
            text.append(" | ").append(std::to_string(process));
            if (!lives(process)) continue;
            const MembershipFacts& facts = machines_->facts(states_[process]);
            text.append(" standing ").append(std::to_string(static_cast<int>(facts.standing)));
            if (facts.standing == Standing::member) text.append(" ").append(machines_->describe_view(facts.view));
            text.append(facts.lacks_quorum ? " lacks a quorum" : "").append(facts.leaving ? " leaves" : "");
        }
        return text;
    }

    const MembershipScenario* scenario_;
    MembershipLocals* machines_;
    std::set<std::string>* outcomes_;
    std::uint32_t processes_;
    std::array<std::uint32_t, kMost> states_{};      // of those that have gone: their last votes
    std::array<std::uint32_t, kMostViews> views_{};  // the first that anybody had, by epoch
    std::uint8_t ended_ = 0;                         // as bits: dead, left, excluded, refused
    std::uint8_t crashed_ = 0;                       // as bits
    std::uint8_t started_ = 0;                       // as bits
    std::uint8_t side_ = 0;                          // as bits: one side of the cut; 0 without one
    std::uint8_t first_dead_ = kNobody;              // of the members of the first view
    std::uint8_t crashes_left_;
    std::uint8_t cuts_left_;
    std::uint8_t leaves_left_;
    std::uint8_t farewells_left_;
    std::uint8_t taken_in_ = 0;               // as bits: newcomers that never speak, and are in a view
    std::array<std::uint8_t, kMost> told_{};  // as bits: to which the farewell of each is on its way
    std::uint32_t messages_ = 0;
    std::array<std::uint32_t, kBag> bag_{};  // ascending
    std::vector<std::uint32_t> pending_;     // with `sends_apart`: not sent yet, in their order, by sender
    std::string broken_;
};

}  // namespace

MembershipExploration explore(const MembershipScenario& scenario) {
    MembershipLocals locals(scenario);
    MembershipExploration result;
    std::set<std::string>* const outcomes = scenario.keep_outcomes ? &result.outcomes : nullptr;
    result.walk = Walk<World>(World(scenario, locals, outcomes), scenario.max_states).run();
    result.locals = locals.count();
    result.messages = locals.message_count();
    return result;
}

}  // namespace coppice::simulation
