#include "engine/formation/exchange.hpp"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "engine/addresses/copying.hpp"
#include "engine/wire/address_list.hpp"
#include "engine/wiring.hpp"
#include "topology/acquaintance.hpp"

namespace coppice::engine {
namespace {

// Of smaller jobs all addresses are fetched: that takes milliseconds, and nothing has to be copied.
constexpr std::uint32_t kMostOfAll = 32;

// How far correction goes on the ring.
std::uint32_t ring_of(const Settings& settings) {
    using Kind = protocol::CorrectionKind;
    switch (settings.correction.kind) {
        case Kind::opportunistic:
        case Kind::opportunistic_paper:
        case Kind::optimized_opportunistic:
        case Kind::optimized_paper:
            return std::max(settings.correction.distance, 1U);
        default:
            return 1;
    }
}

// A rank that is not known yet may be the first to say something.
bool can_be_met_later(const TransportSet& transport_set) {
    return std::ranges::all_of(transport_set.wires(), [](const auto& wire) {
        return wire->capabilities().within_host || wire->capabilities().hears_unknown;
    });
}

// Shared memory leads to ranks of the own host alone, also where each of them is a node of its own.
bool is_of_host(const Met& met, Rank rank) {
    return met.settings.allows_within_host() && met.hosts[rank.value] == met.hosts[met.self.value];
}

// Ascending.
std::vector<Rank> needed(const Met& met, const topology::Acquaintance& acquaintance) {
    std::vector<Rank> ranks = acquaintance.of(met.self);
    for (std::uint32_t r = 0; r < met.nodes.ranks(); ++r)
        if (Rank(r) != met.self && is_of_host(met, Rank(r))) ranks.emplace_back(r);
    std::ranges::sort(ranks);
    ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
    return ranks;
}

void note_page(Learned& learned, Rank rank, std::span<const std::byte> addresses) {
    const auto page = find_address(addresses, kPageName);
    int descriptor = -1;
    if (!page || page->size() != sizeof descriptor) return;
    std::memcpy(&descriptor, page->data(), sizeof descriptor);
    learned.pages.emplace(rank, descriptor);
}

}  // namespace

bool asks_for_few(const Settings& settings, const topology::Nodes& nodes, bool has_store) {
    if (settings.addresses == Addresses::all || settings.join != Join::none || nodes.count() == 1 ||
        !settings.allows_between_hosts())
        return false;
    if (settings.addresses == Addresses::few) return true;
    const topology::Acquaintance acquaintance(nodes, ring_of(settings));
    return has_store && nodes.ranks() > std::max(kMostOfAll, 2 * acquaintance.steps() + 2 * ring_of(settings) + 4);
}

Result<Learned> exchange_addresses(bootstrap::Bootstrap& bootstrap, const Met& met, std::span<const std::byte> mine,
                                   std::uint64_t deadline_ns) {
    TransportSet& transport_set = met.transport_set;
    std::vector<Rank> others;
    for (std::uint32_t r = 0; r < met.nodes.ranks(); ++r)
        if (Rank(r) != met.self && !met.is_dead[r]) others.emplace_back(r);
    std::vector<Rank> wanted = others;
    std::unique_ptr<Copying> copying;
    if (asks_for_few(met.settings, met.nodes, bootstrap.has_store())) {
        topology::Acquaintance acquaintance(met.nodes, ring_of(met.settings));
        if (can_be_met_later(transport_set)) wanted = needed(met, acquaintance);
        std::erase_if(wanted, [&met](Rank rank) { return met.is_dead[rank.value]; });
        copying =
            std::make_unique<Copying>(transport_set, met.settings, std::move(acquaintance), met.hosts[met.self.value],
                                      Seat(met.self.value), met.token, mine, met.clock);
    }
    auto told = bootstrap.exchange_with(wanted, mine, deadline_ns);
    if (!told) return tl::unexpected(std::move(told.error()));
    Learned learned;
    for (std::size_t i = 0; i < wanted.size(); ++i) {
        const Rank rank = wanted[i];
        const Seat seat(rank.value);
        const std::string& host = met.hosts[rank.value];
        if ((*told)[i].empty()) {
            learned.dead.push_back(rank);
            learned.silent.push_back(rank);
            continue;
        }
        auto wired = wire_peer(transport_set, met.settings, met.hosts[met.self.value], seat,
                               {.incarnation = 0, .host = host, .addresses = (*told)[i]});
        if (wired) {
            if (is_of_host(met, rank)) note_page(learned, rank, (*told)[i]);
            if (copying) copying->know(seat, (*told)[i], is_of_host(met, rank));
            continue;
        }
        if (wired.error().status != COPPICE_ERR_PEER_FAILED) return tl::unexpected(std::move(wired.error()));
        learned.dead.push_back(rank);
    }
    if (!copying) return learned;
    transport_set.copy_by(std::move(copying));
    for (const Rank rank : others) {
        if (std::ranges::binary_search(wanted, rank)) continue;
        transport_set.directory().take(Seat(rank.value), 0);
        transport_set.leave_unwired(Seat(rank.value));
    }
    return learned;
}

}  // namespace coppice::engine
