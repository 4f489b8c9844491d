// Making progress, and the messages between the wire and the components.
#include "engine/core/core.hpp"

#include <algorithm>
#include <new>

#include "engine/context.hpp"

namespace coppice::engine {
namespace {

// How often a polling rank looks at what changes rarely: failure logs, others' counters.
constexpr std::uint32_t kHousekeepingRounds = 32;

// Of calls that take the shortcut (at_once.hpp): as many broadcasts, less one, as have their roots compared together (roots.cpp).
constexpr std::uint32_t kMostStartsWithoutALook = 31;

}  // namespace

void Core::add(Collective& collective, std::span<const Channel> channels) {
    collectives_.push_back(&collective);
    for (const Channel channel : channels)
        by_channel_[static_cast<std::size_t>(channel)] = &collective;
}

std::uint64_t Core::now_ns() const {
    return context_->clock().now_ns();
}

bool Core::may_call_back() const {
    return context_->may_call_back();
}

// ---------------------------------------------------------------------------------------------------- progress ---

std::size_t Core::progress(Care care) {
    const std::size_t events = poll_wires();
    attend(events, care);
    return events + std::exchange(work_, 0);
}

void Core::attend(std::size_t events, Care care) {
    const bool thorough = care == Care::thorough || leaving() || look_soon_ || count_moved_ ||
                          (publishing_ && events > 0) || detector_is_due() || ++rounds_ % kHousekeepingRounds == 0;
    for (Collective* const collective : collectives_)
        collective->progress(thorough);
    if (thorough || look_soon_ || count_moved_) {
        look_soon_ = count_moved_ = false;
        look_at_held_back();
        read_failure_logs();
        read_departures();
        hear_last_words();
        progress_detector();
        if (!controls_.empty()) flush_controls();
        for (Collective* const collective : collectives_)
            collective->keep_house();
        if (!controls_.empty()) flush_controls();
        context_->observe();
    }
    if (!untold_.empty()) tell_failures();
}

void Core::attend_to_news(bool count_concerns_components) {
    if (count_concerns_components || look_soon_ || !untold_.empty() || !controls_.empty())
        return attend(0, Care::usual);
    count_moved_ = false;
    passenger_->pass_on();
}

bool Core::waits_for_room() const {
    return !controls_.empty() || std::ranges::any_of(collectives_, &Collective::waits_for_room);
}

Result<void> Core::look_before_start() {
    if (!to_meet_.empty()) meet_next();
    if ((++starts_ & starts_mask_) == 0) look_for_news();
    if (!revoked()) look_whether_fenced();  // from which this rank may learn that it has no quorum
    if (revoked()) {
        if (auto reason = reason_to_revoke()) return tl::unexpected(std::move(*reason));
        return fail(COPPICE_ERR_REVOKED, "the group has been revoked: it can be shrunk or destroyed, no more");
    }
    if (fenced()) return fail(COPPICE_ERR_FENCED, "rank {} was taken for dead by the others", members_.self().value);
    return {};
}

void Core::look_for_news() {
    context_->progress();
    read_failure_logs();
    hear_last_words();
}

// There are ranks to meet, or there is a bound of silence.
std::uint32_t Core::starts_without_a_look() const {
    const bool has_something_to_do =
        standing_ != Standing::member || !to_meet_.empty() || settings_.detection_bound.value > 0;
    return has_something_to_do ? 0 : std::min(kMostStartsWithoutALook, settings_.window - 1);
}

void Core::end_all(coppice_status_t status, const std::string& why) {
    for (Collective* const collective : collectives_)
        collective->end_all(status, why);
}

std::optional<Error> Core::reason_to_revoke() {
    for (Collective* const collective : collectives_)
        if (auto reason = collective->reason_to_revoke()) return reason;
    return std::nullopt;
}

// ---------------------------------------------------------------------------------------------------- messages ---

// Called from within foreign code: nothing may be thrown through it. What is familiar is the component's in one jump.
bool Core::message(Seat there, std::span<const std::byte> bytes, std::span<const std::byte> payload,
                   transport::Buffer buffer) {
    if (there.value < members_.ranks() && there != own_seat()) [[likely]] {
        if (const WireHeader* const header = familiar_.recognize(bytes, payload.size())) [[likely]] {
            const Rank from(there.value);
            detector_.heard(from);
            return familiar_to_->message(from, *header, payload, buffer);
        }
    }
    return strange_message(there, bytes, payload, buffer);
}

// Not inline: what it keeps on the stack would cost each message that is familiar.
[[gnu::noinline]] bool Core::strange_message(Seat there, std::span<const std::byte> bytes,
                                             std::span<const std::byte> payload, transport::Buffer buffer) try {
    if (router_.ranks_are_seats()) return take(Rank(there.value), bytes, payload, buffer);
    if (const auto from = router_.rank_at(there)) return take(*from, bytes, payload, buffer);
    ++(fenced() ? refused_ : garbage_);  // as in take()
    return false;
} catch (const std::bad_alloc&) {
    ++refused_;  // no memory to hold on to it
    return false;
}

std::byte* Core::place(Seat there, std::span<const std::byte> bytes, std::size_t payload_length, std::size_t here) {
    const auto from = router_.rank_at(there);
    if (!from || from->value >= members_.ranks() || *from == members_.self() || members_.failed(*from)) return nullptr;
    const auto header = decode(bytes, payload_length, id_);
    if (!header || header->root >= members_.ranks() || revoked()) return nullptr;
    Collective* const collective = by_channel_[static_cast<std::size_t>(header->tag.channel)];
    return collective == nullptr ? nullptr : collective->place(*from, *header, payload_length, here);
}

bool Core::take(Rank from, std::span<const std::byte> bytes, std::span<const std::byte> payload,
                transport::Buffer buffer) {
    const auto header = decode(bytes, payload.size(), id_);
    if (!header || from.value >= members_.ranks() || from == members_.self() || header->root >= members_.ranks() ||
        !hear_count(header->stable)) [[unlikely]] {
        // The others may have gone on without a rank that they take for dead: it need not know of what they speak.
        ++(fenced() ? refused_ : garbage_);
        return false;
    }
    if (members_.failed(from) && !is_heard_out(from, header->tag)) {
        ++refused_;
        const bool is_answer =
            header->tag == Tag(Channel::members, MembersKind::failure_notice) && header->sequence == kAnswered;
        if (!is_answer) router_.transport_set()->answer_one_to_fence(router_.seat_of(from), id_, from);
        return false;
    }
    detector_.heard(from);
    if (header->tag.channel == Channel::window)
        count_moved_ = true;
    else if (!row_of(header->tag.channel).is_frequent)
        look_soon_ = true;
    if (header->tag.channel == Channel::members) {
        members_message(from, *header);
        return false;
    }
    Collective* const collective = by_channel_[static_cast<std::size_t>(header->tag.channel)];
    if (collective == nullptr) [[unlikely]] {
        ++garbage_;
        return false;
    }
    if (stage() == Stage::left) [[unlikely]] {
        departure_.heard(from);
        send_departures();
    }
    if (revoked() && !collective->outlives_revocation()) return false;
    const ChannelRow& row = row_of(header->tag.channel);
    if (row.is_frequent && !row.is_long && takes_part_as_ever()) {
        familiar_.is(*header, payload.size());
        familiar_to_ = collective;
    }
    return collective->message(from, *header, payload, buffer);
}

bool Core::hear_count(std::uint64_t count) {
    if (count == heard_count_) return true;
    if (!passenger_->heard(count)) return false;
    heard_count_ = count;
    return true;
}

void Core::members_message(Rank from, const WireHeader& header) {
    const auto kind = static_cast<MembersKind>(header.tag.kind);
    switch (kind) {
        case MembersKind::left:
            return header.sequence == kNeverVoted ? member_left_without_vote(from) : member_left(from);
        case MembersKind::never_here:
            note_voteless({&from, 1});
            return learn_failure(from);
        case MembersKind::still_lives:
            return note_living(from, header.detail);
        case MembersKind::leaving_ask:
        case MembersKind::leaving_answer:
            return departure_message(from, header);
        case MembersKind::heartbeat:
            // One that has left this group may still observe this rank, which beats to another by now.
            if (header.sequence == static_cast<std::uint64_t>(Beat::asks)) send_beat(from, Beat::answers);
            break;
        case MembersKind::failure_notice:
            break;
    }
    const auto news =
        kind == MembersKind::failure_notice ? protocol::DetectorKind::notice : protocol::DetectorKind::heartbeat;
    if (!detector_.receive({.kind = news, .from = from, .to = members_.self(), .about = Rank(header.detail)})) {
        ++garbage_;
        return;
    }
    heed_detector();
}

void Core::hear_last_words() {
    for (Collective* const collective : collectives_)
        collective->hear_last_words();
}

// ------------------------------------------------------------------------------------------------------ control ---

void Core::send_control(Rank to, Tag tag, std::uint64_t sequence, std::uint32_t detail) {
    if (to == members_.self() || members_.failed(to)) return;
    controls_.push_back(
        {to,
         WireHeader{.token = id_.token, .tag = tag, .sequence = sequence, .detail = detail, .epoch = id_.epoch.value}});
}

void Core::flush_controls() {
    const std::size_t count = controls_.size();
    std::size_t kept = 0;
    for (std::size_t i = 0; i < count; ++i) {
        Control control = controls_[i];
        const Link link = router_.to(control.to);
        if (!link || members_.failed(control.to)) continue;
        control.header.stable = passenger_->count();
        std::uint32_t in_flight = 0;  // no payload, so nothing is referred to
        if (link.send(bytes_of(control.header), {}, &in_flight) == transport::SendStatus::again)
            controls_[kept++] = control;
    }
    controls_.erase(controls_.begin() + static_cast<std::ptrdiff_t>(kept),
                    controls_.begin() + static_cast<std::ptrdiff_t>(count));
}

bool Core::controls_wait_for(Rank to) const {
    return std::ranges::find(controls_, to, &Control::to) != controls_.end();
}

}  // namespace coppice::engine
