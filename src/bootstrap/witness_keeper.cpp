#include "bootstrap/witness_keeper.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>

namespace coppice::bootstrap {
namespace {

// Processes of one number at once: a program under a shell, and what that starts besides. Others have no witness.
constexpr std::ptrdiff_t kMostOfANumber = 4;

bool has_ended(int pidfd) {
    pollfd entry{pidfd, POLLIN, 0};
    return ::poll(&entry, 1, 0) > 0;
}

}  // namespace

std::unique_ptr<WitnessKeeper> WitnessKeeper::create(std::uint32_t numbers) {
    const int file = ::memfd_create("coppice-witness", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    const int poll = ::epoll_create1(EPOLL_CLOEXEC);
    const auto bytes = static_cast<off_t>(witness::Memory::bytes_for(numbers));
    const bool is_made =
        file >= 0 && poll >= 0 && ::ftruncate(file, bytes) == 0 &&
        ::fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0;  // nobody can take it from others
    auto memory = is_made ? witness::Memory::map(file, numbers) : std::nullopt;
    if (memory) return std::unique_ptr<WitnessKeeper>(new WitnessKeeper(std::move(*memory), file, poll));
    for (const int descriptor : {file, poll})
        if (descriptor >= 0) ::close(descriptor);
    return nullptr;
}

WitnessKeeper::WitnessKeeper(witness::Memory memory, int file, int poll)
    : memory_(std::move(memory)),
      file_(file),
      poll_(poll),
      path_(fmt::format("/proc/{}/fd/{}", ::getpid(), file)),
      claims_(memory_.numbers(), 0) {
    memory_.header() = {.magic = witness::kMagic, .version = witness::kVersion, .numbers = memory_.numbers()};
}

WitnessKeeper::~WitnessKeeper() {
    for (const Watched& one : watched_)
        ::close(one.descriptor);
    ::close(poll_);
    ::close(file_);
}

void WitnessKeeper::arrived(std::uint32_t number, pid_t process) {
    if (number >= memory_.numbers()) return;
    const auto again = std::ranges::find_if(watched_, [&](const Watched& one) {
        return one.number == number && one.process == process && !has_ended(one.descriptor);
    });
    std::uint32_t claim = 0;
    if (again != watched_.end()) {
        claim = again->claim;
    } else if (watched_.size() < most_ && std::ranges::count(watched_, number, &Watched::number) < kMostOfANumber) {
        const int descriptor = static_cast<int>(::syscall(SYS_pidfd_open, process, 0));
        if (descriptor < 0) return;
        claim = ++claims_[number];
        epoll_event event{};
        event.events = EPOLLIN;
        event.data.u64 = std::uint64_t{number} << 32 | claim;
        ::epoll_ctl(poll_, EPOLL_CTL_ADD, descriptor, &event);
        watched_.push_back({.number = number, .claim = claim, .process = process, .descriptor = descriptor});
    }
    if (claim != 0) memory_.number(number).claim.set(witness::claim_word(claim, process));
}

void WitnessKeeper::look() {
    std::array<epoll_event, 64> events{};
    for (int count = 1; count > 0;) {
        count = ::epoll_wait(poll_, events.data(), static_cast<int>(events.size()), 0);
        for (int i = 0; i < count; ++i) {
            const std::uint64_t which = events[static_cast<std::size_t>(i)].data.u64;
            const auto found = std::ranges::find_if(watched_, [which](const Watched& one) {
                return (std::uint64_t{one.number} << 32 | one.claim) == which;
            });
            if (found == watched_.end()) continue;
            mark(*found);
            ::close(found->descriptor);
            *found = watched_.back();
            watched_.pop_back();
        }
    }
}

void WitnessKeeper::mark(const Watched& one) {
    for (witness::Entry& entry : memory_.number(one.number).entries)
        if (entry.owner.get() == one.claim) entry.ended.set(one.claim);
}

}  // namespace coppice::bootstrap
