// What a rank's shared segment looks like. Every word has one writer, except the doorbell, the claim counter and the claims'
// holders, which take wait-free read-modify-writes from all; so a rank that dies at any instruction blocks nobody.
//
//   read-only for others        header page | panel 0 | panel 1 | …
//   each panel                  consumed, stable, departed, log length | failure log | regions | W lines
//   written by others as well   doorbell, claims | inbox 0 | inbox 1 | …
//
// The two parts are page-aligned: peers map the first one read-only, so that a stray store of theirs can't forge an
// obituary or a published line. Inboxes cost address space only, until somebody claims one. A panel is what one group's
// board is made of: the first group has one, and each group that is shrunk from it another. They too cost address space
// only, until they are prepared.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "base/shared_words.hpp"
#include "transport/host_memory.hpp"
#include "transport/regions.hpp"
#include "transport/transport.hpp"

namespace coppice::transport::shm {

inline constexpr std::uint64_t kMagic = 0x31656369'70706f43U;  // "Coppice1"
inline constexpr std::uint32_t kVersion = 9;
inline constexpr std::size_t kCacheLine = 64;
// Processors fetch lines in pairs: what one rank polls and another stores to must not share one.
inline constexpr std::size_t kLinePair = kRegionAlignment;
inline constexpr std::size_t kPage = 4096;
inline constexpr std::uint32_t kMaxLocal = 1024;  // ranks of one group on one host
inline constexpr std::uint32_t kMaxWindow = 1024;
// Inboxes beyond those of the ranks of a host, for the time in which one of an earlier incarnation can't be given back.
inline constexpr std::uint32_t kSpareInboxes = 8;

constexpr std::size_t round_up(std::size_t value, std::size_t multiple) {
    return (value + multiple - 1) / multiple * multiple;
}

// What the kernel marks when the process dies: an entry of a robust list (see obituary.hpp).
struct alignas(kLinePair) Obituary {
    void* next = nullptr;                   // owner's address space; meaningless to others
    shared::Published<std::uint32_t> word;  // the thread that holds it, until the kernel marks it
};

struct alignas(kLinePair) Count {
    shared::Published<std::uint64_t> value;
};

struct Header {
    std::uint64_t magic = 0;
    std::uint32_t version = 0;
    std::uint32_t window = 0;
    std::uint64_t nonce = 0;
    std::uint64_t size = 0;  // of the whole segment
    std::uint32_t rank = 0;
    std::uint32_t group_size = 0;
    std::uint32_t inboxes = 0;
    Obituary obituary;
    Count departed;  // from all groups
    // Where its bulk is (bulk.hpp), once it has any: pages << 32 | descriptor + 1.
    shared::Published<std::uint64_t> bulk_file;
};
static_assert(sizeof(Header) <= kPage);

// How many groups at once can have a board in these segments.
inline constexpr std::uint32_t kPanels = HostMemory::kPanels;

struct PanelHeader {
    Count consumed;
    Count stable;
    Count departed;
    Count log_length;
};

// A published line. Header and the first 40 bytes of payload share a cache line.
struct alignas(8) Line {
    shared::Published<std::uint64_t> stamp;  // sequence + 1, stored last
    std::uint32_t length = 0;
    std::uint32_t root = 0;
    std::uint32_t detail = 0;
    std::uint32_t unused = 0;
};
static_assert(sizeof(Line) == 24);
inline constexpr std::size_t kLineStride = round_up(sizeof(Line) + kMaxPayload, kCacheLine);

// A message on its way. Header and payload follow each other in `data` when they fit; else the payload is in a slot.
struct alignas(kCacheLine) Descriptor {
    static constexpr std::size_t kData = 176;
    static constexpr std::uint16_t kInline = 0xffff;  // as `slot`
    shared::Published<std::uint64_t> stamp;           // the inbox's key + message number + 1, stored last
    std::uint32_t payload_length = 0;
    std::uint16_t header_length = 0;
    std::uint16_t slot = 0;
    std::byte data[kData];
};
static_assert(sizeof(Descriptor) == 192);
// The payload begins 8-byte aligned after the header.
inline constexpr std::size_t kInlinePayload = Descriptor::kData - kMaxHeader;

inline constexpr std::size_t kSlotStride = kMaxPayload + kCacheLine;  // no two slots in the same cache sets

// How the inboxes are cut, the same for all ranks of a group as it follows from W alone.
struct InboxShape {
    std::uint32_t descriptors = 0;  // a power of two
    std::uint32_t slots = 0;
    std::size_t released_at = kCacheLine;  // the first line is the reader's count of consumed descriptors
    std::size_t descriptors_at = 0;
    std::size_t slots_at = 0;  // page-aligned
    std::size_t stride = 0;    // page-aligned

