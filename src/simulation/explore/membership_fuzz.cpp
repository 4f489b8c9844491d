#include "simulation/explore/membership_fuzz.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <vector>

#include "protocol/membership/membership.hpp"
#include "simulation/explore/membership_options.hpp"
#include "simulation/random.hpp"
#include "topology/nodes.hpp"

namespace coppice::simulation {
namespace {

using protocol::Bounds;
using protocol::JoinRequest;
using protocol::LastVote;
using protocol::Membership;
using protocol::MembershipMessage;
using protocol::Offer;
using protocol::Process;
using protocol::Quorum;
using protocol::Terms;
using protocol::View;
using Standing = Membership::Standing;

constexpr std::uint64_t kMostEvents = 200'000;
constexpr std::uint32_t kNotCalled = UINT32_MAX;
// What callers ask for has random numbers of its own: a schedule without it is the same with and without this part.
constexpr std::uint64_t kOptionsSeed = 0x6f7074696f6e73;

struct Drawn {
    std::uint32_t ranks = 3;
    std::uint32_t views = 1;
    std::uint32_t joins = 0;
    std::uint32_t leaves = 0;
    std::uint32_t crashes = 0;
    bool cuts = false;
    bool late_witness = false;
    // Processes are on so many hosts, and only those on its own ever know for certain that one is dead; 0: all do.
    std::uint32_t hosts = 0;
    bool sees_across_cuts = false;  // whoever sees deaths does so beyond a cut, too
    std::uint32_t patience = 1;     // how much rarer a notice is than another event
    Quorum quorum = Quorum::certain;
};

class Run {
  public:
    Run(std::uint64_t seed, const MembershipFuzzRange& range, const std::function<void(const std::string&)>& tell)
        : random_(seed), options_(seed + kOptionsSeed), tell_(tell) {
        drawn_.ranks = range.fewest_ranks + random_.below(range.most_ranks - range.fewest_ranks + 1);
        drawn_.views = 1 + random_.below(4);
        drawn_.joins = random_.below(4);
        drawn_.leaves = random_.below(3);
        drawn_.crashes = random_.below(std::min(drawn_.ranks, 8U));
        drawn_.cuts = random_.one_in(4);
        drawn_.late_witness = random_.one_in(3);
        drawn_.patience = 1 + random_.below(6);
        if (random_.one_in(4)) drawn_.quorum = Quorum::majority;
        if (random_.one_in(8)) drawn_.quorum = Quorum::any;
        plan_ = {.first = View(drawn_.ranks),
                 .radix_bits = 1 + random_.below(4),
                 .quorum = drawn_.quorum,
                 .reports = random_.one_in(3),
                 .consents = random_.one_in(2),
                 .faults = range.faults};
        differing_ = plan_.consents && random_.one_in(4);
        plan_.introduces = plan_.consents && random_.one_in(2);
        plan_.newcomers_go = plan_.introduces;
        // With `any` the views of the two sides are not of one line, and what the dead of the other one have voted says nothing.
        drawn_.sees_across_cuts = random_.one_in(2) && drawn_.quorum != Quorum::any;
        if (random_.one_in(3)) drawn_.hosts = 1 + random_.below(std::min(drawn_.ranks, 8U));
        if (drawn_.hosts > 0 && random_.one_in(2)) place();
        const auto add = [this](std::uint64_t number, const char* what) {
            outcome_.scenario.append(std::to_string(number)).append(what);
        };
        add(drawn_.ranks, " ranks, radix ");
        add(std::uint64_t{1} << plan_.radix_bits, ", ");
        add(drawn_.views, " views, ");
        add(drawn_.joins, " joins, ");
        add(drawn_.leaves, " leaves, ");
        add(drawn_.crashes, drawn_.cuts ? " crashes, a cut" : " crashes");
        if (drawn_.quorum != Quorum::certain)
            outcome_.scenario += drawn_.quorum == Quorum::any ? ", quorum any" : ", quorum majority";
        if (drawn_.hosts > 0) outcome_.scenario += ", ";
        if (drawn_.hosts > 0) add(drawn_.hosts, plan_.hosts ? " hosts, in a tree of two levels" : " hosts");
        if (plan_.consents) outcome_.scenario += plan_.introduces ? ", consents, newcomers introduced" : ", consents";
        has_options_ = plan_.consents && options_.one_in(2);
        if (has_options_) asks_.draw(options_, drawn_.ranks, outcome_.scenario);
    }

