#include "base/memory_access.hpp"

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstring>

namespace coppice {
namespace {

constexpr std::size_t kWord = sizeof(std::uint64_t);  // of the kernel's mask of signals
constexpr int kNoSuchChange = -1;

// Reads a mask of signals from there, and then finds that it does not know what to do with it.
bool may_read_word(const std::byte* at) {
    return syscall(SYS_rt_sigprocmask, kNoSuchChange, at, nullptr, kWord) == 0 || errno != EFAULT;
}

// Writes the thread's mask of signals there, and changes nothing of it.
bool may_write_word(std::byte* at) {
    std::array<std::byte, kWord> before;
    std::memcpy(before.data(), at, kWord);
    if (syscall(SYS_rt_sigprocmask, SIG_BLOCK, nullptr, at, kWord) != 0) return errno != EFAULT;
    std::memcpy(at, before.data(), kWord);
    return true;
}

}  // namespace

bool may_read(std::span<const std::byte> memory) {
    return memory.size() < kWord ||
           (may_read_word(memory.data()) && may_read_word(memory.data() + memory.size() - kWord));
}

bool may_write(std::span<std::byte> memory) {
    return memory.size() < kWord ||
           (may_read(memory) && may_write_word(memory.data()) && may_write_word(memory.data() + memory.size() - kWord));
}

// Where what is mapped is locked, a page is there before anything touches it.
bool may_map_plenty() {
    rlimit space{};
    if (getrlimit(RLIMIT_AS, &space) != 0 || space.rlim_cur != RLIM_INFINITY) return false;
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    void* const mapped = mmap(nullptr, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) return false;
    unsigned char is_there = 1;
    const bool is_known = mincore(mapped, page, &is_there) == 0;
    munmap(mapped, page);
    return is_known && (is_there & 1) == 0;
}

}  // namespace coppice
