#include "simulation/explore/departure_explorer.hpp"

#include <algorithm>
#include <optional>
#include <string>

#include "simulation/explore/departure_chain.hpp"

namespace coppice::simulation {
namespace {

using protocol::Departure;
using protocol::DepartureKind;
using protocol::DepartureMessage;
using protocol::DeparturePlan;
using Stage = protocol::Departure::Stage;

using leaving::Chain;
using leaving::has;
using leaving::kNobody;
using leaving::Message;

struct Member {
    Departure machine;
    Chain chain;
    std::uint32_t known_left = 0;
    bool has_answer = true;
    std::uint64_t asked = 0;  // so often; no part of the state, as time is none
    std::vector<std::uint32_t> unsent;

    void append_state(std::vector<std::uint32_t>& words) const {
        machine.append_state(words);
        words.insert(words.end(), unsent.begin(), unsent.end());
        words.insert(words.end(),
                     {kNobody, chain.known_dead, chain.heard_of, chain.said_up_to, chain.said_over_to,
                      (chain.is_ready ? 1U : 0U) | (chain.is_over ? 2U : 0U) | (has_answer ? 4U : 0U), known_left});
    }
};

class World {
  public:
    World(const DepartureScenario& scenario, const topology::Nodes& nodes)
        : scenario_(&scenario), nodes_(&nodes), crashes_left_(scenario.crashes) {
        DeparturePlan plan{.nodes = nodes_,
                           .ask_after = kSoon,
                           .ask_again = kSoon,
                           .answer_after = kMuchLater,
                           .farthest = scenario.farthest,
                           .faults = scenario.faults};
        for (std::uint32_t rank = 0; rank < nodes.ranks(); ++rank) {
            plan.unclaimed = has(scenario.unclaimed, rank);
            members_.emplace_back(Member{.machine = Departure(plan, Rank(rank)),
                                         .chain = {.self = rank, .ranks = nodes.ranks()},
                                         .has_answer = !has(scenario.asks, rank),
                                         .unsent = {}});
        }
        for (std::uint32_t rank = 0; rank < nodes.ranks(); ++rank) {
            if (!has(scenario.wanting, rank)) continue;
            members_[rank].change().machine.want();
            members_[rank].change().chain.is_ready = true;
            round(rank);
        }
    }

    void moves(std::vector<Move>& moves) const {
        for (std::uint32_t rank = 0; rank < members_.size(); ++rank) {
            if (!has(dead_, rank)) moves_of(rank, moves);
        }
        for (std::size_t i = 0; i < bag_.size(); ++i) {
            if (i > 0 && bag_[i] == bag_[i - 1]) continue;
            moves.push_back(
                {kReceive, static_cast<std::uint8_t>(Message::of(bag_[i]).to), static_cast<std::uint16_t>(i)});
        }
    }

    void make(const Move& move) {
        const std::uint32_t rank = move.rank;
        switch (move.kind) {
            case kClaim:
                claim(rank);
                break;
            case kReady:
                members_[rank].change().chain.is_ready = true;
                break;
            case kWant:
                members_[rank].change().machine.want();
                if (scenario_->all_leave) members_[rank].change().chain.is_ready = true;
                break;
            case kSend:
                send_first(rank);
                break;
            case kReceive:
                receive(move.detail);
                break;
            case kNotice:
                members_[rank].change().chain.known_dead |= 1U << move.detail;
                members_[rank].change().machine.peer_failed(Rank(move.detail));
                break;
            case kReadPage:
                learn_departure(rank, move.detail);
                break;
            case kAsk:
                ask(rank);
                break;
            case kForget:
                members_[rank].change().machine.wait_for(members_[rank]->chain.waits_for(), kMuchLater);
                break;
            case kFallSilent:
                silent_ |= 1U << rank;
                break;
            case kGetAnswer:
                members_[rank].change().has_answer = true;
                break;
            case kLeave:
                leave(rank);
                break;
            case kGoOn:
                go_on(rank);
                break;
            case kGiveUp:
                members_[rank].change().chain.is_ready = true;  // an unclaimed one needs nothing from here on
                members_[rank].change().machine.give_up(may_be_asked(rank));
                if (members_[rank]->machine.stage() == Stage::given_up) end_without_peace(rank);
                break;
            case kFence:
                --crashes_left_;
                members_[rank].change().machine.be_fenced();
                members_[rank].change().machine.leave(false);
                end_without_peace(rank);
                break;
            default:
                --crashes_left_;
                dead_ |= 1U << rank;
                break;
        }
        if (!has(dead_ | silent_, rank)) round(rank);
        remove_void_messages();
    }

