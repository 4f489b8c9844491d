#include "engine/wiring.hpp"

#include <string>
#include <utility>
#include <vector>

#include "engine/wire/address_list.hpp"

namespace coppice::engine {
namespace {

// "a, b or c", of the transports that reach other hosts.
std::string names_between_hosts(const Settings& settings) {
    std::string names;
    std::string last;
    for (const TransportChoice& choice : settings.transports) {
        if (choice.transport->within_host) continue;
        if (!last.empty()) names += names.empty() ? last : ", " + last;
        last = choice.transport->name;
    }
    return names.empty() ? last : names + " or " + last;
}

}  // namespace

Result<void> wire_peer(Seats& seats, const Settings& settings, std::string_view own_host, Seat seat,
                       const Process& process) {
    const bool same_host = process.host == own_host;
    const auto wires = seats.wires();
    for (std::size_t i = 0; i < wires.size(); ++i) {
        const transport::Capabilities& can = wires[i]->capabilities();
        if (can.within_host && !same_host) continue;
        const auto address = find_address(process.addresses, can.name);
        if (!address) continue;
        if (auto added = wires[i]->add_peer(seat, *address); !added) return added;
        seats.route(seat, static_cast<std::uint8_t>(i));
        std::vector<std::byte> kept;
        if (settings.join != Join::none) kept.assign(process.addresses.begin(), process.addresses.end());
        seats.directory().take(seat, process.incarnation, std::move(kept));
        return {};
    }
    if (settings.allows_between_hosts() || same_host) {
        return fail(
            COPPICE_ERR_MISMATCH,
            "rank {} gave no address for any of the transports ({}) that both ranks have: it was damaged on its "
            "way; check the exchange of addresses",
            seat.value, settings.transport_names());
    }
    return fail(COPPICE_ERR_NO_TRANSPORT,
                "rank {} runs on another host (\"{}\") and the allowed transports ({}) do not reach it; allow {} in "
                "COPPICE_TRANSPORT",
                seat.value, shown(process.host), settings.transport_names(), names_between_hosts(settings));
}

}  // namespace coppice::engine
