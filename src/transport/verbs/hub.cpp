#include "transport/verbs/hub.hpp"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/process.hpp"
#include "transport/verbs/library.hpp"
#include "transport/verbs/wire.hpp"

namespace coppice::transport::verbs {
namespace {

constexpr std::uint32_t kRefillBatch = 16;
constexpr std::uint32_t kSpareBuffers = 32;  // to copy into, and to lie in a batch that was not posted yet
constexpr std::uint32_t kFirstLinks = 8;
constexpr std::uint32_t kMostReceives = 8192;
constexpr std::uint32_t kInlineWanted = 512;
constexpr std::uint32_t kPartsPerSend = 2;
constexpr int kMostReads = 16;  // of a connection, that the device has under way or answers at a time

tl::unexpected<Error> refused(const Device& device, const char* what, std::uint64_t limit, const char* unit) {
    return fail(COPPICE_ERR_NO_RESOURCES, "verbs: device {} gives no {}: {} (its limit is {} {})", device.name, what,
                reason_of(errno), limit, unit);
}

}  // namespace

Result<std::unique_ptr<Hub>> Hub::make(ibv_context* context, const Device& device, const HubOptions& options) {
    std::unique_ptr<Hub> hub(new Hub(context, device, options));
    if (library.ibv_query_device(context, &hub->limits_) != 0)
        return fail(COPPICE_ERR_NO_TRANSPORT, "verbs: device {} can't be queried", device.name);
    if (auto made = hub->make_queues(); !made) return tl::unexpected(made.error());
    if (auto found = hub->find_inline_size(); !found) return tl::unexpected(found.error());
    return hub;
}

Result<void> Hub::make_queues() {
    domain = library.ibv_alloc_pd(context_);
    if (domain == nullptr)
        return refused(device_, "protection domain", static_cast<std::uint64_t>(limits_.max_pd), "of them");
    process::open_own([this] {
        wake_up = library.ibv_create_comp_channel(context_);
        return wake_up == nullptr ? -1 : wake_up->fd;
    });
    if (wake_up == nullptr)
        return fail(COPPICE_ERR_NO_RESOURCES, "verbs: device {} gives no completion channel: {}; see 'ulimit -n'",
                    device_.name, reason_of(errno));
    fcntl(wake_up->fd, F_SETFL, fcntl(wake_up->fd, F_GETFL) | O_NONBLOCK);
    received = library.ibv_create_cq(context_, 1, nullptr, wake_up, 0);
    if (received != nullptr) sent = library.ibv_create_cq(context_, 1, nullptr, wake_up, 0);
    if (sent == nullptr)
        return refused(device_, "completion queue", static_cast<std::uint64_t>(limits_.max_cq), "of them");
    most_ = std::min(kMostReceives, static_cast<std::uint32_t>(limits_.max_srq_wr));
    ibv_srq_init_attr attributes{};
    attributes.attr.max_wr = most_;
    attributes.attr.max_sge = 1;
    shared_receives = library.ibv_create_srq(domain, &attributes);
    if (shared_receives == nullptr)
        return refused(device_, "shared receive queue", static_cast<std::uint64_t>(limits_.max_srq), "of them");
    if (auto added = add_buffers(kRefillBatch + 2 * options_.window + kSpareBuffers); !added) return added;
    return make_room(kFirstLinks);
}

// For as many connections: a place in the completion queues, and in the shared receive queue a buffer for everything that
// their senders may be ahead (one more for a goodbye). Where the device has no longer a queue, some will have to try again.
Result<void> Hub::make_room(std::uint32_t links) {
    if (links <= link_room_) return {};
    if (auto added = add_buffers((links - link_room_) * (options_.sends_ahead + 1)); !added) return added;
    const std::uint32_t sends = links * (kSendDepth + kReserved);
    if (library.ibv_resize_cq(received, static_cast<int>(pool.size())) != 0 ||
        library.ibv_resize_cq(sent, static_cast<int>(sends)) != 0)
        return fail(
            COPPICE_ERR_NO_RESOURCES,
            "verbs: device {} gives no completion queue for {} connections: {} (its limit is {} entries, {} are "
            "needed)",
            device_.name, links, reason_of(errno), limits_.max_cqe, std::max(sends, pool.size()));
    link_room_ = links;
    depth_ = std::min(most_, links * (options_.sends_ahead + 1) + kRefillBatch);
    receives_.resize(depth_);
    receive_parts_.resize(depth_);
    refill(true);
    return {};
}

Result<void> Hub::add_buffers(std::uint32_t count) {
    auto region = make_region(count * Pool::kStride, IBV_ACCESS_LOCAL_WRITE, "message buffers");
    if (!region) return tl::unexpected(region.error());
    know({region->base(), region->bytes(), region->local_key(), nullptr});
    pool.add(std::move(*region));
    return {};
}

int Hub::arm() {
    ibv_cq* queue = nullptr;
    void* unused = nullptr;
    while (library.ibv_get_cq_event(wake_up, &queue, &unused) == 0)
        library.ibv_ack_cq_events(queue, 1);
    if (ibv_req_notify_cq(received, 0) != 0 || ibv_req_notify_cq(sent, 0) != 0) return -1;
    return wake_up->fd;
}

bool Hub::has_windows() const {
    constexpr unsigned kOfTypeTwo = IBV_DEVICE_MEM_WINDOW_TYPE_2A | IBV_DEVICE_MEM_WINDOW_TYPE_2B;
    return options_.memory_windows && (limits_.device_cap_flags & kOfTypeTwo) != 0;
}

bool Hub::may_keep() const {
    return pool.available() > kSpareBuffers;
}

ibv_qp* Hub::try_queue_pair(std::uint32_t inline_bytes, std::uint32_t* granted) {
    ibv_qp_init_attr attributes{};
    attributes.send_cq = sent;
    attributes.recv_cq = received;
    attributes.srq = shared_receives;
    attributes.qp_type = IBV_QPT_RC;
    attributes.cap = {.max_send_wr = kSendDepth + kReserved,
                      .max_recv_wr = 0,
                      .max_send_sge = kPartsPerSend,
                      .max_recv_sge = 0,
                      .max_inline_data = inline_bytes};
    ibv_qp* const queue_pair = library.ibv_create_qp(domain, &attributes);
    if (queue_pair != nullptr && granted != nullptr) *granted = attributes.cap.max_inline_data;
    return queue_pair;
}

// Asks for less until the device agrees, and takes what it says it has given.
Result<void> Hub::find_inline_size() {
    for (std::uint32_t wanted = kInlineWanted;; wanted /= 2) {
        if (wanted < kLine) wanted = 0;
        std::uint32_t granted = 0;
        if (ibv_qp* const queue_pair = try_queue_pair(wanted, &granted)) {
            inline_bytes_ = granted;
            library.ibv_destroy_qp(queue_pair);
            return {};
        }
        if (wanted == 0) return refused(device_, "queue pair", static_cast<std::uint64_t>(limits_.max_qp), "of them");
    }
}

Hub::~Hub() {
    for (ibv_mr* const memory : exposed_)
        library.ibv_dereg_mr(memory);
    for (const Known& memory : known_)
        if (memory.lent != nullptr) library.ibv_dereg_mr(memory.lent);
    if (shared_receives != nullptr) library.ibv_destroy_srq(shared_receives);
    if (sent != nullptr) library.ibv_destroy_cq(sent);
    if (received != nullptr) library.ibv_destroy_cq(received);
    if (wake_up != nullptr) {
        process::forget_descriptor(wake_up->fd);
        library.ibv_destroy_comp_channel(wake_up);
    }
    pool = Pool();
    if (domain != nullptr) library.ibv_dealloc_pd(domain);
}

Result<ibv_qp*> Hub::make_queue_pair() {
    if (links_ >= link_room_)
        if (auto made = make_room(link_room_ * 2); !made) return tl::unexpected(made.error());
    ibv_qp* const queue_pair = try_queue_pair(inline_bytes_, nullptr);
    if (queue_pair == nullptr)
        return fail(
            COPPICE_ERR_NO_RESOURCES,
            "verbs: device {} gives no queue pair beyond the {} that this rank has: {} (its limit is {} for all "
            "processes)",
            device_.name, links_, reason_of(errno), limits_.max_qp);
    ++links_;
    return queue_pair;
}

void Hub::destroy(ibv_qp* queue_pair) {
    library.ibv_destroy_qp(queue_pair);
    --links_;
}

void Hub::refill(bool all) {
    const std::uint32_t missing = depth_ - posted_;
    if (missing == 0 || (missing < kRefillBatch && !all)) return;
    const std::uint32_t count = std::min(missing, pool.available());
    if (count == 0) return;
    for (std::uint32_t at = 0; at < count; ++at) {
        const std::uint32_t buffer = pool.take();
        receive_parts_[at] = {.addr = reinterpret_cast<std::uint64_t>(pool.at(buffer)),
                              .length = static_cast<std::uint32_t>(kMaxMessage),
                              .lkey = pool.key(buffer)};
        receives_[at] = {.wr_id = buffer,
                         .next = at + 1 < count ? &receives_[at + 1] : nullptr,
                         .sg_list = &receive_parts_[at],
                         .num_sge = 1};
    }
    ibv_recv_wr* rejected = nullptr;
    std::uint32_t posted = count;
    if (ibv_post_srq_recv(shared_receives, receives_.data(), &rejected) != 0) {
        for (const ibv_recv_wr* at = rejected; at != nullptr; at = at->next, --posted)
            pool.give(static_cast<std::uint32_t>(at->wr_id));
    }
    posted_ += posted;
}

Result<Region> Hub::make_region(std::size_t bytes, int access, const char* what) {
    ++counters.registrations;
    return Region::make(domain, bytes, access, what);
}

void Hub::know(const Known& memory) {
    known_.insert(std::ranges::upper_bound(known_, memory.address, {}, &Known::address), memory);
}

Result<void> Hub::register_memory(const std::byte* address, std::size_t bytes) {
    ++counters.registrations;
    // The device only reads it.
    ibv_mr* const mr = reg_mr(domain, const_cast<std::byte*>(address), bytes, 0);
    if (mr == nullptr) return registration_failed(errno, bytes, "registered memory of the program");
    know({address, bytes, mr->lkey, mr});
    return {};
}

void Hub::deregister_memory(const std::byte* address) {
    const auto memory = std::ranges::find(known_, address, &Known::address);
    if (memory == known_.end() || memory->lent == nullptr) return;
    library.ibv_dereg_mr(memory->lent);
    known_.erase(memory);
}

Result<Exposure> Hub::expose(std::span<std::byte> memory) {
    ++counters.registrations;
    ibv_mr* const mr = reg_mr(domain, memory.data(), memory.size(), IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
    if (mr == nullptr) return registration_failed(errno, memory.size(), "a large payload that others read");
    exposed_.push_back(mr);
    return Exposure{.address = reinterpret_cast<std::uint64_t>(memory.data()), .key = mr->rkey, .own_key = mr->lkey};
}

void Hub::withdraw(const Exposure& memory) {
    const auto mr = std::ranges::find(exposed_, memory.key, &ibv_mr::rkey);
    if (mr == exposed_.end()) return;
    library.ibv_dereg_mr(*mr);
    exposed_.erase(mr);
}

std::uint8_t Hub::reads_answered() const {
    return static_cast<std::uint8_t>(std::clamp(limits_.max_qp_rd_atom, 1, kMostReads));
}

std::uint8_t Hub::reads_asked() const {
    return static_cast<std::uint8_t>(std::clamp(limits_.max_qp_init_rd_atom, 1, kMostReads));
}

bool Hub::find_key(std::span<const std::byte> bytes, std::uint32_t& key) const {
    auto after = std::ranges::upper_bound(known_, bytes.data(), {}, &Known::address);
    if (after == known_.begin()) return false;
    const Known& memory = *--after;
    if (bytes.data() + bytes.size() > memory.address + memory.bytes) return false;
    key = memory.key;
    return true;
}

}  // namespace coppice::transport::verbs
