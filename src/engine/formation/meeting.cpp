#include "engine/formation/meeting.hpp"

#include <algorithm>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "base/host.hpp"
#include "base/mix.hpp"
#include "engine/formation/greeting.hpp"
#include "engine/formation/group_secret.hpp"
#include "engine/whereabouts.hpp"
#include "engine/wire/address_list.hpp"
#include "transport/registry.hpp"

namespace coppice::engine {
namespace {

// Only to make tokens of different groups differ.
std::uint64_t hash_of(const std::vector<std::string>& words) {
    std::uint64_t hash = 0;
    for (const std::string& word : words)
        hash = hash_bytes(word.data(), word.size(), hash);
    return hash;
}

// What the first allowed transport asks for that lets in the job's hosts alone.
transport::HostAddresses addresses_to_tell(const Settings& settings) {
    for (const TransportChoice& choice : settings.transports) {
        if (!choice.allowed) continue;
        auto addresses = choice.maker->addresses();
        if (addresses != transport::HostAddresses()) return addresses;
    }
    return {};
}

std::string defaults_here(const Settings& settings) {
    std::string names;
    if (!settings.chosen_by_hardware) return names;
    for (const TransportChoice& choice : settings.transports) {
        const transport::Registration& one = *choice.transport;
        if (one.is_default() && !one.within_host && one.probe())
            names.append(names.empty() ? "" : ",").append(one.name);
    }
    return names;
}

Result<void> compare(Rank rank, const std::optional<Greeting>& greeting, Rank self, const Greeting& mine) {
    if (!greeting) {
        return fail(COPPICE_ERR_MISMATCH, "rank {} sent something that is no greeting of Coppice", rank.value);
    }
    if (greeting->protocol != mine.protocol) {
        return fail(COPPICE_ERR_MISMATCH,
                    "rank {} speaks \"{}\" (library {}), this rank {} speaks \"{}\" (library {}): install one version",
                    rank.value, shown(greeting->protocol), shown(greeting->library), self.value, mine.protocol,
                    mine.library);
    }
    if (greeting->agreement != mine.agreement || greeting->transports != mine.transports) {
        return fail(COPPICE_ERR_MISMATCH,
                    "rank {} has {}, transport {}; this rank {} has {}, transport {}: give all ranks the same options "
                    "and environment",
                    rank.value, shown(greeting->agreement), shown(greeting->transports), self.value, mine.agreement,
                    mine.transports);
    }
    return {};
}

// Where a dead rank ran is unknown and does not matter, as long as it makes no position of its own: it is counted to the
// host of the rank that lives before it, so that no host gets all of them.
void settle_the_dead(Meeting& meeting) {
    if (meeting.dead.empty()) return;
    std::vector<bool> is_dead(meeting.size(), false);
    for (const Rank rank : meeting.dead)
        is_dead[rank.value] = true;
    auto from = static_cast<std::size_t>(std::ranges::find(is_dead, false) - is_dead.begin());
    for (std::uint32_t r = 0; r < meeting.size(); ++r) {
        if (is_dead[r]) {
            meeting.hosts[r] = meeting.hosts[from];
            meeting.switches[r] = meeting.switches[from];
        } else {
            from = r;
        }
    }
}

}  // namespace

Result<Meeting> meet(Context& context, const Settings& settings, bootstrap::Bootstrap& bootstrap,
                     std::uint64_t deadline_ns) {
    auto nonce = draw_nonce();
    if (!nonce) return tl::unexpected(std::move(nonce.error()));
    Meeting meeting{.self = bootstrap.rank(), .own_addresses = addresses_to_tell(settings)};
    auto switches = own_switches(settings, context.platform() != nullptr);
    if (!switches) return fail(switches.error().status, "rank {}: {}", meeting.self.value, switches.error().message);
    const Greeting mine{.protocol = Greeting::protocol_name(),
                        .library = COPPICE_VERSION,
                        .agreement = settings.agreement(),
                        .transports = settings.transport_names(),
                        .host = host_identity(settings.host),
                        .nonce = std::move(*nonce),
                        .addresses = meeting.own_addresses.text(),
                        .wire = defaults_here(settings),
                        .switches = std::move(*switches),
                        .node = context.platform() != nullptr ? "" : host_name()};
    const std::string text = mine.text();
    auto all = bootstrap.allgather(std::as_bytes(std::span(text)), deadline_ns);
    if (!all) return tl::unexpected(std::move(all.error()));
    std::vector<std::string> nonces(all->size());
    std::set<std::string, std::less<>> names;
    for (std::uint32_t r = 0; r < all->size(); ++r) {
        const auto& blob = (*all)[r];
        if (blob.empty()) {
            meeting.dead.emplace_back(r);
            meeting.hosts.emplace_back();
            meeting.switches.emplace_back();
            continue;
        }
        const auto greeting = Greeting::parse(blob);
        if (auto agreed = compare(Rank(r), greeting, meeting.self, mine); !agreed)
            return tl::unexpected(std::move(agreed.error()));
        meeting.hosts.push_back(greeting->host);
        meeting.switches.push_back(greeting->switches);
        if (is_host_name(greeting->node)) names.insert(greeting->node);
        nonces[r] = greeting->nonce;
        if (Rank(r) == meeting.self) continue;
        if (greeting->host != mine.host) meeting.far_defaults.push_back(greeting->wire);
        auto addresses = transport::HostAddresses::parse(greeting->addresses);
        if (!addresses)
            return fail(COPPICE_ERR_MISMATCH,
                        "rank {} greets with something that is no list of its host's addresses: \"{}\"", r,
                        shown(greeting->addresses));
        meeting.their_addresses.push_back(std::move(*addresses));
    }
    {
        const Context::Guard guard(context);
        for (const std::string& name : names)
            context.note_host(name);
    }
    settle_the_dead(meeting);
    meeting.token = hash_of(nonces);
    meeting.secret = derive_secret(nonces);
    meeting.own_defaults = mine.wire;
    return meeting;
}

}  // namespace coppice::engine
