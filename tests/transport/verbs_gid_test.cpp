// Which GID connections are made from: made-up tables of ports, and what is said when none will do.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "transport/verbs/device.hpp"

namespace coppice::transport::verbs {
namespace {

using ::testing::HasSubstr;

ibv_gid_entry entry(unsigned index, std::uint32_t type, const char* address, std::uint8_t port = 1) {
    ibv_gid_entry made{};
    made.gid_index = index;
    made.port_num = port;
    made.gid_type = type;
    EXPECT_EQ(inet_pton(AF_INET6, address, made.gid.raw), 1);
    return made;
}

bool everywhere(const sockaddr_in6&) {
    return true;
}
bool nowhere(const sockaddr_in6&) {
    return false;
}

const std::vector<ibv_gid_entry> kTable{
    entry(0, IBV_GID_TYPE_ROCE_V1, "fe80::1"),
    entry(1, IBV_GID_TYPE_ROCE_V2, "fe80::1"),
    entry(2, IBV_GID_TYPE_ROCE_V1, "::ffff:10.0.0.1"),
    entry(3, IBV_GID_TYPE_ROCE_V2, "::ffff:10.0.0.1"),
    entry(0, IBV_GID_TYPE_ROCE_V2, "::ffff:10.0.0.2", 2),
};

TEST(Gid, OfAnIpv4AddressComesFirst) {
    Device device;
    EXPECT_EQ(pick_gid(kTable, -1, everywhere, device), "");
    EXPECT_EQ(device.gid_index, 3);
    EXPECT_EQ(device.address.sin6_family, AF_INET);
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(device.address);
    EXPECT_EQ(v4.sin_addr.s_addr, inet_addr("10.0.0.1"));
    device.port = 2;
    EXPECT_EQ(pick_gid(kTable, -1, everywhere, device), "");
    EXPECT_EQ(device.gid_index, 0);
}

TEST(Gid, OfAnIpv6AddressWillDo) {
    Device device;
    EXPECT_EQ(pick_gid(std::span(kTable).first(2), -1, everywhere, device), "");
    EXPECT_EQ(device.gid_index, 1);
    EXPECT_EQ(device.address.sin6_family, AF_INET6);
}

TEST(Gid, ThatIsAskedForIsTakenOrToldToBeOfAnotherKindOrMissing) {
    Device device;
    EXPECT_EQ(pick_gid(kTable, 1, everywhere, device), "");
    EXPECT_EQ(device.gid_index, 1);
    EXPECT_THAT(pick_gid(kTable, 2, everywhere, device), HasSubstr("GID index 2 of port 1 is RoCE v1"));
    EXPECT_THAT(pick_gid(kTable, 4, everywhere, device), HasSubstr("nothing at GID index 4"));
    EXPECT_THAT(pick_gid(kTable, 3, nowhere, device), HasSubstr("no interface has"));
    device.port = 2;
    EXPECT_THAT(pick_gid(kTable, 3, everywhere, device), HasSubstr("port 2 has nothing at GID index 3"));
}

TEST(Gid, ThatIsNobodysAddressOrOfTheFirstKindIsNotTaken) {
    Device device;
    EXPECT_THAT(pick_gid(kTable, -1, nowhere, device), HasSubstr("ip addr add"));
    EXPECT_THAT(pick_gid(std::span(kTable).first(1), -1, everywhere, device), HasSubstr("no RoCE v2 GID"));
    EXPECT_THAT(pick_gid({}, -1, everywhere, device), HasSubstr("no RoCE v2 GID"));
}

}  // namespace
}  // namespace coppice::transport::verbs
