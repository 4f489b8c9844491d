#include "hosts.hpp"

#include <fcntl.h>
#include <linux/capability.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>

#include "base/clock.hpp"

namespace coppice::run {
namespace {

// 10.99.0.0/16 exists inside the namespaces only.
constexpr int kMtu = 9000;
constexpr const char* kFarBridge = "far-side";

std::string read_everything(int descriptor) {
    std::string text;
    std::array<char, 1024> chunk{};
    for (ssize_t got = 0; (got = ::read(descriptor, chunk.data(), chunk.size())) > 0;) {
        text.append(chunk.data(), static_cast<std::size_t>(got));
    }
    return text;
}

bool write_file(const char* path, const std::string& text) {
    const int file = ::open(path, O_WRONLY | O_CLOEXEC);
    if (file < 0) return false;
    const bool done = ::write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size());
    ::close(file);
    return done;
}

// Of the calling process's network.
bool is_running(const std::string& interface) {
    const int socket = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (socket < 0) return false;
    ifreq request{};
    interface.copy(request.ifr_name, IFNAMSIZ - 1);
    const bool running = ::ioctl(socket, SIOCGIFFLAGS, &request) == 0 && (request.ifr_flags & IFF_RUNNING) != 0;
    ::close(socket);
    return running;
}

int open_own_network() {
    return ::open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
}

void set_capabilities(const std::array<__user_cap_data_struct, 2>& data) {
    __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
    ::syscall(SYS_capset, &header, data.data());
}

// In a user namespace with ids of its own this process is no root, so that execve would take its rights away.
// The ambient set carries them over into `ip`.
void keep_rights_over_exec() {
    __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
    std::array<__user_cap_data_struct, 2> data{};
    if (::syscall(SYS_capget, &header, data.data()) != 0) return;
    for (auto& word : data)
        word.inheritable = word.permitted;
    set_capabilities(data);
    for (const unsigned long right : {CAP_NET_ADMIN, CAP_SYS_ADMIN}) {
        ::prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, right, 0, 0);
    }
}

const char* find_ip() {
    for (const char* path : {"/usr/sbin/ip", "/sbin/ip", "/usr/bin/ip", "/bin/ip"}) {
        if (::access(path, X_OK) == 0) return path;
    }
    return nullptr;
}

// Feeds `commands`, one a line, to `ip -batch` inside the network namespace `network`. `pass` stays open in
// it.
Result<void> run_ip(const char* ip, int network, const std::string& commands, bool keep_rights,
                    const std::vector<int>& pass) {
    std::array<int, 2> input{-1, -1};
    std::array<int, 2> output{-1, -1};
    if (::pipe2(input.data(), O_CLOEXEC) != 0 || ::pipe2(output.data(), O_CLOEXEC) != 0) {
        return fail(COPPICE_ERR_NO_RESOURCES, "pipe: {} (see `ulimit -n`)", std::strerror(errno));
    }
    const pid_t pid = ::fork();
    if (pid == 0) {
        ::dup2(input[0], STDIN_FILENO);
        ::dup2(output[1], STDOUT_FILENO);
        ::dup2(output[1], STDERR_FILENO);
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (const int descriptor : pass)
            ::fcntl(descriptor, F_SETFD, 0);
        if (::setns(network, CLONE_NEWNET) != 0) ::_exit(126);
        if (keep_rights) keep_rights_over_exec();
        ::execl(ip, ip, "-batch", "-", static_cast<char*>(nullptr));
        ::_exit(127);
    }
    ::close(input[0]);
    ::close(output[1]);
    // Short enough for the pipe (64 KiB) also with the largest number of hosts.
    [[maybe_unused]] const auto written = ::write(input[1], commands.data(), commands.size());
    ::close(input[1]);
    std::string said = read_everything(output[0]);
    ::close(output[0]);
    int status = -1;
    if (pid < 0 || ::waitpid(pid, &status, 0) != pid || status != 0) {
        std::ranges::replace(said, '\n', ' ');
        return fail(COPPICE_ERR_NO_RESOURCES, "`ip` could not set up the simulated network: {}",
                    said.empty() ? "it gave no reason" : said);
    }
    return {};
}

