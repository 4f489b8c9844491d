#include "transport/ucx/descriptors.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <map>
#include <mutex>
#include <string>
#include <string_view>

#include "base/adopted.hpp"
#include "base/process.hpp"

namespace coppice::transport::ucx {
namespace {

constexpr std::string_view kEpollSet = "anon_inode:[eventpoll]";

// Where it leads; empty: it is not open.
std::string name_of(int descriptor) {
    char target[64];
    const std::string path = "/proc/self/fd/" + std::to_string(descriptor);
    const ssize_t size = readlink(path.c_str(), target, sizeof target);
    return {target, size > 0 ? static_cast<std::size_t>(size) : 0};
}

// Sockets, pipes, event descriptors and devices. Other threads open files meanwhile, and close them.
bool may_be_of_ucx(std::string_view name) {
    return !name.empty() && (!name.starts_with('/') || name.starts_with("/dev/"));
}

void adopt(const Descriptors::Named& one) {
    process::adopt(one.number, one.name == kEpollSet ? process::Closes::kMembers : process::Closes::it);
}

// The library's own. What UCX has closed may still be adopted when it gets the number again.
bool is_own(int descriptor) {
    return process::is_own(descriptor) && !process::is_adopted(descriptor);
}

// What outlives the workers that opened it. Never destroyed: a program's contexts may be static objects.
struct Outliving {
    std::mutex mutex;
    std::uint32_t workers = 0;
    std::uint64_t last_worker = kNoWorker;
    std::vector<Descriptors::Named> all;
    // Which worker has taken a number last: UCX may have closed it for one and have got it again for another.
    std::map<int, std::uint64_t> taken_by;

    static constexpr std::uint64_t kNoWorker = 0;  // it has ended, and others need what it has taken
};
Outliving& outliving() {
    static auto* const one = new Outliving;
    return *one;
}

// Many files have the same name, such as all epoll sets. The signal that O_ASYNC sends goes with the open file and not with its
// number, and nobody is sent one without that flag. False: it has a signal of its own.
constexpr int kMark = SIGURG;

bool mark(int descriptor) {
    const int flags = fcntl(descriptor, F_GETFL);
    return flags >= 0 && (flags & O_ASYNC) == 0 && fcntl(descriptor, F_GETSIG) == 0 &&
           fcntl(descriptor, F_SETSIG, kMark) == 0;
}

// False: it was not there.
bool take_mark_from(int descriptor) {
    return fcntl(descriptor, F_GETSIG) == kMark && fcntl(descriptor, F_SETSIG, 0) == 0;
}

void close_on_exec(int descriptor) {
    if (const int flags = fcntl(descriptor, F_GETFD); flags >= 0) fcntl(descriptor, F_SETFD, flags | FD_CLOEXEC);
}

}  // namespace

std::vector<Descriptors::Named> Descriptors::open() {
    std::vector<Named> all;
    DIR* const directory = opendir("/proc/self/fd");
    if (directory == nullptr) return all;
    while (const dirent* entry = readdir(directory)) {
        const int number = std::atoi(entry->d_name);
        if (entry->d_name[0] != '.' && number != dirfd(directory)) all.push_back({number, name_of(number)});
    }
    closedir(directory);
    std::ranges::sort(all);
    return all;
}

void Descriptors::take_new(const std::vector<Named>& before) {
    std::vector<Named> made;
    std::ranges::set_difference(open(), before, std::back_inserter(made));
    std::erase_if(made, [](const Named& one) { return is_own(one.number) || !may_be_of_ucx(one.name); });
    if (made.empty()) return;
    Outliving& others = outliving();
    const std::scoped_lock lock(others.mutex);
    ++others.workers;
    worker_ = ++others.last_worker;
    for (const Named& one : made) {
        all_.push_back(one);
        close_on_exec(one.number);
        if (one.name == kEpollSet) sets_.push_back(one.number);
        adopt(one);
        others.taken_by[one.number] = worker_;
    }
}

void Descriptors::close_connections_on_exec() const {
    for (const int set : sets_)
        process::for_each_member(set, close_on_exec);
}

void Descriptors::bound_set_up() const {
    for (const int set : sets_)
        process::for_each_member(set, [](int member) {
            constexpr int kRepetitions = 2;
            setsockopt(member, IPPROTO_TCP, TCP_SYNCNT, &kRepetitions, sizeof kRepetitions);
        });
}

void Descriptors::forget() {
    if (all_.empty()) return;
    Outliving& others = outliving();
    const std::scoped_lock lock(others.mutex);
    const auto forget_all = [&](std::vector<Named>& all, std::uint64_t worker) {
        for (const Named& one : all) {
            const auto taken = others.taken_by.find(one.number);
            if (taken == others.taken_by.end() || taken->second != worker) continue;
            others.taken_by.erase(taken);
            // UCX may have closed it long ago, and somebody else have opened another file with its number: the library, whose own
            // it stays, or the program, whose own it is from here on.
            if (!process::disown(one.number) || name_of(one.number) != one.name) continue;
            forgotten_.push_back({one, mark(one.number)});
        }
        all.clear();
    };
    forget_all(all_, worker_);
    if (--others.workers == 0) forget_all(others.all, Outliving::kNoWorker);
    sets_.clear();
}

void Descriptors::keep_shared() {
    Outliving& others = outliving();
    const std::scoped_lock lock(others.mutex);
    for (const auto& [one, is_marked] : forgotten_) {
        const bool is_it = name_of(one.number) == one.name && (!is_marked || take_mark_from(one.number));
        // Its number may be that of another worker's, or of the library's own, by now.
        if (others.workers == 0 || !is_it || process::is_own(one.number)) continue;
        adopt(one);
        others.taken_by[one.number] = Outliving::kNoWorker;
        others.all.push_back(one);
    }
    forgotten_.clear();
}

}  // namespace coppice::transport::ucx