    MembershipFuzzOutcome run() {
        for (std::uint32_t process = 0; process < drawn_.ranks; ++process)
            members_.push_back({.machine = Membership(plan_, Process(process)), .known = {}});
        while (outcome_.violation.empty() && one_event()) {
            if (++outcome_.events == kMostEvents) fail("there is no end to it");
        }
        if (outcome_.violation.empty()) check_end();
        for (const Member& member : members_)
            outcome_.joined += &member >= &members_[drawn_.ranks] && member.was_in ? 1U : 0U;
        return outcome_;
    }

  private:
    bool share_a_host(std::uint32_t a, std::uint32_t b) const {
        return drawn_.hosts == 0 || a % drawn_.hosts == b % drawn_.hosts;
    }

    void place() {
        std::vector<std::uint64_t> keys;
        for (std::uint32_t process = 0; process < drawn_.ranks; ++process)
            keys.push_back(process % drawn_.hosts);
        nodes_ = topology::Nodes::by_host(keys);
        plan_.hosts = &*nodes_;
    }

    struct Known {
        std::uint32_t process;
        bool certainly;
        bool operator==(const Known&) const = default;
    };
    struct Member {
        Membership machine;
        std::vector<Known> known;
        bool is_gone = false;  // dead, left, excluded or refused
        bool has_died = false;
        bool was_in = false;
        std::uint32_t told = 0;                // the epoch of the view that was told last
        std::vector<std::uint32_t> knew{};     // to be gone when it called last
        std::uint32_t called_at = kNotCalled;  // the epoch
        Terms terms{};                         // of its call then
        std::optional<Bounds> bounds{};        // none: the others'
    };
    // Something that may happen now, by chance; false when nothing is left that has to.
    bool one_event() {
        if (has_options_ && options_.one_in(256) && wait_for_nobody(options_.below(count()))) return true;
        const std::uint32_t dice = random_.below(64);
        if (dice == 0 && drawn_.crashes > 0) return crash(random_.below(count()));
        if (dice == 1 && drawn_.joins > 0) return join();
        if (dice == 2 && drawn_.leaves > 0) return leave(random_.below(count()));
        if (dice == 3 && drawn_.cuts && side_.empty()) return cut();
        if (dice < 12 && call(random_.below(count()))) return true;
        if (dice % drawn_.patience == 0 && notice(random_.below(count()))) return true;
        if (!wire_.empty()) return receive(random_.below(static_cast<std::uint32_t>(wire_.size())));
        return anybody([this](std::uint32_t process) { return call(process); }) ||
               anybody([this](std::uint32_t process) { return notice(process); }) ||
               anybody([this](std::uint32_t process) { return wait_for_nobody(process); });
    }

    template <class Happen>
    bool anybody(Happen&& happen) {
        const std::uint32_t first = random_.below(count());
        for (std::uint32_t i = 0; i < count(); ++i)
            if (happen((first + i) % count())) return true;
        return false;
    }

    std::uint32_t offer_of(std::uint32_t process) const { return differing_ ? ~(1U << process % 32) : UINT32_MAX; }
    std::uint32_t count() const { return static_cast<std::uint32_t>(members_.size()); }
    bool is_cut_off(std::uint32_t a, std::uint32_t b) const {
        return a < side_.size() && b < side_.size() && side_[a] != side_[b];
    }

    bool crash(std::uint32_t process) {
        if (members_[process].is_gone || living() < 2) return true;
        --drawn_.crashes;
        ++outcome_.deaths;
        say(process, "dies");
        members_[process].is_gone = members_[process].has_died = true;
        if (process < drawn_.ranks && !first_dead_) first_dead_ = process;
        return true;
    }

    std::uint32_t living() const {
        return static_cast<std::uint32_t>(
            std::ranges::count_if(members_, [](const Member& one) { return !one.is_gone; }));
    }

    bool join() {
        --drawn_.joins;
        JoinRequest request{.process = Process(count())};
        if (first_dead_ && random_.one_in(2)) request.seat = *first_dead_;
        members_.push_back({.machine = Membership(plan_, request), .known = {}});
        if (!side_.empty()) side_.push_back(random_.one_in(2));
        say(count() - 1, "wants to join");
        after(count() - 1);
        return true;
    }

