#include <gtest/gtest.h>
#include <poll.h>
#include <sched.h>

#include <algorithm>
#include <cstring>

#include "transport/landing.hpp"
#include "transport/verbs_support.hpp"

namespace coppice::testing {

using namespace transport;

std::vector<std::string> rdma_devices() {
    std::vector<std::string> names;
    int count = 0;
    ibv_device** const list = ibv_get_device_list(&count);
    for (int at = 0; at < count; ++at)
        names.emplace_back(ibv_get_device_name(list[at]));
    if (list != nullptr) ibv_free_device_list(list);
    return names;
}

VerbsOptions verbs_options(Seat self, std::uint32_t size) {
    VerbsOptions options;
    options.self = self;
    options.group_size = size;
    options.group_token = kVerbsToken;
    options.window = kWindow;
    const auto devices = rdma_devices();
    if (!devices.empty()) options.device = devices[self.value % devices.size()];
    options.timeout = kAnswerTimeout;
    options.retries = kAnswerRetries;
    return options;
}

std::unique_ptr<VerbsTransport> make_verbs(const VerbsOptions& options) {
    auto made = VerbsTransport::create(options);
    if (!made) throw CheckFailed(made.error().message);
    return std::move(*made);
}

Result<std::unique_ptr<Transport>> VerbsFactory::make(Seat self, std::uint32_t size) {
    auto wanted = verbs_options(self, size);
    wanted.incarnation = incarnation;
    auto made = VerbsTransport::create(wanted);
    if (!made) return tl::unexpected(made.error());
    return std::unique_ptr<Transport>(std::move(*made));
}

Bytes VerbsFactory::of_other_version(Bytes address) {
    address[4] = std::byte{verbs::kWireVersion + 1};  // behind the magic
    return address;
}

bool VerbsFactory::send_garbage(Transport& transport) {
    const std::uint64_t before = transport.counters().garbage;
    Recorder recorder;
    const Visitor visitor(dynamic_cast<VerbsTransport&>(transport), recorder, pattern(3, verbs::kCardBytes));
    COPPICE_CHECK(!visitor.accepted() && visitor.refusal() == verbs::Refusal::garbage);
    COPPICE_CHECK(transport.counters().garbage == before + 1);
    COPPICE_CHECK(recorder.messages.empty() && recorder.failures.empty());
    return true;
}

verbs::Card visiting_card(std::uint32_t rank) {
    return {.rank = rank, .token = kVerbsToken, .landing_address = 4096, .word_address = 4096, .slots = 4, .mtu = 1024};
}

Bytes sealed_write(std::uint32_t number, std::uint32_t from, std::uint32_t to, const Bytes& payload) {
    verbs::Prefix prefix{.stamp = number, .payload_size = static_cast<std::uint16_t>(payload.size())};
    seal(prefix, slot_seed(kVerbsToken, from, to), {}, payload);
    Bytes bytes(sizeof prefix + payload.size());
    std::memcpy(bytes.data(), &prefix, sizeof prefix);
    std::copy(payload.begin(), payload.end(), bytes.begin() + sizeof prefix);
    return bytes;
}

std::string error_of(const VerbsOptions& options) {
    const auto made = VerbsTransport::create(options);
    COPPICE_CHECK(!made);
    return made.error().message;
}

bool says(const std::string& message, const char* part) {
    if (message.find(part) != std::string::npos) return true;
    throw CheckFailed("\"" + message + "\" does not say \"" + part + "\"");
}

Visitor::Visitor(VerbsTransport& host, Receiver& receiver, const Bytes& card, Until until) {
    const auto address = verbs::decode_address(Seat{0}, host.address());
    COPPICE_CHECK(address.has_value());
    channel_ = rdma_create_event_channel();
    COPPICE_CHECK(channel_ != nullptr && rdma_create_id(channel_, &id_, nullptr, RDMA_PS_TCP) == 0);
    auto where = address->where;
    COPPICE_CHECK(rdma_resolve_addr(id_, nullptr, reinterpret_cast<sockaddr*>(&where), 5000) == 0);
    const std::uint64_t deadline = now_ns() + kDeadlineNs;
    bool answered = false;
    while (!answered) {
        COPPICE_CHECK(now_ns() < deadline);
        host.poll(receiver);
        sched_yield();
        pollfd readable{.fd = channel_->fd, .events = POLLIN, .revents = 0};
        if (::poll(&readable, 1, 0) <= 0) continue;
        rdma_cm_event* event = nullptr;
        COPPICE_CHECK(rdma_get_cm_event(channel_, &event) == 0);
        const auto type = event->event;
        const auto* bytes = static_cast<const std::byte*>(event->param.conn.private_data);
        if (type == RDMA_CM_EVENT_REJECTED)
            refusal_ = verbs::decode_refusal({bytes, event->param.conn.private_data_len});
        if (type == RDMA_CM_EVENT_CONNECT_RESPONSE) {
            const verbs::Card expected{.rank = kMaxProcesses, .token = kVerbsToken};
            host_card_ = verbs::decode_card({bytes, event->param.conn.private_data_len}, expected).card;
            accepted_ = true;
        }
        rdma_ack_cm_event(event);
        if (type == RDMA_CM_EVENT_ADDR_RESOLVED) {
            COPPICE_CHECK(rdma_resolve_route(id_, 5000) == 0);
        } else if (type == RDMA_CM_EVENT_ROUTE_RESOLVED) {
            make_queue_pair();
            rdma_conn_param param{};
            param.private_data = card.data();
            param.private_data_len = static_cast<std::uint8_t>(card.size());
            param.qp_num = pair_->qp_num;
            param.responder_resources = param.initiator_depth = 1;
            COPPICE_CHECK(rdma_connect(id_, &param) == 0);
            if (until == Until::asked) return;
        } else {
            answered = true;
        }
    }
    if (!accepted_ || until == Until::answered) return;
    activate();
    while (host.link(Seat{verbs::decode_card(card, {.rank = kMaxProcesses, .token = kVerbsToken}).card.rank}) !=
           verbs::Link::open) {
        COPPICE_CHECK(now_ns() < deadline);
        host.poll(receiver);
        sched_yield();
    }
}

void Visitor::make_queue_pair() {
    domain_ = ibv_alloc_pd(id_->verbs);
    queue_ = ibv_create_cq(id_->verbs, 4, nullptr, nullptr, 0);
    region_ = ibv_reg_mr(domain_, memory_.data(), memory_.size(), IBV_ACCESS_LOCAL_WRITE);
    ibv_qp_init_attr attributes{};
    attributes.send_cq = attributes.recv_cq = queue_;
    attributes.qp_type = IBV_QPT_RC;
    attributes.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 0};
    pair_ = ibv_create_qp(domain_, &attributes);
    COPPICE_CHECK(pair_ != nullptr && region_ != nullptr);
}

