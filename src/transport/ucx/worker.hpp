// Owns one UCX context and one worker, set up so that a peer's death costs the survivors nothing.
//
// Settings are given with ucp_config_modify, never through the environment of the host process; a UCX_* variable
// that the user has set wins over ours.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "transport/ip_addresses.hpp"
#include "transport/ucx/descriptors.hpp"
#include "transport/ucx/library.hpp"

namespace coppice::transport::ucx {

struct WorkerOptions {
    std::string net_devices;     // as UCX_NET_DEVICES, wins over it; empty: the environment's or all
    std::string tls;             // as UCX_TLS, likewise
    bool loopback_only = false;  // all ranks are on this host: use `lo` alone unless the two above or UCX_* say else
    bool put = false;            // one-sided writes: needs transports that all have them (RC)
    std::optional<Admission> admitted{};     // which hosts may connect to its TCP listeners; none: any
    std::uint32_t expected_connections = 1;  // to check the limit of file descriptors against
};

class Worker {
  public:
    // Loads UCX, where it is not there yet.
    static Result<Worker> create(const WorkerOptions& options);
    Worker(Worker&& other) noexcept
        : context_(std::exchange(other.context_, nullptr)),
          worker_(std::exchange(other.worker_, nullptr)),
          wake_up_(other.wake_up_),
          descriptors_(std::move(other.descriptors_)),
          over_rdma_(other.over_rdma_),
          listeners_(other.listeners_),
          closed_(std::move(other.closed_)),
          admitted_(std::move(other.admitted_)),
          open_(std::move(other.open_)) {}
    Worker& operator=(Worker&&) = delete;
    ~Worker();  // endpoints must be closed before

    ucp_worker_h handle() const { return worker_; }
    ucp_context_h context() const { return context_; }
    // Whether RDMA devices are among what UCX may use here. Then a rank that wants to know of a silent peer's death has
    // to send to it now and then: the device tells. (Over TCP the kernel asks silent peers.)
    bool over_rdma() const { return over_rdma_; }
    // After connections were made or taken: what this process executes must not have them.
    void close_connections_on_exec() const { descriptors_.close_connections_on_exec(); }
    void bound_set_up() const { descriptors_.bound_set_up(); }
    // How many TCP listeners it has, and why strangers can reach one of them; empty: they cannot.
    unsigned listeners() const { return listeners_; }
    const std::string& open_to_strangers() const { return open_; }
    // A host more may connect to them.
    Result<void> admit(const HostAddresses& host);
    unsigned progress() { return library.ucp_worker_progress(worker_); }
    // A descriptor that becomes readable when there is something to progress; −1 while there is, or where UCX has none.
    int arm();
    // The same, whatever there is; an epoll set.
    int sleeps_on() const { return wake_up_; }
    Result<std::vector<std::byte>> address() const;

  private:
    Worker() = default;
    Result<void> initialize(const WorkerOptions& options);
    Result<void> make_worker(const std::optional<Admission>& admitted);

    ucp_context_h context_ = nullptr;
    ucp_worker_h worker_ = nullptr;
    int wake_up_ = -1;  // UCX's own
    Descriptors descriptors_;
    bool over_rdma_ = false;
    unsigned listeners_ = 0;
    std::vector<int> closed_;  // listeners with a filter, by which these are let in
    Admission admitted_{};
    std::string open_;
};

}  // namespace coppice::transport::ucx