    bool leave(std::uint32_t process) {
        Member& member = members_[process];
        if (member.is_gone || member.machine.standing() != Standing::member || member.machine.is_leaving()) return true;
        if (member.machine.epoch() >= drawn_.views) return true;
        --drawn_.leaves;
        say(process, "wants to leave");
        member.machine.leave();
        after(process);
        if (has_options_ && options_.one_in(2)) call(process);  // before the others, often
        return true;
    }

    bool cut() {
        const std::uint32_t in = 1 + random_.below(4);
        for (std::uint32_t process = 0; process < count(); ++process)
            side_.push_back(random_.below(5) < in);
        say(0, "a cut");
        return true;
    }

    bool call(std::uint32_t process) {
        Member& member = members_[process];
        if (member.is_gone || member.machine.standing() != Standing::member || member.machine.is_renewing())
            return false;
        if (member.machine.epoch() >= drawn_.views) return false;
        say(process, "wants the next view");
        member.knew.clear();
        for (const Known& known : member.known) {
            // A newcomer that dies while it is taken in may be a dead member of the view.
            if (!plan_.introduces || member.machine.view().rank_of(Process(known.process)))
                member.knew.push_back(known.process);
        }
        member.called_at = member.machine.epoch();
        if (has_options_) ask(member);
        member.machine.renew({.bits = offer_of(process), .terms = member.terms}, member.bounds);
        after(process);
        return true;
    }

    void ask(Member& member) {
        asks_.draw_call(options_, member.machine.is_leaving(), member.terms, member.bounds);
        AskedOptions& asked = asked_[member.called_at];
        asked.all &= member.terms;
        if (member.bounds) asked.bounds[member.machine.self().value] = *member.bounds;
    }

    // The caller has lost its patience, and calls again.
    bool wait_for_nobody(std::uint32_t process) {
        Member& member = members_[process];
        if (member.is_gone || !member.machine.is_renewing() || member.bounds == Bounds()) return false;
        say(process, "waits for nobody any more");
        member.bounds = Bounds();
        asked_[member.called_at].bounds[process] = Bounds();
        member.machine.ask_for(Bounds());
        after(process);
        return true;
    }

    bool notice(std::uint32_t process) {
        Member& member = members_[process];
        if (member.is_gone) return false;
        const std::uint32_t first = random_.below(count());
        for (std::uint32_t i = 0; i < count(); ++i) {
            const std::uint32_t other = (first + i) % count();
            if (other != process && learn(process, other)) return true;
        }
        return false;
    }

    bool learn(std::uint32_t process, std::uint32_t other) {
        Member& member = members_[process];
        const bool is_gone = members_[other].is_gone;
        // A member that takes another for dead closes the connection.
        const bool is_cut = is_cut_off(process, other) || members_[other].machine.suspects(Process(process));
        if (!is_gone && !is_cut) return false;
        const bool hears = std::ranges::any_of(wire_, [process, other](const MembershipMessage& message) {
            return message.to.value == process && message.from.value == other;
        });
        if (!member.machine.minds(Process(other)) && !hears) return false;
        const auto known = std::ranges::find(member.known, other, &Known::process);
        const bool is_known = known != member.known.end();
        const bool may_be_certain = is_gone && share_a_host(process, other) && (!is_cut || drawn_.sees_across_cuts);
        if (is_known && (known->certainly || !may_be_certain)) return false;
        const bool certainly = may_be_certain && (is_known || !drawn_.late_witness);
        if (is_known) {
            known->certainly = true;
        } else {
            member.known.push_back({other, certainly});
        }
        say(process, certainly ? "learns for certain that one is dead:" : "can't reach", other);
        tell_machine(member, other, certainly);
        after(process);
        return true;
    }

    // As in the engine: the view makes a group of its own, and newcomers never are members of this one.
    void leave_newcomers_out(Member& member) {
        const protocol::Change made = member.machine.made_by();
        const LastVote none{.epoch = member.machine.epoch(), .made = made, .followed = 0, .latest = {}, .consent = {}};
        for (const protocol::Occupant& one : made.joined) {
            Member& newcomer = members_[one.process.value];
            newcomer.is_gone = newcomer.was_in = true;
            member.machine.peer_failed(one.process, &none);
        }
    }

