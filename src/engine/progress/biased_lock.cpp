#include "engine/progress/biased_lock.hpp"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace coppice::engine {
namespace {

long membarrier(int command) {
    return syscall(SYS_membarrier, command, 0U, 0);
}

// Once for the process. (A forked child has to do it again, but no call goes on there.)
bool has_membarrier() {
    static const bool registered = membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) == 0;
    return registered;
}

}  // namespace

BiasedLock::BiasedLock() : fences_(!has_membarrier()) {}

void BiasedLock::order_against_callers() const {
    shared::ProcessMemory::order_all();
    if (!fences_) membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
}

bool BiasedLock::try_claim() {
    if (is_inside(entries()) || is_wanted()) return false;
    claimed_.announce(true);
    order_against_callers();
    if (!is_inside(entries())) return true;
    release();
    return false;
}

void BiasedLock::release() {
    claimed_.publish_and_wake(false);
}

// The thread has been faster: stands back, so that it does not take this caller for one that is inside, and waits. The thread does
// not come back before this caller has been in, however long that takes to wake up.
void BiasedLock::wait_for_thread() {
    const std::uint32_t before = entries_.own() - 1;
    do {
        entries_.publish(before);
        wanted_.set(true);
        claimed_.wait_while(true);
        entries_.announce(before + 1);
        order_store_and_load();
    } while (claimed_.read());
    wanted_.set(false);
}

}  // namespace coppice::engine
