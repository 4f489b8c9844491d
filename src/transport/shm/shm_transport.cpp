#include "transport/shm/shm_transport.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/host.hpp"
#include "transport/shm/obituary.hpp"
#include "transport/shm/shm_peer.hpp"

namespace coppice::transport {

namespace {

constexpr std::uint32_t kPollsPerClockRead = 256;  // a power of two
constexpr std::size_t kLooksPerPoll = 4;           // at obituaries
constexpr std::uint32_t kBusyPollsPerLook = 8;     // a power of two
constexpr std::uint32_t kArmedPollsPerLook = 64;   // likewise

Buffer buffer_of(std::uint32_t peer_index, std::uint16_t slot) {
    return (static_cast<Buffer>(peer_index) + 1) << 32 | slot;
}

}  // namespace

Result<std::unique_ptr<ShmTransport>> ShmTransport::create(const ShmOptions& options) {
    const std::uint32_t local =
        options.max_local != 0 ? options.max_local : std::min(options.group_size, shm::kMaxLocal);
    if (options.group_size == 0 || options.group_size > kMaxProcesses || options.self.value >= options.group_size)
        return fail(COPPICE_ERR_OUT_OF_RANGE, "shm: rank {} of {} ranks", options.self.value, options.group_size);
    if (options.window == 0 || options.window > shm::kMaxWindow)
        return fail(COPPICE_ERR_OUT_OF_RANGE, "shm: a window of {} is outside of 1…{}", options.window,
                    shm::kMaxWindow);
    if (local > shm::kMaxLocal)
        return fail(COPPICE_ERR_OUT_OF_RANGE, "shm: {} ranks on one host are more than the {} that share memory", local,
                    shm::kMaxLocal);
    if (options.host.size() > kMaxHostName)
        return fail(COPPICE_ERR_INVALID_ARGUMENT, "shm: the host name \"{}\" is longer than {} bytes", options.host,
                    kMaxHostName);
    Regions regions(options.regions);
    auto segment =
        shm::OwnSegment::make(options.self, shm::Layout(options.window, options.group_size, local, regions.bytes()));
    if (!segment) return tl::unexpected(segment.error());
    return std::unique_ptr<ShmTransport>(
        new ShmTransport(options, std::move(*segment), std::move(regions), host_identity(options.host)));
}

ShmTransport::ShmTransport(const ShmOptions& options, shm::OwnSegment segment, Regions regions, std::string host)
    : self_(options.self),
      host_(std::move(host)),
      own_(std::move(segment)),
      regions_(std::move(regions)),
      sleep_(shm::Bell::make(own_.header().nonce)),
      peer_of_rank_(options.group_size, kNobody),
      peer_of_inbox_(own_.layout().inboxes, kNobody),
      second_look_period_ns_(options.second_look_ns),
      bell_words_((own_.layout().inboxes + 63) / 64),
      pending_(bell_words_, 0),
      unknown_(bell_words_, 0) {
    boards_[0] =
        std::make_unique<shm::ShmBoard>(own_, regions_, 0, *this, [this](Rank rank) { wake(Seat(rank.value)); });
    peers_.reserve(own_.layout().inboxes);
    watched_.reserve(own_.layout().inboxes);
}

ShmTransport::~ShmTransport() = default;

const Capabilities& ShmTransport::capabilities() const {
    static constexpr Capabilities kCapabilities{.name = "shm",
                                                .within_host = true,
                                                .inline_size = shm::kInlinePayload,
                                                .eager_size = kMaxPayload,
                                                .arm_is_complete = true};
    return kCapabilities;
}

std::string ShmTransport::host_of(std::span<const std::byte> address) {
    const auto decoded = shm::decode(Seat{0}, address);
    return decoded ? decoded->host : std::string();
}

std::vector<std::byte> ShmTransport::address() const {
    const shm::Layout& layout = own_.layout();
    shm::Address mine;
    mine.host = host_;
    mine.pid = getpid();
    mine.start_time = process_start_time(mine.pid);
    mine.fd = own_.fd();
    mine.rank = self_.value;
    mine.group_size = layout.group_size;
    mine.window = layout.window;
    mine.inboxes = layout.inboxes;
    mine.segment_size = layout.size;
    mine.nonce = own_.header().nonce;
    mine.bell = sleep_.bell.name();
    return shm::encode(mine);
}

Result<void> ShmTransport::add_peer(Seat peer, std::span<const std::byte> address) {
    const shm::Layout& layout = own_.layout();
    if (peer.value >= layout.group_size)
        return fail(COPPICE_ERR_OUT_OF_RANGE, "shm: rank {} is outside of 0…{}", peer.value, layout.group_size - 1);
    if (peer == self_) return {};
    if (peer_of_rank_[peer.value] != kNobody)
        return fail(COPPICE_ERR_INVALID_ARGUMENT, "shm: rank {} was added twice", peer.value);
    auto decoded = shm::decode(peer, address);
    if (!decoded) return tl::unexpected(decoded.error());
    if (decoded->host != host_)
        return fail(COPPICE_ERR_NO_TRANSPORT,
                    "shm: rank {} is on another host ({}, this one is {}); allow another transport for it "
                    "(COPPICE_TRANSPORT=shm,ucx)",
                    peer.value, decoded->host, host_);
    if (decoded->rank != peer.value)
        return fail(COPPICE_ERR_MISMATCH, "shm: the address given for rank {} is that of rank {}", peer.value,
                    decoded->rank);
    if (decoded->window != layout.window || decoded->group_size != layout.group_size ||
        decoded->inboxes != layout.inboxes || decoded->segment_size != layout.size)
        return fail(COPPICE_ERR_MISMATCH,
                    "shm: rank {} has a window of {} in a group of {} ({} on a host), this rank a window of {} in a "
                    "group of {} ({}); all ranks must have the same settings",
                    peer.value, decoded->window, decoded->group_size, decoded->inboxes, layout.window,
                    layout.group_size, layout.inboxes);
    give_back_what_was_forgotten();
    const std::size_t here = peers_.size() - forgotten_.size() - unused_.size();
    if (here + 1 >= layout.local && layout.local < layout.group_size)
        return fail(COPPICE_ERR_NO_RESOURCES,
                    "shm: rank {} would be one more than the {} ranks of one group that can share memory on a host; "
                    "run fewer of them on it, or use COPPICE_TRANSPORT=ucx",
                    peer.value, layout.local);
    if (process_state(decoded->pid, decoded->start_time) == ProcessState::gone)
        return fail(COPPICE_ERR_PEER_FAILED, "shm: rank {} (process {}) has ended already", peer.value, decoded->pid);

    const std::uint32_t index = unused_.empty() ? static_cast<std::uint32_t>(peers_.size()) : unused_.back();
    auto added = std::make_unique<Peer>(index, peer, std::move(*decoded), layout.inbox);
    if (unused_.empty()) {
        peers_.push_back(std::move(added));
    } else {
        unused_.pop_back();
        peers_[index] = std::move(added);
    }
    peer_of_rank_[peer.value] = index;
    // It may have claimed an inbox before it was known here.
    for (std::uint32_t inbox = 0; inbox < layout.inboxes; ++inbox) {
        const std::uint64_t bit = std::uint64_t{1} << (inbox % 64);
        if ((unknown_[inbox / 64] & bit) == 0 || claim(inbox).rank != peer.value) continue;
        unknown_[inbox / 64] &= ~bit;
        pending_[inbox / 64] |= bit;
        rung_ = true;
    }
    return {};
}

void ShmTransport::look_at_cores() {
    std::vector<pid_t> processes;
    for (const auto& peer : peers_)
        processes.push_back(peer->address.pid);
    const std::vector<bool> within = within_own_cores(processes);
    for (std::size_t i = 0; i < peers_.size(); ++i)
        peers_[i]->shares_cores = within[i];
}

std::uint32_t ShmTransport::sharing_cores(std::span<const Seat> ranks) const {
    return static_cast<std::uint32_t>(std::ranges::count_if(ranks, [this](Seat rank) {
        const Peer* const peer = find(rank);
        return rank == self_ || (peer != nullptr && peer->shares_cores);
    }));
}

pid_t ShmTransport::process_of(Seat rank) const {
    const Peer* const peer = find(rank);
    return peer == nullptr ? 0 : peer->address.pid;
}

void ShmTransport::keep_memory() {
    shm::keep_memory();
}

ShmTransport::Peer* ShmTransport::find(Seat rank) const {
    if (rank.value >= peer_of_rank_.size() || peer_of_rank_[rank.value] == kNobody) return nullptr;
    return peers_[peer_of_rank_[rank.value]].get();
}

bool ShmTransport::map(Peer& peer) {
    if (peer.segment.board) return true;
    if (peer.lost) return false;
    own_.open_reserve();
    auto mapped = shm::map_peer(peer.address, own_.layout());
    own_.close_reserve();
    if (mapped) {
        peer.segment = std::move(*mapped);
        // What fence() stores to: a page fault takes long where memory is short, and survivors wait for it.
        (void)shm::populate(peer.segment.mailroom.base(), sizeof(shm::Mailroom));
        return true;
    }
    if (mapped.error().why != shm::MapFailure::retry) {
        peer.lost = true;
        peer.lost_cause =
            mapped.error().why == shm::MapFailure::gone ? FailureCause::process_gone : FailureCause::transport_error;
    }
    return false;
}

void ShmTransport::start_watching(Peer& peer) {
    if (peer.watched || peer.gone) return;
    peer.watched = true;
    watched_.push_back(peer.index);
}

bool ShmTransport::connect(Peer& peer) {
    if (peer.outbox.attached()) return true;
    start_watching(peer);
    if (!map(peer)) return false;
    const shm::Layout& layout = own_.layout();
    std::byte* const base = peer.segment.mailroom.base();
    auto& mail = shared::at<shm::Mailroom>(base);
    if (peer.claimed == kNobody) peer.claimed = claim_inbox(mail);
    if (peer.claimed == kNobody) return false;
    std::byte* const box = base + (layout.inboxes_at - layout.mailroom_at) + peer.claimed * layout.inbox.stride;
    if (!shm::populate(box, layout.inbox.slots_at)) return false;
    auto& mine =
        shared::at<shm::Claim>(base + (layout.claims_at - layout.mailroom_at) + peer.claimed * sizeof(shm::Claim));
    mine.rank = self_.value;
    mine.ready.publish(1);
    peer.outbox.attach(box, shm::link_key(peer.address.nonce, own_.header().nonce));
    ++counters_.connections;
    return true;
}

// The next one that is free at that peer. None while those of processes that have just died have not been given back.
std::uint32_t ShmTransport::claim_inbox(shm::Mailroom& mail) const {
    const shm::Layout& layout = own_.layout();
    std::byte* const claims = reinterpret_cast<std::byte*>(&mail) + (layout.claims_at - layout.mailroom_at);
    const std::uint64_t first = mail.claimed.add();
    for (std::uint32_t step = 0; step < layout.inboxes; ++step) {
        const auto inbox = static_cast<std::uint32_t>((first + step) % layout.inboxes);
        if (shared::at<shm::Claim>(claims + inbox * sizeof(shm::Claim)).holder.replace(0, own_.header().nonce))
            return inbox;
    }
    return kNobody;
}

void ShmTransport::watch(Seat rank) {
    if (Peer* const peer = find(rank); peer != nullptr && !peer->gone && !peer->fenced) connect(*peer);
}

// There is a message in its inbox.
inline SendStatus ShmTransport::announce(const Peer& peer) {
    auto& mail = shared::at<shm::Mailroom>(peer.segment.mailroom.base());
    mail.doorbell[peer.claimed / 64].ring(std::uint64_t{1} << (peer.claimed % 64));
    return mail.asleep.sleeps() ? announce_to_sleeper(peer) : SendStatus::sent;
}

// What nearly every message takes. It calls nothing but last, so it needs no frame.
inline SendStatus ShmTransport::put(Seat to, std::span<const std::byte> header, std::span<const std::byte> payload,
                                    std::uint64_t& counter) {
    Peer* const peer = find(to);
    const bool is_short =
        peer != nullptr && !peer->is_closed() && peer->outbox.takes_at_once(header.size(), payload.size());
    if (!is_short) return put_any(to, header, payload, counter);
    peer->outbox.put(header, payload);
    ++counter;
    return announce(*peer);
}

[[gnu::noinline]] SendStatus ShmTransport::put_any(Seat to, std::span<const std::byte> header,
                                                   std::span<const std::byte> payload, std::uint64_t& counter) {
    Peer* const peer = find(to);
    if (peer == nullptr || peer->is_closed() || header.size() > kMaxHeader || payload.size() > kMaxPayload)
        return SendStatus::failed;
    if (!peer->outbox.attached() && !connect(*peer)) return peer->lost ? SendStatus::failed : SendStatus::again;
    if (!peer->outbox.put(header, payload)) return SendStatus::again;
    ++counter;
    return announce(*peer);
}

[[gnu::noinline]] SendStatus ShmTransport::announce_to_sleeper(const Peer& peer) {
    (void)ring_bell(peer);
    return SendStatus::sent;
}

SendStatus ShmTransport::send(Seat to, std::span<const std::byte> header, std::span<const std::byte> payload,
                              std::uint32_t* /*in_flight*/) {
    return put(to, header, payload, counters_.sends);
}

SendStatus ShmTransport::write(Seat to, std::span<const std::byte> header, std::span<const std::byte> payload,
                               std::uint32_t* /*in_flight*/) {
    return put(to, header, payload, counters_.writes);
}

shm::Mailroom& ShmTransport::mailroom() const {
    return shared::at<shm::Mailroom>(own_.base() + own_.layout().mailroom_at);
}

shm::Claim& ShmTransport::claim(std::uint32_t inbox) const {
    return shared::at<shm::Claim>(own_.base() + own_.layout().claims_at + inbox * sizeof(shm::Claim));
}

std::size_t ShmTransport::poll(Receiver& receiver) {
    shm::Mailroom& mail = mailroom();
    collect_rings(mail);
    std::size_t events = rung_ ? visit_rung(receiver) : 0;
    if (mail.is_fenced.read() != 0) [[unlikely]]
        events += tell_who_fenced(receiver);
    // A poll that brings messages leaves the looking to the next one, but not for ever.
    const bool looks_around = events == 0 || (++polls_ & (kBusyPollsPerLook - 1)) == 0;
    if (looks_around && !(watched_.empty() && forgotten_.empty())) {
        for (std::size_t looks = std::min(kLooksPerPoll, watched_.size()); looks > 0 && !watched_.empty(); --looks)
            events += look_at_one(receiver);
        if ((++looks_ & (kPollsPerClockRead - 1)) == 0 && second_look_due()) events += second_look(receiver);
    }
    if (sleep_.armed) [[unlikely]] {
        // This is a system call. A rank that the end of that process has woken arms again, and its next poll looks.
        if ((sleep_.polls++ & (kArmedPollsPerLook - 1)) == 0) events += look_at_watched_process(receiver);
        if (events > 0) stay_awake();
    }
    return events;
}

void ShmTransport::collect_rings(shm::Mailroom& mail) {
    if (mail.claimed.value() > prepared_) [[unlikely]]
        prepare_inboxes();
    for (std::uint32_t word = 0; word < bell_words_; ++word) {
        if (!mail.doorbell[word].is_rung()) continue;
        pending_[word] |= mail.doorbell[word].take();
        rung_ = true;
    }
}

// Their writers have given them memory. Mapped here now, they take no page fault when the first message comes, which may be
// about a death. One that was claimed and never got ready, as its writer died, ends that; the others are mapped when read.
void ShmTransport::prepare_inboxes() {
    const shm::Layout& layout = own_.layout();
    const auto claimed = std::min<std::uint64_t>(mailroom().claimed.value(), layout.inboxes);
    for (; prepared_ < claimed; ++prepared_) {
        const shm::Claim& one = claim(static_cast<std::uint32_t>(prepared_));
        if (one.holder.get() == 0) continue;  // it was given back
        if (one.ready.read() == 0) return;
        (void)shm::populate(own_.base() + layout.inboxes_at + prepared_ * layout.inbox.stride, layout.inbox.slots_at);
    }
    if (prepared_ == layout.inboxes) prepared_ = UINT64_MAX;
}

std::size_t ShmTransport::visit_rung(Receiver& receiver) {
    std::size_t events = 0;
    rung_ = false;
    for (std::uint32_t word = 0; word < bell_words_; ++word) {
        std::uint64_t once_more = 0;
        for (std::uint64_t left = std::exchange(pending_[word], 0); left != 0; left &= left - 1) {
            Peer* const peer = claimant(word * 64 + static_cast<std::uint32_t>(std::countr_zero(left)));
            if (peer == nullptr || peer->gone) continue;
            bool more = false;
            events += drain(*peer, receiver, kMessagesPerVisit, more);
            if (more) [[unlikely]]
                once_more |= left & -left;
        }
        pending_[word] |= once_more;
        rung_ = rung_ || pending_[word] != 0;
    }
    return events;
}

// The rank that writes into an inbox that has not been read so far, as far as the claim can be believed.
ShmTransport::Peer* ShmTransport::new_claimant(std::uint32_t inbox) {
    if (inbox >= peer_of_inbox_.size() || claim(inbox).ready.read() != 1) {
        ++counters_.garbage;
        return nullptr;
    }
    const std::uint32_t rank = claim(inbox).rank;
    const std::uint64_t nonce = claim(inbox).holder.get();
    Peer* const peer = find(Seat{rank});
    // It may be another incarnation's, which is yet to be added.
    const bool unknown = peer == nullptr || peer->address.nonce != nonce;
    if (rank < own_.layout().group_size && rank != self_.value && unknown) {
        unknown_[inbox / 64] |= std::uint64_t{1} << (inbox % 64);
        if (peer != nullptr) ++counters_.garbage;  // or a stranger's
        return nullptr;
    }
    if (peer == nullptr || peer->inbox.attached()) {
        ++counters_.garbage;
        return nullptr;
    }
    peer->inbox.attach(own_.base() + own_.layout().inboxes_at + inbox * own_.layout().inbox.stride,
                       shm::link_key(own_.header().nonce, nonce));
    peer_of_inbox_[inbox] = peer->index;
    return peer;
}

std::size_t ShmTransport::drain(Peer& peer, Receiver& receiver, std::size_t at_most, bool& more) {
    std::size_t events = 0;
    for (std::size_t count = 0; count < at_most; ++count) {
        shm::Inbox::View view;
        const shm::Inbox::Found found = peer.inbox.peek(view);
        if (found == shm::Inbox::Found::nothing) return events;
        if (found == shm::Inbox::Found::garbage) {
            ++counters_.garbage;
            continue;
        }
        if (peer.fenced) {
            ++counters_.refused;
            peer.inbox.take(view, false);
            continue;
        }
        // The header is interpreted, so it must not change under its reader; the payload is only carried.
        std::byte header[kMaxHeader];
        std::memcpy(header, view.header, kMaxHeader);
        const bool can_keep = view.slot != shm::Descriptor::kInline;
        const Buffer buffer = can_keep ? buffer_of(peer.index, view.slot) : 0;
        ++counters_.received;
        ++events;
        const bool kept =
            receiver.message(peer.rank, {header, view.header_length}, {view.payload, view.payload_length}, buffer);
        peer.inbox.take(view, kept && can_keep);
    }
    more = true;
    return events;
}

void ShmTransport::release(Buffer buffer) {
    const std::uint64_t index = (buffer >> 32) - 1;
    if (index < peers_.size()) peers_[index]->inbox.release(static_cast<std::uint32_t>(buffer));
}

bool ShmTransport::leave() {
    if (own_.is_ours()) own_.header().departed.value.publish(1);
    return true;  // what was accepted is in the receivers' memory already
}

}  // namespace coppice::transport
