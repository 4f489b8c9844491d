// The transport's address as bytes.
#include <bit>
#include <cstring>

#include "base/host.hpp"
#include "base/mix.hpp"
#include "transport/shm/segment.hpp"

namespace coppice::transport::shm {

namespace {

constexpr std::size_t kMaxHost = 256;
constexpr std::uint32_t kByteOrder = 0x01020304;

// All fields little- or big-endian as this machine has it: another order shows in `byte_order` and is refused.
struct Prefix {
    std::uint64_t magic;
    std::uint32_t byte_order;
    std::uint32_t version;
    std::uint32_t word_bits;
    std::uint32_t size;  // of the whole
};

struct Body {
    std::uint64_t start_time;
    std::uint64_t segment_size;
    std::uint64_t nonce;
    std::uint64_t bell;
    std::int32_t pid;
    std::int32_t fd;
    std::uint32_t rank;
    std::uint32_t group_size;
    std::uint32_t window;
    std::uint32_t inboxes;
    char host[kMaxHost];
};

constexpr std::size_t kBytes = sizeof(Prefix) + sizeof(Body) + sizeof(std::uint64_t);

}  // namespace

std::vector<std::byte> encode(const Address& address) {
    const Prefix prefix{kMagic, kByteOrder, kVersion, sizeof(void*) * 8, kBytes};
    Body body{};
    body.start_time = address.start_time;
    body.segment_size = address.segment_size;
    body.nonce = address.nonce;
    body.bell = address.bell;
    body.pid = address.pid;
    body.fd = address.fd;
    body.rank = address.rank;
    body.group_size = address.group_size;
    body.window = address.window;
    body.inboxes = address.inboxes;
    address.host.copy(body.host, kMaxHost - 1);
    std::vector<std::byte> bytes(kBytes);
    std::memcpy(bytes.data(), &prefix, sizeof prefix);
    std::memcpy(bytes.data() + sizeof prefix, &body, sizeof body);
    const std::uint64_t sum = fnv1a<std::uint64_t>(std::span(bytes).first(kBytes - sizeof(std::uint64_t)));
    std::memcpy(bytes.data() + kBytes - sizeof sum, &sum, sizeof sum);
    return bytes;
}

Result<Address> decode(Seat peer, std::span<const std::byte> bytes) {
    Prefix prefix{};
    if (bytes.size() >= sizeof prefix) std::memcpy(&prefix, bytes.data(), sizeof prefix);
    if (prefix.magic != kMagic || prefix.byte_order != kByteOrder)
        return fail(COPPICE_ERR_MISMATCH,
                    "shm: the address of rank {} ({} bytes) is none of this transport on this kind of machine; "
                    "all ranks must run the same build of Coppice",
                    peer.value, bytes.size());
    if (prefix.version != kVersion || prefix.word_bits != sizeof(void*) * 8)
        return fail(COPPICE_ERR_MISMATCH,
                    "shm: rank {} speaks version {} with {}-bit words, this rank version {} with {}-bit words; "
                    "all ranks must run the same build of Coppice",
                    peer.value, prefix.version, prefix.word_bits, kVersion, sizeof(void*) * 8);
    std::uint64_t sum = 0;
    if (bytes.size() == kBytes) std::memcpy(&sum, bytes.data() + kBytes - sizeof sum, sizeof sum);
    if (bytes.size() != kBytes || prefix.size != kBytes ||
        sum != fnv1a<std::uint64_t>(bytes.first(kBytes - sizeof sum)))
        return fail(COPPICE_ERR_MISMATCH,
                    "shm: the address of rank {} was damaged on its way; check the exchange of addresses", peer.value);
    Body body{};
    std::memcpy(&body, bytes.data() + sizeof prefix, sizeof body);
    body.host[kMaxHost - 1] = '\0';
    Address address;
    address.host = body.host;
    address.pid = body.pid;
    address.start_time = body.start_time;
    address.fd = body.fd;
    address.rank = body.rank;
    address.group_size = body.group_size;
    address.window = body.window;
    address.inboxes = body.inboxes;
    address.segment_size = body.segment_size;
    address.nonce = body.nonce;
    address.bell = body.bell;
    return address;
}

}  // namespace coppice::transport::shm
