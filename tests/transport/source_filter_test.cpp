// What gets through a filter by source: with real sockets, whose sources are addresses of 127.0.0.0/8 and ::1.
#include "transport/source_filter.hpp"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "transport/ip_addresses.hpp"

namespace coppice::transport {
namespace {

IpAddress ipv4(std::uint32_t address) {
    IpAddress result;
    for (std::size_t i = 0; i < 4; ++i)
        result.bytes[i] = static_cast<std::uint8_t>(address >> (24 - 8 * i));
    return result;
}
constexpr std::uint32_t kLoopback = 0x7F000000;  // 127.0.0.0

// A socket that takes datagrams through the filter. They are there, or dropped, as soon as they are sent.
class Filtered {
  public:
    Filtered(int domain, const Admission& admitted) : domain_(domain), socket_(::socket(domain, SOCK_DGRAM, 0)) {
        sockaddr_storage any = loopback(0);
        EXPECT_EQ(::bind(socket_, reinterpret_cast<sockaddr*>(&any), length()), 0);
        const auto program = source_filter(admitted);
        EXPECT_TRUE(program.has_value());
        sock_fprog filter{static_cast<unsigned short>(program->size()), const_cast<sock_filter*>(program->data())};
        EXPECT_EQ(::setsockopt(socket_, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof filter), 0) << program->size();
    }
    ~Filtered() { ::close(socket_); }
    Filtered(const Filtered&) = delete;
    Filtered& operator=(const Filtered&) = delete;

    bool admits(std::uint32_t ipv4_source) {
        sockaddr_storage name{};
        socklen_t size = sizeof name;
        ::getsockname(socket_, reinterpret_cast<sockaddr*>(&name), &size);
        const int sender = ::socket(domain_, SOCK_DGRAM, 0);
        sockaddr_storage from = loopback(ipv4_source);
        EXPECT_EQ(::bind(sender, reinterpret_cast<sockaddr*>(&from), length()), 0);
        EXPECT_EQ(::sendto(sender, "x", 1, 0, reinterpret_cast<sockaddr*>(&name), size), 1);
        ::close(sender);
        char byte = 0;
        return ::recv(socket_, &byte, 1, MSG_DONTWAIT) == 1;
    }

  private:
    // The receiver is 127.0.0.1, or ::1.
    sockaddr_storage loopback(std::uint32_t source) const {
        sockaddr_storage result{};
        result.ss_family = static_cast<sa_family_t>(domain_);
        auto& four = reinterpret_cast<sockaddr_in&>(result);
        if (domain_ == AF_INET) four.sin_addr.s_addr = htonl(source != 0 ? source : INADDR_LOOPBACK);
        if (domain_ == AF_INET6) reinterpret_cast<sockaddr_in6&>(result).sin6_addr = in6addr_loopback;
        return result;
    }
    socklen_t length() const { return domain_ == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6); }

