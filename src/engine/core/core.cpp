// Making progress, and the messages between the wire and the components.
#include "engine/core/core.hpp"

#include <algorithm>
#include <new>

namespace coppice::engine {
namespace {

// How often a polling rank looks at what changes rarely: failure logs, others' counters.
constexpr std::uint32_t kHousekeepingRounds = 32;

// Of calls that take the shortcut (at_once.hpp): as many broadcasts, less one, as have their roots compared together (roots.cpp).
constexpr std::uint32_t kMostStartsWithoutALook = 31;

}  // namespace

void Core::add(Collective& collective, std::span<const Channel> channels) {
    subscribers_.add(collective);
    for (const Channel channel : channels)
        by_channel_[static_cast<std::size_t>(channel)] = &collective;
}

// ---------------------------------------------------------------------------------------------------- progress ---

void Core::carry(Passenger& passenger) {
    passenger_ = &passenger;
    controls_.carry(passenger);
}

std::size_t Core::progress(Care care) {
    const std::size_t events = membership_.poll_wires();
    attend(events, care);
    return events + news_.take_work();
}

void Core::attend(std::size_t events, Care care) {
    const bool thorough = care == Care::thorough || life_.is_leaving() || news_.wait() ||
                          (local_peers_.publishing() && events > 0) || membership_.is_due() ||
                          ++rounds_ % kHousekeepingRounds == 0;
    for (Collective* const collective : subscribers_.all())
        collective->progress(thorough);
    if (thorough || news_.wait()) {
        news_.attend();
        membership_.look_at_held_back();
        if (!held_messages_.empty() && !membership_.holds_back()) take_held_messages();
        membership_.read_failure_logs();
        membership_.read_departures();
        subscribers_.hear_last_words();
        membership_.progress();
        if (controls_.wait()) controls_.flush();
        for (Collective* const collective : subscribers_.all())
            collective->keep_house();
        if (controls_.wait()) controls_.flush();
        around_.context().observe();
    }
    if (membership_.has_untold()) membership_.tell_failures();
}

void Core::attend_to_news(bool count_concerns_components) {
    if (count_concerns_components || news_.is_looked_at_soon() || membership_.has_untold() || controls_.wait())
        return attend(0, Care::usual);
    news_.pass_count_on();
    passenger_->pass_on();
}

bool Core::waits_for_room() const {
    return controls_.wait() || std::ranges::any_of(subscribers_.all(), &Collective::waits_for_room);
}

Result<void> Core::look_before_start() {
    if (local_peers_.is_to_meet()) local_peers_.meet_next();
    if ((++starts_ & starts_mask_) == 0) look_for_news();
    if (!life_.revoked()) look_whether_fenced();  // from which this rank may learn that it has no quorum
    if (life_.revoked()) {
        if (auto reason = subscribers_.reason_to_revoke()) return tl::unexpected(std::move(*reason));
        return fail(COPPICE_ERR_REVOKED, "the group has been revoked: it can be shrunk or destroyed, no more");
    }
    if (life_.fenced())
        return fail(COPPICE_ERR_FENCED, "rank {} was taken for dead by the others", members_.self().value);
    return {};
}

void Core::look_for_news() {
    around_.context().progress();
    membership_.read_failure_logs();
    subscribers_.hear_last_words();
}

// There are ranks to meet, or there is a bound of silence.
std::uint32_t Core::starts_without_a_look() const {
    const Settings& settings = around_.settings();
    const bool has_something_to_do =
        !life_.is_member() || local_peers_.is_to_meet() || settings.detection_bound.value > 0;
    return has_something_to_do ? 0 : std::min(kMostStartsWithoutALook, settings.window - 1);
}

// A call that begins something is told at once that this rank is fenced, if that can be known here.
void Core::look_whether_fenced() {
    if (life_.fenced()) return;
    if (life_.taken_for_dead()) life_.be_fenced();
    if (membership_.was_away()) progress();
}

// ---------------------------------------------------------------------------------------------------- messages ---

// Called from within foreign code: nothing may be thrown through it. What is familiar is the component's in one jump.
bool Core::message(Seat there, std::span<const std::byte> bytes, std::span<const std::byte> payload,
                   transport::Buffer buffer) {
    if (there.value < members_.ranks() && there != own_seat()) [[likely]] {
        if (const WireHeader* const header = news_.familiar().recognize(bytes, payload.size())) [[likely]] {
            const Rank from(there.value);
            membership_.heard(from);
            return familiar_to_->message(from, *header, payload, buffer);
        }
    }
    return strange_message(there, bytes, payload, buffer);
}

// Not inline: what it keeps on the stack would cost each message that is familiar.
[[gnu::noinline]] bool Core::strange_message(Seat there, std::span<const std::byte> bytes,
                                             std::span<const std::byte> payload, transport::Buffer buffer) try {
    if (around_.router().ranks_are_seats()) return take(Rank(there.value), bytes, payload, buffer);
    if (const auto from = around_.router().rank_at(there)) return take(*from, bytes, payload, buffer);
    return is_not_understood();
} catch (const std::bad_alloc&) {
    news_.note_refused();  // no memory to hold on to it
    return false;
}

std::byte* Core::place(Seat there, std::span<const std::byte> bytes, std::size_t payload_length, std::size_t here) {
    const auto from = around_.router().rank_at(there);
    if (!from || from->value >= members_.ranks() || *from == members_.self() || members_.failed(*from)) return nullptr;
    const auto header = decode(bytes, payload_length, around_.id());
    if (!header || header->root >= members_.ranks() || life_.revoked()) return nullptr;
    Collective* const collective = by_channel_[static_cast<std::size_t>(header->tag.channel)];
    return collective == nullptr ? nullptr : collective->place(*from, *header, payload_length, here);
}

bool Core::take(Rank from, std::span<const std::byte> bytes, std::span<const std::byte> payload,
                transport::Buffer buffer) {
    const auto header = decode(bytes, payload.size(), around_.id());
    if (!header || from.value >= members_.ranks() || from == members_.self() || header->root >= members_.ranks() ||
        !hear_count(header->stable)) [[unlikely]] {
        return is_not_understood();
    }
    if (members_.failed(from) && !membership_.is_heard_out(from, header->tag)) {
        news_.note_refused();
        const bool is_answer =
            header->tag == Tag(Channel::members, MembersKind::failure_notice) && header->sequence == kAnswered;
        const Router& router = around_.router();
        if (!is_answer) router.transport_set()->answer_one_to_fence(router.seat_of(from), around_.id(), from);
        return false;
    }
    membership_.heard(from);
    if (header->tag.channel == Channel::window)
        news_.count_moved();
    else if (!row_of(header->tag.channel).is_frequent)
        news_.look_soon();
    if (header->tag.channel == Channel::members) {
        members_message(from, *header);
        return false;
    }
    Collective* const collective = by_channel_[static_cast<std::size_t>(header->tag.channel)];
    if (collective == nullptr) [[unlikely]] {
        news_.note_garbage();
        return false;
    }
    if (life_.has_left()) [[unlikely]]
        leaving_.heard(from);
    if (life_.revoked() && !collective->outlives_revocation()) return false;
    if (membership_.holds_back() && carries_failures(header->tag)) [[unlikely]]
        return hold_message(from, *header, payload);
    const ChannelRow& row = row_of(header->tag.channel);
    if (row.is_frequent && !row.is_long && takes_part_as_ever()) {
        news_.familiar().is(*header, payload.size());
        familiar_to_ = collective;
    }
    return collective->message(from, *header, payload, buffer);
}

// The sender has told of these deaths before. It says this once: refused, it would be lost.
bool Core::hold_message(Rank from, const WireHeader& header, std::span<const std::byte> payload) {
    if (held_messages_.size() >= kMostHeldMessages) {
        news_.note_refused();
    } else {
        held_messages_.push_back({from, header, {payload.begin(), payload.end()}});
    }
    return false;
}

void Core::take_held_messages() {
    for (HeldMessage& one : std::exchange(held_messages_, {})) {
        Collective* const collective = by_channel_[static_cast<std::size_t>(one.header.tag.channel)];
        if (members_.failed(one.from) || (life_.revoked() && !collective->outlives_revocation())) continue;
        if (membership_.holds_back())  // again: by what one of these brought
            held_messages_.push_back(std::move(one));
        else
            collective->message(one.from, one.header, one.payload, 0);
    }
}

bool Core::hear_count(std::uint64_t count) {
    if (count == heard_count_) return true;
    if (!passenger_->heard(count)) return false;
    heard_count_ = count;
    return true;
}

void Core::members_message(Rank from, const WireHeader& header) {
    const auto kind = static_cast<MembersKind>(header.tag.kind);
    if (kind == MembersKind::leaving_ask || kind == MembersKind::leaving_answer) return leaving_.message(from, header);
    membership_.message(from, header);
}

// ---------------------------------------------------------------------------------------------- the transport set ---

void Core::peer_failed(Seat there, transport::FailureCause /*cause*/) {
    if (const auto rank = around_.router().rank_at(there)) membership_.learn_failure(*rank);
}

void Core::peer_left(Seat there) {
    if (const auto rank = around_.router().rank_at(there)) membership_.member_left(*rank);
}

bool Core::is_done_with(Seat there) const {
    const auto rank = around_.router().rank_at(there);
    return !rank || members_.failed(*rank) || life_.has_departed(*rank);
}

// Its caller may yet shrink it.
bool Core::may_precede(Epoch epoch) const {
    return epoch.value > around_.id().epoch.value && life_.stays() && !life_.fenced();
}

}  // namespace coppice::engine