    void tell_machine(Member& member, std::uint32_t other, bool certainly) {
        const LastVote vote = members_[other].machine.last_vote();
        member.machine.peer_failed(Process(other), certainly ? &vote : nullptr);
    }

    bool receive(std::uint32_t at) {
        const MembershipMessage message = std::move(wire_[at]);
        if (at + 1 != wire_.size()) wire_[at] = std::move(wire_.back());
        wire_.pop_back();
        const std::uint32_t to = message.to.value;
        Member& member = members_[to];
        const bool is_closed =
            std::ranges::find(member.known, message.from.value, &Known::process) != member.known.end();
        if (member.is_gone || is_closed) return true;
        if (tell_) say(to, std::string(to_string(message.kind)) + " from", message.from.value);
        if (!member.machine.receive(message) && plan_.faults == 0) fail("a message that can occur was refused");
        after(to);
        return true;
    }

    // What a driver does after each event, and what is checked then.
    void after(std::uint32_t process) {
        Member& member = members_[process];
        std::optional<std::uint32_t> told;
        while (member.machine.standing() == Standing::member && told != member.machine.epoch()) {
            told = member.machine.epoch();
            check_view(process);
            if (plan_.introduces) leave_newcomers_out(member);
            for (const Known& known : std::vector(member.known)) {
                if (member.machine.view().rank_of(Process(known.process)))
                    tell_machine(member, known.process, known.certainly);
            }
        }
        while (auto message = member.machine.next_send()) {
            ++outcome_.messages;
            const std::uint32_t to = message->to.value;
            if (!members_[to].is_gone && !is_cut_off(process, to)) wire_.push_back(std::move(*message));
        }
        const Standing standing = member.machine.standing();
        if (standing == Standing::excluded && side_.empty())
            fail(std::to_string(process) + " is excluded, and nobody was cut off");
        if (standing != Standing::member && standing != Standing::joining) member.is_gone = true;
    }

    void check_view(std::uint32_t process) {
        Member& member = members_[process];
        const View& view = member.machine.view();
        check_options(process);
        check_promises_of_consent(process);
        if (!view.rank_of(Process(process))) fail(std::to_string(process) + " is in a view of which it is no member");
        const auto [first, is_new] = views_.try_emplace(view.epoch(), view);
        if (first->second != view && drawn_.quorum != Quorum::any)
            fail(std::to_string(process) + " has another view " + std::to_string(view.epoch()) + " than others");
        if (!member.was_in || is_new) ++outcome_.installed;
        member.was_in = true;
        if (tell_ && view.epoch() > 0 && member.told != view.epoch()) tell_view(process, view);
        member.told = view.epoch();
    }

    void tell_view(std::uint32_t process, const View& view) {
        std::string members = "has view " + std::to_string(view.epoch()) + ":";
        for (std::uint32_t rank = 0; rank < view.count(); ++rank)
            members.append(" ").append(std::to_string(view.process_of(rank).value));
        say(process, members);
    }

    // Also where there is a cut, and with `any`. But a member that learns across a cut which view the other side has made may have asked for something else:
    // that side may have to carry on with what it can't rule out.
    void check_options(std::uint32_t process) {
        const Member& member = members_[process];
        const View& view = member.machine.view();
        const std::string who = std::to_string(process);
        if (!has_options_ || member.called_at == kNotCalled || view.epoch() != member.called_at + 1) return;
        const AskedOptions& asked = asked_[member.called_at];
        if (view.offer().is_at_odds()) {
            if (!asked.all.is_at_odds()) fail(who + " is told of different options, and nobody has given any");
            if (!member.machine.made_by().joined.empty()) fail(who + " has newcomers, and callers were at odds");
            return;
        }
        const bool is_of_its_side = side_.empty() || !drawn_.sees_across_cuts;
        Terms common = view.offer().terms;
        common &= member.terms;
        if (is_of_its_side && common.is_at_odds()) fail(who + " is in a view for which it has asked otherwise");
        const bool is_known = side_.empty() && !drawn_.late_witness && drawn_.hosts == 0;
        if (!is_known) return;
        const auto is_out = [&](std::uint32_t other) {
            return members_[other].has_died && !view.rank_of(Process(other));
        };
        const std::string objection = asked.objection(view, !member.machine.made_by().joined.empty(), is_out);
        if (!objection.empty()) fail(who + objection);
    }

