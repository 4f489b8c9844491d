#include "base/process.hpp"

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <iterator>
#include <span>

#include "base/adopted.hpp"

namespace coppice::process {

namespace detail {
constinit shared::Counter<std::uint32_t> unusual;
constinit std::mutex no_fork;
}  // namespace detail

namespace {

constinit shared::Counter<std::uint32_t> uses;
constinit shared::State<pid_t> parent;
thread_local std::uint32_t callbacks = 0;

// Descriptors by number. Static memory of which nothing is touched that nobody uses.
class DescriptorSet {
  public:
    void insert(int descriptor) {
        const auto number = static_cast<std::size_t>(descriptor);
        if (descriptor < 0 || number >= kMost) return;
        words_[number / 64].insert(std::uint64_t{1} << number % 64);
        end_.raise_to(number / 64 + 1);
    }
    void erase(int descriptor) {
        const auto number = static_cast<std::size_t>(descriptor);
        if (descriptor < 0 || number >= kMost) return;
        words_[number / 64].erase(std::uint64_t{1} << number % 64);
    }
    bool contains(int descriptor) const {
        const auto number = static_cast<std::size_t>(descriptor);
        return number < kMost && (words_[number / 64].get() >> number % 64 & 1) != 0;
    }
    void clear() {
        for (std::size_t at = 0; at < end_.value(); ++at)
            words_[at].set(0);
    }
    template <class Body>
    void for_each(Body&& body) const {
        for (std::size_t at = 0; at < end_.value(); ++at) {
            for (std::uint64_t word = words_[at].get(); word != 0; word &= word - 1)
                body(static_cast<int>(at * 64 + static_cast<std::size_t>(__builtin_ctzll(word))));
        }
    }

  private:
    static constexpr std::size_t kMost = 1U << 20;
    std::array<shared::State<std::uint64_t>, kMost / 64> words_;
    shared::Counter<std::size_t> end_;
};

constinit DescriptorSet descriptors;
constinit DescriptorSet sets;     // of those, epoll sets
constinit DescriptorSet adopted;  // of those, what another library has opened

// In a child whose parent may have had many threads: nothing here but system calls. Without /proc the members stay
// open. A set that is a member of another one is needed until its own members are closed.
void close_members(int set) {
    (void)for_each_member(set, [](int member) {
        if (!descriptors.contains(member)) close(member);
    });
}

void in_child() {
    if (uses.value() == 0) return;
    detail::unusual.restart(detail::kForked);
    callbacks = 0;
    parent.set(getppid());
    sets.for_each(close_members);
    descriptors.for_each([](int descriptor) { close(descriptor); });
    // From now on these numbers are those of the child's own files, which its own children keep.
    adopted.clear();
    sets.clear();
    descriptors.clear();
}

// Before main(), or when the library is loaded: so the library's handler runs before those of the program in a child.
[[gnu::constructor]] void watch_forks() {
    pthread_atfork([] { detail::no_fork.lock(); }, [] { detail::no_fork.unlock(); },
                   [] {
                       in_child();
                       detail::no_fork.unlock();
                   });
}

}  // namespace

pid_t forked_from() {
    return parent.get();
}

Use::Use() {
    uses.add();
}
Use::~Use() {
    uses.subtract();
}

InCallback::InCallback() {
    detail::unusual.add();
    ++callbacks;
}
InCallback::~InCallback() {
    if (in_forked_child()) return;
    --callbacks;
    detail::unusual.subtract();
}
bool in_callback() {
    return callbacks != 0;
}

void close_in_children(int descriptor, Closes what) {
    adopted.erase(descriptor);
    descriptors.insert(descriptor);
    if (what == Closes::kMembers) sets.insert(descriptor);
}

void adopt(int descriptor, Closes what) {
    close_in_children(descriptor, what);
    adopted.insert(descriptor);
}

bool is_adopted(int descriptor) {
    return adopted.contains(descriptor);
}

bool disown(int descriptor) {
    const std::scoped_lock lock(detail::no_fork);
    if (!is_adopted(descriptor)) return false;
    forget_descriptor(descriptor);
    return true;
}

void forget_descriptor(int descriptor) {
    adopted.erase(descriptor);
    sets.erase(descriptor);
    descriptors.erase(descriptor);
}

bool is_own(int descriptor) {
    return descriptors.contains(descriptor);
}

void close_own(int descriptor) {
    if (descriptor < 0 || in_forked_child()) return;
    const std::scoped_lock lock(detail::no_fork);
    forget_descriptor(descriptor);
    close(descriptor);
}

bool for_each_member(int set, void (*tell)(void* argument, int member), void* argument) {
    // "/proc/self/fdinfo/8"; its lines are "tfd:        6 events: …", in any order.
    char path[32] = "/proc/self/fdinfo/";
    char* end = path + std::size("/proc/self/fdinfo/") - 1;
    char digits[12];
    int count = 0;
    for (int rest = set; rest > 0 || count == 0; rest /= 10)
        digits[count++] = static_cast<char>('0' + rest % 10);
    while (count > 0)
        *end++ = digits[--count];
    *end = '\0';
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return false;

    constexpr char kMark[] = "tfd:";
    constexpr std::size_t kMarkSize = sizeof kMark - 1;
    std::size_t matched = 0;  // of the mark, at the start of a line; kMarkSize: in the number
    int number = -1;
    char buffer[4096];
    ssize_t got = 0;
    while (true) {
        got = read(file, buffer, sizeof buffer);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) break;
        for (const char c : std::span(buffer, static_cast<std::size_t>(got))) {
            if (c == '\n') {
                matched = 0;
            } else if (matched == kMarkSize && c >= '0' && c <= '9') {
                number = (number < 0 ? 0 : number) * 10 + (c - '0');
            } else if (matched == kMarkSize && number >= 0) {
                if (number != file) tell(argument, number);
                number = -1;
                matched = kMarkSize + 1;
            } else if (matched < kMarkSize) {
                matched = c == kMark[matched] ? matched + 1 : kMarkSize + 2;
            }
        }
    }
    close(file);
    return got == 0;
}

}  // namespace coppice::process
