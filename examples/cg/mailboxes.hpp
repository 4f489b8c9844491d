// How the ranks of this example hand each other numbers: one box for each slab and purpose in memory that all of
// them share.
//
// Coppice broadcasts and agrees; the bulk of a program's data goes its own way, which here is the simplest one there is
// on one machine. A box has one writer at a time, the owner of its slab, and is filled before its stamp is set. A rank
// that waits for a stamp asks now and then whether a rank has failed, and is thrown out of the wait then.
#pragma once

#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <coppice/coppice.hpp>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>

namespace cg {

// A rank has died, and the computation can't go on as it is.
struct RankDied : std::exception {
    const char* what() const noexcept override { return "a rank has died"; }
};

struct Unmap {
    std::size_t bytes = 0;
    void operator()(std::byte* memory) const { munmap(memory, bytes); }
};

class Mailboxes {
  public:
    // `boxes` of at most `numbers` each. Collective: the group's rank 0 makes the memory, and tells the others where it
    // is. Throws RankDied, at all live ranks, when one has died: then none has it, and the survivors can make theirs.
    Mailboxes(coppice::Group& group, std::size_t boxes, std::size_t numbers)
        : stride_((sizeof(Stamp) + numbers * sizeof(double) + 63) / 64 * 64) {
        bytes_ = boxes * stride_;
        char path[64] = "";
        const File own{group.rank() == 0 ? memfd_create("cg", MFD_CLOEXEC) : -1};  // goes with the last that has it
        if (own.number >= 0 && ftruncate(own.number, static_cast<off_t>(bytes_)) == 0)
            std::snprintf(path, sizeof path, "/proc/%d/fd/%d", static_cast<int>(getpid()), own.number);
        std::size_t received = 0;
        const auto told = group.try_broadcast(std::as_writable_bytes(std::span(path)), 0, received);
        const File file{told == coppice::Status::kOk ? open(path, O_RDWR | O_CLOEXEC) : -1};
        void* memory = MAP_FAILED;
        if (file.number >= 0) memory = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, file.number, 0);
        if (memory != MAP_FAILED) memory_ = {static_cast<std::byte*>(memory), Unmap{bytes_}};
        // Whatever went wrong, here or elsewhere: all go on, or nobody. Rank 0 keeps its file open until all have
        // theirs.
        const auto [all_have_it, agreed] = group.agree(memory_ ? 1U : 0U, coppice::Operation::kAnd);
        if (!agreed.acknowledged) throw RankDied();
        if (all_have_it == 1) return;
        // Rank 0 may have contributed and died: then it does not do so again.
        if (!group.agree(1U, coppice::Operation::kAnd).second.acknowledged) throw RankDied();
        throw std::runtime_error("no memory to share: the ranks of this example have to be on one machine");
    }
    Mailboxes(const Mailboxes&) = delete;
    Mailboxes& operator=(const Mailboxes&) = delete;

    // Where what is to be posted goes, and the posting. Every rank that needs the last one must have fetched it.
    double* outgoing(std::size_t box) {
        return reinterpret_cast<double*>(memory_.get() + box * stride_ + sizeof(Stamp));
    }
    void post(std::size_t box, std::uint64_t stamp) { stamp_of(box).store(stamp, std::memory_order_release); }
    // Under which stamp something was posted last; that can be read where outgoing() says.
    std::uint64_t posted(std::size_t box) { return stamp_of(box).load(std::memory_order_acquire); }

    // What was posted under that stamp; waits for it. Throws RankDied.
    const double* fetch(const coppice::Group& group, std::size_t box, std::uint64_t stamp) {
        for (std::size_t looks = 1, dead = 0; posted(box) != stamp; ++looks, sched_yield()) {
            if (looks % kLooks != 0) continue;
            if (group.try_failed({}, dead) == coppice::Status::kOk && dead > 0) throw RankDied();
        }
        return outgoing(box);
    }

  private:
    struct File {
        int number;
        ~File() {
            if (number >= 0) close(number);
        }
    };
    using Stamp = std::atomic<std::uint64_t>;
    static_assert(Stamp::is_always_lock_free);
    Stamp& stamp_of(std::size_t box) { return *reinterpret_cast<Stamp*>(memory_.get() + box * stride_); }

    static constexpr std::size_t kLooks = 1000;  // at a stamp, between two questions

    std::size_t stride_;
    std::size_t bytes_ = 0;
    std::unique_ptr<std::byte, Unmap> memory_;
};

}  // namespace cg