    // A member that has called is in no view with one that it knew to be gone, nor with more than it has offered.
    void check_promises_of_consent(std::uint32_t process) {
        Member& member = members_[process];
        const View& view = member.machine.view();
        if (!plan_.consents || member.called_at == kNotCalled || view.epoch() == member.called_at) return;
        if (!side_.empty()) return;  // a side of a cut may have to carry on with what it can't rule out
        for (const std::uint32_t gone : member.knew) {
            if (view.rank_of(Process(gone)))
                fail(std::to_string(process) + " is in a view with one that it knew to be gone");
        }
        if ((view.offer().bits & ~offer_of(process)) != 0)
            fail(std::to_string(process) + " has not offered what its view has");
        member.called_at = kNotCalled;
    }

    void check_end() {
        for (std::uint32_t process = 0; process < count() && outcome_.violation.empty(); ++process) {
            const Membership& machine = members_[process].machine;
            if (members_[process].is_gone) continue;
            const std::string who = "process " + std::to_string(process);
            if (machine.standing() == Standing::joining) {
                check_joiner(who, machine);
            } else if (machine.epoch() < drawn_.views) {
                if (!machine.lacks_quorum()) fail(who + " waits for a view for ever");
                const bool may_lack = !side_.empty() || (drawn_.quorum == Quorum::majority && outcome_.deaths > 0);
                if (!may_lack && are_enough(machine))
                    fail(who + " lacks a quorum, and enough deaths are certain to those that live");
            }
        }
    }

    // With what any member that lives knows for certain.
    bool are_enough(const Membership& machine) const {
        const View& view = machine.view();
        protocol::Failures failures;
        for (std::uint32_t rank = 0; rank < view.count(); ++rank) {
            const std::uint32_t process = view.process_of(rank).value;
            if (!members_[process].is_gone) continue;
            if (!members_[process].has_died) return drawn_.hosts == 0;  // it has gone on to another view, and left
            failures.suspected.insert(rank);
            if (std::ranges::any_of(members_, [process](const Member& one) {
                    const bool is_member = !one.is_gone && one.machine.standing() == Standing::member;
                    return is_member && std::ranges::find(one.known, Known{process, true}) != one.known.end();
                }))
                failures.certain.insert(rank);
        }
        return drawn_.hosts == 0 ||
               protocol::is_quorum(drawn_.quorum, view.count(), failures, false, machine.voiceless());
    }

    void check_joiner(const std::string& who, const Membership& joiner) {
        const Member& door = members_[joiner.asked().value];
        if (door.is_gone) return fail(who + " waits for one that has gone");
        if (!door.machine.knows_request(joiner.self()))
            return fail(who + " waits, and the one it asked does not know it");
        if (door.machine.lacks_quorum()) return;
        const Member& root = members_[door.machine.root_process().value];
        if (root.is_gone || !root.machine.knows_request(joiner.self()))
            fail(who + " waits, and the root does not know it");
    }

    void fail(const std::string& what) {
        if (outcome_.violation.empty()) outcome_.violation = what;
    }
    void say(std::uint32_t process, const std::string& what, std::optional<std::uint32_t> other = {}) {
        if (!tell_) return;
        std::string line = std::to_string(process);
        line.append(" ").append(what);
        if (other) line.append(" ").append(std::to_string(*other));
        tell_(line);
    }

    Random random_;
    Random options_;
    const std::function<void(const std::string&)>& tell_;
    Drawn drawn_;
    bool differing_ = false;  // members offer different things
    bool has_options_ = false;
    DrawnOptions asks_;
    std::optional<topology::Nodes> nodes_;
    protocol::MembershipPlan plan_;
    std::vector<Member> members_;
    std::vector<MembershipMessage> wire_;
    std::vector<bool> side_;  // by process; empty without a cut
    std::optional<std::uint32_t> first_dead_;
    std::map<std::uint32_t, View> views_;
    std::map<std::uint32_t, AskedOptions> asked_;  // by epoch
    MembershipFuzzOutcome outcome_;
};

}  // namespace

MembershipFuzzOutcome fuzz_membership(std::uint64_t seed, const MembershipFuzzRange& range,
                                      const std::function<void(const std::string&)>& tell) {
    return Run(seed, range, tell).run();
}

}  // namespace coppice::simulation
