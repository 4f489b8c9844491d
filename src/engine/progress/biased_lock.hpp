// A lock that calling threads take nearly always, one at a time, and the progress thread rarely.
//
// Callers have to serialize themselves (COPPICE_THREAD_SINGLE); they may be different threads one after the other. Their side costs two
// plain stores and a load: no fence, no read-modify-write, no system call. The other side pays for both: it says that it
// wants the lock, makes every thread of the process pass a memory barrier (membarrier), and then looks whether a
// caller is inside. It gives up then, because a caller that is inside makes progress itself.
//
// The count of entries shows the progress thread whether callers come often: odd while one is inside. Callers that only ask something
// would keep it from its work for nothing: their entries do not count.
#pragma once

#include <cstdint>

#include "base/shared_words.hpp"

namespace coppice::engine {

class BiasedLock {
  public:
    // Asks the kernel for membarrier; without it callers pay for a fence.
    BiasedLock();

    // --- callers. May be nested.
    void enter() {
        if (depth_++ > 0) [[unlikely]]
            return;
        const std::uint32_t odd = entries_.own() + 1;
        entries_.announce(odd);
        order_store_and_load();
        if (claimed_.read()) [[unlikely]]
            wait_for_thread();
    }
    // True for the outermost one.
    bool leave() {
        if (--depth_ > 0) [[unlikely]]
            return false;
        entries_.publish(entries_.own() + 1);
        order_store_and_load();
        return true;
    }

    // This entry makes no progress: to the progress thread it is none, once it is over. Within it.
    void note_glance() { glances_.set(glances_.get() + 1); }

    // --- the progress thread
    // Of each entry its beginning and its end, but for glances.
    std::uint32_t entries() const {
        const std::uint32_t all = entries_.read();
        return all - 2 * glances_.get();
    }
    static bool is_inside(std::uint32_t entries) { return entries % 2 != 0; }
    // False when a caller is inside, or waits for it.
    bool try_claim();
    void release();
    // A caller wants to enter and waits: release() soon.
    bool is_wanted() const { return wanted_.get(); }

    // What the calling thread has stored is seen by each caller that loads after this; and what callers have stored before it
    // is seen by this thread.
    void order_against_callers() const;

  private:
    void order_store_and_load() const {
        if (fences_) [[unlikely]]
            shared::ProcessMemory::order_all();
        else
            shared::ProcessMemory::order_in_program();
    }
    void wait_for_thread();

    std::uint32_t depth_ = 0;  // the callers'
    bool fences_ = false;
    shared::Published<std::uint32_t> entries_;  // written by callers alone
    shared::Relaxed<std::uint32_t> glances_;    // likewise
    shared::Published<bool> claimed_;           // written by the thread alone
    shared::Relaxed<bool> wanted_;              // written by the caller that waits
};

}  // namespace coppice::engine
