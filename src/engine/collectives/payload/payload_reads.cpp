// Payloads that are read out of their holders' memory: how one is opened, who reads it, and what this rank reads of others.
//
// A reader that has asked, and is told where (ReadingKind::here), is one until it says that it is done, or can read no more: it has left, or its
// connection has been ended. Until then the payload stays open, and its memory the payload's, whatever has been consumed. A reader says
// that it is done when nothing of its is under way there any more. So nothing is ever read that is not open, which would end the
// connection and look like a death. Each `here` is answered by one `done`, also where it comes too late.
//
// What is read at a rank that was left may land late, while another one's chunk is there already: they are the same bytes. Where what has come
// from it was wrong, they may not be: then nothing is asked for elsewhere, nor taken, before all of that has landed.
#include <fmt/format.h>

#include <algorithm>

#include "engine/collectives/payload/payloads.hpp"

namespace coppice::engine {
namespace {

using protocol::PullKind;
using protocol::PullMessage;
using What = Reading::Item::What;

// Bytes under way from one rank: messages to it wait behind them. Two chunks always may be.
constexpr std::uint64_t kMostUnderWay = 1024 * 1024;
constexpr std::uint32_t kLeastUnderWay = 2;
// Checks that are read together.
constexpr std::uint32_t kChecksTogether = 256;
// A word that tells nothing new is read again after so long, then twice as long.
constexpr std::uint64_t kShortestPauseNs = 10'000;
constexpr std::uint64_t kLongestPauseNs = 1'000'000;
// A word may be read while it is written; not so often in a row.
constexpr std::uint32_t kWrongWords = 8;
constexpr std::uint64_t kLostReaderNs = 2'000'000'000;

}  // namespace

// ------------------------------------------------------------------------------------- out of this rank's memory ---

// False: over that link nothing can be read, or into.
bool Payloads::open_for(Entry& entry, const Link& link) {
    if (entry.open) return entry.open->is_open_to(link.wire());
    if (!link.native_read() || entry.cannot_be_open || !take_copy(entry)) return false;
    const auto bytes = static_cast<std::size_t>(entry.descriptor->bytes);
    auto made =
        OpenPayload::make(link.wire(), {entry.own(), bytes}, *entry.descriptor,
                          HaveWord::seed_of(*entry.descriptor, around_.id().token, entry.sequence, members_.self()));
    entry.cannot_be_open = !made;
    if (!made) {
        ++counts_.unregistered;
        around_.context().warn_of_unregistered(made.error().message);
        return false;
    }
    entry.open = std::move(*made);
    return true;
}

// True: that message is of a rank that reads, or will be told where.
bool Payloads::serves_by_reads(Entry& entry, Rank from, const WireHeader& header, const PullMessage& message) {
    if (message.kind != PullKind::ask && message.kind != PullKind::credit) return false;
    const auto known = std::ranges::find(entry.readers, from, &Reader::rank);
    const bool asks = message.kind == PullKind::ask && message.first < message.end;
    if (asks) {
        const Link link = router_.to(from);
        if (header.detail != kReads || !link || !link.native_read()) return false;
        if (known != entry.readers.end())
            known->ask = message;
        else
            entry.readers.push_back({.rank = from, .ask = message});
        return true;
    }
    if (known == entry.readers.end()) return false;
    if (message.kind == PullKind::credit)
        known->ask.end = std::max(known->ask.end, message.end);
    else if (!known->has_offer)
        entry.readers.erase(known);
    return true;
}

// Those that can't be, for want of memory that may be locked, are served by messages. True: there are some, and the machine knows of them now.
bool Payloads::offer_to_readers(Entry& entry) {
    forget_lost_readers(entry);
    if (!entry.is_admitted()) return false;
    bool serves_by_messages = false;
    for (std::size_t i = 0; i < entry.readers.size();) {
        Reader& reader = entry.readers[i];
        const Link link = router_.to(reader.rank);
        const bool can = link && open_for(entry, link);
        if (!reader.has_offer && can && send_offer(entry, link)) {
            reader.has_offer = true;
            entry.machine.is_read_by(reader.rank);
        }
        if (reader.has_offer || can) {
            ++i;
            continue;
        }
        if (!entry.machine.receive(reader.ask)) news_.note_garbage();
        entry.readers.erase(entry.readers.begin() + static_cast<std::ptrdiff_t>(i));
        serves_by_messages = true;
    }
    return serves_by_messages;
}

// False: there is no room.
bool Payloads::send_offer(Entry& entry, const Link& link) {
    tell(entry);
    const Offer& offer = entry.open->offer();
    const WireHeader header{.token = around_.id().token,
                            .tag = {Channel::reading, ReadingKind::here},
                            .sequence = entry.sequence.value,
                            .stable = window_.stable(),
                            .root = entry.root.value,
                            .length = sizeof offer,
                            .epoch = around_.id().epoch.value};
    return link.send(bytes_of(header), offer.as_bytes(), &entry.in_flight) == transport::SendStatus::sent;
}

// A rank that this group takes for dead may be well in others that share its connection: it may have left this one without the others, and
// has what was under way within that time.
void Payloads::forget_lost_readers(Entry& entry) {
    const std::uint64_t now = around_.now_ns();
    for (Reader& reader : entry.readers)
        if (reader.lost_ns == 0 && members_.failed(reader.rank)) reader.lost_ns = now;
    std::erase_if(entry.readers, [this, now](const Reader& reader) {
        if (reader.lost_ns == 0) return false;
        const Link link = router_.to(reader.rank);
        return !reader.has_offer || !link || !link.may_be_read_there() || now - reader.lost_ns >= kLostReaderNs;
    });
}

const Reader* Payloads::last_reader(Sequence before) const {
    for (const auto& entry : entries_) {
        if (entry->sequence >= before) return nullptr;
        for (const Reader& reader : entry->readers)
            if (reader.has_offer) return &reader;
    }
    return nullptr;
}

std::string Payloads::holder_name() const {
    const Reader* const reader = last_reader(Sequence(window_.stable()));
    if (reader == nullptr) return window_.holder_name();
    return fmt::format("rank {} may still read the payload of an earlier one", reader->rank.value);
}

std::string Payloads::leaving_waits_for() const {
    const Reader* const reader = last_reader(life_.revoked() ? window_.next() : Sequence(window_.stable()));
    return reader == nullptr ? std::string()
                             : fmt::format("rank {} may still read a large payload of this one's", reader->rank.value);
}

std::optional<Rank> Payloads::leaving_depends_on() const {
    const Reader* const reader = last_reader(life_.revoked() ? window_.next() : Sequence(window_.stable()));
    return reader == nullptr ? std::nullopt : std::optional(reader->rank);
}

bool Payloads::drained() {
    bool all = true;
    for (const auto& entry : entries_)
        if (life_.revoked() || entry->sequence.value < window_.stable()) all = end_reads(*entry) && all;
    return all;
}

// ----------------------------------------------------------------------------------------- out of others' memory ---

// True: nothing of that has to be said to a rank whose memory is read.
bool Payloads::reads_instead(Entry& entry, const PullMessage& message) {
    if (message.kind != PullKind::ask && message.kind != PullKind::credit) return false;
    const auto at = std::ranges::find(entry.readings, message.to, [](const auto& one) { return one->from; });
    if (at == entry.readings.end()) return false;
    Reading& reading = **at;
    const bool asks = message.kind == PullKind::ask && message.first < message.end;
    if (!reading.is_open) {
        if (message.kind == PullKind::ask && !asks) entry.readings.erase(at);
        return false;
    }
    if (asks) reading.begin_at(message.first);
    if (message.kind == PullKind::ask && !asks) reading.is_left = true;
    return true;
}

// Whether a rank is asked to say where its chunks lie; this one's are open from then on, too, for they are read into.
bool Payloads::means_to_read(Entry& entry, const PullMessage& message, const Link& link) {
    if (message.kind != PullKind::ask || message.first >= message.end || !link.native_read()) return false;
    for (const auto& reading : entry.readings)
        if (reading->from == message.to) return true;
    if (entry.readings.size() >= OpenPayload::kMostReadings || !open_for(entry, link)) return false;
    std::uint32_t slot = 0;
    while (std::ranges::any_of(entry.readings, [slot](const auto& one) { return one->slot == slot; }))
        ++slot;
    entry.readings.push_back(std::make_unique<Reading>(Reading{.from = message.to, .slot = slot}));
    return true;
}

void Payloads::reading_message(Rank from, const WireHeader& header, std::span<const std::byte> payload) {
    const Sequence sequence(header.sequence);
    Entry* const entry = find(sequence);
    if (header.tag.kind == static_cast<std::uint8_t>(ReadingKind::done)) {
        if (entry == nullptr) return;
        std::erase_if(entry->readers, [from](const Reader& one) { return one.rank == from && one.has_offer; });
        return;
    }
    const auto is_its = [from](const auto& one) { return one->from == from; };
    const auto at =
        entry == nullptr ? decltype(entry->readings.begin()){} : std::ranges::find_if(entry->readings, is_its);
    if (entry == nullptr || at == entry->readings.end() || life_.revoked()) return say_done(from, sequence);
    if ((*at)->is_open) return news_.note_garbage();
    const auto offer = Offer::read(payload, *entry->descriptor);
    if (!offer) {
        entry->readings.erase(at);
        news_.note_garbage();
        entry->machine.spoiled(from);
        return say_done(from, sequence);
    }
    (*at)->offer = *offer;
    (*at)->is_open = true;
    (*at)->begin_at(entry->machine.have());
}

bool Payloads::is_wanted(const Entry& entry, const Reading& reading) const {
    return !reading.is_left && !entry.is_over && !life_.revoked() && entry.machine.source() == reading.from;
}

void Payloads::read_on(Entry& entry) {
    for (std::size_t i = 0; i < entry.readings.size();) {
        Reading& reading = *entry.readings[i];
        take_what_came(entry, reading);
        if (is_wanted(entry, reading)) {
            if (reading.is_open && !wrong_is_under_way(entry)) ask_for_more(entry, reading);
            ++i;
            continue;
        }
        if (reading.reads.under_way > 0) {
            ++i;
            continue;
        }
        if (reading.is_open) say_done(reading.from, entry.sequence);
        entry.readings.erase(entry.readings.begin() + static_cast<std::ptrdiff_t>(i));
    }
}

bool Payloads::wrong_is_under_way(const Entry& entry) {
    return std::ranges::any_of(entry.readings,
                               [](const auto& one) { return one->is_wrong && one->reads.under_way > 0; });
}

// What is known to be there, then the word that tells of more, behind it.
void Payloads::ask_for_more(Entry& entry, Reading& reading) {
    if (const std::uint32_t have = entry.machine.have(); reading.next < have) {
        reading.next = have;
        reading.checks_end = std::max(reading.checks_end, have);
    }
    const std::uint64_t fit = std::max<std::uint64_t>(kMostUnderWay / entry.descriptor->chunk, kLeastUnderWay);
    const auto most = static_cast<std::uint32_t>(std::min<std::uint64_t>(fit, plan_.credit));
    for (std::uint32_t under_way = reading.chunks_under_way(); reading.next < reading.known;) {
        if (reading.next == reading.checks_end) {
            const std::uint32_t count = std::min(reading.known - reading.next, kChecksTogether);
            if (!ask_for(entry, reading, {What::checks, reading.next}, count)) return;
            reading.checks_end += count;
        }
        if (under_way >= most || !ask_for(entry, reading, {What::chunk, reading.next})) return;
        ++reading.next;
        ++under_way;
    }
    if (reading.known == entry.machine.chunks() || reading.looks || around_.now_ns() < reading.look_ns) return;
    reading.looks = ask_for(entry, reading, {What::word});
}

// False: there is no room, or that rank is dead, which is about to be told.
bool Payloads::ask_for(const Entry& entry, Reading& reading, Reading::Item item, std::uint32_t count) {
    const Link link = router_.to(reading.from);
    if (!link || members_.failed(reading.from)) return false;
    const OpenPayload& open = *entry.open;
    transport::RemoteMemory what{.address = reading.offer.desk, .key = reading.offer.desk_key};
    std::span<std::byte> into = open.landing(reading.slot);
    const transport::Exposure* own = &open.desk();
    if (item.what == What::checks) {
        what.address += kChecksAt + std::uint64_t{item.number} * sizeof(std::uint32_t);
        into = open.checks(item.number, count);
    } else if (item.what == What::chunk) {
        what = {.address = reading.offer.chunks + entry.descriptor->at(item.number), .key = reading.offer.chunks_key};
        into = {entry.own() + entry.descriptor->at(item.number), entry.descriptor->length(item.number)};
        own = &open.chunks();
    }
    if (link.read(what, into, *own, &reading.reads) != transport::SendStatus::sent) return false;
    reading.asked.push_back(item);
    return true;
}

void Payloads::take_what_came(Entry& entry, Reading& reading) {
    for (; reading.seen < reading.reads.arrived; ++reading.seen) {
        const Reading::Item item = reading.asked.front();
        reading.asked.pop_front();
        if (item.what == What::word) take_word(entry, reading);
        if (item.what == What::chunk) take_read_chunk(entry, reading, item.number);
    }
    if (reading.reads.under_way > 0) return;
    reading.is_wrong = false;
    if (reading.asked.empty()) return;
    reading.asked.clear();  // the connection has ended
    reading.looks = false;
    reading.is_left = true;
}

void Payloads::take_word(Entry& entry, Reading& reading) {
    reading.looks = false;
    const std::uint64_t seed = HaveWord::seed_of(*entry.descriptor, around_.id().token, entry.sequence, reading.from);
    const auto have = entry.open->landed(reading.slot).chunks(seed, entry.machine.chunks());
    if (!have) {
        if (++reading.wrong_words < kWrongWords) return;
        reading.wrong_words = 0;
        news_.note_garbage();
        leave_as_wrong(entry, reading);
        return;
    }
    reading.wrong_words = 0;
    if (*have > reading.known) {
        reading.known = *have;
        reading.look_ns = reading.pause_ns = 0;
        return;
    }
    reading.pause_ns = std::clamp(2 * reading.pause_ns, kShortestPauseNs, kLongestPauseNs);
    reading.look_ns = around_.now_ns() + reading.pause_ns;
}

void Payloads::leave_as_wrong(Entry& entry, Reading& reading) {
    reading.is_wrong = true;
    entry.machine.spoiled(reading.from);
}

void Payloads::take_read_chunk(Entry& entry, Reading& reading, std::uint32_t chunk) {
    // What came out of a dead rank's memory is refused from its peer_failed() on, as its messages are: a verdict may stand on that.
    if (life_.revoked() || members_.failed(reading.from) || !entry.machine.takes(chunk)) {
        ++counts_.again;
        return;
    }
    if (wrong_is_under_way(entry)) {
        ++counts_.again;
        return reading.begin_at(entry.machine.have());
    }
    if (!entry.open->is_right(chunk)) {
        ++counts_.damaged;
        leave_as_wrong(entry, reading);
        return;
    }
    entry.open->note_checked(chunk);
    ++counts_.read;
    (void)entry.machine.receive({.kind = PullKind::chunk, .from = reading.from, .to = members_.self(), .first = chunk});
    note_taken(1);
}

void Payloads::say_done(Rank to, Sequence sequence) {
    controls_.send(to, {Channel::reading, ReadingKind::done}, sequence.value);
    news_.look_soon();
}

// What is asked of a rank comes to it behind that, or it would take the one that asks for one that reads already.
bool Payloads::has_said_done(Rank to) {
    if (controls_.wait_for(to)) controls_.flush();
    return !controls_.wait_for(to);
}

// The payload is over for this rank, or all is: true when nobody reads it here, nor this rank elsewhere.
bool Payloads::end_reads(Entry& entry) {
    entry.is_over = true;
    read_on(entry);
    forget_lost_readers(entry);
    std::erase_if(entry.readers, [](const Reader& one) { return !one.has_offer; });
    return entry.readers.empty() && entry.readings.empty();
}

// It leaves when it is done.
void Payloads::member_left(Rank rank) {
    for (const auto& entry : entries_)
        std::erase_if(entry->readers, [rank](const Reader& one) { return one.rank == rank; });
}

}  // namespace coppice::engine