    explicit constexpr InboxShape(std::uint32_t window) {
        descriptors = std::bit_ceil(window * 4);
        descriptors = descriptors < 64 ? 64 : (descriptors > 1024 ? 1024 : descriptors);
        slots = window * 2;
        slots = slots < 8 ? 8 : (slots > 128 ? 128 : slots);
        descriptors_at = round_up(released_at + slots * sizeof(std::uint32_t), kCacheLine);
        slots_at = round_up(descriptors_at + descriptors * sizeof(Descriptor), kPage);
        stride = round_up(slots_at + slots * kSlotStride, kPage);
    }
};

// The sender into inbox i. Mailroom::claimed says from where on to look for a free one; the owner of the segment gives it back
// when the holder's process has ended. The rest is written by the holder alone.
struct Claim {
    // The nonce of its own segment, which only ranks know that were given its address. Nobody: 0.
    shared::State<std::uint64_t> holder;
    shared::Published<std::uint32_t> ready;  // stored last
    std::uint32_t rank = 0;
};

// The doorbell and the claim counter share cache lines, so that an idle reader reads one line (two above 384 peers).
struct alignas(kCacheLine) Mailroom {
    shared::Counter<std::uint64_t> claimed;
    // The owner's. The rank that rings the doorbell, and finds it asleep, wakes it (shm_sleep.cpp).
    shared::Sleeper<> asleep;
    // 1: some rank that sleeps listens for what the owner publishes. Set by such a rank, taken back by the owner.
    shared::State<std::uint32_t> listeners;
    shared::Doorbell<std::uint64_t> doorbell[kMaxLocal / 64];
    alignas(kCacheLine) shared::Published<std::uint32_t> is_fenced;  // 1: some rank takes the owner for dead
    shared::State<std::uint32_t> listens;  // 1: the owner, while it sleeps, is to be woken by publications, too
    // Which processes these are, by the nonces of their segments. Each takes a place; the owner empties it when it knows that one.
    shared::Counter<std::uint32_t> fences;
    shared::Published<std::uint64_t> fencers[kMaxLocal];
};

struct Layout {
    std::uint32_t window = 0;
    std::uint32_t group_size = 0;
    std::uint32_t local = 0;  // ranks of the group on one host at most
    std::uint32_t inboxes = 0;
    InboxShape inbox{1};
    std::size_t log_at = 0;  // in a panel, as the next three
    std::size_t regions_at = 0;
    std::size_t region_bytes = 0;
    std::size_t lines_at = 0;
    std::size_t panels_at = kPage;
    std::size_t panel_stride = 0;
    std::size_t mailroom_at = 0;  // where the part begins that others write to
    std::size_t claims_at = 0;
    std::size_t inboxes_at = 0;
    std::size_t size = 0;

    // `regions`: the bytes of all of them.
    constexpr Layout(std::uint32_t w, std::uint32_t group, std::uint32_t ranks, std::size_t regions)
        : window(w),
          group_size(group),
          local(ranks),
          inboxes(ranks + kSpareInboxes < kMaxLocal ? ranks + kSpareInboxes : kMaxLocal),
          inbox(w),
          region_bytes(regions) {
        log_at = sizeof(PanelHeader);
        regions_at = round_up(log_at + std::size_t{group} * sizeof(std::uint32_t), kLinePair);
        lines_at = round_up(regions_at + region_bytes, kLinePair);
        panel_stride = round_up(lines_at + std::size_t{w} * kLineStride, kPage);
        mailroom_at = panels_at + kPanels * panel_stride;
        claims_at = mailroom_at + round_up(sizeof(Mailroom), kCacheLine);
        inboxes_at = round_up(claims_at + std::size_t{inboxes} * sizeof(Claim), kPage);
        size = inboxes_at + std::size_t{inboxes} * inbox.stride;
    }
};

}  // namespace coppice::transport::shm
