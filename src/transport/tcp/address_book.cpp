#include "transport/tcp/address_book.hpp"

#include <algorithm>
#include <cstring>

namespace coppice::transport::tcp {
namespace {

constexpr std::size_t kHead = 4;           // family, prefix, port
constexpr std::size_t kMostForeseen = 32;  // bytes of a rank's entry

std::size_t bytes_of_ip(std::uint8_t family) {
    return family == 4 ? 4 : 16;
}

void append(std::vector<std::byte>& packed, const Endpoint& endpoint) {
    std::byte entry[kHead + sizeof endpoint.ip] = {std::byte{endpoint.family}, std::byte{endpoint.prefix}};
    std::memcpy(entry + 2, &endpoint.port, sizeof endpoint.port);
    std::memcpy(entry + kHead, endpoint.ip.data(), endpoint.ip.size());
    packed.insert(packed.end(), entry, entry + kHead + bytes_of_ip(endpoint.family));
}

// The endpoint at the front, which it takes away.
Endpoint take(std::span<const std::byte>& packed) {
    Endpoint endpoint;
    endpoint.family = std::to_integer<std::uint8_t>(packed[0]);
    endpoint.prefix = std::to_integer<std::uint8_t>(packed[1]);
    std::memcpy(&endpoint.port, packed.data() + 2, sizeof endpoint.port);
    const std::size_t bytes = bytes_of_ip(endpoint.family);
    std::memcpy(endpoint.ip.data(), packed.data() + kHead, bytes);
    packed = packed.subspan(kHead + bytes);
    return endpoint;
}

}  // namespace

void AddressBook::add(Seat rank, std::span<const Endpoint> endpoints) {
    begins_[rank.value] = static_cast<std::uint32_t>(packed_.size());
    const std::size_t before = packed_.size();
    packed_.push_back(static_cast<std::byte>(endpoints.size()));
    for (const Endpoint& endpoint : endpoints)
        append(packed_, endpoint);
    // Ranks have about as many addresses each: room for all at once, so that little is left over.
    if (before == 0) packed_.reserve(std::min(packed_.size(), kMostForeseen) * begins_.size());
}

std::span<const std::byte> AddressBook::entry_of(Seat rank) const {
    const std::span<const std::byte> entry = std::span(packed_).subspan(begins_[rank.value]);
    std::span<const std::byte> rest = entry.subspan(1);
    for (auto left = std::to_integer<std::uint8_t>(entry.front()); left > 0; --left)
        (void)take(rest);
    return entry.first(entry.size() - rest.size());
}

std::vector<Endpoint> AddressBook::endpoints_of(Seat rank) const {
    std::span<const std::byte> rest = entry_of(rank);
    std::vector<Endpoint> endpoints(std::to_integer<std::uint8_t>(rest.front()));
    rest = rest.subspan(1);
    for (Endpoint& endpoint : endpoints)
        endpoint = take(rest);
    return endpoints;
}

void AddressBook::remove(Seat rank) {
    if (!has(rank)) return;
    wasted_ += entry_of(rank).size();
    begins_[rank.value] = kNowhere;
    if (wasted_ >= kLeastWaste && wasted_ > packed_.size() / 2) move_together();
}

void AddressBook::move_together() {
    std::vector<std::byte> packed;
    packed.reserve(packed_.size());
    for (std::uint32_t rank = 0; rank < begins_.size(); ++rank) {
        if (!has(Seat(rank))) continue;
        const std::span<const std::byte> entry = entry_of(Seat(rank));
        begins_[rank] = static_cast<std::uint32_t>(packed.size());
        packed.insert(packed.end(), entry.begin(), entry.end());
    }
    packed_ = std::move(packed);
    wasted_ = 0;
}

}  // namespace coppice::transport::tcp
