// What the tests of the UCX transport share. UCX is never started in the tests' own process: it does not survive fork.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "support/processes.hpp"
#include "transport/conformance.hpp"
#include "transport/ucx/ucx_transport.hpp"
#include "transport/ucx/wire.hpp"
#include "transport/ucx/worker.hpp"

namespace coppice::testing {

inline constexpr std::uint64_t kToken = 0x5EED5EED5EED5EEDULL;

inline transport::UcxOptions ucx_options(Seat self, std::uint32_t size) {
    transport::UcxOptions options;
    options.self = self;
    options.group_size = size;
    options.group_token = kToken;
    options.loopback_only = true;
    return options;
}

// Throws CheckFailed with the error's sentence if there is none.
inline std::unique_ptr<transport::UcxTransport> make_ucx(const transport::UcxOptions& options) {
    auto made = transport::UcxTransport::create(options);
    if (!made) throw CheckFailed(made.error().message);
    return std::move(*made);
}

// Runs `body` in a process of its own and expects that it ends well.
inline void in_child(const std::function<void()>& body) {
    Processes processes;
    processes.start([&] {
        body();
        return 0;
    });
    const Ending ending = processes.wait(0);
    EXPECT_TRUE(ending.well()) << ending.text();
}

// Polls until `condition` holds; the condition may poll other transports itself.
inline void poll_until(transport::Transport& wire, transport::Receiver& receiver,
                       const std::function<bool()>& condition) {
    const std::uint64_t deadline = now_ns() + kDeadlineNs;
    while (!condition()) {
        if (now_ns() > deadline) throw CheckFailed("the deadline passed");
        if (wire.poll(receiver) == 0) sched_yield();
    }
}

// An endpoint of a worker that is not a transport's, to the worker with this address; it ends without anybody's
// consent.
inline ucp_ep_h connect(transport::ucx::Worker& worker, std::span<const std::byte> address) {
    ucp_ep_params_t params{};
    params.field_mask =
        UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER;
    params.address = reinterpret_cast<const ucp_address_t*>(address.data());
    params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
    params.err_handler.cb = [](void*, ucp_ep_h, ucs_status_t) {};
    ucp_ep_h endpoint = nullptr;
    COPPICE_CHECK(ucp_ep_create(worker.handle(), &params, &endpoint) == UCS_OK);
    return endpoint;
}

inline void close_by_force(transport::ucx::Worker& worker, ucp_ep_h endpoint) {
    ucp_request_param_t param{};
    param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
    param.flags = UCP_EP_CLOSE_FLAG_FORCE;
    ucs_status_ptr_t request = ucp_ep_close_nbx(endpoint, &param);
    if (!UCS_PTR_IS_PTR(request)) return;
    while (ucp_request_check_status(request) == UCS_INPROGRESS)
        worker.progress();
    ucp_request_free(request);
}

// A UCX worker that belongs to no group and connects to a transport by its published address.
class Stranger {
  public:
    explicit Stranger(const transport::Transport& victim,
                      const transport::ucx::WorkerOptions& options = {.net_devices = "lo", .tls = "tcp"})
        : worker_(std::move(*transport::ucx::Worker::create(options))) {
        auto address = transport::ucx::unpack_address(Seat(0), victim.address(), options.put);
        COPPICE_CHECK(address.has_value());
        endpoint_ = connect(worker_, address->worker);
    }
    Stranger(const Stranger&) = delete;
    Stranger& operator=(const Stranger&) = delete;
    ~Stranger() { close_by_force(worker_, endpoint_); }

    // The bytes must stay until the victim has them.
    void send(unsigned id, const Bytes& header, const Bytes& payload, std::uint32_t flags = UCP_AM_SEND_FLAG_EAGER) {
        ucp_request_param_t param{};
        param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
        param.flags = flags;
        ucs_status_ptr_t request =
            ucp_am_send_nbx(endpoint_, id, header.data(), header.size(), payload.data(), payload.size(), &param);
        COPPICE_CHECK(!UCS_PTR_IS_ERR(request));
        if (request != nullptr) ucp_request_free(request);
    }
    void progress() { worker_.progress(); }

  private:
    transport::ucx::Worker worker_;
    ucp_ep_h endpoint_ = nullptr;
};

inline Bytes bytes_of(const transport::ucx::Prefix& prefix, std::size_t more = 0) {
    Bytes bytes(sizeof prefix + more);
    std::memcpy(bytes.data(), &prefix, sizeof prefix);
    return bytes;
}

class UcxFactory : public Factory {
  public:
    const char* name() const override { return "ucx"; }
    Result<std::unique_ptr<Transport>> make(Seat self, std::uint32_t size) override;
    Bytes of_other_version(Bytes address) override;
    bool send_garbage(Transport& transport) override;
    // Its sockets are the forked child's too, and stay open with it.
    bool forked_children_do_not_count() const override { return false; }

  protected:
    virtual transport::UcxOptions options(Seat self, std::uint32_t size) const { return ucx_options(self, size); }
    // How a stranger to the group reaches its ranks.
    virtual transport::ucx::WorkerOptions stranger() const { return {.net_devices = "lo", .tls = "tcp"}; }
};

// Several ranks of one group in this process, each with its own transport: for what needs no death.
struct Group {
    explicit Group(std::uint32_t size, const std::optional<transport::Admission>& admitted = std::nullopt)
        : recorders(size) {
        for (std::uint32_t rank = 0; rank < size; ++rank) {
            transport::UcxOptions options = ucx_options(Seat(rank), size);
            options.admitted = admitted;
            wires.push_back(make_ucx(options));
        }
        for (auto& wire : wires)
            for (std::uint32_t rank = 0; rank < size; ++rank)
                if (auto added = wire->add_peer(Seat(rank), wires[rank]->address()); !added)
                    throw CheckFailed(added.error().message);
    }

    void poll_until(const std::function<bool()>& condition) {
        const std::uint64_t deadline = now_ns() + kDeadlineNs;
        while (!condition()) {
            if (now_ns() > deadline) throw CheckFailed("the deadline passed");
            for (std::size_t rank = 0; rank < wires.size(); ++rank)
                if (wires[rank]) wires[rank]->poll(recorders[rank]);
            sched_yield();
        }
    }

    void send(std::uint32_t from, std::uint32_t to, const Bytes& payload) {
        std::uint32_t in_flight = 0;
        auto status = transport::SendStatus::again;
        poll_until([&] {
            status = wires[from]->send(Seat(to), header_of(from, to), payload, &in_flight);
            return status != transport::SendStatus::again;
        });
        COPPICE_CHECK(status == transport::SendStatus::sent);
        poll_until([&] { return in_flight == 0; });
    }

    std::vector<std::unique_ptr<transport::UcxTransport>> wires;
    std::vector<Recorder> recorders;
};

}  // namespace coppice::testing
