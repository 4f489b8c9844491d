#include "transport/verbs/peer.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "transport/verbs/library.hpp"

namespace coppice::transport::verbs {

namespace {

constexpr std::uint8_t kRetryForEver = 7;    // for a receiver without a buffer: it is slow, not dead
constexpr std::uint8_t kReceiverPause = 12;  // 0.64 ms until the next try
constexpr std::uint32_t kReadDepth = 24;     // work requests of reads: messages find room beside them

tl::unexpected<Error> no_transition(Seat rank, const char* state, int error) {
    return fail(COPPICE_ERR_NO_TRANSPORT, "verbs: the queue pair to rank {} does not get {}: {}", rank.value, state,
                std::strerror(error));
}

}  // namespace

Result<void> Peer::prepare(const LinkOptions& options, std::uint32_t seed_in, std::uint32_t seed_out) {
    if (prepared()) return {};
    slots_ = options.slots;
    seed_in_ = seed_in;
    seed_out_ = seed_out;
    auto desk =
        hub_.make_region(sizeof(Desk), IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ, "a connection's own lines");
    if (!desk) return tl::unexpected(desk.error());
    if (auto slots = make_slots(hub_.has_windows() ? IBV_ACCESS_MW_BIND : IBV_ACCESS_REMOTE_WRITE); !slots)
        return slots;
    auto queue_pair = hub_.make_queue_pair();
    if (!queue_pair) return tl::unexpected(queue_pair.error());
    desk_ = std::move(*desk);
    queue_pair_ = *queue_pair;
    queue_pair_number_ = queue_pair_->qp_num;
    if (!deferred_) deferred_ = std::make_unique<std::array<Deferred, kSendDepth>>();
    return make_window();
}

Result<void> Peer::make_slots(int for_others) {
    auto region = hub_.make_region(slots_ * kSlotStride, IBV_ACCESS_LOCAL_WRITE | for_others, "a peer's landing slots");
    if (!region) return tl::unexpected(region.error());
    landing_region_ = std::move(*region);
    landing.attach(landing_region_.base(), slots_, seed_in_);
    return {};
}

// After the queue pair that it will belong to: when a process ends, the kernel takes what it has in the reverse order, and
// soft-RoCE waits for the windows of a queue pair that it takes.
Result<void> Peer::make_window() {
    if (!hub_.has_windows() || window_.make(hub_.domain)) return {};
    // There is none left. What the slots have is given back first: that may be what there is too little of.
    landing_region_ = Region();
    return make_slots(IBV_ACCESS_REMOTE_WRITE);
}

Result<void> Peer::renew() {
    auto queue_pair = hub_.make_queue_pair();
    if (!queue_pair) return tl::unexpected(queue_pair.error());
    const bool had_window = has_window();
    window_.revoke();
    hub_.destroy(queue_pair_);
    queue_pair_ = *queue_pair;
    queue_pair_number_ = queue_pair_->qp_num;
    return had_window ? make_window() : Result<void>{};
}

Card Peer::card() const {
    return {.landing_address = reinterpret_cast<std::uint64_t>(landing_region_.base()),
            .word_address = reinterpret_cast<std::uint64_t>(&desk().word),
            .landing_key = has_window() ? window_.remote_key() : landing_region_.remote_key(),
            .word_key = desk_.remote_key(),
            .slots = slots_,
            .mtu = static_cast<std::uint16_t>(hub_.device().mtu),
            .reads = hub_.reads_answered()};
}

Result<void> Peer::activate(const LinkOptions& options, const Card& card) {
    theirs_ = card;
    writes_.attach(card.slots);
    sends_.attach(card.slots);
    ibv_qp_attr attributes{};
    int mask = 0;
    attributes.qp_state = IBV_QPS_INIT;
    if (library.rdma_init_qp_attr(id, &attributes, &mask) != 0) return no_transition(rank, "ready", errno);
    attributes.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
    if (const int error = library.ibv_modify_qp(queue_pair_, &attributes, mask); error != 0)
        return no_transition(rank, "ready", error);

    attributes = {};
    attributes.qp_state = IBV_QPS_RTR;
    if (library.rdma_init_qp_attr(id, &attributes, &mask) != 0) return no_transition(rank, "ready to receive", errno);
    attributes.path_mtu = mtu_of(std::min<std::uint32_t>(card.mtu, hub_.device().mtu));
    attributes.min_rnr_timer = kReceiverPause;
    attributes.max_dest_rd_atomic = hub_.reads_answered();
    if (options.service_level != 0) attributes.ah_attr.sl = options.service_level;
    if (options.traffic_class != 0) attributes.ah_attr.grh.traffic_class = options.traffic_class;
    if (const int error = library.ibv_modify_qp(queue_pair_, &attributes, mask | IBV_QP_MIN_RNR_TIMER); error != 0)
        return no_transition(rank, "ready to receive", error);

    attributes = {};
    attributes.qp_state = IBV_QPS_RTS;
    if (library.rdma_init_qp_attr(id, &attributes, &mask) != 0) return no_transition(rank, "ready to send", errno);
    attributes.timeout = options.timeout;
    attributes.retry_cnt = options.retries;
    attributes.rnr_retry = kRetryForEver;
    attributes.max_rd_atomic = std::min(hub_.reads_asked(), card.reads);
    if (const int error = library.ibv_modify_qp(queue_pair_, &attributes, mask); error != 0)
        return no_transition(rank, "ready to send", error);
    return {};
}

Posted Peer::open_window() {
    ibv_send_wr request = window_.opening(landing_region_);
    return submit(request, {.purpose = Purpose::window}, true);
}

Posted Peer::submit(ibv_send_wr& request, const Sent& sent, bool signal) {
    ++unsignalled_;
    if (signal || unsignalled_ >= kSignalEvery) {
        request.send_flags |= IBV_SEND_SIGNALED;
        unsignalled_ = 0;
    }
    request.wr_id = (std::uint64_t{rank.value} << 32) | static_cast<std::uint32_t>(posted_);
    ibv_send_wr* rejected = nullptr;
    const int error = ibv_post_send(queue_pair_, &request, &rejected);
    if (error != 0) return error == ENOMEM ? Posted::full : Posted::broken;
    sent_[posted_ % kDepth] = sent;
    ++posted_;
    if (sent.purpose == Purpose::probe) ++hub_.counters.probes;
    if (sent.purpose == Purpose::read) ++hub_.counters.reads;
    if (sent.purpose == Purpose::message) {
        ++hub_.counters.doorbells;
        ++hub_.counters.work_requests;
        if ((request.send_flags & IBV_SEND_SIGNALED) != 0) ++hub_.counters.signalled;
    }
    return Posted::yes;
}

Posted Peer::post(bool one_sided, Kind kind, std::span<const std::byte> header, std::span<const std::byte> payload,
                  std::uint32_t* in_flight) {
    // The receiver has a buffer and the queue a place for one goodbye beyond all data.
    const bool is_data = kind == Kind::data;
    if (posted_ - completed_ >= (is_data ? kSendDepth : kDepth)) return Posted::full;
    Credit& credit = one_sided ? writes_ : sends_;
    if (is_data && credit.is_low()) {
        probe();
        if (!credit.has_room()) return Posted::full;
    }
    Prefix prefix{.writes_consumed = static_cast<std::uint16_t>(landing.consumed()),
                  .sends = static_cast<std::uint16_t>(sends_consumed_),
                  .payload_size = static_cast<std::uint16_t>(payload.size()),
                  .header_size = static_cast<std::uint8_t>(header.size()),
                  .kind = kind};
    if (one_sided) {
        prefix.stamp = writes_.next_stamp();
        seal(prefix, seed_out_, header, payload);
    }
    const std::size_t line_size = sizeof prefix + header.size();
    const bool rides = line_size + payload.size() <= hub_.inline_bytes();
    std::array<std::byte, kLine> on_stack;
    std::byte* const line = rides ? on_stack.data() : desk().lines[posted_ % kDepth].data();
    std::memcpy(line, &prefix, sizeof prefix);
    if (!header.empty()) std::memcpy(line + sizeof prefix, header.data(), header.size());

    Sent sent;
    ibv_sge parts[2] = {{.addr = reinterpret_cast<std::uint64_t>(line),
                         .length = static_cast<std::uint32_t>(line_size),
                         .lkey = rides ? 0 : desk_.local_key()},
                        {.addr = reinterpret_cast<std::uint64_t>(payload.data()),
                         .length = static_cast<std::uint32_t>(payload.size()),
                         .lkey = 0}};
    if (!rides && !payload.empty()) {
        if (hub_.find_key(payload, parts[1].lkey)) {
            sent.in_flight = in_flight;
        } else {
            if (hub_.pool.empty()) return Posted::full;
            sent.bounce = hub_.pool.take();
            std::memcpy(hub_.pool.at(sent.bounce), payload.data(), payload.size());
            parts[1].addr = reinterpret_cast<std::uint64_t>(hub_.pool.at(sent.bounce));
            parts[1].lkey = hub_.pool.key(sent.bounce);
        }
    }
    ibv_send_wr request{};
    request.sg_list = parts;
    request.num_sge = payload.empty() ? 1 : 2;
    request.opcode = one_sided ? IBV_WR_RDMA_WRITE : IBV_WR_SEND;
    request.send_flags = rides ? IBV_SEND_INLINE : 0;
    if (one_sided) {
        request.wr.rdma.remote_addr = theirs_.landing_address + writes_.next_offset();
        request.wr.rdma.rkey = theirs_.landing_key;
    }
    const bool refers = sent.in_flight != nullptr || sent.bounce != kNone;
    const Posted posted = submit(request, sent, refers || !is_data);
    if (posted != Posted::yes) {
        if (sent.bounce != kNone) hub_.pool.give(sent.bounce);
        return posted;
    }
    if (is_data) credit.wrote();
    if (sent.in_flight != nullptr) ++*sent.in_flight;
    if (sent.bounce != kNone) ++hub_.counters.copies;
    return posted;
}

bool Peer::defer(bool one_sided, std::span<const std::byte> header, std::span<const std::byte> payload,
                 std::uint32_t* in_flight) {
    if (!deferred_) deferred_ = std::make_unique<std::array<Deferred, kSendDepth>>();
    if (deferred_end_ - deferred_first_ >= kSendDepth) return false;
    Deferred& later = (*deferred_)[deferred_end_++ % kSendDepth];
    std::copy(header.begin(), header.end(), later.header.begin());
    later.header_size = static_cast<std::uint8_t>(header.size());
    later.one_sided = one_sided;
    later.payload = payload.data();
    later.payload_size = static_cast<std::uint32_t>(payload.size());
    later.in_flight = payload.empty() ? nullptr : in_flight;
    if (later.in_flight != nullptr) ++*later.in_flight;
    return true;
}

Posted Peer::post_deferred() {
    while (has_deferred()) {
        const Deferred& later = (*deferred_)[deferred_first_ % kSendDepth];
        const Posted posted = post(later.one_sided, Kind::data, {later.header.data(), later.header_size},
                                   {later.payload, later.payload_size}, later.in_flight);
        if (posted != Posted::yes) return posted;
        if (later.in_flight != nullptr) --*later.in_flight;
        ++deferred_first_;
    }
    return Posted::yes;
}

bool Peer::probe() {
    if (probing_ || posted_ - completed_ >= kDepth) return false;
    ibv_sge part{
        .addr = reinterpret_cast<std::uint64_t>(&desk().read), .length = sizeof(Desk::read), .lkey = desk_.local_key()};
    ibv_send_wr request{};
    request.sg_list = &part;
    request.num_sge = 1;
    request.opcode = IBV_WR_RDMA_READ;
    request.wr.rdma.remote_addr = theirs_.word_address;
    request.wr.rdma.rkey = theirs_.word_key;
    probing_ = submit(request, {.purpose = Purpose::probe}, true) == Posted::yes;
    return probing_;
}

Posted Peer::read(const RemoteMemory& what, std::span<std::byte> into, std::uint32_t own_key, Reads* reads) {
    if (reads_under_way_ >= kReadDepth || posted_ - completed_ >= kSendDepth) return Posted::full;
    ibv_sge part{.addr = reinterpret_cast<std::uint64_t>(into.data()),
                 .length = static_cast<std::uint32_t>(into.size()),
                 .lkey = own_key};
    ibv_send_wr request{};
    request.sg_list = &part;
    request.num_sge = 1;
    request.opcode = IBV_WR_RDMA_READ;
    request.wr.rdma.remote_addr = what.address;
    request.wr.rdma.rkey = what.key;
    const Posted posted = submit(request, {.reads = reads, .purpose = Purpose::read}, true);
    if (posted != Posted::yes) return posted;
    ++reads_under_way_;
    ++reads->under_way;
    return posted;
}

std::uint32_t Peer::completed(std::uint32_t number) {
    // Whatever the device says, no more than was posted.
    const std::uint64_t through = static_cast<std::uint32_t>(number - static_cast<std::uint32_t>(completed_));
    if (through >= posted_ - completed_) return 0;
    std::uint32_t arrived = 0;
    for (const std::uint64_t end = completed_ + through + 1; completed_ < end; ++completed_) {
        Sent& sent = sent_[completed_ % kDepth];
        if (sent.in_flight != nullptr) --*sent.in_flight;
        if (sent.bounce != kNone) hub_.pool.give(sent.bounce);
        if (sent.purpose == Purpose::probe) {
            probing_ = false;
            probed = true;
            writes_.learn(static_cast<std::uint16_t>(desk().read));
            sends_.learn(static_cast<std::uint16_t>(desk().read >> 32));
        }
        if (sent.reads != nullptr) {
            --reads_under_way_;
            --sent.reads->under_way;
            ++sent.reads->arrived;
            ++arrived;
        }
        sent = {};
    }
    return arrived;
}

void Peer::publish_consumed() {
    const std::uint64_t word = (std::uint64_t{sends_consumed_} << 32) | landing.consumed();
    desk().word.publish(word);
}

void Peer::consumed_write() {
    landing.advance();
    publish_consumed();
}

void Peer::consumed_send() {
    ++sends_consumed_;
    publish_consumed();
}

void Peer::cut() {
    window_.revoke();
    if (queue_pair_ != nullptr) hub_.destroy(queue_pair_);
    queue_pair_ = nullptr;
    landing_region_.revoke();
    desk_.revoke();
}

void Peer::settle(bool owners_live) {
    for (; completed_ < posted_; ++completed_) {
        Sent& sent = sent_[completed_ % kDepth];
        if (sent.in_flight != nullptr && owners_live) --*sent.in_flight;
        if (sent.bounce != kNone) hub_.pool.give(sent.bounce);
        if (sent.reads != nullptr && owners_live) --sent.reads->under_way;
        sent = {};
    }
    for (; has_deferred(); ++deferred_first_) {
        const Deferred& later = (*deferred_)[deferred_first_ % kSendDepth];
        if (later.in_flight != nullptr && owners_live) --*later.in_flight;
    }
    landing_region_ = Region();
    desk_ = Region();
    deferred_.reset();
}

Peer::~Peer() {
    cut();
    if (id != nullptr) library.rdma_destroy_id(id);
}

}  // namespace coppice::transport::verbs