    int domain_;
    int socket_;
};

bool ipv6_is_here() {
    const int socket = ::socket(AF_INET6, SOCK_DGRAM, 0);
    sockaddr_in6 name{};
    name.sin6_family = AF_INET6;
    name.sin6_addr = in6addr_loopback;
    const bool here = ::bind(socket, reinterpret_cast<sockaddr*>(&name), sizeof name) == 0;
    if (socket >= 0) ::close(socket);
    return here;
}

TEST(SourceFilter, AdmitsTheHostsOfTheJobAndNoOthers) {
    Filtered socket(AF_INET, {.hosts = {ipv4(kLoopback + 5), ipv4(kLoopback + 7), ipv4(kLoopback + 0x10000)}});
    for (const std::uint32_t host : {5U, 7U, 0x10000U})
        EXPECT_TRUE(socket.admits(kLoopback + host)) << host;
    for (const std::uint32_t host : {1U, 4U, 6U, 8U, 0xFFFFU, 0x10001U, 0xFFFFFEU})
        EXPECT_FALSE(socket.admits(kLoopback + host)) << host;
}

TEST(SourceFilter, AdmitsNobodyWhenNobodyIsToCome) {
    Filtered socket(AF_INET, {});
    EXPECT_FALSE(socket.admits(kLoopback + 1));
    EXPECT_FALSE(socket.admits(kLoopback + 2));
}

TEST(SourceFilter, AdmitsThisHostWhereRanksShareIt) {
    Filtered socket(AF_INET, {.loopback = true, .hosts = {ipv4(0x0A000001)}});
    EXPECT_TRUE(socket.admits(kLoopback + 1));
    EXPECT_TRUE(socket.admits(kLoopback + 0xFFFFFE));
}

// Every number of hosts has its search tree: none may lose a host or let in a neighbour.
TEST(SourceFilter, TellsAnyNumberOfHostsApart) {
    for (std::uint32_t hosts = 1; hosts <= kMostRanges; hosts += hosts < 10 ? 1 : 35) {
        Admission admitted;
        for (std::uint32_t i = 0; i < hosts; ++i)
            admitted.hosts.push_back(ipv4(kLoopback + 10 + 3 * i));
        Filtered socket(AF_INET, admitted);
        for (std::uint32_t i = 0; i < hosts; ++i) {
            EXPECT_TRUE(socket.admits(kLoopback + 10 + 3 * i)) << i << " of " << hosts;
            EXPECT_FALSE(socket.admits(kLoopback + 9 + 3 * i)) << i << " of " << hosts;
            EXPECT_FALSE(socket.admits(kLoopback + 11 + 3 * i)) << i << " of " << hosts;
        }
    }
}

TEST(SourceFilter, AdmitsAllHostsOfALargeJobAndTheNarrowestGapsBetweenThem) {
    Admission admitted;
    for (std::uint32_t i = 0; i < 1000; ++i)
        admitted.hosts.push_back(ipv4(kLoopback + 0x100 + 2 * i + (i >= 900 ? 0x100 * (i - 899) : 0)));
    Filtered socket(AF_INET, admitted);
    for (const IpAddress& host : admitted.hosts)
        EXPECT_TRUE(socket.admits(kLoopback | static_cast<std::uint32_t>(host.bytes[1]) << 16 |
                                  static_cast<std::uint32_t>(host.bytes[2]) << 8 | host.bytes[3]));
    EXPECT_TRUE(socket.admits(kLoopback + 0x101));   // filled
    EXPECT_FALSE(socket.admits(kLoopback + 0xFF));   // outside
    EXPECT_FALSE(socket.admits(kLoopback + 0x870));  // in one of the wide gaps
}

// Whatever a job looks like, the kernel takes the program.
TEST(SourceFilter, TheLongestProgramIsTaken) {
    Admission admitted{.loopback = true, .hosts = {}};
    for (std::uint32_t i = 0; i < kMostRanges - 1; ++i)
        admitted.hosts.push_back(ipv4(0xC0000000 + 1000 * i));
    for (std::size_t i = 0; i < kMostIpv6; ++i) {
        admitted.hosts.push_back({.version = 6});
        admitted.hosts.back().bytes.fill(static_cast<std::uint8_t>(0xFF - i));
    }
    Filtered socket(AF_INET, admitted);
    EXPECT_TRUE(socket.admits(kLoopback + 1));
    admitted.hosts.push_back({.version = 6});
    EXPECT_FALSE(source_filter(admitted).has_value());
}

TEST(SourceFilter, TellsIpv6AddressesApart) {
    if (!ipv6_is_here()) GTEST_SKIP() << "this machine has no IPv6";
    IpAddress one{.version = 6, .bytes = {}};
    one.bytes[15] = 1;
    IpAddress other = one;
    other.bytes[3] = 1;
    EXPECT_TRUE(Filtered(AF_INET6, {.hosts = {other, one}}).admits(0));
    EXPECT_FALSE(Filtered(AF_INET6, {.hosts = {other}}).admits(0));
    EXPECT_FALSE(Filtered(AF_INET6, {.hosts = {ipv4(kLoopback + 1)}}).admits(0));
    EXPECT_TRUE(Filtered(AF_INET6, {.loopback = true, .hosts = {}}).admits(0));
}

// -------------------------------------------------------------------------------------------- what is to be admitted

HostAddresses host(std::string_view text) {
    const auto parsed = HostAddresses::parse(text);
    EXPECT_TRUE(parsed.has_value()) << text;
    return parsed.value_or(HostAddresses{});
}

TEST(HostAddresses, AreReadAsTheyWereWritten) {
    for (const char* text : {"", "*", "10.0.0.1", "10.0.0.1,10.0.0.2,fd00::1"})
        EXPECT_EQ(host(text).text(), text);
    EXPECT_EQ(HostAddresses::parse(HostAddresses::own().text()), HostAddresses::own());
}

TEST(HostAddresses, OtherTextIsRefused) {
    for (const char* text :
         {",", "10.0.0.1,", ",10.0.0.1", "10.0.0", "**", "10.0.0.1 ", "127.0.0.1", "::1", "host", "10.0.0.1/8"})
        EXPECT_FALSE(HostAddresses::parse(text).has_value()) << text;
    std::string many = "10.0.0.1";
    for (std::size_t i = 0; i < kMostAddresses; ++i)
        many += ",10.0.0.1";
    EXPECT_FALSE(HostAddresses::parse(many).has_value());
}

TEST(Admission, IsOfTheOthersHosts) {
    const std::vector<HostAddresses> others{host("10.0.0.2,10.1.0.2"), host("10.0.0.3")};
    const Admission admitted = Admission::of(host("10.0.0.1"), others);
    EXPECT_EQ(admitted.hosts.size(), 3U);
    EXPECT_FALSE(admitted.loopback) << "no rank but this one is on this host";
    EXPECT_FALSE(admitted.everybody);
}

TEST(Admission, IncludesThisHostWhereAnotherRankIsOnIt) {
    EXPECT_TRUE(Admission::of(host("10.0.0.1"), std::vector{host("10.0.0.1")}).loopback);
    EXPECT_TRUE(Admission::of(host(""), std::vector{host("")}).loopback) << "a host without a network";
}

TEST(Admission, IsOfEverybodyWhereOneRankAsksForThat) {
    EXPECT_TRUE(Admission::of(host("10.0.0.1"), std::vector{host("10.0.0.2"), host("*")}).everybody);
    EXPECT_TRUE(Admission::of(host("*"), std::vector{host("10.0.0.2")}).everybody);
    EXPECT_FALSE(source_filter({.everybody = true, .hosts = {}}).has_value());
}

}  // namespace
}  // namespace coppice::transport
