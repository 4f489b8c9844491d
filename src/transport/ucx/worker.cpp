#include "transport/ucx/worker.hpp"

#include <dirent.h>
#include <sys/resource.h>
#include <ucs/debug/debug.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <memory>
#include <string>

#include "transport/ucx/log.hpp"

namespace coppice::transport::ucx {
namespace {

// A setting of ours, and the UCX_* variable by which users know it. This UCX takes settings of its transports without
// the transport's name in front and gives them to every transport that has one of that name: so only those can be set
// that a single transport has, and RC's and UD's TIMEOUT cannot be told apart and stay at UCX's defaults.
struct Setting {
    const char* name;
    const char* variable;
    const char* value;
};

constexpr std::array kSettings = {
    // A silent peer becomes known in seconds, not in half a minute.
    Setting{"KEEPALIVE_INTERVAL", "UCX_KEEPALIVE_INTERVAL", "500ms"},
    Setting{"KEEPALIVE_NUM_EPS", "UCX_KEEPALIVE_NUM_EPS", "inf"},
    Setting{"KEEPIDLE", "UCX_TCP_KEEPIDLE", "1s"},
    Setting{"KEEPINTVL", "UCX_TCP_KEEPINTVL", "1s"},
    Setting{"KEEPCNT", "UCX_TCP_KEEPCNT", "3"},
    Setting{"RETRY_COUNT", "UCX_RC_VERBS_RETRY_COUNT", "4"},  // 7, the default, means "for ever" to soft-RoCE
    // The largest payload and our header leave in one segment: one system call here, no reassembly there.
    Setting{"TX_SEG_SIZE", "UCX_TCP_TX_SEG_SIZE", "16K"},
    // Else connecting to a host that does not answer would block the caller for minutes.
    Setting{"CONN_NB", "UCX_TCP_CONN_NB", "y"},
};

bool set_by_user(const char* variable) {
    return std::getenv(variable) != nullptr;
}

// UCX takes over the host's fatal signals (and SIGHUP, to stop for a debugger) as soon as it is loaded, and from then
// on hides the application's own sigaction() for them. A library inside somebody's process must not do that. It has to
// be undone before main(), or handlers that main() installs before it comes to us would be swallowed.
__attribute__((constructor)) void leave_signals_to_the_application() {
    if (!set_by_user("UCX_HANDLE_ERRORS") && !set_by_user("UCX_ERROR_SIGNALS"))
        for (int signal : {SIGILL, SIGSEGV, SIGBUS, SIGFPE})
            ucs_debug_disable_signal(signal);
    if (!set_by_user("UCX_DEBUG_SIGNO")) ucs_debug_disable_signal(SIGHUP);
}

std::uint64_t open_descriptors() {
    std::uint64_t count = 0;
    if (DIR* directory = opendir("/proc/self/fd")) {
        while (readdir(directory) != nullptr)
            ++count;
        closedir(directory);
    }
    return count;
}

// UCX reports an exhausted descriptor table as a failed peer at best. Better to say so before there are peers.
Result<void> check_descriptors(std::uint32_t expected_connections) {
    constexpr std::uint64_t kOwn = 24;  // event files, listeners, pipes of the worker itself
    rlimit limit{};
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return {};
    const std::uint64_t needed = open_descriptors() + kOwn + expected_connections;
    if (limit.rlim_cur >= needed) return {};
    return fail(COPPICE_ERR_NO_RESOURCES,
                "ucx: too few file descriptors: this process may have {} and needs about {}; raise the limit with "
                "'ulimit -n {}' (the hard limit is {})",
                limit.rlim_cur, needed, needed * 2, limit.rlim_max);
}

struct ConfigReleaser {
    void operator()(ucp_config_t* config) const { ucp_config_release(config); }
};
using Config = std::unique_ptr<ucp_config_t, ConfigReleaser>;

Result<void> modify(ucp_config_t* config, const char* name, const char* value) {
    const ucs_status_t status = ucp_config_modify(config, name, value);
    if (status == UCS_OK) return {};
    return fail(COPPICE_ERR_CONFIG, "ucx: '{}' is no value for UCX_{}: {}", value, name, ucs_status_string(status));
}

Result<Config> configure(const WorkerOptions& options) {
    ucp_config_t* raw = nullptr;
    if (const ucs_status_t status = ucp_config_read(nullptr, nullptr, &raw); status != UCS_OK)
        return fail(COPPICE_ERR_CONFIG, "ucx: a UCX_* variable of the environment does not parse: {}",
                    ucs_status_string(status));
    Config config(raw);
    for (const Setting& setting : kSettings) {
        // A release that does not know one of them works without it.
        if (!set_by_user(setting.variable)) (void)ucp_config_modify(raw, setting.name, setting.value);
    }
    std::string devices = options.net_devices;
    if (devices.empty() && options.loopback_only && !set_by_user("UCX_NET_DEVICES") && options.tls.empty() &&
        !set_by_user("UCX_TLS"))
        devices = "lo";
    if (!devices.empty())
        if (auto done = modify(raw, "NET_DEVICES", devices.c_str()); !done) return tl::unexpected(done.error());
    // Its shared memory is never used (see address()), but would be made in /dev/shm all the same, which may be full.
    if (options.tls.empty() && !set_by_user("UCX_TLS")) (void)ucp_config_modify(raw, "TLS", "^shm");
    if (!options.tls.empty())
        if (auto done = modify(raw, "TLS", options.tls.c_str()); !done) return tl::unexpected(done.error());
    return config;
}

// What the address of a worker without any network device comes to at most (10 bytes, when this was written). The
// shortest of one that has a device adds at least the device's own address and properties to it (40).
constexpr std::size_t kAddressOfNothing = 20;

std::string asked_for(const std::string& option, const char* variable) {
    if (!option.empty()) return option;
    const char* value = std::getenv(variable);
    return value != nullptr ? value : "any";
}

tl::unexpected<Error> no_transport(const WorkerOptions& options, const char* why) {
    const std::string complaint = Hush::take();
    return fail(
        COPPICE_ERR_NO_TRANSPORT,
        "ucx: no usable network device and transport (devices: {}; transports: {}{}): {}{}{}; 'ucx_info -d' lists "
        "what there is, UCX_NET_DEVICES and UCX_TLS choose among it",
        asked_for(options.net_devices, "UCX_NET_DEVICES"), asked_for(options.tls, "UCX_TLS"),
        options.loopback_only ? "; all ranks on this host: 'lo' unless chosen" : "", why,
        complaint.empty() ? "" : "; UCX says: ", complaint);
}

}  // namespace

Result<Worker> Worker::create(const WorkerOptions& options) {
    Hush::install();
    const Hush hush;
    Hush::take();
    if (auto enough = check_descriptors(options.expected_connections); !enough) return tl::unexpected(enough.error());
    auto config = configure(options);
    if (!config) return tl::unexpected(config.error());

    Worker made;
    ucp_params_t params{};
    params.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_NAME;
    params.features = UCP_FEATURE_AM;  // and not RMA: emulated puts let any connected peer write anywhere
    params.name = "coppice";
    if (const ucs_status_t status = ucp_init(&params, config->get(), &made.context_); status != UCS_OK)
        return no_transport(options, ucs_status_string(status));
    ucp_worker_params_t worker_params{};
    worker_params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
    worker_params.thread_mode = UCS_THREAD_MODE_SINGLE;
    if (const ucs_status_t status = ucp_worker_create(made.context_, &worker_params, &made.worker_); status != UCS_OK)
        return fail(status == UCS_ERR_NO_MEMORY ? COPPICE_ERR_NO_MEMORY : COPPICE_ERR_NO_RESOURCES,
                    "ucx: no worker could be made: {}; check UCX_NET_DEVICES, UCX_TLS and the limits (ulimit -n, -l)",
                    ucs_status_string(status));
    auto address = made.address();
    if (!address) return tl::unexpected(address.error());
    if (address->size() <= kAddressOfNothing)
        return no_transport(options, "there is none for a network, and others do not tell of a peer's death");
    return made;
}

Worker::~Worker() {
    const Hush hush;
    if (worker_ != nullptr) ucp_worker_destroy(worker_);
    if (context_ != nullptr) ucp_cleanup(context_);
}

Result<std::vector<std::byte>> Worker::address() const {
    // The shared-memory part is left out: with peer error handling UCX does not use it, and it is not safe against
    // kill -9 when forced to.
    ucp_worker_attr_t attributes{};
    attributes.field_mask = UCP_WORKER_ATTR_FIELD_ADDRESS | UCP_WORKER_ATTR_FIELD_ADDRESS_FLAGS;
    attributes.address_flags = UCP_WORKER_ADDRESS_FLAG_NET_ONLY;
    if (const ucs_status_t status = ucp_worker_query(worker_, &attributes); status != UCS_OK)
        return fail(COPPICE_ERR_NO_TRANSPORT, "ucx: this rank has no network address: {}", ucs_status_string(status));
    const auto* bytes = reinterpret_cast<const std::byte*>(attributes.address);
    std::vector<std::byte> address(bytes, bytes + attributes.address_length);
    ucp_worker_release_address(worker_, attributes.address);
    return address;
}

}  // namespace coppice::transport::ucx
