// A rank for the launcher's tests: exchanges with the others, over the launcher and, between simulated hosts, over TCP.
//
//   run_rank exchange [ROUNDS]   all ranks that live exchange ROUNDS times (default 3); prints "exchanged, dead: N"
//   run_rank stay                exchanges once, prints "ready", then sleeps until it is ended
//   run_rank until FILE          sleeps until that file exists, in one process of no children
//   run_rank tcp                 connects to the interface's address of every rank and hears its number there
//   run_rank sides A/B… [CODE]   hears by UDP from all ranks, then for a second from those of its side (0,1/2,3) alone, then from
//                                all; prints "parted" and "joined again". With CODE it exits with that when parted
//   run_rank garbage             throws garbage at the launcher, then exchanges once
#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <set>
#include <string>
#include <string_view>
#include <thread>

#include "base/clock.hpp"
#include "bootstrap/choose.hpp"

namespace {

using namespace coppice;

[[noreturn]] void give_up(const std::string& reason) {
    fmt::print(stderr, "run_rank: {}\n", reason);
    std::exit(9);
}

template <class Value>
Value must(Result<Value> result) {
    if (!result) give_up(result.error().message);
    return std::move(*result);
}

std::uint64_t deadline() {
    return coppice::now_ns() + 60'000'000'000;
}

std::unique_ptr<bootstrap::Bootstrap> join() {
    return must(bootstrap::choose(nullptr, nullptr, Rank(0), 0, "auto", deadline()));
}

std::vector<std::string> gather(bootstrap::Bootstrap& all, const std::string& mine) {
    std::vector<std::string> texts;
    for (const auto& blob : must(all.allgather(std::as_bytes(std::span(mine)), deadline()))) {
        texts.emplace_back(reinterpret_cast<const char*>(blob.data()), blob.size());
    }
    return texts;
}

void exchange(int rounds) {
    const auto all = join();
    std::size_t dead = 0;
    for (int round = 0; round < rounds; ++round) {
        const auto texts = gather(*all, fmt::format("rank {} round {}", all->rank().value, round));
        dead = 0;
        for (std::size_t rank = 0; rank < texts.size(); ++rank) {
            if (texts[rank].empty()) {
                ++dead;
            } else if (texts[rank] != fmt::format("rank {} round {}", rank, round)) {
                give_up(fmt::format("rank {} is said to have said '{}'", rank, texts[rank]));
            }
        }
    }
    fmt::print("exchanged, dead: {}\n", dead);
}

void stay() {
    const auto all = join();
    gather(*all, "here");
    fmt::print("ready\n");
    std::fflush(stdout);
    for (;;)
        ::pause();
}

void until(const char* file) {
    while (::access(file, F_OK) != 0)
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
}

// The IPv4 address of the interface that the launcher names.
in_addr own_address(const char* interface) {
    ifaddrs* list = nullptr;
    if (::getifaddrs(&list) != 0) give_up("no list of interfaces");
    in_addr found{};
    for (const ifaddrs* one = list; one != nullptr; one = one->ifa_next) {
        if (one->ifa_addr == nullptr || one->ifa_addr->sa_family != AF_INET) continue;
        if (std::string_view(one->ifa_name) != interface) continue;
        found = reinterpret_cast<const sockaddr_in*>(one->ifa_addr)->sin_addr;
    }
    ::freeifaddrs(list);
    if (found.s_addr == 0) give_up(fmt::format("no interface {} with an address", interface));
    return found;
}

void tcp() {
    const char* interface = std::getenv("COPPICE_UCX_NET_DEVICES");
    const char* host = std::getenv("COPPICE_HOST");
    if (interface == nullptr || host == nullptr) give_up("the launcher named no interface or host");
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr = own_address(interface);
    const int listener = ::socket(AF_INET, SOCK_STREAM, 0);
    socklen_t length = sizeof address;
    if (::bind(listener, reinterpret_cast<sockaddr*>(&address), length) != 0 || ::listen(listener, 256) != 0 ||
        ::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &length) != 0) {
        give_up("cannot listen");
    }
    const auto all = join();
    const auto addresses = gather(*all, std::string(reinterpret_cast<const char*>(&address), sizeof address));
    const std::uint32_t mine = all->rank().value;
    std::jthread server([&] {
        for (std::uint32_t i = 0; i < all->size(); ++i) {
            const int caller = ::accept(listener, nullptr, nullptr);
            if (caller < 0 || ::write(caller, &mine, sizeof mine) != sizeof mine) give_up("cannot answer");
            ::close(caller);
        }
    });
    for (std::uint32_t rank = 0; rank < all->size(); ++rank) {
        sockaddr_in other{};
        std::memcpy(&other, addresses[rank].data(), sizeof other);
        const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
        std::uint32_t heard = UINT32_MAX;
        if (::connect(socket, reinterpret_cast<sockaddr*>(&other), sizeof other) != 0 ||
            ::recv(socket, &heard, sizeof heard, MSG_WAITALL) != sizeof heard || heard != rank) {
            give_up(fmt::format("cannot reach rank {}: {}", rank, std::strerror(errno)));
        }
        ::close(socket);
    }
    // Peers of one host look at each other through /proc; so they must be allowed to.
    const auto links = gather(*all, fmt::format("{} /proc/{}/fd/{}", host, ::getpid(), listener));
    for (const auto& link : links) {
        const auto space = link.find(' ');
        if (link.substr(0, space) == host && ::access(link.c_str() + space + 1, F_OK) != 0) {
            give_up(fmt::format("cannot look at {}: {}", link, std::strerror(errno)));
        }
    }
    char text[64] = {};
    if (::readlink("/proc/self/ns/net", text, sizeof text - 1) < 0) give_up("no namespace");
    fmt::print("{} {} {} {}\n", host, interface, ::inet_ntoa(address.sin_addr), text);
    std::fflush(stdout);
    gather(*all, "done");
}

