#include "base/descriptor_table.hpp"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>

namespace coppice {

void make_room_for_descriptors() {
    constexpr rlim_t kMost = 1024;
    rlimit limit{};
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == 0) return;
    const int any = eventfd(0, EFD_CLOEXEC);
    if (any < 0) return;
    // The table grows to hold the number of a new descriptor, and stays as large when that is closed.
    const int last = fcntl(any, F_DUPFD_CLOEXEC, static_cast<int>(std::min(limit.rlim_cur, kMost)) - 1);
    if (last >= 0) close(last);
    close(any);
}

}  // namespace coppice