// A mount namespace of the calling process's own, with a /sys that shows its network; all other mounts stay common. Where a
// /sys is forbidden (some containers), programs that use system calls to look at the network still work.
int make_own_mounts() {
    if (::unshare(CLONE_NEWNS) != 0 || ::mount("none", "/", nullptr, MS_REC | MS_SLAVE, nullptr) != 0) return errno;
    ::mount("sysfs", "/sys", "sysfs", MS_NOSUID | MS_NOEXEC | MS_NODEV | MS_RDONLY, nullptr);
    return 0;
}

bool is_root(const struct stat& root) {
    struct stat now {};
    return ::stat("/", &now) == 0 && now.st_dev == root.st_dev && now.st_ino == root.st_ino;
}

// Enters a mount namespace, and stays in the same directory. False: this process is where it was, or its root has changed.
bool enter_mounts(int mounts) {
    struct stat root {};
    std::error_code error;
    const std::filesystem::path directory = std::filesystem::current_path(error);
    if (error || ::stat("/", &root) != 0 || ::setns(mounts, CLONE_NEWNS) != 0) return false;
    return ::chdir(directory.c_str()) == 0 && is_root(root);
}

}  // namespace

Placement place_in_blocks(std::uint32_t rank, std::uint32_t ranks, std::uint32_t hosts) {
    const std::uint32_t base = ranks / hosts;
    const std::uint32_t larger = ranks % hosts;  // so many hosts have base + 1 ranks
    const std::uint32_t in_larger = larger * (base + 1);
    if (rank < in_larger) return {rank / (base + 1), rank % (base + 1), base + 1};
    return {larger + (rank - in_larger) / base, (rank - in_larger) % base, base};
}

Placement place_of(std::uint32_t number, std::uint32_t ranks, std::uint32_t hosts) {
    if (number < ranks) return place_in_blocks(number, ranks, hosts);
    return {host_of_latecomer(number, ranks, hosts), 0, 0};
}

Result<std::unique_ptr<Hosts>> Hosts::create(std::uint32_t hosts, std::uint32_t ranks, std::uint32_t leaves,
                                             const HostSet& far_side) {
    std::unique_ptr<Hosts> made(new Hosts(hosts, ranks, leaves, far_side));
    if (auto ok = made->make_namespaces(); !ok) return tl::unexpected(ok.error());
    if (auto ok = made->cable(); !ok) return tl::unexpected(ok.error());
    made->make_mounts();
    return made;
}

Hosts::~Hosts() {
    for (const auto& descriptors : {descriptors_, mounts_}) {
        for (const int descriptor : descriptors)
            ::close(descriptor);
    }
    if (bridge_ >= 0) ::close(bridge_);
}

Placement Hosts::place(std::uint32_t number) const {
    return place_of(number, ranks_, hosts_);
}
std::string Hosts::port_name(std::uint32_t host) {
    return fmt::format("port{}", host);
}
std::string Hosts::uplink_name(std::uint32_t leaf) {
    return fmt::format("uplink{}", leaf);
}
std::string Hosts::bridge_of(std::uint32_t host) const {
    if (far_side_[host]) return kFarBridge;
    return leaves_ == 0 ? kBridge : fmt::format("leaf{}", leaf_of(host, hosts_, leaves_));
}
std::string Hosts::interface_name(std::uint32_t host) const {
    return fmt::format("veth{}", host);
}
std::string Hosts::address(std::uint32_t host) const {
    return fmt::format("10.99.0.{}", host + 1);
}

