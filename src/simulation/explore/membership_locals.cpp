#include "simulation/explore/membership_locals.hpp"

#include <algorithm>

namespace coppice::simulation {

using protocol::Membership;
using protocol::MembershipMessage;
using protocol::Process;
using Standing = protocol::Membership::Standing;

namespace {

// Events, as numbers beside that of a state.
enum Event : std::uint64_t { kCall, kLeave, kReceive, kNotice, kNoticeDeath };
constexpr std::uint64_t event(Event kind, std::uint64_t detail) {
    return detail << 3 | kind;
}

std::optional<topology::Nodes> hosts_of(const MembershipScenario& scenario) {
    std::vector<std::uint64_t> keys(scenario.ranks);
    for (std::uint32_t rank = 0; rank < scenario.ranks && scenario.host_tree > 0; ++rank)
        keys[rank] = rank % scenario.host_tree;
    if (scenario.host_tree == 0) return std::nullopt;
    return topology::Nodes::by_host(keys);
}

}  // namespace

MembershipLocals::MembershipLocals(const MembershipScenario& scenario)
    : scenario_(scenario), hosts_(hosts_of(scenario)) {
    plan_ = {.first = protocol::View(scenario.ranks),
             .radix_bits = scenario.radix_bits,
             .capacity = scenario.capacity,
             .hosts = hosts_ ? &*hosts_ : nullptr,
             .quorum = scenario.quorum,
             .reports = scenario.reports,
             .consents = scenario.consents,
             .introduces = scenario.introduced,
             .newcomers_go = scenario.introduced,
             .faults = scenario.faults};
    views_.emplace_back();
}

MembershipLocals::Step MembershipLocals::member(std::uint32_t process) {
    return finish(Local{.machine = Membership(plan_, Process(process)), .held = {}, .facts = {}});
}

MembershipLocals::Step MembershipLocals::newcomer(const protocol::JoinRequest& request) {
    return finish(Local{.machine = Membership(plan_, request), .held = {}, .facts = {}});
}

// --------------------------------------------------------------------------------------------------------- events ---

template <class Event>
const MembershipLocals::Step& MembershipLocals::step(std::uint32_t local, std::uint64_t event, Event&& happen) {
    const std::uint64_t key = std::uint64_t{local} << 32 | event;
    const auto known = steps_.find(key);
    if (known != steps_.end()) return known->second;
    Local next = locals_[local];
    const MembershipFacts before = next.facts;
    wrong_.clear();
    happen(next);
    const std::uint32_t knew = next.knew;  // of what it has become there may be one that knew other things
    Step made = finish(std::move(next));
    check_step(before, knew, locals_[made.local]);
    made.wrong = wrong_;
    return steps_.emplace(key, std::move(made)).first->second;
}

const MembershipLocals::Step& MembershipLocals::call(std::uint32_t local) {
    return step(local, event(kCall, 0), [this](Local& at) {
        at.knew = scenario_.consents ? at.facts.unreachable : 0;
        // One that leaves knows that it will be gone.
        if (scenario_.consents && at.facts.leaving) at.knew |= 1U << at.facts.process;
        at.machine.renew({offer_of(at.facts.process)});
    });
}

const MembershipLocals::Step& MembershipLocals::leave(std::uint32_t local) {
    return step(local, event(kLeave, 0), [](Local& at) { at.machine.leave(); });
}

const MembershipLocals::Step& MembershipLocals::receive(std::uint32_t local, std::uint32_t message) {
    return step(local, event(kReceive, message), [this, message](Local& at) {
        const Letter letter = messages_[message];
        if (letter.is_talk) {
            hear(at, message);
        } else if (!at.machine.receive(letter) && scenario_.faults == 0) {
            fail("refused a message that can occur");
        }
    });
}

const MembershipLocals::Step& MembershipLocals::notice(std::uint32_t local, std::uint32_t process) {
    return step(local, event(kNotice, process), [this, process](Local& at) {
        at.known[process] = kSuspected;
        tell(at, process);
    });
}

const MembershipLocals::Step& MembershipLocals::notice_death(std::uint32_t local, std::uint32_t process,
                                                             std::uint32_t vote) {
    return step(local, event(kNoticeDeath, std::uint64_t{vote} << 4 | process), [this, process, vote](Local& at) {
        at.known[process] = 2 + vote;
        tell(at, process);
    });
}

void MembershipLocals::tell(Local& local, std::uint32_t process) {
    const std::uint32_t known = local.known[process];
    const protocol::LastVote* vote = known > kSuspected ? &votes_[known - 2] : nullptr;
    local.machine.peer_failed(Process(process), vote);
}

// ------------------------------------------------------------------------------------------------ after each event ---

// What the driver owes whenever there is another view.
void MembershipLocals::tell_again(Local& local) {
    const auto place = [](const Local& of) {
        return std::pair{of.machine.standing() == Standing::joining, of.machine.epoch()};
    };
    auto told = std::pair{local.facts.standing == Standing::joining, local.facts.epoch};
    while (told != place(local)) {
        told = place(local);
        if (scenario_.newcomers_go) leave_out_newcomers(local);
        for (std::uint32_t process = 0; process < local.known.size(); ++process) {
            const bool is_in_view = local.machine.view().rank_of(Process(process)).has_value();
            if (local.known[process] != 0 && is_in_view && local.machine.standing() == Standing::member)
                tell(local, process);
        }
    }
}

// As the engine's driver does (engine/collectives/shrink/succession.cpp).
void MembershipLocals::leave_out_newcomers(Local& local) {
    if (local.machine.standing() != Standing::member) return;
    const protocol::Change made = local.machine.made_by();
    const protocol::LastVote none{.epoch = local.machine.epoch(), .made = made, .latest = {}, .consent = {}};
    for (const protocol::Occupant& one : made.joined) {
        local.known[one.process.value] = 2 + number_of(none);
        local.machine.peer_failed(one.process, &none);
    }
}

MembershipLocals::Step MembershipLocals::finish(Local local) {
    Step step;
    tell_again(local);
    while (auto message = local.machine.next_send())
        step.sent.push_back(number_of(Letter{std::move(*message)}));
    if (scenario_.talk) speak(local, step.sent);
    look_at(local);
    words_.clear();
    local.machine.append_state(words_);
    words_.insert(words_.end(), local.known.begin(), local.known.end());
    words_.insert(words_.end(), {local.spoken, local.heard, local.facts.called ? local.knew : 0});
    words_.insert(words_.end(), local.held.begin(), local.held.end());
    const auto [place, is_new] =
        local_numbers_.try_emplace(hash_of_words(), static_cast<std::uint32_t>(locals_.size()));
    if (is_new) locals_.push_back(std::move(local));
    step.local = place->second;
    return step;
}

// In each view to the next rank; and those that were too early are looked at again.
void MembershipLocals::speak(Local& local, std::vector<std::uint32_t>& sent) {
    const Membership& machine = local.machine;
    if (machine.standing() != Standing::member) return;
    std::vector<std::uint32_t> held;
    held.swap(local.held);
    for (const std::uint32_t message : held)
        hear(local, message);
    if ((local.spoken >> machine.epoch() & 1) != 0) return;
    local.spoken |= 1U << machine.epoch();
    const protocol::View& view = machine.view();
    const auto rank = view.rank_of(machine.self());
    if (!rank || view.count() < 2) return;
    Letter letter;
    letter.from = machine.self();
    letter.to = view.process_of((*rank + 1) % view.count());
    letter.epoch = machine.epoch();
    letter.is_talk = true;
    letter.view = number_of(view);
    const std::uint32_t number = number_of(letter);
    sent.insert(sent.end(), scenario_.talk_twice ? 2 : 1, number);
}

void MembershipLocals::hear(Local& local, std::uint32_t message) {
    const Letter letter = messages_[message];
    switch (local.machine.delivery(letter.from, letter.epoch)) {
        case Membership::Delivery::never:
            return;
        case Membership::Delivery::later:
            local.held.push_back(message);
            std::ranges::sort(local.held);
            return;
        case Membership::Delivery::now:
            break;
    }
    const std::uint32_t bit = 1U << (letter.epoch * 8 + letter.from.value);
    if ((local.heard & bit) != 0) fail("a user's message was delivered twice");
    local.heard |= bit;
    if (local.machine.view() != views_[letter.view]) fail("a user's message was delivered in another view");
}

// Promises that a single step can break.
void MembershipLocals::check_step(const MembershipFacts& before, std::uint32_t knew, const Local& after) {
    const MembershipFacts& now = after.facts;
    if (now.standing != Standing::member) return;
    const std::string who = "process " + std::to_string(now.process);
    if ((now.members >> now.process & 1) == 0) fail(who + " is in a view of which it is no member");
    const bool is_there = before.standing == Standing::member;
    if (is_there && (now.epoch < before.epoch || (now.epoch == before.epoch && now.view != before.view)))
        fail(who + " goes back to an earlier view");
    if (is_there && now.epoch > before.epoch + 1) fail(who + " passes over a view");
    if (!is_there || !before.called || now.epoch == before.epoch || !scenario_.consents) return;
    // A side of a cut may have to carry on with what it can't rule out.
    if (scenario_.cuts > 0) return;
    // A newcomer that dies while it is taken in may be a dead member of the view.
    if (scenario_.introduced) knew &= before.members;
    if ((now.members & knew) != 0) fail(who + " is in a view with one that it knew to be gone");
    if ((after.machine.view().offer().bits & ~offer_of(now.process)) != 0)
        fail(who + " has not offered what its view has");
}

// -------------------------------------------------------------------------------------------------------- numbers ---

void MembershipLocals::look_at(Local& local) {
    const Membership& machine = local.machine;
    MembershipFacts& facts = local.facts;
    const std::uint32_t processes = MembershipScenario::kMostProcesses;
    facts = {.process = machine.self().value,
             .standing = machine.standing(),
             .epoch = machine.epoch(),
             .called = machine.is_renewing(),
             .leaving = machine.is_leaving(),
             .lacks_quorum = machine.lacks_quorum(),
             .overtaken = machine.is_overtaken(),
             .asked = machine.asked().value};
    for (std::uint32_t process = 0; process < processes; ++process) {
        const std::uint32_t bit = 1U << process;
        if (local.known[process] != 0) facts.unreachable |= bit;
        if (local.known[process] > kSuspected) facts.certain |= bit;
        if (machine.minds(Process(process))) facts.minds |= bit;
        if (machine.knows_request(Process(process))) facts.waiting |= bit;
        if (machine.knows_leave(Process(process))) facts.leaves |= bit;
        if (machine.suspects(Process(process))) facts.suspects |= bit;
        if (facts.standing == Standing::member && machine.view().rank_of(Process(process))) facts.members |= bit;
    }
    if (facts.standing != Standing::member) return;
    facts.view = number_of(machine.view());
    facts.root = machine.root_process().value;
}

MembershipLocals::Hash128 MembershipLocals::hash_of_words() const {
    const std::size_t bytes = words_.size() * sizeof words_[0];
    return {hash_bytes(words_.data(), bytes, 3), hash_bytes(words_.data(), bytes, 5)};
}

std::uint32_t MembershipLocals::number_of(Letter letter) {
    words_.clear();
    append_state(letter, words_);
    words_.insert(words_.end(), {letter.is_talk ? 1U : 0U, letter.view});
    const auto [place, is_new] =
        message_numbers_.try_emplace(hash_of_words(), static_cast<std::uint32_t>(messages_.size()));
    if (is_new) messages_.push_back(std::move(letter));
    return place->second;
}

std::uint32_t MembershipLocals::number_of(const protocol::View& view) {
    const auto known = std::ranges::find(views_.begin() + 1, views_.end(), view);
    if (known != views_.end()) return static_cast<std::uint32_t>(known - views_.begin());
    views_.push_back(view);
    return static_cast<std::uint32_t>(views_.size() - 1);
}

std::uint32_t MembershipLocals::last_vote(std::uint32_t local) {
    return number_of(locals_[local].machine.last_vote());
}

std::uint32_t MembershipLocals::number_of(const protocol::LastVote& vote) {
    const auto known = std::ranges::find(votes_, vote);
    if (known != votes_.end()) return static_cast<std::uint32_t>(known - votes_.begin());
    votes_.push_back(vote);
    return static_cast<std::uint32_t>(votes_.size() - 1);
}

void MembershipLocals::fail(const std::string& what) {
    if (wrong_.empty()) wrong_ = what;
}

std::string MembershipLocals::describe_view(std::uint32_t number) const {
    const protocol::View& view = views_[number];
    std::string text = "view " + std::to_string(view.epoch()) + " {";
    for (std::uint32_t rank = 0; rank < view.count(); ++rank)
        text.append(rank == 0 ? "" : " ").append(std::to_string(view.process_of(rank).value));
    return text.append("}");
}

std::string MembershipLocals::describe(std::uint32_t message) const {
    const Letter& letter = messages_[message];
    std::string text = letter.is_talk ? "a user's message" : std::string(to_string(letter.kind));
    const auto list = [&text](const protocol::Change& change) {
        for (const protocol::FailedSet::Interval& run : change.gone.intervals())
            for (std::uint32_t seat = run.first; seat <= run.last; ++seat)
                text.append(" -").append(std::to_string(seat));
        for (const protocol::Occupant& one : change.joined)
            text.append(" +")
                .append(std::to_string(one.process.value))
                .append("@")
                .append(std::to_string(one.seat.value));
    };
    if (letter.proposal) list(*letter.proposal);
    if (letter.latest) {
        text.append(" (vote for ").append(std::to_string(letter.latest->root)).append(":");
        list(letter.latest->change);
        text += ")";
    }
    if (letter.request) text.append(" of ").append(std::to_string(letter.request->process.value));
    return text.append(" of view ").append(std::to_string(letter.epoch));
}

}  // namespace coppice::simulation
