#include "links.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <linux/filter.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <iterator>
#include <sstream>

#include "hosts.hpp"

namespace coppice::run {

// "  uplink0: bytes packets errs drop fifo frame compressed multicast  bytes packets …", received ones first.
std::vector<LinkCount> read_links(std::string_view devices, std::uint32_t leaves) {
    std::vector<LinkCount> counts(leaves);
    std::istringstream lines{std::string(devices)};
    for (std::string line; std::getline(lines, line);) {
        const auto colon = line.find(':');
        const auto start = line.find_first_not_of(' ');
        if (colon == std::string::npos) continue;
        const std::string name = line.substr(start, colon - start);
        std::istringstream rest(line.substr(colon + 1));
        const std::vector<std::uint64_t> numbers{std::istream_iterator<std::uint64_t>(rest), {}};
        for (std::uint32_t leaf = 0; leaf < leaves && numbers.size() > 9; ++leaf) {
            if (name == Hosts::uplink_name(leaf)) counts[leaf] = {.up = numbers[9], .down = numbers[1]};
        }
    }
    return counts;
}

namespace {

std::vector<LinkCount> read_own_links(std::uint32_t leaves) {
    std::ifstream file("/proc/self/net/dev");
    return read_links(std::string(std::istreambuf_iterator<char>(file), {}), leaves);
}

// Takes IPv4 packets that leave by the interface and have bytes behind their TCP header.
std::array<sock_filter, 16> payload_filter() {
    constexpr auto kLinkHeader = static_cast<std::uint32_t>(ETH_HLEN);
    constexpr auto kPacketType = static_cast<std::uint32_t>(SKF_AD_OFF + SKF_AD_PKTTYPE);
    return {{
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kPacketType),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, PACKET_OUTGOING, 0, 13),
        BPF_STMT(BPF_LD | BPF_H | BPF_ABS, kLinkHeader - 2),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ETH_P_IP, 0, 11),
        BPF_STMT(BPF_LD | BPF_B | BPF_ABS, kLinkHeader + 9),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, IPPROTO_TCP, 0, 9),
        BPF_STMT(BPF_LDX | BPF_B | BPF_MSH, kLinkHeader),
        BPF_STMT(BPF_LD | BPF_B | BPF_IND, kLinkHeader + 12),  // the TCP header's length, in words, in the upper half
        BPF_STMT(BPF_ALU | BPF_AND | BPF_K, 0xf0),
        BPF_STMT(BPF_ALU | BPF_RSH | BPF_K, 2),
        BPF_STMT(BPF_ALU | BPF_ADD | BPF_X, 0),
        BPF_STMT(BPF_MISC | BPF_TAX, 0),
        BPF_STMT(BPF_LD | BPF_H | BPF_ABS, kLinkHeader + 2),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_X, 0, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, 1),
        BPF_STMT(BPF_RET | BPF_K, 0),
    }};
}

// A socket that nobody reads: the kernel counts what its filter takes, also what it has no room for. −1 where that can't be.
int open_payload_counter(const std::string& interface) {
    const int counter = ::socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
    if (counter < 0) return -1;
    auto instructions = payload_filter();
    const sock_fprog filter{.len = instructions.size(), .filter = instructions.data()};
    const int room = 1;
    sockaddr_ll address{};
    address.sll_family = AF_PACKET;
    address.sll_protocol = htons(ETH_P_ALL);
    address.sll_ifindex = static_cast<int>(::if_nametoindex(interface.c_str()));
    if (address.sll_ifindex == 0 || ::setsockopt(counter, SOL_SOCKET, SO_RCVBUF, &room, sizeof room) != 0 ||
        ::setsockopt(counter, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof filter) != 0 ||
        ::bind(counter, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
        ::close(counter);
        return -1;
    }
    return counter;
}

std::optional<std::uint64_t> read_payload_counter(int counter) {
    tpacket_stats counts{};
    socklen_t size = sizeof counts;
    if (::getsockopt(counter, SOL_PACKET, PACKET_STATISTICS, &counts, &size) != 0) return std::nullopt;
    return counts.tp_packets;  // with those that were dropped
}

std::string describe(const LinkCount& count) {
    const std::string payload = count.payload_up ? fmt::format(" ({} with payload)", *count.payload_up) : "";
    return fmt::format("{} packets up{}, {} down", count.up, payload, count.down);
}

}  // namespace

LinkCounter::LinkCounter(std::uint32_t leaves) : start_(read_own_links(leaves)) {
    for (std::uint32_t leaf = 0; leaf < leaves; ++leaf)
        sockets_.push_back(open_payload_counter(Hosts::uplink_name(leaf)));
}

LinkCounter::~LinkCounter() {
    for (const int counter : sockets_) {
        if (counter >= 0) ::close(counter);
    }
}

std::vector<LinkCount> LinkCounter::count() const {
    std::vector<LinkCount> counts = read_own_links(static_cast<std::uint32_t>(start_.size()));
    for (std::size_t leaf = 0; leaf < counts.size(); ++leaf) {
        counts[leaf].up -= start_[leaf].up;
        counts[leaf].down -= start_[leaf].down;
        counts[leaf].payload_up = read_payload_counter(sockets_[leaf]);
    }
    return counts;
}

std::vector<std::string> describe_links(const std::vector<LinkCount>& counts, std::uint64_t operations) {
    std::vector<std::string> lines;
    LinkCount all{.payload_up = 0};
    for (std::size_t leaf = 0; leaf < counts.size(); ++leaf) {
        const LinkCount& count = counts[leaf];
        lines.push_back(fmt::format("leaf {}: {}", leaf, describe(count)));
        all.up += count.up;
        all.down += count.down;
        if (!count.payload_up) all.payload_up.reset();
        if (all.payload_up) *all.payload_up += *count.payload_up;
    }
    std::string total = fmt::format("all leaves: {}", describe(all));
    const auto each = [operations](std::uint64_t packets) {
        return static_cast<double>(packets) / static_cast<double>(operations);
    };
    if (operations > 0) {
        total += fmt::format("; {:.3f} up for each of {} operations", each(all.up), operations);
        if (all.payload_up) total += fmt::format(", {:.3f} with payload", each(*all.payload_up));
    }
    lines.push_back(std::move(total));
    return lines;
}

}  // namespace coppice::run