Result<void> Hosts::make_namespaces() {
    const uid_t user = ::geteuid();
    const gid_t group = ::getegid();
    if (::unshare(CLONE_NEWNET) != 0) {
        if (errno != EPERM) return fail(COPPICE_ERR_NO_RESOURCES, "no network namespace: {}", std::strerror(errno));
        if (::unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) {
            return fail(COPPICE_ERR_NO_RESOURCES,
                        "this kernel lets user {} make no user namespace ({}): run coppice-run as root, or "
                        "allow them "
                        "(sysctl user.max_user_namespaces, kernel.unprivileged_userns_clone=1, "
                        "kernel.apparmor_restrict_unprivileged_userns=0)",
                        user, std::strerror(errno));
        }
        user_namespace_ = true;
        // The new rights have made the process unreadable to its like; ranks must find the launcher in /proc.
        ::prctl(PR_SET_DUMPABLE, 1);
        if (!write_file("/proc/self/setgroups", "deny") ||
            !write_file("/proc/self/uid_map", fmt::format("{} {} 1", user, user)) ||
            !write_file("/proc/self/gid_map", fmt::format("{} {} 1", group, group))) {
            return fail(COPPICE_ERR_NO_RESOURCES, "cannot keep user {} in a user namespace: {}", user,
                        std::strerror(errno));
        }
    }
    bridge_ = open_own_network();
    for (std::uint32_t host = 0; host < hosts_ && bridge_ >= 0; ++host) {
        if (::unshare(CLONE_NEWNET) != 0) {
            return fail(COPPICE_ERR_NO_RESOURCES,
                        "no network namespace for host {}: {} (sysctl user.max_net_namespaces)", host,
                        std::strerror(errno));
        }
        descriptors_.push_back(open_own_network());
    }
    if (bridge_ < 0 || std::ranges::count(descriptors_, -1) > 0) {
        return fail(COPPICE_ERR_NO_RESOURCES, "cannot hold the network namespaces: {} (see `ulimit -n`)",
                    std::strerror(errno));
    }
    if (::setns(bridge_, CLONE_NEWNET) != 0) {
        return fail(COPPICE_ERR_NO_RESOURCES, "cannot enter the bridge's namespace: {}", std::strerror(errno));
    }
    return {};
}

Result<void> Hosts::cable() {
    const char* ip = find_ip();
    if (ip == nullptr) {
        return fail(COPPICE_ERR_NO_RESOURCES, "the program `ip` is missing: apt-get install iproute2");
    }
    const auto bridge = [](const std::string& name) {
        return fmt::format("link add {0} type bridge forward_delay 0\nlink set {0} up mtu {1}\n", name, kMtu);
    };
    // A pair of interfaces, each with its bridge.
    const auto link = [](const std::string& one, const std::string& of, const std::string& other,
                         const std::string& there) {
        return fmt::format("link add {0} mtu {2} type veth peer name {1} mtu {2}\n", one, other, kMtu) +
               fmt::format("link set {} master {} up\nlink set {} master {} up\n", one, of, other, there);
    };
    std::string commands = bridge(kBridge);
    if (has_trunk()) commands += bridge(kFarBridge) + link(kTrunkEnds[0], kBridge, kTrunkEnds[1], kFarBridge);
    for (std::uint32_t leaf = 0; leaf < leaves_; ++leaf) {
        const std::string name = fmt::format("leaf{}", leaf);
        commands += bridge(name) + link(uplink_name(leaf), name, fmt::format("downlink{}", leaf), kBridge);
    }
    if (auto ok = run_ip(ip, bridge_, commands, user_namespace_, {}); !ok) return ok;
    commands.clear();
    for (std::uint32_t host = 0; host < hosts_; ++host) {
        commands += fmt::format("link add {0} mtu {1} type veth peer name {2} mtu {1} netns /proc/self/fd/{3}\n",
                                port_name(host), kMtu, interface_name(host), descriptors_[host]);
        commands += fmt::format("link set {} master {} up\n", port_name(host), bridge_of(host));
    }
    if (auto ok = run_ip(ip, bridge_, commands, user_namespace_, descriptors_); !ok) return ok;
    for (std::uint32_t host = 0; host < hosts_; ++host) {
        commands = fmt::format("link set lo up\naddr add {}/16 dev {}\nlink set {} up\n", address(host),
                               interface_name(host), interface_name(host));
        if (auto ok = run_ip(ip, descriptors_[host], commands, user_namespace_, {}); !ok) return ok;
    }
    return wait_for_links();
}

