// What the ranks say to each other of large payloads, and the chunks themselves.
#include <algorithm>

#include "engine/collectives/payload/payloads.hpp"
#include "transport/crc32c.hpp"

namespace coppice::engine {
namespace {

using protocol::PullKind;
using protocol::PullMessage;

// Messages of one payload in one round of progress, so that a caller comes back to what it wants.
constexpr int kBurst = 512;

std::uint64_t packed(const PullMessage& message) {
    return std::uint64_t{message.first} << 32 | message.end;
}
PullMessage unpacked(const WireHeader& header, Rank from, Rank to) {
    return {.kind = static_cast<PullKind>(header.tag.kind),
            .from = from,
            .to = to,
            .first = static_cast<std::uint32_t>(header.more >> 32),
            .end = static_cast<std::uint32_t>(header.more)};
}

}  // namespace

bool Payloads::message(Rank from, const WireHeader& header, std::span<const std::byte> payload,
                       transport::Buffer /*buffer*/) {
    if (header.tag.channel == Channel::reading) {
        reading_message(from, header, payload);
        return false;
    }
    if (life_.revoked() || header.sequence < window_.stable()) return false;  // late
    Entry* const entry = engage(Sequence(header.sequence), Rank(header.root));
    const PullMessage message = unpacked(header, from, members_.self());
    const bool is_possible =
        entry != nullptr &&
        (message.kind == PullKind::chunk
             ? take_chunk(*entry, from, message, header, payload)
             : payload.empty() && (serves_by_reads(*entry, from, header, message) || entry->machine.receive(message)));
    if (!is_possible) news_.note_garbage();
    return false;
}

// Whether these bytes are what comes next of a chunk. `end` of a chunk's message says where in it they begin. In parts it comes from
// the rank that was asked for it alone, as those of two would be mixed.
bool Payloads::continues(const Entry& entry, const PullMessage& part, std::size_t bytes) const {
    if (!entry.machine.takes(part.first) || wrong_is_under_way(entry)) return false;
    const std::size_t length = entry.descriptor->length(part.first);
    if (part.end == 0 && bytes == length) return true;
    if (bytes > length || part.end > length - bytes || entry.machine.source() != part.from) return false;
    const Landing& landing = entry.landing;
    return part.end == 0 || (landing.from == part.from && landing.chunk == part.first && landing.bytes == part.end);
}

// Memory of this rank that no other one looks at, as the chunk does not count as here.
std::byte* Payloads::place(Rank from, const WireHeader& header, std::size_t bytes, std::size_t here) {
    const PullMessage part = unpacked(header, from, members_.self());
    Entry* const entry = part.kind == PullKind::chunk ? find(Sequence(header.sequence)) : nullptr;
    const bool is_wanted = entry != nullptr && entry->root.value == header.root && entry->own() != nullptr &&
                           entry->machine.source() == from && continues(*entry, part, bytes);
    if (!is_wanted) {
        if (here > 0) ++counts_.again;
        return nullptr;
    }
    Landing& landing = entry->landing;
    if (part.end == 0) landing = {.from = from, .chunk = part.first, .bytes = 0, .coming = landing.coming};
    if (here != landing.coming) entry->machine.heard(from);
    landing.coming = here;
    return entry->own() + entry->descriptor->at(part.first) + part.end;
}

// False for what can't be.
bool Payloads::take_chunk(Entry& entry, Rank from, const PullMessage& message, const WireHeader& header,
                          std::span<const std::byte> payload) {
    if (message.first >= entry.machine.chunks()) return false;
    const std::size_t length = entry.descriptor->length(message.first);
    if (payload.empty() || payload.size() > length || message.end > length - payload.size()) return false;
    const std::size_t end = message.end + payload.size();
    if (!continues(entry, message, payload.size())) {
        if (end == length) ++counts_.again;
        // It would wait for what it takes for under way.
        if (wrong_is_under_way(entry)) entry.machine.spoiled(from);
        return true;
    }
    if (!router_.to(from).within_host() && transport::crc32c(payload) != header.detail) {
        ++counts_.damaged;
        entry.machine.spoiled(from);
        return true;
    }
    if (!take_copy(entry)) {
        entry.has_no_memory = entry.own() == nullptr;
        return true;
    }
    std::byte* const to = entry.own() + entry.descriptor->at(message.first) + message.end;
    if (payload.data() != to) std::memcpy(to, payload.data(), payload.size());
    if (end < length) {
        entry.landing = {.from = from, .chunk = message.first, .bytes = static_cast<std::uint32_t>(end)};
        entry.machine.heard(from);
        return true;
    }
    entry.landing = {};
    PullMessage whole = message;
    whole.end = 0;
    const bool is_taken = entry.machine.receive(whole);
    note_taken(1);
    return is_taken;
}

// False: the transport has no room, or its receiver has to hear of deaths first.
bool Payloads::send(Entry& entry, Unsent& unsent) {
    const PullMessage& message = unsent.message;
    const Link link = router_.to(message.to);
    if (!link || members_.failed(message.to)) return true;
    const Tag tag(Channel::payload, message.kind);
    if (carries_failures(tag) && !tell_failures(message.to, unsent)) return false;
    WireHeader header{.token = around_.id().token,
                      .tag = tag,
                      .sequence = entry.sequence.value,
                      .stable = window_.stable(),
                      .root = entry.root.value,
                      .epoch = around_.id().epoch.value,
                      .more = packed(message)};
    if (message.kind == PullKind::chunk) return send_chunk(entry, unsent, link, header);
    if (reads_instead(entry, message)) return true;
    if (!has_said_done(message.to)) return false;
    if (means_to_read(entry, message, link)) header.detail = kReads;
    return link.send(bytes_of(header), {}, &entry.in_flight) != transport::SendStatus::again;
}

// In as many parts as its wire needs.
bool Payloads::send_chunk(Entry& entry, Unsent& unsent, const Link& link, WireHeader& header) {
    if (!take_copy(entry)) return true;  // its receiver finds this rank silent
    PullMessage part = unsent.message;
    const std::size_t length = entry.descriptor->length(part.first);
    const std::byte* const chunk = entry.own() + entry.descriptor->at(part.first);
    while (unsent.offset < length) {
        const std::span body(chunk + unsent.offset, std::min(length - unsent.offset, link.largest()));
        part.end = unsent.offset;
        header.more = packed(part);
        header.length = static_cast<std::uint32_t>(body.size());
        if (!link.within_host()) header.detail = transport::crc32c(body);
        const transport::SendStatus status = link.send(bytes_of(header), body, &entry.in_flight);
        if (status == transport::SendStatus::again) return false;
        if (status == transport::SendStatus::failed) return true;
        unsent.offset += header.length;
    }
    ++counts_.sent;
    return true;
}

// The verdict about a dead root stands on the receiver knowing what the sender knows.
bool Payloads::tell_failures(Rank to, Unsent& unsent) {
    if (!unsent.notices_sent) {
        for (const Rank dead : members_.failed_ranks())
            controls_.send(to, {Channel::members, MembersKind::failure_notice}, 0, dead.value);
        unsent.notices_sent = true;
    }
    controls_.flush();
    return !controls_.wait_for(to);
}

// A rank that takes nothing for a while holds up nobody else. What waits is bounded: by what each may ask for at once.
void Payloads::pump(Entry& entry) {
    if (wrong_is_under_way(entry)) return;
    std::vector<Unsent>& unsent = entry.unsent;
    const auto waits = [&unsent](Rank to, std::size_t among) {
        return std::ranges::any_of(std::span(unsent).first(among),
                                   [to](const Unsent& one) { return one.message.to == to; });
    };
    std::size_t kept = 0;
    for (std::size_t i = 0; i < unsent.size(); ++i) {
        if (waits(unsent[i].message.to, kept) || !send(entry, unsent[i])) unsent[kept++] = unsent[i];
    }
    unsent.resize(kept);
    for (int i = 0; i < kBurst; ++i) {
        const auto next = entry.machine.next_send(Nanoseconds(around_.now_ns()));
        if (!next) return;
        Unsent message{.message = *next};
        if (waits(next->to, unsent.size()) || !send(entry, message)) unsent.push_back(message);
    }
    has_more_ = true;
}

}  // namespace coppice::engine
