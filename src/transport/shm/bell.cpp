#include "transport/shm/bell.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <linux/filter.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <array>
#include <cstddef>
#include <cstring>

#include "base/process.hpp"

namespace coppice::transport::shm {

namespace {

struct Address {
    sockaddr_un raw{};
    socklen_t length = 0;
};

// In the abstract namespace: there is no file that could be left behind.
Address address_of(std::uint64_t name) {
    Address address;
    address.raw.sun_family = AF_UNIX;
    char* const text = address.raw.sun_path + 1;
    const auto end = fmt::format_to_n(text, sizeof address.raw.sun_path - 1, "coppice-bell-{:016x}", name).out;
    address.length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + static_cast<std::size_t>(end - text));
    return address;
}

// Drops what is not exactly the key. Classic BPF loads words in network order.
bool admit_only(int socket, std::uint64_t key) {
    std::array<std::uint32_t, 2> words;
    static_assert(sizeof words == sizeof key);
    std::memcpy(words.data(), &key, sizeof key);
    const std::array<sock_filter, 8> program{{
        BPF_STMT(BPF_LD | BPF_W | BPF_LEN, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, sizeof key, 0, 5),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ntohl(words[0]), 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, sizeof words[0]),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ntohl(words[1]), 0, 1),
        BPF_STMT(BPF_RET | BPF_K, sizeof key),
        BPF_STMT(BPF_RET | BPF_K, 0),
    }};
    const sock_fprog filter{.len = program.size(), .filter = const_cast<sock_filter*>(program.data())};
    return setsockopt(socket, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof filter) == 0;
}

}  // namespace

Bell Bell::make(std::uint64_t key) {
    Bell bell;
    if (getrandom(&bell.name_, sizeof bell.name_, 0) != static_cast<ssize_t>(sizeof bell.name_)) return {};
    bell.socket_ = process::open_own([] { return socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0); });
    if (bell.socket_ < 0) return {};
    const Address own = address_of(bell.name_);
    // The filter comes first: nothing gets in before it.
    if (!admit_only(bell.socket_, key) ||
        bind(bell.socket_, reinterpret_cast<const sockaddr*>(&own.raw), own.length) != 0)
        return {};
    return bell;
}

Bell::~Bell() {
    process::close_own(socket_);
}

void Bell::ring(std::uint64_t name, std::uint64_t key) const {
    if (socket_ < 0) return;
    const Address to = address_of(name);
    // A queue that is full is one that has been rung.
    (void)sendto(socket_, &key, sizeof key, MSG_DONTWAIT | MSG_NOSIGNAL, reinterpret_cast<const sockaddr*>(&to.raw),
                 to.length);
}

void Bell::silence() const {
    std::uint64_t key;
    while (recv(socket_, &key, sizeof key, MSG_DONTWAIT) > 0) {
    }
}

}  // namespace coppice::transport::shm
