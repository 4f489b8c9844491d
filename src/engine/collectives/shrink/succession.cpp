#include "engine/collectives/shrink/succession.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "base/mix.hpp"
#include "bootstrap/launcher_protocol.hpp"
#include "engine/collectives/agreement/agreements.hpp"
#include "engine/collectives/shrink/quorum_watch.hpp"
#include "protocol/membership/codec.hpp"
#include "transport/host_memory.hpp"

namespace coppice::engine {
namespace {

std::uint64_t hash_of(const protocol::FailedSet& ranks) {
    std::uint64_t hash = 0;
    for (const protocol::FailedSet::Interval& interval : ranks.intervals())
        hash = mix(hash + kWeyl + (std::uint64_t{interval.first} << 32 | interval.last));
    return hash;
}

// What members offer: panels that are clean, and those that are closed.
constexpr std::uint32_t kAllPanels = (1U << transport::HostMemory::kPanels) - 1;
constexpr std::uint32_t kClosedAt = 16;
// And that newcomers may take the numbers of those that are gone.
constexpr std::uint32_t kInPlace = 1U << 31;
static_assert(transport::HostMemory::kPanels < 32 - kClosedAt);

// A newcomer in the machine: no rank has a number like that, so it says which newcomer is meant.
constexpr std::uint32_t kNewcomer = 1U << 31;
static_assert(bootstrap::kMaxLauncherRanks << bootstrap::kIncarnationBits <= kNewcomer);
protocol::Process process_of(std::uint32_t number, std::uint32_t incarnation) {
    return protocol::Process(kNewcomer | number << bootstrap::kIncarnationBits | incarnation);
}

constexpr std::uint32_t kRadixBits = 4;
// Messages that a transport has not let go of: one for each child.
constexpr std::uint32_t kOutgoing = 1U << kRadixBits;

}  // namespace

protocol::Terms RenewalOptions::terms() const {
    if (is_shrink || !bounds) return {};
    return protocol::Terms(*bounds, newcomers_last ? 1 : 0);
}

GroupId id_after(const GroupId& group, const Heritage& heritage) {
    std::uint64_t word = mix(mix(mix(group.token) + heritage.number) + hash_of(*heritage.excluded));
    for (const Heritage::Heir& heir : heritage.heirs)
        if (!heir.before) word = mix(word + (std::uint64_t{heir.number} << 32 | heir.incarnation));
    const auto folded = static_cast<std::uint32_t>(word ^ word >> 32);
    return {folded == group.token ? folded + 1 : folded, Epoch(group.epoch.value + 1)};
}

Succession::Succession(const Members& members, const Router& router, const GroupId& group, protocol::Quorum quorum,
                       LastVotes* votes)
    : members_(members),
      router_(router),
      seats_(std::max(members.ranks(), router.transport_set()->capacity())),
      plan_{.first = protocol::View(members.ranks()),
            .radix_bits = kRadixBits,
            .capacity = seats_,
            .hosts = &members.nodes_table(),
            .quorum = quorum,
            .consents = true,
            .introduces = true,
            .newcomers_go = true},
      votes_(votes),
      machine_(plan_, protocol::Process(members.self().value)),
      assembly_(protocol::longest_membership_body(seats_)),
      outbox_(members, router, group, Channel::succession, std::min(kOutgoing, members.ranks()), 0) {
    for (const Rank rank : members.failed_ranks())
        peer_failed(rank);
}

void Succession::begin(const RenewalOptions& options) {
    under_way_ = true;
    has_begun_ = true;
    options_ = first_options_ = options;
    if (machine_.epoch() == epoch_) contribute();
}

void Succession::ask_for(const RenewalOptions& options) {
    if (options.bounds) {
        options_ = options;
        machine_.ask_for(*options.bounds);
    }
    look();
}

void Succession::introduce(std::uint32_t number, std::uint32_t incarnation, std::optional<Rank> in_place_of) {
    protocol::JoinRequest request{.process = process_of(number, incarnation), .waits = true};
    if (in_place_of) request.seat = in_place_of->value;
    machine_.introduce(request);
    look();
}

void Succession::withdraw(std::uint32_t number, std::uint32_t incarnation) {
    machine_.peer_failed(process_of(number, incarnation));
    look();
}

// The view makes a group of its own, with a machine of its own; and newcomers never were in this one.
void Succession::leave_out_newcomers() {
    if (machine_.epoch() == left_out_epoch_) return;
    left_out_epoch_ = machine_.epoch();
    const protocol::Change made = machine_.made_by();
    const protocol::LastVote none{.epoch = machine_.epoch(), .made = made, .followed = 0, .latest = {}, .consent = {}};
    for (const protocol::Occupant& one : made.joined)
        machine_.peer_failed(one.process, &none);
}

void Succession::leave() {
    machine_.leave();
    look();
}

void Succession::contribute() {
    protocol::Offer offer;
    // Options of one that leaves are no matter to the others' group.
    if (!machine_.is_leaving()) offer.terms = first_options_.terms();
    if (transport::HostMemory* const host_memory = router_.transport_set()->host_memory()) {
        if (all_panels_) {
            host_memory->make_all_panels_ready();
        } else {
            host_memory->make_panel_ready();
        }
        router_.transport_set()->close_boards();
        // A clean one is not in use either: a newcomer has closed none of those that others have.
        const std::uint32_t clean = host_memory->clean_panels();
        offer.bits = clean | (clean | host_memory->closed_panels()) << kClosedAt | kInPlace;
    }
    if (first_options_.newcomers_last && !machine_.is_leaving()) offer.bits &= ~kInPlace;
    // A shrink admits nobody, also where this rank leaves.
    const bool has_bounds = options_.is_shrink || !machine_.is_leaving();
    machine_.renew(offer, has_bounds ? options_.bounds : std::nullopt);
    look();
}

// What the machine has come to know, and has to say.
void Succession::look() {
    using Standing = protocol::Membership::Standing;
    if (machine_.standing() == Standing::member) leave_out_newcomers();
    fenced_ = fenced_ || machine_.standing() == Standing::excluded;
    // One that is in no view any more knows the others by their ranks in an earlier one.
    const bool is_member = machine_.standing() == Standing::member;
    for (const protocol::FailedSet::Interval& run : machine_.failures().suspected.intervals()) {
        for (std::uint32_t rank = run.first; is_member && rank <= run.last; ++rank) {
            const protocol::Process process = machine_.view().process_of(rank);
            if (is_rank(process)) failed_.insert(process.value);
        }
    }
    if (machine_.epoch() != left_epoch_) left_.unite(machine_.made_by().left);
    left_epoch_ = machine_.epoch();
    failed_.subtract(left_);
    is_written_ = votes_ == nullptr;
    send();
}

// Nobody is told of a vote that would be forgotten with this rank.
void Succession::send() {
    if (!is_written_) is_written_ = votes_->write(machine_.last_vote());
    if (!is_written_) return;
    outbox_.send_waiting();
    while (machine_.wants_to_send()) {
        Outbox::Outgoing* const place = outbox_.free_place();
        if (place == nullptr) return;
        const auto message = machine_.next_send();
        if (!is_rank(message->to)) continue;  // newcomers are told by the launcher
        place->to = Rank(message->to.value);
        place->kind = static_cast<std::uint8_t>(message->kind);
        place->sequence = sent_++;
        place->body.clear();
        protocol::write_membership(*message, place->body);
        outbox_.post(*place);
    }
}

std::optional<Heritage> Succession::progress() {
    send();
    while (is_written_ && under_way_ && machine_.epoch() != epoch_ && !fenced_) {
        ++epoch_;
        const bool may_find_one = machine_.made_by().joined.empty() && !has_left() &&
                                  (machine_.view().offer().bits & kAllPanels) == 0 && !all_panels_ &&
                                  !machine_.view().offer().is_at_odds();
        if (!may_find_one) return heritage();
        clear_closed_panels();  // in a program that has left groups since the last renewal these may be the only ones
        all_panels_ = true;
        contribute();
    }
    return std::nullopt;
}

std::vector<Heritage::Heir> Succession::heirs() const {
    const protocol::View& view = machine_.view();
    std::vector<Heritage::Heir> heirs;
    heirs.reserve(view.count());
    std::vector<Heritage::Heir> last;
    for (std::uint32_t rank = 0; rank < view.count(); ++rank) {
        const protocol::Process process = view.process_of(rank);
        if (is_rank(process)) {
            heirs.push_back({.before = Rank(process.value)});
        } else if (machine_.made_by().seats(process)) {
            const std::uint32_t person = process.value & ~kNewcomer;
            const Heritage::Heir heir{.before = {},
                                      .number = person >> bootstrap::kIncarnationBits,
                                      .incarnation = person & bootstrap::kMostIncarnation};
            ((view.offer().bits & kInPlace) != 0 ? heirs : last).push_back(heir);
        }
    }
    heirs.insert(heirs.end(), last.begin(), last.end());
    return heirs;
}

// Those that all have closed, by the view that is here.
void Succession::clear_closed_panels() {
    transport::HostMemory* const host_memory = router_.transport_set()->host_memory();
    if (host_memory != nullptr) host_memory->clear_panels(machine_.view().offer().bits >> kClosedAt & kAllPanels);
}

Heritage Succession::heritage() {
    const std::uint32_t offer = machine_.view().offer().bits;
    under_way_ = false;
    all_panels_ = false;
    protocol::FailedSet excluded;
    for (std::uint32_t rank = 0; rank < members_.ranks(); ++rank)
        if (!machine_.view().rank_of(protocol::Process(rank))) excluded.insert(rank);
    Heritage heritage{.number = number_++,
                      .excluded = std::make_shared<const protocol::FailedSet>(std::move(excluded)),
                      .left = left_,
                      .panel = std::nullopt,
                      .heirs = heirs()};
    clear_closed_panels();
    const transport::HostMemory* const host_memory = router_.transport_set()->host_memory();
    const std::uint32_t clean = offer & kAllPanels;
    // A side of a cut may have decided for one that had not said what it has.
    const bool has_it = host_memory == nullptr || (host_memory->clean_panels() & clean & (~clean + 1)) != 0;
    if (clean != 0 && has_it) heritage.panel = static_cast<std::uint32_t>(std::countr_zero(clean));
    // A shrink says nothing of what the next renewal may, and a later call may have changed what the others know of.
    const bool has_said = options_.bounds && !options_.is_shrink;
    heritage.most = has_said ? options_.bounds->most : machine_.view().offer().terms.bounds().most;
    heritage.is_at_odds = machine_.view().offer().is_at_odds();
    heritage.others_have_one = clean != 0 && !has_it;
    return heritage;
}

bool Succession::message(Rank from, const WireHeader& header, std::span<const std::byte> part) {
    const auto [state, body] = assembly_.take(from, {header.tag.kind, header.sequence}, part, header.detail);
    if (state != Assembly::State::whole) return state == Assembly::State::unfinished;
    protocol::MembershipMessage message{.kind = static_cast<protocol::MembershipKind>(header.tag.kind),
                                        .from = protocol::Process(from.value),
                                        .to = machine_.self()};
    if (!protocol::read_membership(body, seats_, message)) return false;
    look_for_dead();  // before it is told of them by others, who can't be sure
    const auto own = machine_.view().rank_of(machine_.self());
    if (own && message.epoch == machine_.epoch() && message.failures.suspected.contains(*own)) fenced_ = true;
    const bool is_good = machine_.receive(message);
    look();
    return is_good;
}

void Succession::peer_failed(Rank rank) {
    assembly_.forget(rank);
    if (!tell_last_vote(rank)) machine_.peer_failed(protocol::Process(rank.value));
    look();
}

// It is dead, says the kernel, or has left, and this is how it voted last.
bool Succession::tell_last_vote(Rank rank, bool has_left) {
    if (votes_ == nullptr || certain_.contains(rank.value)) return false;
    const auto vote = votes_->of_gone(rank, has_left);
    if (!vote) return false;
    certain_.insert(rank.value);
    machine_.peer_failed(protocol::Process(rank.value), &*vote);
    return true;
}

void Succession::look_for_dead() {
    if (votes_ == nullptr) return;
    bool is_news = false;
    for (const Rank rank : members_.ranks_of(members_.own_node()))
        is_news = (rank != members_.self() && tell_last_vote(rank)) || is_news;
    // Of others a witness may have spoken, about those alone that are taken for dead.
    for (const protocol::FailedSet::Interval& run : failed_.intervals()) {
        for (std::uint32_t rank = run.first; votes_->has_witness() && rank <= run.last; ++rank)
            is_news = tell_last_vote(Rank(rank)) || is_news;
    }
    if (is_news) look();
}

std::string Succession::why_no_quorum() const {
    const protocol::View& view = machine_.view();
    protocol::FailedSet gone;
    for (const protocol::FailedSet::Interval& run : machine_.failures().suspected.intervals()) {
        for (std::uint32_t rank = run.first; rank <= run.last; ++rank)
            if (is_rank(view.process_of(rank))) gone.insert(view.process_of(rank).value);
    }
    const std::uint32_t count = view.count() - machine_.voiceless().count();
    return "renewing: " + describe_no_quorum(plan_.quorum, count, count - gone.count(), gone, machine_.are_enough());
}

void Succession::peer_was_never_here(Rank rank) {
    certain_.insert(rank.value);
    const protocol::LastVote none;
    machine_.peer_failed(protocol::Process(rank.value), &none);
    look();
}

void Succession::peer_left(Rank rank) {
    assembly_.forget(rank);
    machine_.peer_left(protocol::Process(rank.value));
    tell_last_vote(rank, true);
    look();
}

protocol::FailedSet Succession::waited_for() const {
    protocol::FailedSet ranks;
    const protocol::FailedSet by_rank = machine_.waited_for();
    for (const protocol::FailedSet::Interval& run : by_rank.intervals()) {
        for (std::uint32_t rank = run.first; rank <= run.last; ++rank)
            if (is_rank(machine_.view().process_of(rank))) ranks.insert(machine_.view().process_of(rank).value);
    }
    return ranks;
}

std::string Succession::waiting_for() const {
    const protocol::FailedSet ranks = waited_for();
    if (!is_written_) return "renewing: waiting until the witness has kept what this rank promises";
    if (machine_.lacks_members()) return fmt::format("renewing: waiting until there are {} members", machine_.least());
    if (ranks.empty()) return "shrinking: waiting until it is through";
    return "shrinking: waiting for " + rank_names(ranks);
}

void Succession::show_waits(status::Waits& waits) const {
    if (machine_.lacks_members()) waits.add(0, status::Why::members);
    const protocol::FailedSet ranks = waited_for();  // which owns the intervals for as long as they are looked at
    for (const protocol::FailedSet::Interval& interval : ranks.intervals()) {
        for (std::uint32_t rank = interval.first; rank <= interval.last; ++rank)
            waits.add(rank, status::Why::vote);
    }
}

}  // namespace coppice::engine
