#include "transport/ucx/peer.hpp"

#include <cstring>

#include "transport/ucx/library.hpp"

namespace coppice::transport::ucx {

ucs_status_t Peer::open(ucp_worker_h worker, ucp_err_handler_cb_t on_error, void (*opened)(Peer&),
                        void (*ended)(Peer&)) {
    ucp_ep_params_t params{};
    params.field_mask =
        UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER;
    params.address = reinterpret_cast<const ucp_address_t*>(address.data());
    params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
    params.err_handler.cb = on_error;
    params.err_handler.arg = this;
    if (const ucs_status_t status = library.ucp_ep_create(worker, &params, &endpoint_); status != UCS_OK) {
        endpoint_ = nullptr;
        return status;
    }
    slots_ = std::make_unique<Slots>();
    for (Slot& slot : *slots_) {
        slot.peer = this;
        slot.next = free_;
        free_ = &slot;
    }
    link = Link::opening;
    opened_ = opened;
    ended_ = ended;
    ucp_request_param_t param{};
    param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
    param.cb.send = &Peer::on_flushed;
    param.user_data = this;
    const ucs_status_ptr_t request = library.ucp_ep_flush_nbx(endpoint_, &param);
    if (request == nullptr) link = Link::open;
    return UCS_PTR_IS_ERR(request) ? UCS_PTR_STATUS(request) : UCS_OK;
}

void Peer::on_flushed(void* request, ucs_status_t status, void* argument) {
    auto& peer = *static_cast<Peer*>(argument);
    library.ucp_request_free(request);
    // A failure comes to the endpoint's error callback as well.
    if (status != UCS_OK || peer.link != Link::opening) return;
    peer.link = Link::open;
    peer.opened_(peer);
}

ucs_status_ptr_t Peer::submit(Slot& slot) {
    ucp_request_param_t param;
    param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS |
                         UCP_OP_ATTR_FIELD_MEMORY_TYPE;
    param.cb.send = &Peer::on_sent;
    param.user_data = &slot;
    param.flags = UCP_AM_SEND_FLAG_EAGER;
    param.memory_type = UCS_MEMORY_TYPE_HOST;
    return library.ucp_am_send_nbx(endpoint_, kMessageId, slot.bytes.data(), slot.header_size, slot.payload,
                                   slot.payload_size, &param);
}

ucs_status_t Peer::post(const Prefix& prefix, std::span<const std::byte> header, std::span<const std::byte> payload,
                        std::uint32_t* in_flight) {
    Slot* slot = free_;
    if (slot == nullptr) return UCS_ERR_NO_RESOURCE;
    std::memcpy(slot->bytes.data(), &prefix, sizeof prefix);
    if (!header.empty()) std::memcpy(slot->bytes.data() + sizeof prefix, header.data(), header.size());
    slot->header_size = static_cast<std::uint32_t>(sizeof prefix + header.size());
    slot->payload = payload.data();
    slot->payload_size = static_cast<std::uint32_t>(payload.size());
    slot->in_flight = payload.empty() ? nullptr : in_flight;

    const bool wait = link == Link::opening || waiting_ != nullptr;
    if (!wait) {
        const ucs_status_ptr_t request = submit(*slot);
        if (request == nullptr) return UCS_OK;
        if (UCS_PTR_IS_ERR(request)) return UCS_PTR_STATUS(request);
    }
    free_ = slot->next;
    ++pending;
    if (slot->in_flight != nullptr) ++*slot->in_flight;
    if (wait) {
        slot->next = nullptr;
        (waiting_ == nullptr ? waiting_ : last_waiting_->next) = slot;
        last_waiting_ = slot;
    }
    return UCS_INPROGRESS;
}

// UCS_OK also where the part is under way.
ucs_status_t Peer::put_part(Slot& slot, const std::byte* bytes, std::size_t size, std::uint64_t where) {
    ucp_request_param_t param;
    param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_MEMORY_TYPE;
    param.cb.send = &Peer::on_put;
    param.user_data = &slot;
    param.memory_type = UCS_MEMORY_TYPE_HOST;
    const ucs_status_ptr_t request = library.ucp_put_nbx(endpoint_, bytes, size, where, theirs.key(), &param);
    if (UCS_PTR_IS_ERR(request)) return UCS_PTR_STATUS(request);
    if (request != nullptr) ++slot.parts;
    return UCS_OK;
}

ucs_status_t Peer::put(std::span<const std::byte> header, std::span<const std::byte> payload,
                       std::uint32_t* in_flight) {
    if (!theirs.credit.has_room() || free_ == nullptr) return UCS_ERR_NO_RESOURCE;
    Slot& slot = *free_;
    const std::uint32_t consumed = ours.landing.consumed();
    SlotPrefix prefix{.stamp = theirs.credit.next_stamp(),
                      .writes_consumed = static_cast<std::uint16_t>(consumed),
                      .sends = written,
                      .payload_size = static_cast<std::uint16_t>(payload.size()),
                      .header_size = static_cast<std::uint8_t>(header.size())};
    seal(prefix, theirs.seed(), header, payload);
    const std::size_t line = sizeof prefix + header.size();
    const bool together = payload.size() <= kTogether;
    std::byte* const bytes = slot.bytes.data();
    std::memcpy(bytes, &prefix, sizeof prefix);
    if (!header.empty()) std::memcpy(bytes + sizeof prefix, header.data(), header.size());
    if (together && !payload.empty()) std::memcpy(bytes + line, payload.data(), payload.size());

    slot.parts = 0;
    slot.in_flight = nullptr;
    const std::uint64_t where = theirs.next_address();
    ucs_status_t status = together ? UCS_OK : put_part(slot, payload.data(), payload.size(), where + line);
    const bool refers = slot.parts > 0;
    if (status == UCS_OK) status = put_part(slot, bytes, together ? line + payload.size() : line, where);
    if (status == UCS_OK) {
        theirs.credit.wrote();
        ours.told(consumed);
        ++writes;
    }
    if (slot.parts > 0) {
        free_ = slot.next;
        ++pending;
        if (refers) slot.in_flight = in_flight;
        if (slot.in_flight != nullptr) ++*slot.in_flight;
    }
    return status;
}

void Peer::on_put(void* request, ucs_status_t, void* argument) {
    auto& slot = *static_cast<Slot*>(argument);
    if (--slot.parts == 0) slot.peer->finish(slot);
    library.ucp_request_free(request);
}

ucs_status_t Peer::get(PeerKey& key, std::uint64_t from, std::span<std::byte> into, Reads* reads) {
    if (reads_ == kMostReads) return UCS_ERR_NO_RESOURCE;
    if (!gets_) gets_ = std::make_unique<std::array<Get, kMostReads>>();
    Get& get = (*gets_)[(first_read_ + reads_) % kMostReads];
    get = {.peer = this, .key = &key, .reads = reads};
    ucp_request_param_t param;
    param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_MEMORY_TYPE;
    param.cb.send = &Peer::on_got;
    param.user_data = &get;
    param.memory_type = UCS_MEMORY_TYPE_HOST;
    const ucs_status_ptr_t request = library.ucp_get_nbx(endpoint_, into.data(), into.size(), from, key.handle, &param);
    if (UCS_PTR_IS_ERR(request)) return UCS_PTR_STATUS(request);
    ++reads_;
    ++reads->under_way;
    ++key.users;
    if (request == nullptr) get.has_ended = get.has_arrived = true;
    return UCS_OK;
}

void Peer::on_got(void* request, ucs_status_t status, void* argument) {
    auto& get = *static_cast<Get*>(argument);
    get.has_ended = true;
    get.has_arrived = status == UCS_OK;
    library.ucp_request_free(request);
    get.peer->ended_(*get.peer);
}

std::size_t Peer::settle_reads() {
    std::size_t settled = 0;
    for (; reads_ > 0; --reads_, ++settled) {
        Get& get = (*gets_)[first_read_];
        if (!get.has_ended) break;
        has_lost_read_ = has_lost_read_ || !get.has_arrived;
        --get.key->users;
        if (get.reads != nullptr) {
            --get.reads->under_way;
            if (!has_lost_read_) ++get.reads->arrived;
        }
        first_read_ = (first_read_ + 1) % kMostReads;
    }
    return settled;
}

ucs_status_t Peer::post_waiting() {
    while (waiting_ != nullptr) {
        Slot* const slot = waiting_;
        const ucs_status_ptr_t request = submit(*slot);
        if (UCS_PTR_IS_ERR(request)) return UCS_PTR_STATUS(request);
        waiting_ = slot->next;
        if (request == nullptr) finish(*slot);
    }
    return UCS_OK;
}

void Peer::finish(Slot& slot) {
    if (slot.in_flight != nullptr) --*slot.in_flight;
    slot.in_flight = nullptr;
    slot.next = free_;
    free_ = &slot;
    --pending;
}

// However the message ended: what a dead peer did not get is the protocol's business, which hears of the death.
void Peer::on_sent(void* request, ucs_status_t, void* argument) {
    auto& slot = *static_cast<Slot*>(argument);
    slot.peer->finish(slot);
    library.ucp_request_free(request);
}

ucs_status_ptr_t Peer::close() {
    link = Link::closed;
    while (waiting_ != nullptr) {
        Slot* const slot = waiting_;
        waiting_ = slot->next;
        finish(*slot);
    }
    ours = OwnSlots();
    theirs.forget();
    if (endpoint_ == nullptr) return nullptr;
    ucp_request_param_t param{};
    param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
    param.flags = UCP_EP_CLOSE_FLAG_FORCE;
    const ucs_status_ptr_t request = library.ucp_ep_close_nbx(endpoint_, &param);
    endpoint_ = nullptr;
    return UCS_PTR_IS_PTR(request) ? request : nullptr;
}

void Peer::disown() {
    if (!slots_) return;
    for (Slot& slot : *slots_)
        slot.in_flight = nullptr;
    for (std::uint32_t i = 0; i < reads_; ++i)
        (*gets_)[(first_read_ + i) % kMostReads].reads = nullptr;
}

}  // namespace coppice::transport::ucx
