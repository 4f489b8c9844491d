#include "transport/ucx/descriptors.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <string>
#include <string_view>

#include "base/process.hpp"

namespace coppice::transport::ucx {
namespace {

bool is_epoll_set(int descriptor) {
    char target[64];
    const std::string path = "/proc/self/fd/" + std::to_string(descriptor);
    const ssize_t size = readlink(path.c_str(), target, sizeof target);
    return size > 0 && std::string_view(target, static_cast<std::size_t>(size)) == "anon_inode:[eventpoll]";
}

void close_on_exec(int descriptor) {
    if (const int flags = fcntl(descriptor, F_GETFD); flags >= 0) fcntl(descriptor, F_SETFD, flags | FD_CLOEXEC);
}

}  // namespace

std::vector<int> Descriptors::open() {
    std::vector<int> numbers;
    DIR* const directory = opendir("/proc/self/fd");
    if (directory == nullptr) return numbers;
    while (const dirent* entry = readdir(directory)) {
        const int number = std::atoi(entry->d_name);
        if (entry->d_name[0] != '.' && number != dirfd(directory)) numbers.push_back(number);
    }
    closedir(directory);
    std::ranges::sort(numbers);
    return numbers;
}

void Descriptors::take_new(const std::vector<int>& before) {
    std::ranges::set_difference(open(), before, std::back_inserter(all_));
    for (const int descriptor : all_) {
        close_on_exec(descriptor);
        const bool is_set = is_epoll_set(descriptor);
        if (is_set) sets_.push_back(descriptor);
        process::close_in_children(descriptor, is_set ? process::Closes::kMembers : process::Closes::it);
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
    for (const int descriptor : all_)
        process::forget_descriptor(descriptor);
    all_.clear();
    sets_.clear();
}

}  // namespace coppice::transport::ucx
