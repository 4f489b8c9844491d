#include "transport/ucx/worker.hpp"

#include <dirent.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>

#include "transport/ucx/library.hpp"
#include "transport/ucx/listeners.hpp"
#include "transport/ucx/log.hpp"

namespace coppice::transport::ucx {
namespace {

// A setting of ours, and the UCX_* variable by which users know it. ucp_config_modify() wants the names as they stand in
// UCX's tables: RC's and UD's with their prefix but without the driver's name, TCP's bare.
struct Setting {
    const char* name;
    const char* variable;
    const char* value;
};

constexpr std::array kSettings = {
    // Off. Over TCP it is data, which the kernel sends again for many minutes when a cable is cut, and asks no more whether the
    // peer lives. Over RDMA UCX asks by another lane than RC, UD's, which then carries the set-up of connections too; if
    // the peer dies during that, an assertion of UCX 1.13 ends this process (ucp_request_send_state_ff). Without a lane
    // of its own UD only helps RC to connect, and UCX gives up such a connection in order.
    Setting{"KEEPALIVE_INTERVAL", "UCX_KEEPALIVE_INTERVAL", "inf"},
    // The kernel's: a silent peer becomes known in seconds, not in half a minute.
    Setting{"KEEPIDLE", "UCX_TCP_KEEPIDLE", "1s"}, Setting{"KEEPINTVL", "UCX_TCP_KEEPINTVL", "1s"},
    Setting{"KEEPCNT", "UCX_TCP_KEEPCNT", "3"},
    // A dead peer after about a second, not ten; and 7 retries, the default, mean "for ever" to soft-RoCE.
    Setting{"RC_TIMEOUT", "UCX_RC_VERBS_TIMEOUT", "200ms"}, Setting{"RC_RETRY_COUNT", "UCX_RC_VERBS_RETRY_COUNT", "4"},
    // However many peers there are, RC carries the messages: what UD does when a peer dies ends the survivor.
    Setting{"RC_MAX_NUM_EPS", "UCX_RC_VERBS_MAX_NUM_EPS", "inf"},
    // UD sets up RC's connections. Its check of addresses drops what arrives over soft-RoCE.
    Setting{"UD_ETH_DGID_CHECK", "UCX_UD_VERBS_ETH_DGID_CHECK", "n"},
    // And it must not find that a peer is dead: for one half of a connection that ends in an assertion of UCX 1.13
    // (uct_ud_ep_deferred_timeout_handler). So this is "never"; UcxOptions::connect_patience bounds the set-up.
    Setting{"UD_TIMEOUT", "UCX_UD_VERBS_TIMEOUT", "100000000s"},
    // The largest payload and our header leave in one segment: one system call here, no reassembly there.
    Setting{"TX_SEG_SIZE", "UCX_TCP_TX_SEG_SIZE", "16K"},
    // Else connecting to a host that does not answer would block the caller for minutes.
    Setting{"CONN_NB", "UCX_TCP_CONN_NB", "y"},
    // (How long a host is asked that does not answer at all Descriptors::bound_set_up() says: UCX 1.13 refuses every SYN_CNT.
    // A connection that is refused is tried again 25 times, at once; with a single try connections that cross end in an
    // assertion.)
};

bool set_by_user(const char* variable) {
    return std::getenv(variable) != nullptr;
}

bool set_by_user(const Setting& setting) {
    return set_by_user(setting.variable) || set_by_user((std::string("UCX_") + setting.name).c_str());
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
    void operator()(ucp_config_t* config) const { library.ucp_config_release(config); }
};
using Config = std::unique_ptr<ucp_config_t, ConfigReleaser>;

Result<void> modify(ucp_config_t* config, const char* name, const char* value) {
    const ucs_status_t status = library.ucp_config_modify(config, name, value);
    if (status == UCS_OK) return {};
    return fail(COPPICE_ERR_CONFIG, "ucx: '{}' is no value for UCX_{}: {}", value, name,
                library.ucs_status_string(status));
}

Result<Config> configure(const WorkerOptions& options) {
    ucp_config_t* raw = nullptr;
    if (const ucs_status_t status = library.ucp_config_read(nullptr, nullptr, &raw); status != UCS_OK)
        return fail(COPPICE_ERR_CONFIG, "ucx: a UCX_* variable of the environment does not parse: {}",
                    library.ucs_status_string(status));
    Config config(raw);
    for (const Setting& setting : kSettings) {
        // A release that does not know one of them works without it.
        if (!set_by_user(setting)) (void)library.ucp_config_modify(raw, setting.name, setting.value);
    }
    std::string devices = options.net_devices;
    if (devices.empty() && options.loopback_only && !options.put && !set_by_user("UCX_NET_DEVICES") &&
        options.tls.empty() && !set_by_user("UCX_TLS"))
        devices = "lo";
    if (!devices.empty())
        if (auto done = modify(raw, "NET_DEVICES", devices.c_str()); !done) return tl::unexpected(done.error());
    // Its shared memory is never used (see address()), but would be made in /dev/shm all the same, which may be full.
    if (options.tls.empty() && !set_by_user("UCX_TLS"))
        (void)library.ucp_config_modify(raw, "TLS", options.put ? "ib" : "^shm");
    // UCX keeps registrations for later use, beyond ucp_mem_unmap(): the right to write to a fenced peer's slots would live on.
    if (options.put)
        if (auto done = modify(raw, "REG_METHODS", "direct"); !done) return tl::unexpected(done.error());
    if (!options.tls.empty())
        if (auto done = modify(raw, "TLS", options.tls.c_str()); !done) return tl::unexpected(done.error());
    return config;
}

// What the address of a worker without any network device comes to at most (10 bytes, when this was written). The
// shortest of one that has a device adds at least the device's own address and properties to it (40).
constexpr std::size_t kAddressOfNothing = 20;

// Which transports UCX would use: the names of its resources, as far as they may carry messages of ours.
struct Wires {
    bool reliable = false;  // RDMA with connections: RC, DC
    bool datagrams = false;
    bool tcp = false;
};

// UCX says that only to people, so what cannot be read is taken for what needs no care.
Wires wires_of(ucp_context_h context) {
    char* text = nullptr;
    std::size_t length = 0;
    FILE* stream = open_memstream(&text, &length);
    if (stream == nullptr) return {};
    library.ucp_context_print_info(context, stream);
    std::fclose(stream);
    Wires wires;
    const std::unique_ptr<char, decltype(&std::free)> owner(text, &std::free);
    std::string_view rest(text, length);
    while (!rest.empty()) {
        const std::string_view line = rest.substr(0, rest.find('\n'));
        rest.remove_prefix(std::min(line.size() + 1, rest.size()));
        const auto flags = line.find(" flags ");
        if (flags == std::string_view::npos || line.find("resource") == std::string_view::npos) continue;
        const std::string_view resource = line.substr(flags + 7);  // "-- rc_verbs/mlx5_0:1", "a-": for connecting only
        if (resource.size() < 4 || resource[0] == 'a') continue;
        const std::string_view name = resource.substr(3);
        wires.reliable |= name.starts_with("rc_") || name.starts_with("dc_");
        wires.datagrams |= name.starts_with("ud_");
        wires.tcp |= name.starts_with("tcp");
    }
    return wires;
}

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

tl::unexpected<Error> no_native_puts(bool tcp) {
    return fail(
        COPPICE_ERR_CONFIG,
        "ucx: COPPICE_UCX_PUT is on, but {}: allow nothing but RC, with UD to connect (COPPICE_UCX_TLS=rc,ud), on "
        "a device that has it, or leave COPPICE_UCX_PUT off",
        tcp ? "UCX may also use TCP here, where it emulates one-sided writes" : "UCX has no RC here");
}

}  // namespace

Result<Worker> Worker::create(const WorkerOptions& options) {
    if (const auto& loaded = load(); !loaded) return tl::unexpected(loaded.error());
    Hush::install();
    const Hush hush;
    Hush::take();
    if (auto enough = check_descriptors(options.expected_connections); !enough) return tl::unexpected(enough.error());
    const std::vector<Descriptors::Named> before = Descriptors::open();
    Worker made;
    if (auto done = made.initialize(options); !done) return tl::unexpected(done.error());
    const Wires wires = wires_of(made.context_);
    if (wires.datagrams && !wires.reliable && !wires.tcp)
        return no_transport(options, "UD alone does not let this process survive a peer's death: allow rc too");
    if (options.put && (wires.tcp || !wires.reliable)) return no_native_puts(wires.tcp);
    made.over_rdma_ = wires.datagrams || wires.reliable;
    if (auto done = made.make_worker(options.admitted); !done) return tl::unexpected(done.error());
    made.descriptors_.take_new(before);
    auto address = made.address();
    if (!address) return tl::unexpected(address.error());
    if (address->size() <= kAddressOfNothing)
        return no_transport(options, "there is none for a network, and others do not tell of a peer's death");
    return made;
}

Result<void> Worker::make_worker(const std::optional<Admission>& admitted) {
    // A listener of the application's that is opened in this moment may look like the worker's.
    constexpr int kTries = 8;
    for (int left = kTries; left > 0; --left) {
        const Listeners listeners;
        ucp_worker_params_t params{};
        params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
        params.thread_mode = UCS_THREAD_MODE_SERIALIZED;  // the caller's thread, and the progress thread
        if (const ucs_status_t status = library.ucp_worker_create(context_, &params, &worker_); status != UCS_OK)
            return fail(
                status == UCS_ERR_NO_MEMORY ? COPPICE_ERR_NO_MEMORY : COPPICE_ERR_NO_RESOURCES,
                "ucx: no worker could be made: {}; check UCX_NET_DEVICES, UCX_TLS and the limits (ulimit -n, -l)",
                library.ucs_status_string(status));
        if (!admitted) {
            open_ = "everybody is admitted";
            break;
        }
        auto own = address();
        if (!own) return tl::unexpected(own.error());
        auto closed = listeners.close_to_strangers(*own, *admitted, left == 1);
        if (closed.doubtful) {
            library.ucp_worker_destroy(std::exchange(worker_, nullptr));
            continue;
        }
        listeners_ = closed.listeners;
        closed_ = std::move(closed.sockets);
        admitted_ = *admitted;
        open_ = std::move(closed.open);
        break;
    }
    if (library.ucp_worker_get_efd(worker_, &wake_up_) != UCS_OK) wake_up_ = -1;
    return {};
}

Result<void> Worker::admit(const HostAddresses& host) {
    Admission wider = admitted_;
    if (closed_.empty() || !wider.add(host)) return {};
    auto open = Listeners::admit(closed_, wider);
    if (!open) return tl::unexpected(std::move(open.error()));
    admitted_ = std::move(wider);
    if (!open->empty()) open_ = std::move(*open);
    return {};
}

Result<void> Worker::initialize(const WorkerOptions& options) {
    auto config = configure(options);
    if (!config) return tl::unexpected(config.error());
    ucp_params_t params{};
    params.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_NAME;
    // With RMA a worker takes emulated puts, too, from any process that has connected to it: these may write anywhere.
    params.features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP;
    if (options.put) params.features |= UCP_FEATURE_RMA;
    params.name = "coppice";
    const ucs_status_t status =
        library.ucp_init_version(UCP_API_MAJOR, UCP_API_MINOR, &params, config->get(), &context_);
    if (status != UCS_OK) return no_transport(options, library.ucs_status_string(status));
    return {};
}

int Worker::arm() {
    if (wake_up_ < 0 || library.ucp_worker_arm(worker_) != UCS_OK) return -1;
    return wake_up_;
}

Worker::~Worker() {
    const Hush hush;
    descriptors_.forget();
    if (worker_ != nullptr) library.ucp_worker_destroy(worker_);
    if (context_ != nullptr) library.ucp_cleanup(context_);
    descriptors_.keep_shared();
}

Result<std::vector<std::byte>> Worker::address() const {
    // The shared-memory part is left out: with peer error handling UCX does not use it, and it is not safe against
    // kill -9 when forced to.
    ucp_worker_attr_t attributes{};
    attributes.field_mask = UCP_WORKER_ATTR_FIELD_ADDRESS | UCP_WORKER_ATTR_FIELD_ADDRESS_FLAGS;
    attributes.address_flags = UCP_WORKER_ADDRESS_FLAG_NET_ONLY;
    if (const ucs_status_t status = library.ucp_worker_query(worker_, &attributes); status != UCS_OK)
        return fail(COPPICE_ERR_NO_TRANSPORT, "ucx: this rank has no network address: {}",
                    library.ucs_status_string(status));
    const auto* bytes = reinterpret_cast<const std::byte*>(attributes.address);
    std::vector<std::byte> address(bytes, bytes + attributes.address_length);
    library.ucp_worker_release_address(worker_, attributes.address);
    return address;
}

}  // namespace coppice::transport::ucx
