#include "transport/ucx/wire.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "transport/address_check.hpp"
#include "transport/ucx/library.hpp"

namespace coppice::transport::ucx {
namespace {

constexpr std::array<char, 4> kMagic = {'C', 'P', 'U', 'X'};

// The fixed part of an address. The order mark is read as written, so that another byte order shows itself; what
// precedes it are single bytes, which every order reads alike.
struct Envelope {
    std::array<char, 4> magic = kMagic;
    std::uint8_t version = kWireVersion;
    std::uint8_t word_size = sizeof(void*);
    std::uint8_t put = 0;
    std::uint8_t reserved = 0;
    std::uint32_t byte_order = kByteOrderMark;
    std::uint32_t ucx_release = 0;
    std::uint32_t size = 0;  // of the worker address that follows; behind that the host's addresses, if any
    std::uint32_t checksum = 0;
    std::uint32_t incarnation = 0;
};
static_assert(sizeof(Envelope) == 28);

}  // namespace

std::optional<Prefix> parse_prefix(std::span<const std::byte> header, std::size_t payload_size, std::uint64_t token,
                                   std::uint32_t group_size) {
    Prefix prefix;
    if (header.size() < sizeof prefix) return std::nullopt;
    std::memcpy(&prefix, header.data(), sizeof prefix);
    const bool ours =
        incarnation_in(prefix, token) <= UINT32_MAX && prefix.version == kWireVersion && prefix.from < group_size;
    const bool fits = prefix.header_size == header.size() - sizeof prefix && prefix.header_size <= kMaxHeader &&
                      payload_size <= kMaxPayload;
    const bool known = prefix.kind >= Kind::data && prefix.kind <= Kind::key;
    if (!ours || !fits || !known) return std::nullopt;
    return prefix;
}

std::optional<Offer> parse_offer(std::span<const std::byte> header, std::size_t key_size) {
    Offer offer;
    if (header.size() != sizeof offer || key_size == 0 || key_size > kMaxKey) return std::nullopt;
    std::memcpy(&offer, header.data(), sizeof offer);
    if (offer.slots == 0 || offer.slots > kMaxSlots) return std::nullopt;
    return offer;
}

std::optional<std::uint32_t> parse_count(std::span<const std::byte> header) {
    std::uint32_t count = 0;
    if (header.size() != sizeof count) return std::nullopt;
    std::memcpy(&count, header.data(), sizeof count);
    return count;
}

std::vector<std::byte> padded_key(std::span<const std::byte> key) {
    std::vector<std::byte> padded(key.begin(), key.end());
    padded.resize(key.size() + kMaxKey);
    return padded;
}

std::uint32_t ucx_release() {
    if (!load()) return 0;
    unsigned major = 0, minor = 0, patch = 0;
    library.ucp_get_version(&major, &minor, &patch);
    return (major << 16) | (minor & 0xFFFFU);
}

Result<std::vector<std::byte>> pack_address(std::span<const std::byte> worker_address, bool put,
                                            std::uint32_t incarnation, const std::optional<HostAddresses>& host) {
    if (worker_address.size() > kMaxAddress - sizeof(Envelope))
        return fail(COPPICE_ERR_NO_RESOURCES,
                    "ucx: this rank's address has {} bytes, more than {}: it names too many network devices; name "
                    "those to be used in UCX_NET_DEVICES (ucx_info -d lists them)",
                    worker_address.size(), kMaxAddress - sizeof(Envelope));
    Envelope envelope;
    envelope.put = put ? 1 : 0;
    envelope.incarnation = incarnation;
    envelope.ucx_release = ucx_release();
    envelope.size = static_cast<std::uint32_t>(worker_address.size());
    std::string hosts = host ? host->text() : "";
    if (hosts.size() > kMaxAddress - sizeof envelope - worker_address.size())
        hosts = HostAddresses{.everybody = true, .list = {}}.text();
    std::vector<std::byte> address(sizeof envelope);
    address.insert(address.end(), worker_address.begin(), worker_address.end());
    for (const char one : hosts)
        address.push_back(static_cast<std::byte>(one));
    envelope.checksum = checksum_of(std::span(address).subspan(sizeof envelope)) ^ incarnation;
    std::memcpy(address.data(), &envelope, sizeof envelope);
    return address;
}

Result<Address> unpack_address(Seat rank, std::span<const std::byte> address, bool put) {
    Envelope envelope;
    const bool readable = address.size() >= sizeof envelope && address.size() <= kMaxAddress;
    if (readable) std::memcpy(&envelope, address.data(), sizeof envelope);
    const AddressHead head{.ours = readable && envelope.magic == kMagic,
                           .version = envelope.version,
                           .word_size = envelope.word_size,
                           .byte_order = envelope.byte_order};
    if (auto known = check_address("ucx", rank, head, kWireVersion, address.size()); !known)
        return tl::unexpected(std::move(known.error()));
    if (envelope.ucx_release != ucx_release())
        return fail(COPPICE_ERR_MISMATCH,
                    "ucx: rank {} runs UCX {}.{}, this rank {}.{}: install the same release on all hosts", rank.value,
                    envelope.ucx_release >> 16, envelope.ucx_release & 0xFFFFU, ucx_release() >> 16,
                    ucx_release() & 0xFFFFU);
    if ((envelope.put != 0) != put)
        return fail(COPPICE_ERR_MISMATCH,
                    "ucx: rank {} has COPPICE_UCX_PUT {}, this rank {}: set it alike for all ranks of the group",
                    rank.value, envelope.put != 0 ? "on" : "off", put ? "on" : "off");
    const auto told = address.subspan(sizeof envelope);
    if (envelope.size == 0 || envelope.size > told.size() ||
        envelope.checksum != (checksum_of(told) ^ envelope.incarnation))
        return damaged_address("ucx", rank);
    const auto worker = told.first(envelope.size);
    const auto hosts = told.subspan(envelope.size);
    std::optional<HostAddresses> host;
    if (!hosts.empty()) {
        host = HostAddresses::parse({reinterpret_cast<const char*>(hosts.data()), hosts.size()});
        if (!host) return damaged_address("ucx", rank);
    }
    return Address{envelope.incarnation, {worker.begin(), worker.end()}, std::move(host)};
}

bool listens_at(std::span<const std::byte> worker_address, const IpAddress& host) {
    const auto ip = std::as_bytes(std::span(host.bytes)).first(host.version == 4 ? 4 : 16);
    return std::ranges::search(worker_address, ip).begin() != worker_address.end();
}

}  // namespace coppice::transport::ucx