// Ranks on the other hosts, by UDP: each one answers what it is asked.
class Echoes {
  public:
    // One rank a host: then the hosts' addresses and a port tell where each one is, before any exchange.
    explicit Echoes(bootstrap::Bootstrap& all) : all_(all), self_(all.rank().value) {
        const in_addr own = own_address(std::getenv("COPPICE_UCX_NET_DEVICES"));
        for (std::uint32_t rank = 0; rank < all.size(); ++rank) {
            sockaddr_in address{};
            address.sin_family = AF_INET;
            address.sin_port = htons(7007);
            address.sin_addr.s_addr = htonl(ntohl(own.s_addr) - self_ + rank);
            addresses_.push_back(address);
        }
        if (::bind(socket_, reinterpret_cast<const sockaddr*>(&addresses_[self_]), sizeof(sockaddr_in)) != 0) {
            give_up("cannot bind");
        }
    }

    // Exchanges while it answers: the others may still ask.
    void exchange(const std::string& mine) {
        std::jthread answers([&](const std::stop_token& stop) {
            while (!stop.stop_requested())
                ask();
        });
        gather(all_, mine);
    }

    // Which ranks answer within a fifth of a second. Answers the others meanwhile.
    std::set<std::uint32_t> ask() {
        ++round_;
        for (std::uint32_t rank = 0; rank < addresses_.size(); ++rank)
            if (rank != self_) send({.round = round_, .from = self_, .is_answer = 0}, rank);
        std::set<std::uint32_t> heard;
        const std::uint64_t until = now_ns() + 200'000'000;
        for (std::uint64_t now = now_ns(); now < until; now = now_ns()) {
            const timeval left{.tv_sec = 0, .tv_usec = static_cast<suseconds_t>((until - now) / 1000 + 1)};
            ::setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &left, sizeof left);
            Word word{};
            if (::recv(socket_, &word, sizeof word, 0) != sizeof word || word.from >= addresses_.size()) continue;
            if (word.is_answer == 0) send({word.round, self_, 1}, word.from);
            if (word.is_answer != 0 && word.round == round_) heard.insert(word.from);
        }
        return heard;
    }
    // Asks until so many times in a row these have answered and no others.
    void wait_for(const std::set<std::uint32_t>& ranks, int times) {
        for (int seen = 0; seen < times;)
            seen = ask() == ranks ? seen + 1 : 0;
    }

  private:
    struct Word {
        std::uint32_t round;
        std::uint32_t from;
        std::uint32_t is_answer;
    };
    void send(const Word& word, std::uint32_t rank) const {
        ::sendto(socket_, &word, sizeof word, 0, reinterpret_cast<const sockaddr*>(&addresses_[rank]),
                 sizeof(sockaddr_in));
    }

    bootstrap::Bootstrap& all_;
    const int socket_ = ::socket(AF_INET, SOCK_DGRAM, 0);
    std::uint32_t self_;
    std::uint32_t round_ = 0;
    std::vector<sockaddr_in> addresses_;
};

void sides(const std::string& sides, int code) {
    const auto all = join();
    Echoes echoes(*all);
    std::set<std::uint32_t> others;
    for (std::uint32_t rank = 0; rank < all->size(); ++rank)
        if (rank != all->rank().value) others.insert(rank);
    const auto of = [&](const std::string& list) {
        std::set<std::uint32_t> side;
        for (const char digit : list)
            if (digit != ',') side.insert(static_cast<std::uint32_t>(digit - '0'));
        return side;
    };
    std::set<std::uint32_t> side;
    for (std::size_t start = 0; start < sides.size() && !side.contains(all->rank().value);) {
        const std::size_t end = std::min(sides.find('/', start), sides.size());
        side = of(sides.substr(start, end - start));
        start = end + 1;
    }
    side.erase(all->rank().value);
    // The launcher cuts after the first exchange, and so not before all have heard from all.
    echoes.wait_for(others, 1);
    echoes.exchange("reached all");
    echoes.wait_for(side, 5);
    fmt::print("parted\n");
    std::fflush(stdout);
    if (code != 0) {
        echoes.exchange("parted");
        std::exit(code);
    }
    echoes.wait_for(others, 1);
    fmt::print("joined again\n");
    std::fflush(stdout);
    echoes.exchange("done");
}

void garbage() {
    const char* path = std::getenv("COPPICE_LAUNCHER");
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, path == nullptr ? "" : path, sizeof address.sun_path - 1);
    const int socket = ::socket(AF_UNIX, SOCK_STREAM, 0);
    if (::connect(socket, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) give_up("cannot connect");
    const std::string text(10'000, 'x');
    [[maybe_unused]] const auto sent = ::send(socket, text.data(), text.size(), MSG_NOSIGNAL);
    char byte = 0;
    while (::read(socket, &byte, 1) > 0) {
    }
    exchange(1);
}

}  // namespace

int main(int argc, char** argv) {
    const std::string_view mode = argc > 1 ? argv[1] : "";
    if (mode == "exchange") {
        exchange(argc > 2 ? std::atoi(argv[2]) : 3);
    } else if (mode == "stay") {
        stay();
    } else if (mode == "until" && argc > 2) {
        until(argv[2]);
    } else if (mode == "tcp") {
        tcp();
    } else if (mode == "sides" && argc > 2) {
        sides(argv[2], argc > 3 ? std::atoi(argv[3]) : 0);
    } else if (mode == "garbage") {
        garbage();
    } else {
        give_up("unknown mode");
    }
    return 0;
}
