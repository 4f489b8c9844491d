#include "transport/ucx/peer.hpp"

#include <cstring>

namespace coppice::transport::ucx {

ucs_status_t Peer::open(ucp_worker_h worker, ucp_err_handler_cb_t on_error) {
    ucp_ep_params_t params{};
    params.field_mask =
        UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER;
    params.address = reinterpret_cast<const ucp_address_t*>(address.data());
    params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
    params.err_handler.cb = on_error;
    params.err_handler.arg = this;
    if (const ucs_status_t status = ucp_ep_create(worker, &params, &endpoint_); status != UCS_OK) {
        endpoint_ = nullptr;
        return status;
    }
    slots_ = std::make_unique<Slots>();
    for (Slot& slot : *slots_) {
        slot.peer = this;
        slot.next_free = free_;
        free_ = &slot;
    }
    link = Link::open;
    return UCS_OK;
}

ucs_status_t Peer::post(const Prefix& prefix, std::span<const std::byte> header, std::span<const std::byte> payload,
                        std::uint32_t* in_flight) {
    Slot* slot = free_;
    if (slot == nullptr) return UCS_ERR_NO_RESOURCE;
    std::memcpy(slot->bytes.data(), &prefix, sizeof prefix);
    if (!header.empty()) std::memcpy(slot->bytes.data() + sizeof prefix, header.data(), header.size());
    slot->in_flight = payload.empty() ? nullptr : in_flight;

    ucp_request_param_t param;
    param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS |
                         UCP_OP_ATTR_FIELD_MEMORY_TYPE;
    param.cb.send = &Peer::on_sent;
    param.user_data = slot;
    param.flags = UCP_AM_SEND_FLAG_EAGER;
    param.memory_type = UCS_MEMORY_TYPE_HOST;
    const ucs_status_ptr_t request =
        ucp_am_send_nbx(endpoint_, kMessageId, slot->bytes.data(), sizeof prefix + header.size(), payload.data(),
                        payload.size(), &param);
    if (request == nullptr) return UCS_OK;
    if (UCS_PTR_IS_ERR(request)) return UCS_PTR_STATUS(request);
    free_ = slot->next_free;
    ++pending;
    if (slot->in_flight != nullptr) ++*slot->in_flight;
    return UCS_INPROGRESS;
}

// However the message ended: what a dead peer did not get is the protocol's business, which hears of the death.
void Peer::on_sent(void* request, ucs_status_t, void* argument) {
    auto* slot = static_cast<Slot*>(argument);
    if (slot->in_flight != nullptr) --*slot->in_flight;
    slot->in_flight = nullptr;
    slot->next_free = slot->peer->free_;
    slot->peer->free_ = slot;
    --slot->peer->pending;
    ucp_request_free(request);
}

ucs_status_ptr_t Peer::close() {
    link = Link::closed;
    if (endpoint_ == nullptr) return nullptr;
    ucp_request_param_t param{};
    param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
    param.flags = UCP_EP_CLOSE_FLAG_FORCE;
    const ucs_status_ptr_t request = ucp_ep_close_nbx(endpoint_, &param);
    endpoint_ = nullptr;
    return UCS_PTR_IS_PTR(request) ? request : nullptr;
}

void Peer::disown() {
    if (!slots_) return;
    for (Slot& slot : *slots_)
        slot.in_flight = nullptr;
}

}  // namespace coppice::transport::ucx