    std::string describe(const Move& move) const {
        const std::string rank = std::to_string(move.rank);
        const std::string detail = std::to_string(move.detail);
        switch (move.kind) {
            case kClaim:
                return rank + "'s caller claims the group";
            case kReady:
                return rank + " has what it waits for";
            case kWant:
                return rank + " wants to leave";
            case kSend:
                return rank + "'s first message leaves";
            case kReceive:
                return rank + " receives " + describe_message(Message::of(bag_[move.detail]));
            case kNotice:
                return rank + " learns that " + detail + " has died";
            case kReadPage:
                return rank + " sees on its host that " + detail + " has left";
            case kAsk:
                return rank + " has waited, and asks";
            case kForget:
                return rank + " has had no answer for long";
            case kFallSilent:
                return rank + " falls silent";
            case kGetAnswer:
                return rank + " is told about the next group";
            case kLeave:
                return rank + " leaves";
            case kGoOn:
                return rank + " goes on leaving";
            case kGiveUp:
                return rank + " gives up";
            case kFence:
                return rank + " is taken for dead, and ends";
            default:
                return rank + " dies";
        }
    }

    std::string broken() const { return broken_; }
    std::string check() const { return ""; }

    std::string check_end() const {
        for (std::uint32_t rank = 0; rank < members_.size(); ++rank) {
            if (!is_here(rank) || has(silent_, rank)) continue;
            if (const std::string wrong = check_end_of(rank); !wrong.empty())
                return "rank " + std::to_string(rank) + wrong;
        }
        return "";
    }

    std::uint64_t hash() const {
        std::uint64_t hash = mix(std::uint64_t{left_} << 32 | dead_, std::uint64_t{silent_} << 32 | crashes_left_);
        for (std::uint32_t rank = 0; rank < members_.size(); ++rank) {
            // Of those that are gone only what others may ask of them is left.
            hash = mix(hash, is_here(rank) ? members_[rank].hash() : remains_of(*members_[rank]));
        }
        return hash_bytes(bag_.data(), bag_.size() * sizeof bag_[0], hash);
    }