// The kernel says that a link is up before it says that it runs, on a busy machine long before; what is started here
// looks.
Result<void> Hosts::wait_for_links() {
    constexpr std::uint64_t kPatience = 120'000'000'000;
    const std::uint64_t deadline = now_ns() + kPatience;
    for (std::uint32_t host = 0; host < hosts_; ++host) {
        if (::setns(descriptors_[host], CLONE_NEWNET) != 0) {
            return fail(COPPICE_ERR_NO_RESOURCES, "cannot enter the namespace of host {}: {}", host,
                        std::strerror(errno));
        }
        if (auto up = wait_for_link(interface_name(host), deadline); !up) return up;
    }
    if (::setns(bridge_, CLONE_NEWNET) != 0)
        return fail(COPPICE_ERR_NO_RESOURCES, "cannot enter the bridge's namespace: {}", std::strerror(errno));
    for (std::uint32_t leaf = 0; leaf < leaves_; ++leaf) {
        if (auto up = wait_for_link(uplink_name(leaf), deadline); !up) return up;
    }
    for (const char* const end : kTrunkEnds) {
        if (!has_trunk()) break;
        if (auto up = wait_for_link(end, deadline); !up) return up;
    }
    return {};
}

Result<void> Hosts::wait_for_link(const std::string& interface, std::uint64_t deadline_ns) {
    while (!is_running(interface)) {
        if (now_ns() > deadline_ns) return fail(COPPICE_ERR_NO_RESOURCES, "the link {} does not come up", interface);
        ::usleep(1000);
    }
    return {};
}

// A mounted sysfs shows the interfaces of the namespace in which it was mounted, and UCX looks for them there: so each host has
// a /sys of its own. It must not end with a rank: the kernel closes the sockets of a dead process only after it has taken apart
// the mounts that end with it, which on a busy machine takes seconds, and so long the other ranks would hear nothing of the death.
// Where a process can't enter it again (under chroot), each rank makes its own.
void Hosts::make_mounts() {
    for (const int network : descriptors_) {
        std::array<int, 2> ready{-1, -1};
        std::array<int, 2> over{-1, -1};
        if (::pipe2(ready.data(), O_CLOEXEC) != 0 || ::pipe2(over.data(), O_CLOEXEC) != 0) return;
        const pid_t pid = ::fork();
        if (pid == 0) {
            ::close(over[1]);
            char byte = 0;
            const bool made = ::setns(network, CLONE_NEWNET) == 0 && make_own_mounts() == 0;
            const int own = made ? ::open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC) : -1;
            if (own < 0 || !enter_mounts(own) || ::write(ready[1], &byte, 1) != 1) ::_exit(1);
            [[maybe_unused]] const auto none = ::read(over[0], &byte, 1);  // until the launcher holds the namespace
            ::_exit(0);
        }
        ::close(ready[1]);
        ::close(over[0]);
        char byte = 0;
        int mounts = -1;
        if (pid > 0 && ::read(ready[0], &byte, 1) == 1)
            mounts = ::open(fmt::format("/proc/{}/ns/mnt", pid).c_str(), O_RDONLY | O_CLOEXEC);
        ::close(ready[0]);
        ::close(over[1]);
        if (pid > 0) ::waitpid(pid, nullptr, 0);
        if (mounts < 0) return;
        mounts_.push_back(mounts);
    }
}

int Hosts::join(std::uint32_t rank) const {
    const std::uint32_t host = place(rank).host;
    if (::setns(descriptors_[host], CLONE_NEWNET) != 0) return errno;
    return host < mounts_.size() && enter_mounts(mounts_[host]) ? 0 : make_own_mounts();
}

std::vector<int> Hosts::open_sockets() const {
    std::vector<int> sockets;
    for (const int network : descriptors_)
        sockets.push_back(::setns(network, CLONE_NEWNET) == 0 ? ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0) : -1);
    ::setns(bridge_, CLONE_NEWNET);
    return sockets;
}

void Hosts::drop_rights() const {
    if (user_namespace_) set_capabilities({});
}

}  // namespace coppice::run
