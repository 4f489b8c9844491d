// Which ranks are on one host, and whether a process of it still lives.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace coppice {

// A key that is equal for two processes exactly when they can share memory: same boot of the same kernel, same process-id
// namespace, same `name` (the launcher gives one to each host that it simulates; usually empty). Printable, < 256 bytes.
std::string host_identity(std::string_view name);

// The longest `name` that is told apart.
inline constexpr std::size_t kMaxHostName = 64;

// How this host calls itself, as far as that is a name; "" where it is none.
std::string host_name();
// Letters, digits, points, hyphens and underscores, at most kMaxHostName, beginning with a letter or digit.
bool is_host_name(std::string_view text);

// When a process was started, in the kernel's own ticks; with the pid it names a process for good. 0: no such process.
std::uint64_t process_start_time(pid_t pid);

enum class ProcessState : std::uint8_t { alive, gone, unknown };

// Whether that process still runs; a zombie does not, a stopped one does. System calls, some 10 µs. `unknown` when the
// means are lacking just now (no file descriptors left).
ProcessState process_state(pid_t pid, std::uint64_t start_time);

// On how many cores this process may run; and which of those processes may run on none but these.
std::uint32_t own_cores();
std::vector<bool> within_own_cores(std::span<const pid_t> processes);

bool has_rdma_devices();

// The GUIDs of the nodes that this machine's RDMA devices are, as `folder` has them; none where there are none.
std::vector<std::uint64_t> rdma_node_guids(const std::string& folder = "/sys/class/infiniband");

}  // namespace coppice
