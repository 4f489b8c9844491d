#include "engine/newcomers/introductions.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "engine/wiring.hpp"
#include "topology/switch_path.hpp"
#include "transport/host_memory.hpp"

namespace coppice::engine {
namespace {

// A transport tells of a death by itself; but one that has no connection may not. The launcher has seen the end of the process.
constexpr std::uint64_t kPatienceNs = 200'000'000;

}  // namespace

Introductions::Introductions(Seats& seats, const Settings& settings, std::string own_host,
                             std::unique_ptr<bootstrap::Admission> admission, const Clock& clock)
    : seats_(seats),
      settings_(settings),
      own_host_(std::move(own_host)),
      admission_(std::move(admission)),
      clock_(clock),
      introduced_(seats.capacity(), 0),
      taken_in_(seats.capacity(), 0) {
    // So that no newcomer finds fewer in common with the members than there is memory for.
    if (transport::HostMemory* const host_memory = seats_.host_memory()) host_memory->make_all_panels_ready();
}

void Introductions::poll() {
    due_ns_ = clock_.now_ns() + kLookNs;
    idle_looks_ = tasks_.empty() ? std::min(idle_looks_ + 1, kIdleLooks) : 0;
    while (admission_) {
        auto event = admission_->next();
        if (!event) {
            // A rank that could not make somebody known is refused for that. That a door is lost has another reason.
            if (!error_ || event.error().status == COPPICE_ERR_PEER_FAILED) error_ = std::move(event.error());
            admission_.reset();
        } else if (*event) {
            idle_looks_ = 0;
            take(**event);
        } else {
            break;
        }
    }
    if (admission_ && admission_->is_busy()) idle_looks_ = 0;
    do_tasks();
}

// One whose seat is not free yet holds up nobody but who comes to the same seat.
void Introductions::do_tasks() {
    std::vector<std::uint32_t> waited_for;
    for (auto task = tasks_.begin(); task != tasks_.end();) {
        if (std::ranges::find(waited_for, task->who.number) == waited_for.end() && introduce(*task)) {
            task = tasks_.erase(task);
        } else {
            waited_for.push_back(task->who.number);
            ++task;
        }
    }
}

void Introductions::take(bootstrap::Admission::Event& event) {
    using Kind = bootstrap::Admission::Event::Kind;
    const auto is_meant = [&event](const auto& one) {
        if constexpr (requires { one.who; }) {
            return one.who.serial == event.who.serial;
        } else {
            return one.serial == event.who.serial;
        }
    };
    switch (event.kind) {
        case Kind::invited:
            break;
        case Kind::introduced:
            tasks_.push_back({event.who, std::move(event.body), clock_.now_ns()});
            break;
        case Kind::gone:
            std::erase_if(tasks_, is_meant);
            if (std::erase_if(ready_, is_meant) > 0) ++version_;
            break;
        case Kind::ready:
            // Others may have taken it in before this rank heard of that.
            if (event.who.number >= taken_in_.size() || taken_in_[event.who.number] > event.who.incarnation) break;
            if (std::ranges::none_of(ready_, is_meant)) ready_.push_back(event.who);
            ++version_;
            break;
        case Kind::formed:
            born_ = std::move(event.body);
            break;
        case Kind::over:
            tasks_.clear();
            if (!ready_.empty()) ++version_;
            ready_.clear();
            break;
    }
}

// False: later.
bool Introductions::introduce(Task& task) {
    const Seat seat(task.who.number);
    const auto card = Card::parse(task.card);
    if (seat.value >= seats_.capacity() || !card) {
        if (admission_) admission_->tell_unwired(task.who.serial, "what it says of how to reach it is damaged");
        return true;
    }
    if (const auto checked = topology::check_switch_path(card->switches); !checked) {
        if (admission_)
            admission_->tell_unwired(
                task.who.serial,
                fmt::format("what it says of the switches above its host is wrong: {}", checked.error()));
        return true;
    }
    note_introduced(task.who, *card);
    // A process gets a number when the earlier one has ended, or counts for dead in the group.
    if (!seats_.vacate(seat, Seats::Ended::certainly)) {
        const bool is_witnessed = admission_ && admission_->is_witness();
        if (is_witnessed && clock_.now_ns() - task.since_ns > kPatienceNs) seats_.note_end(seat);
        return false;
    }
    const auto wired = wire(task.who, *card);
    if (!admission_) return true;
    if (wired) {
        admission_->tell_wired(task.who.serial);
    } else if (wired.error().status != COPPICE_ERR_PEER_FAILED) {  // else the launcher will say so
        error_ = wired.error();
        admission_->tell_unwired(task.who.serial, wired.error().message);
    }
    return true;
}

Result<void> Introductions::wire(const Person& who, const Card& card) {
    const Seat seat(who.number);
    auto wired = wire_peer(seats_, settings_, own_host_, seat,
                           {.incarnation = who.incarnation, .host = card.host, .addresses = card.addresses});
    transport::HostMemory* const host_memory = seats_.host_memory();
    if (!wired || host_memory == nullptr || card.host != own_host_) return wired;
    auto admitted = host_memory->admit(seat, who.incarnation);
    if (!admitted) seats_.vacate(seat, Seats::Ended::certainly);
    return admitted;
}

// More than once while it can't be made known to the transports.
void Introductions::note_introduced(const Person& who, const Card& card) {
    if (knows(who.number, who.incarnation)) return;
    introduced_[who.number] = who.incarnation + 1;
    arrivals_.push_back({who.number, who.incarnation, {host_number(card.host), card.switches}});
}

NewcomersHost Introductions::host_of(std::uint32_t number, std::uint32_t incarnation) const {
    const auto it = std::ranges::find_if(
        arrivals_, [=](const Arrival& one) { return one.number == number && one.incarnation == incarnation; });
    return it == arrivals_.end() ? NewcomersHost() : it->host;
}

void Introductions::note_taken_in(std::uint32_t number, std::uint32_t incarnation) {
    std::erase_if(arrivals_,
                  [=](const Arrival& one) { return one.number == number && one.incarnation <= incarnation; });
    taken_in_[number] = std::max(taken_in_[number], incarnation + 1);
    const auto is_it = [=](const Person& one) { return one.number == number && one.incarnation == incarnation; };
    if (std::erase_if(ready_, is_it) > 0) ++version_;
}

Result<Bytes> Introductions::invite(std::uint32_t uses, std::uint64_t lifetime_ns,
                                    std::span<const bootstrap::DoorAddress> others) {
    if (admission_) return admission_->invite(uses, lifetime_ns, others);
    return tl::unexpected(error_.value_or(Error{COPPICE_ERR_BOOTSTRAP, "nobody can join this group any more"}));
}

void Introductions::attend(const bootstrap::Admission::Company& company) {
    if (admission_) admission_->attend(company);
}

void Introductions::note_members(const Birth& birth) {
    for (const Birth::Member& one : birth.members)
        note_taken_in(one.origin.seat.value, one.origin.incarnation);
}

void Introductions::turn_away(std::uint32_t number, std::uint32_t incarnation, std::string_view why) {
    const auto it = std::ranges::find_if(
        ready_, [=](const Person& one) { return one.number == number && one.incarnation == incarnation; });
    if (admission_ && it != ready_.end()) admission_->tell_unwired(it->serial, why);
}

void Introductions::announce(std::span<const Person> taken_in, std::span<const Person> left_out, const Birth& birth) {
    for (const Person& one : taken_in)
        note_taken_in(one.number, one.incarnation);
    if (admission_) admission_->tell_formed(taken_in, left_out, birth.bytes());
}

}  // namespace coppice::engine