void Visitor::activate() {
    for (const ibv_qp_state state : {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS}) {
        ibv_qp_attr attributes{};
        int mask = 0;
        attributes.qp_state = state;
        COPPICE_CHECK(rdma_init_qp_attr(id_, &attributes, &mask) == 0);
        if (state == IBV_QPS_RTS) {
            attributes.timeout = kAnswerTimeout;
            attributes.retry_cnt = kAnswerRetries;
        }
        COPPICE_CHECK(ibv_modify_qp(pair_, &attributes, mask) == 0);
    }
    COPPICE_CHECK(rdma_establish(id_) == 0);
}

ibv_wc_status Visitor::post(ibv_send_wr& request, const Bytes& bytes) {
    std::copy(bytes.begin(), bytes.end(), memory_.begin());
    ibv_sge part{.addr = reinterpret_cast<std::uint64_t>(memory_.data()),
                 .length = static_cast<std::uint32_t>(bytes.size()),
                 .lkey = region_->lkey};
    request.sg_list = &part;
    request.num_sge = 1;
    request.send_flags = IBV_SEND_SIGNALED;
    ibv_send_wr* rejected = nullptr;
    COPPICE_CHECK(ibv_post_send(pair_, &request, &rejected) == 0);
    const std::uint64_t deadline = now_ns() + kDeadlineNs;
    ibv_wc completion{};
    while (ibv_poll_cq(queue_, 1, &completion) == 0) {
        COPPICE_CHECK(now_ns() < deadline);
        sched_yield();
    }
    return completion.status;
}

ibv_wc_status Visitor::write(const Bytes& bytes, std::uint64_t address, std::uint32_t key) {
    ibv_send_wr request{};
    request.opcode = IBV_WR_RDMA_WRITE;
    request.wr.rdma.remote_addr = address;
    request.wr.rdma.rkey = key;
    return post(request, bytes);
}

ibv_wc_status Visitor::send(const Bytes& bytes) {
    ibv_send_wr request{};
    request.opcode = IBV_WR_SEND;
    return post(request, bytes);
}

Visitor::~Visitor() {
    if (pair_ != nullptr) ibv_destroy_qp(pair_);
    if (queue_ != nullptr) ibv_destroy_cq(queue_);
    if (region_ != nullptr) ibv_dereg_mr(region_);
    if (domain_ != nullptr) ibv_dealloc_pd(domain_);
    rdma_destroy_id(id_);
    rdma_destroy_event_channel(channel_);
}

void in_process(const std::function<void()>& body) {
    Processes processes;
    processes.start([&] {
        body();
        return 0;
    });
    const Ending ending = processes.wait(0);
    EXPECT_TRUE(ending.well()) << ending.text();
}

VerbsGroup::VerbsGroup(std::uint32_t size) : recorders(size) {
    for (std::uint32_t rank = 0; rank < size; ++rank)
        wires.push_back(make_verbs(verbs_options(Seat(rank), size)));
    for (auto& wire : wires)
        for (std::uint32_t rank = 0; rank < size; ++rank)
            COPPICE_CHECK(wire->add_peer(Seat(rank), wires[rank]->address()).has_value());
}

void VerbsGroup::poll_until(const std::function<bool()>& condition, const char* what) {
    const std::uint64_t deadline = now_ns() + kDeadlineNs;
    while (!condition()) {
        if (now_ns() > deadline) throw CheckFailed(std::string("waited in vain for ") + what);
        for (std::size_t rank = 0; rank < wires.size(); ++rank)
            if (wires[rank]) wires[rank]->poll(recorders[rank]);
        sched_yield();
    }
}

SendStatus VerbsGroup::send(std::uint32_t from, std::uint32_t to, std::span<const std::byte> payload, bool one_sided) {
    std::uint32_t in_flight = 0;
    SendStatus status = SendStatus::again;
    const Bytes header = header_of(from, to);
    poll_until(
        [&] {
            status = one_sided ? wires[from]->write(Seat(to), header, payload, &in_flight)
                               : wires[from]->send(Seat(to), header, payload, &in_flight);
            return status != SendStatus::again;
        },
        "room");
    poll_until([&] { return in_flight == 0; }, "a payload to leave");
    return status;
}

}  // namespace coppice::testing
