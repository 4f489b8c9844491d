#include "engine/collectives/payload/payloads.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "base/copy_large.hpp"
#include "transport/faults.hpp"

namespace coppice::engine {
namespace {

using protocol::PullResult;

// A root copies so many bytes before others hear that they can have them: they are in its cache by then, and it is no longer away from
// what the wire brings than that it has copied some of these.
constexpr std::uint32_t kPiece = 32 * 1024;
constexpr std::uint32_t kInARow = 256 * 1024;

// What a chunk is where nothing is set. On one host others read what is there, and the smaller it is the earlier they begin. Between
// hosts each chunk costs both ends a message, and a chain of them begins when the first one has a chunk.
constexpr std::uint32_t kChunkWithinHost = 8 * 1024;
constexpr std::uint32_t kLeastFarChunk = 32 * 1024;
constexpr std::uint32_t kMostFarChunk = 64 * 1024;
constexpr std::uint32_t kFarChunks = 8;  // at least, unless they would be smaller than that
// Of those that are read: each costs its reader a work request.
constexpr std::uint32_t kMostReadChunk = kMostChunk;
constexpr std::uint32_t kReadChunks = 16;

}  // namespace

Payloads::Payloads(Core& core, Window& window)
    : around_(core.around()),
      controls_(core.controls()),
      life_(core.life()),
      news_(core.news()),
      window_(window),
      members_(core.members()),
      router_(core.around().router()),
      shown_(core),
      lent_(shown_),
      plan_{.nodes = &members_.nodes_table(),
            .credit = core.around().settings().payload_ahead,
            .patience = core.around().settings().payload_patience,
            .shows = shown_.exists()},
      eager_(core.around().settings().eager),
      most_bytes_(core.around().settings().payload_window) {
    entries_.reserve(std::size_t{2} * window.size());
}

// -------------------------------------------------------------------------------------------------------- entries ---

Payloads::Entry* Payloads::find(Sequence sequence) const {
    for (const auto& entry : entries_)
        if (entry->sequence == sequence) return entry.get();
    return nullptr;
}

// None for broadcasts that are over, and for such as no rank can have started.
Payloads::Entry* Payloads::engage(Sequence sequence, Rank root) {
    if (Entry* const known = find(sequence)) return known->root == root ? known : nullptr;
    if (sequence.value < window_.stable() || sequence.value >= window_.next().value + window_.size()) return nullptr;
    auto made = std::make_unique<Entry>(plan_, members_.self(), sequence, root, failed_);
    const auto place = std::ranges::upper_bound(entries_, sequence, {}, [](const auto& one) { return one->sequence; });
    return entries_.insert(place, std::move(made))->get();
}

// From others, and what this rank knows of them is up to date.
void Payloads::note_taken(std::uint32_t chunks) {
    counts_.taken += chunks;
    if (const auto& faults = router_.transport_set()->faults()) faults->chunks_taken(chunks);
}

// By this rank, which is the root.
void Payloads::note_filled(std::uint32_t chunks) {
    if (const auto& faults = router_.transport_set()->faults()) faults->chunks_filled(chunks);
}

// Beside all that are known to be before that one. Those behind it may wait for it.
bool Payloads::fits(std::uint64_t bytes, Sequence before) const {
    std::uint64_t held = 0;
    for (const auto& entry : entries_) {
        if (entry->sequence >= before) break;
        if (entry->descriptor) held += entry->descriptor->bytes;
    }
    return held == 0 || held + bytes <= most_bytes_;
}

bool Payloads::has_room(std::size_t bytes) {
    if (!goes_in_chunks(bytes) || bytes > kMaxBroadcast || fits(bytes, window_.next())) return true;
    window_.ask_for(window_.stable() + 1);
    release_stable();
    return fits(bytes, window_.next());
}

PayloadMemory Payloads::memory_for(std::size_t bytes) {
    if (spare_.size() >= bytes) return std::exchange(spare_, PayloadMemory());
    return PayloadMemory::allocate(bytes);
}

// Memory for an entry of which the size is known. False: there is none.
bool Payloads::take_memory(Entry& entry) {
    const auto bytes = static_cast<std::size_t>(entry.descriptor->bytes);
    if (shown_.has_readers()) entry.bulk = shown_.take(bytes);
    if (entry.bulk.data == nullptr) entry.memory = memory_for(bytes);
    return entry.own() != nullptr;
}

// What lies with another rank of the host is copied, as far as it is there. False: there is no memory, or it may be something else.
bool Payloads::take_copy(Entry& entry) {
    if (entry.own() != nullptr) return true;
    entry.memory = memory_for(static_cast<std::size_t>(entry.descriptor->bytes));
    if (!entry.memory) return false;
    const std::uint32_t have = entry.machine.have();
    if (have == 0) return true;
    const std::size_t bytes =
        static_cast<std::size_t>(entry.descriptor->at(have - 1)) + entry.descriptor->length(have - 1);
    std::memcpy(entry.memory.data(), entry.its, bytes);
    if (!may_be_overwritten()) return true;
    life_.be_fenced();
    return false;
}

// What this rank has is to be read by others, or they are to know that they can't.
void Payloads::show(Entry& entry) {
    if (!shown_.has_readers()) return;
    entry.told = entry.machine.have();
    shown_.begin({.sequence = entry.sequence,
                  .root = entry.root,
                  .descriptor = *entry.descriptor,
                  .place = entry.bulk.place,
                  .have = entry.told});
}

Result<std::byte*> Payloads::allocate(std::size_t bytes) {
    window_.ask_for(0);
    release_stable();
    if (std::byte* const memory = lent_.allocate(bytes)) return memory;
    return fail(COPPICE_ERR_NO_MEMORY, "there is no memory for {} bytes", bytes);
}

Result<void> Payloads::give_back(const std::byte* address) {
    if (lent_.give_back(address)) return {};
    return fail(COPPICE_ERR_INVALID_ARGUMENT, "no memory that begins at {} is this group's to be freed",
                static_cast<const void*>(address));
}

// The piece that a payload need not be copied from; null: there is none.
Result<LentMemory::Piece*> Payloads::lent_for(std::span<const std::byte> payload) const {
    LentMemory::Piece* const piece = lent_.find(payload.data());
    if (piece == nullptr) return nullptr;
    const void* const at = payload.data();
    if (piece->is_given_back)
        return fail(COPPICE_ERR_INVALID_ARGUMENT, "the memory at {} has been freed (coppice_memory_free)", at);
    if (const auto room = static_cast<std::size_t>(piece->data + piece->bytes - payload.data()); payload.size() > room)
        return fail(COPPICE_ERR_INVALID_ARGUMENT, "{} bytes at {} reach beyond the {} that were allocated there",
                    payload.size(), at, room);
    return piece->bulk.data != nullptr || !shown_.has_readers() ? piece : nullptr;
}

std::uint32_t Payloads::chunk_of(std::size_t bytes) const {
    if (const std::uint32_t chosen = around_.settings().payload_chunk; chosen != 0) return chosen;
    if (members_.single_node()) return kChunkWithinHost;
    const auto reads = [](const auto& wire) { return wire->capabilities().native_read; };
    const bool are_read = std::ranges::any_of(router_.wires(), reads);
    const auto part = [bytes](std::size_t most, std::uint32_t chunks) {
        return static_cast<std::uint32_t>(std::bit_ceil(std::min<std::size_t>(bytes, most * chunks) / chunks));
    };
    const std::uint32_t sent = std::clamp(part(kMostFarChunk, kFarChunks), kLeastFarChunk, kMostFarChunk);
    return are_read ? std::max(sent, part(kMostReadChunk, kReadChunks)) : sent;
}

Result<Descriptor> Payloads::hold(Sequence sequence, std::span<const std::byte> payload) {
    // Memory that nobody needs any more is taken again at once: it is in the caches, and has its pages.
    window_.ask_for(0);
    release_stable();
    const auto lent = lent_for(payload);
    if (!lent) return tl::unexpected(lent.error());
    Entry* const known = find(sequence);
    Entry* const entry = engage(sequence, members_.self());
    if (entry == nullptr) return fail(COPPICE_ERR_MISMATCH, "broadcast {}: others name another root", sequence.value);
    entry->descriptor = Descriptor::of(payload.size(), chunk_of(payload.size()));
    if (*lent != nullptr) {
        LentMemory::begin_use(**lent);
        entry->lent = *lent;
        entry->lent_at = (*lent)->data + (payload.data() - (*lent)->data);
        entry->bulk.place = (*lent)->place_of(payload.data());
    } else if (!take_memory(*entry)) {
        entry->descriptor.reset();
        if (known == nullptr) std::erase_if(entries_, [entry](const auto& one) { return one.get() == entry; });
        return fail(COPPICE_ERR_NO_MEMORY, "broadcast {}: there is no memory for {} bytes", sequence.value,
                    payload.size());
    }
    const std::uint32_t chunks = entry->descriptor->chunks();
    entry->machine.hold(chunks, *lent != nullptr ? chunks : 0);
    show(*entry);
    return *entry->descriptor;
}

bool Payloads::fill(Sequence sequence, std::span<const std::byte> payload) {
    Entry* const entry = find(sequence);
    if (entry == nullptr || life_.revoked()) return true;
    const Descriptor& descriptor = *entry->descriptor;
    const std::uint32_t all = descriptor.chunks();
    const std::uint32_t step = std::max(kPiece / descriptor.chunk, 1U);
    for (std::uint64_t done = 0; done < kInARow && entry->machine.have() < all;) {
        const std::uint32_t have = entry->machine.have();
        const std::uint32_t end = std::min(all, have + step);
        const std::uint64_t from = descriptor.at(have);
        const auto bytes = static_cast<std::size_t>(std::min(descriptor.at(end), descriptor.bytes) - from);
        copy_for_others(entry->own() + from, payload.data() + from, bytes);
        entry->machine.hold(all, end);
        tell(*entry);
        note_filled(end - have);
        done += bytes;
    }
    return entry->machine.have() == all;
}

// Others read what is there.
void Payloads::tell(Entry& entry) {
    if (entry.open && !entry.open->tell(entry.machine.have())) {
        news_.note_work();
        has_more_ = true;
    }
    if (entry.bulk.data == nullptr || entry.machine.have() == entry.told) return;
    entry.told = entry.machine.have();
    shown_.tell(entry.sequence, entry.told);
}

void Payloads::learn(Sequence sequence, Rank root, std::span<const std::byte> descriptor) {
    Entry* const entry = engage(sequence, root);
    if (entry == nullptr || entry->descriptor || entry->is_wrong) return;
    entry->descriptor = Descriptor::read(descriptor);
    if (!entry->descriptor) {
        entry->is_wrong = true;
        return news_.note_garbage();
    }
    admit();
}

// Memory for those that may be pulled, the oldest first. What is read where it lies needs none.
void Payloads::admit() {
    bool is_full = false;
    for (const auto& entry : entries_) {
        if (!entry->descriptor || entry->is_admitted() || entry->has_no_memory) continue;
        const bool needs_memory = !reads_its_leader(*entry);
        is_full = is_full || (needs_memory && !fits(entry->descriptor->bytes, entry->sequence));
        if (needs_memory && is_full) continue;
        entry->has_no_memory = needs_memory && !take_memory(*entry);
        if (entry->has_no_memory) continue;
        entry->machine.learn(entry->descriptor->chunks());
        watch(*entry);
        show(*entry);
    }
    if (is_full) window_.ask_for(window_.stable() + 1);
}

// Then it needs no memory, unless it is to serve others.
bool Payloads::reads_its_leader(const Entry& entry) const {
    const auto leader = members_.leader_for(members_.own_node(), entry.root);
    return shown_.exists() && leader && *leader != members_.self();
}

// ------------------------------------------------------------------------------------------------- on one host ---

// Takes note of what the rank shows that is watched, if there is one.
void Payloads::watch(Entry& entry) {
    const auto by = entry.machine.watched();
    if (!by) return;
    const auto row = shown_.look(*by, entry.sequence);
    if (!row) return;
    if (row->is_wrong) {
        news_.note_garbage();
        return entry.machine.spoiled(*by);
    }
    const bool is_it = row->root == entry.root && row->descriptor == *entry.descriptor && row->place != 0;
    if (is_it && entry.its == nullptr) entry.its = shown_.data(*by, *row);
    if (!is_it || entry.its == nullptr) return entry.machine.not_shown(*by);
    const std::uint32_t before = entry.machine.have();
    entry.machine.shown(*by, row->have);
    const std::uint32_t news = entry.machine.have() - before;
    note_taken(news);
    if (news == 0 || entry.own() == nullptr) return;
    const std::uint64_t from = entry.descriptor->at(before);
    const std::uint64_t to = entry.descriptor->at(row->have - 1) + entry.descriptor->length(row->have - 1);
    std::memcpy(entry.own() + from, entry.its + from, static_cast<std::size_t>(to - from));
    if (may_be_overwritten()) life_.be_fenced();
}

// What is shown outlives the rank that shows it, and is not looked at any more once that is known to be dead: a broadcast that this
// rank has not heard of yet is begun if all of it is there.
void Payloads::hear_last_words() {
    if (!shown_.exists() || life_.revoked()) return;
    for (const auto& entry : entries_)
        watch(*entry);
    if (!shown_.any()) return;
    for (const Rank local_peer : members_.ranks_of(members_.own_node())) {
        if (local_peer == members_.self() || members_.failed(local_peer)) continue;
        for (const Shown::Row& row : shown_.look(local_peer)) {
            if (row.place == 0 || row.have != row.descriptor.chunks() || find(row.sequence) != nullptr) continue;
            if (row.root.value < members_.ranks() && engage(row.sequence, row.root) != nullptr)
                learn(row.sequence, row.root, row.descriptor.as_bytes());
        }
    }
}

// What everybody has consumed is asked of nobody any more.
void Payloads::release_stable() {
    const std::uint64_t stable = window_.stable();
    std::erase_if(entries_, [this, stable](const auto& entry) {
        if (entry->sequence.value >= stable || entry->in_flight > 0 || !end_reads(*entry)) return false;
        entry->open.reset();
        give_memory_back(*entry);
        return true;
    });
}

void Payloads::give_memory_back(Entry& entry) {
    if (entry.lent != nullptr) return lent_.end_use(*entry.lent);
    if (entry.bulk.data != nullptr) shown_.give_back(entry.bulk);
    if (entry.memory.size() > spare_.size() && entry.memory.size() <= most_bytes_) spare_ = std::move(entry.memory);
}

Payloads::Look Payloads::look(Sequence sequence) const {
    const Entry* const entry = find(sequence);
    if (entry == nullptr) return {};
    Look look{.state = State::pending, .bytes = entry->descriptor ? entry->descriptor->bytes : 0, .payload = {}};
    if (entry->is_wrong) look.state = State::no_descriptor;
    if (entry->has_no_memory) look.state = State::no_memory;
    if (const std::uint32_t have = entry->machine.have(); have > 0) {
        const std::uint64_t here = std::min(entry->descriptor->at(have), look.bytes);
        look.payload = {entry->data(), static_cast<std::size_t>(here)};
    }
    switch (entry->machine.result()) {
        case PullResult::complete:
            look.state = State::here;
            break;
        case PullResult::root_failed:
            look.state = State::root_failed;
            break;
        case PullResult::pending:
            break;
    }
    return look;
}

std::string Payloads::waiting_for(Sequence sequence) const {
    const Entry* const entry = find(sequence);
    if (entry == nullptr || !entry->descriptor) return {};
    if (!entry->is_admitted())
        return fmt::format("{} bytes, for which there is no room beside those before", entry->descriptor->bytes);
    std::string text = fmt::format("{} of {} chunks are here", entry->machine.have(), entry->machine.chunks());
    if (const auto source = entry->machine.source()) {
        const bool is_read = std::ranges::any_of(
            entry->readings, [&source](const auto& one) { return one->from == *source && one->is_open; });
        text += fmt::format(", the next is {} rank {}", is_read ? "read at" : "asked of", source->value);
    }
    return text;
}

std::optional<Rank> Payloads::source(Sequence sequence) const {
    const Entry* const entry = find(sequence);
    if (entry == nullptr || !entry->is_admitted()) return std::nullopt;
    return entry->machine.source();
}

bool Payloads::is_wanted(Sequence sequence) const {
    const Entry* const entry = find(sequence);
    if (entry == nullptr) return false;
    const auto waits = [](const Reader& reader) { return !reader.has_offer; };
    return !entry->unsent.empty() || std::ranges::any_of(entry->readers, waits) || entry->machine.is_wanted();
}

// --------------------------------------------------------------------------------------------------- as a component ---

void Payloads::member_failed(const Death& death) {
    failed_.insert(death.rank.value);
    for (const auto& entry : entries_) {
        std::erase_if(entry->unsent, [&death](const Unsent& one) { return one.message.to == death.rank; });
        std::erase_if(entry->readers, [&death](const Reader& one) { return one.rank == death.rank && !one.has_offer; });
        entry->machine.peer_failed(death.rank);
    }
}

void Payloads::progress(bool /*thorough*/) {
    has_more_ = false;
    if (entries_.empty()) return;
    if (life_.revoked()) {
        for (const auto& entry : entries_)
            (void)end_reads(*entry);
        return;
    }
    const Router::Batch batch(router_);
    for (const auto& entry : entries_) {
        watch(*entry);
        if (!entry->readings.empty()) read_on(*entry);
        pump(*entry);
        if (!entry->readers.empty() && offer_to_readers(*entry)) pump(*entry);
        tell(*entry);
    }
}

// What is over here is reported at once, so that others give its memory back, and the next one may start.
void Payloads::keep_house() {
    if (entries_.empty() || life_.revoked()) return;
    release_stable();
    if (entries_.empty()) return;
    admit();
    const std::uint64_t oldest = entries_.front()->sequence.value;
    if (oldest < window_.consumed().value) window_.ask_for(oldest + 1);
}

bool Payloads::waits_for_room() const {
    if (life_.revoked()) return false;
    return has_more_ || std::ranges::any_of(entries_, [](const auto& entry) { return !entry->unsent.empty(); });
}

std::uint64_t Payloads::next_timer_ns() const {
    std::uint64_t next = UINT64_MAX;
    if (life_.revoked()) return next;
    for (const auto& entry : entries_) {
        next = std::min(next, entry->machine.next_timer().value);
        for (const auto& reading : entry->readings)
            if (reading->is_open && reading->asked.empty()) next = std::min(next, reading->look_ns);
    }
    return next;
}

bool Payloads::quiet() const {
    return std::ranges::all_of(entries_, [](const auto& entry) {
        const auto is_over = [](const auto& reading) { return reading->reads.under_way == 0; };
        return entry->in_flight == 0 && entry->readers.empty() && std::ranges::all_of(entry->readings, is_over);
    });
}

void Payloads::transports_end() {
    for (const auto& entry : entries_)
        entry->open.reset();
}

}  // namespace coppice::engine