  private:
    enum Kind : std::uint8_t {
        kClaim,
        kReady,
        kWant,
        kSend,
        kReceive,
        kNotice,
        kReadPage,
        kAsk,
        kForget,
        kFallSilent,
        kGetAnswer,
        kLeave,
        kGoOn,
        kGiveUp,
        kFence,
        kCrash
    };
    // Of the machine's clock: before anybody asks, when everybody does, and when no answer comes any more.
    static constexpr Nanoseconds kSoon{1};
    static constexpr Nanoseconds kLater{1'000};
    static constexpr Nanoseconds kMuchLater{1'000'000};

    static std::string describe_message(const Message& message) {
        static constexpr const char* kNames[] = {"the farewell", "the question", "the answer", "that nothing is needed",
                                                 "that all is over"};
        std::string text = std::string(kNames[message.kind]) + " of " + std::to_string(message.from);
        if (message.kind == Message::answer)
            text +=
                ": rank " + std::to_string(message.about) + (message.said_so ? " does not leave" : " is waited for");
        return text;
    }

    static std::uint64_t remains_of(const Member& member) {
        return std::uint64_t{member.chain.known_dead} << 1 | (member.has_answer ? 1U : 0U);
    }

    bool is_here(std::uint32_t rank) const { return !has(dead_ | left_, rank); }

    void moves_of(std::uint32_t rank, std::vector<Move>& moves) const {
        const auto number = static_cast<std::uint8_t>(rank);
        if (crashes_left_ > 0) moves.push_back({kCrash, number, 0, false});
        if (has(left_ | silent_, rank)) return;
        if (has(scenario_->silent, rank)) moves.push_back({kFallSilent, number, 0, false});
        const Member& member = *members_[rank];
        const Stage stage = member.machine.stage();
        const bool leaves = stage == Stage::leaving || stage == Stage::deserting;
        const bool is_claimed = stage != Stage::unclaimed;
        if (!is_claimed) moves.push_back({kClaim, number, 0, false});
        if (!scenario_->all_leave && is_claimed && !member.chain.is_ready) moves.push_back({kReady, number, 0, false});
        const bool may_want = scenario_->all_leave || member.chain.is_ready;
        if (may_want && stage == Stage::staying) moves.push_back({kWant, number, 0, false});
        if (!member.unsent.empty()) moves.push_back({kSend, number});
        if (!member.has_answer && somebody_answers(rank)) moves.push_back({kGetAnswer, number});
        if (stage == Stage::leaving && may_leave(member)) moves.push_back({kLeave, number});
        if (leaves && !may_leave(member) && asking_helps(rank)) moves.push_back({kAsk, number});
        if (leaves && has_lost_its_source(rank)) moves.push_back({kForget, number});
        if (goes_on(rank)) moves.push_back({kGoOn, number});
        const bool may_give_up = stage == Stage::leaving || !is_claimed;
        if (may_give_up && has(scenario_->patience, rank)) moves.push_back({kGiveUp, number, 0, false});
        if (crashes_left_ > 0 && scenario_->fences) moves.push_back({kFence, number, 0, false});
        for (std::uint16_t other = 0; other < members_.size(); ++other) {
            if (has(dead_, other) && !has(member.chain.known_dead, other)) moves.push_back({kNotice, number, other});
            if (other != rank && has(left_, other) && !has(member.known_left, other) && share_host(rank, other))
                moves.push_back({kReadPage, number, other});
        }
    }

    bool share_host(std::uint32_t a, std::uint32_t b) const {
        return nodes_->node_of(Rank(a)) == nodes_->node_of(Rank(b));
    }

    bool may_leave(const Member& member) const {
        const bool is_over = member.has_answer && (member.chain.is_over || member.machine.is_settled());
        return member.machine.may_leave(is_over, member.unsent.empty());
    }

    // Somebody lives who has not been told about the next group, and has this group still.
    bool may_be_asked(std::uint32_t rank) const {
        for (std::uint32_t other = 0; other < members_.size(); ++other)
            if (other != rank && is_here(other) && !members_[other]->has_answer) return true;
        return false;
    }

    bool somebody_answers(std::uint32_t rank) const {
        for (std::uint32_t other = 0; other < members_.size(); ++other)
            if (is_here(other) && !has(silent_, other) && members_[other]->has_answer &&
                !has(members_[rank]->known_left, other))
                return true;
        return false;
    }

    bool goes_on(std::uint32_t rank) const {
        const Member& member = *members_[rank];
        const bool asked = may_be_asked(rank);
        if (member.machine.stage() == Stage::lingering) return !asked;
        return member.machine.stage() == Stage::deserting && (!asked || may_leave(member));
    }

    // One question of a rank is under way at a time, and none that would be answered with what it knows.
    bool asking_helps(std::uint32_t rank) const {
        const Member& member = *members_[rank];
        const auto whom = member.chain.waits_for();
        if (!whom || has(dead_ | silent_, whom->value) || has(member.known_left, whom->value)) return false;
        const auto is_of_it = [rank, &whom](std::uint32_t code) {
            const Message message = Message::of(code);
            if (message.kind == Message::ask) return message.from == rank;
            if (message.kind == Message::farewell) return message.to == rank && message.from == whom->value;
            return message.kind == Message::answer && message.to == rank;
        };
        if (std::ranges::any_of(bag_, is_of_it)) return false;
        for (const Shared<Member>& other : members_)
            if (std::ranges::any_of(other->unsent, is_of_it)) return false;
        Departure asked = members_[whom->value]->machine;
        asked.receive({.kind = DepartureKind::ask, .from = Rank(rank), .to = *whom, .about = {}}, Nanoseconds(0));
        const auto reply = asked.next_send();
        if (!reply) return false;
        Departure asker = member.machine;
        asker.receive(*reply, Nanoseconds(0));
        if (asker.holder() != member.machine.holder()) return true;
        return asker.departed().size() != member.machine.departed().size();
    }

    void ask(std::uint32_t rank) {
        Member& member = members_[rank].change();
        member.machine.wait_for(member.chain.waits_for(), Nanoseconds(kLater.value * ++member.asked));
    }

    // It knows a name that nobody will tell it again.
    bool has_lost_its_source(std::uint32_t rank) const {
        const auto whom = members_[rank]->chain.waits_for();
        if (!whom || !has(silent_, whom->value) || !members_[rank]->machine.holder()) return false;
        return (scenario_->faults & protocol::kNamesOfHoldersStay) == 0 &&
               std::ranges::none_of(bag_, [rank](std::uint32_t code) {
                   return Message::of(code).kind == Message::answer && Message::of(code).to == rank;
               });
    }

    void put(std::uint32_t code) { bag_.insert(std::ranges::lower_bound(bag_, code), code); }

    // As an engine does it after every event.
    void round(std::uint32_t rank) {
        Member& member = members_[rank].change();
        if (!has(left_, rank)) {
            member.machine.wait_for(member.chain.waits_for(), Nanoseconds(0));
            while (const auto message = member.chain.next_send())
                send(member, message->code());
        }
        while (const auto message = member.machine.next_send()) {
            send(member, Message{.from = rank,
                                 .to = message->to.value,
                                 .kind = static_cast<Message::Kind>(message->kind),
                                 .about = message->about.value,
                                 .said_so = message->said_so}
                             .code());
        }
    }

    // A rank that has left waits until its farewells have gone.
    void send(Member& member, std::uint32_t code) {
        if (scenario_->slow && !has(left_ | dead_, member.chain.self)) {
            member.unsent.push_back(code);
        } else {
            put(code);
        }
    }

    // Whatever has happened since the group was made.
    void claim(std::uint32_t rank) {
        members_[rank].change().machine.claim();
        if (members_[rank]->machine.stage() != Stage::staying)
            broken_ = "rank " + std::to_string(rank) + " has claimed the group, and does not have it";
    }

    void send_first(std::uint32_t rank) {
        Member& member = members_[rank].change();
        put(member.unsent.front());
        member.unsent.erase(member.unsent.begin());
    }

    void receive(std::size_t at) {
        const Message message = Message::of(bag_[at]);
        bag_.erase(bag_.begin() + static_cast<std::ptrdiff_t>(at));
        Member& member = members_[message.to].change();
        if (message.kind == Message::farewell) return learn_departure(message.to, message.from);
        if (message.kind == Message::up || message.kind == Message::over) {
            if (has(left_, message.to)) return member.machine.heard(Rank(message.from));
            if (message.kind == Message::up) member.chain.heard_of |= 1U << message.from;
            if (message.kind == Message::over) member.chain.is_over = true;
            return;
        }
        const bool is_possible = member.machine.receive({.kind = static_cast<DepartureKind>(message.kind),
                                                         .from = Rank(message.from),
                                                         .to = Rank(message.to),
                                                         .about = Rank(message.about),
                                                         .said_so = message.said_so},
                                                        Nanoseconds(0));
        if (!is_possible) broken_ = "refused a message that can occur";
    }

    void learn_departure(std::uint32_t rank, std::uint32_t other) {
        Member& member = members_[rank].change();
        member.known_left |= 1U << other;
        member.machine.peer_left(Rank(other));
    }

    void leave(std::uint32_t rank) {
        Member& member = members_[rank].change();
        member.machine.leave(may_be_asked(rank));
        if (member.machine.stage() == Stage::left) depart(rank);
    }

    void go_on(std::uint32_t rank) {
        Member& member = members_[rank].change();
        member.machine.go_on(may_be_asked(rank), may_leave(member));
        if (member.machine.stage() == Stage::left) depart(rank);
        if (member.machine.stage() == Stage::given_up) end_without_peace(rank);
    }

    void depart(std::uint32_t rank) {
        for (std::uint32_t other = 0; other < members_.size(); ++other) {
            if (other == rank || !is_here(other) || members_[other]->chain.is_ready) continue;
            broken_ = "rank " + std::to_string(rank) + " leaves while rank " + std::to_string(other) + " needs it";
        }
        left_ |= 1U << rank;
        members_[rank].change().unsent.clear();
    }

    // It counts as dead from here on.
    void end_without_peace(std::uint32_t rank) {
        dead_ |= 1U << rank;
        members_[rank].change().unsent.clear();
        round(rank);
    }

    void remove_void_messages() {
        std::erase_if(bag_, [this](std::uint32_t code) {
            const Message message = Message::of(code);
            return has(dead_ | silent_, message.to) || has(members_[message.to]->chain.known_dead, message.from);
        });
    }

    bool holds_up(std::uint32_t rank) const {
        return is_here(rank) && (has(silent_, rank) || !members_[rank]->chain.is_ready);
    }

    std::string check_end_of(std::uint32_t rank) const {
        const Member& member = *members_[rank];
        if (!member.has_answer) {
            for (std::uint32_t other = 0; other < members_.size(); ++other) {
                if (!has(dead_ | silent_, other) && members_[other]->has_answer)
                    return " is never told about the next group, which rank " + std::to_string(other) + " knew";
            }
            return "";
        }
        const Stage stage = member.machine.stage();
        if (stage != Stage::leaving && stage != Stage::deserting) return "";
        bool held_up = false;
        for (std::uint32_t other = 0; other < members_.size(); ++other)
            held_up |= holds_up(other) || (is_here(other) && !members_[other]->has_answer);
        if (!held_up) return " wants to leave and waits for ever";
        return scenario_->all_leave ? check_name(member) : "";
    }

    std::string check_name(const Member& member) const {
        const auto told = member.machine.holder();
        const auto waits_for = member.chain.waits_for();
        if (!told && !waits_for) return " is held up, and knows no name";
        const std::uint32_t name = told ? told->rank.value : waits_for->value;
        if (holds_up(name)) return "";
        return " is told that rank " + std::to_string(name) + " holds it up, which does not";
    }

    const DepartureScenario* scenario_;
    const topology::Nodes* nodes_;
    std::vector<Shared<Member>> members_;
    std::vector<std::uint32_t> bag_;  // ascending
    std::uint32_t dead_ = 0;          // as bits, those that count as dead too
    std::uint32_t left_ = 0;          // in peace
    std::uint32_t silent_ = 0;        // alive, and doing nothing
    std::uint32_t crashes_left_;
    std::string broken_;
};

}  // namespace

WalkResult explore(const DepartureScenario& scenario) {
    const std::vector<std::uint64_t> keys(scenario.node_of.begin(), scenario.node_of.end());
    const topology::Nodes nodes = topology::Nodes::by_host(keys);
    return Walk<World>(World(scenario, nodes), scenario.max_states).run();
}

}  // namespace coppice::simulation
