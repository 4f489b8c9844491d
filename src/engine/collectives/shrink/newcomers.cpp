// Shrinking's other half: the newcomers that a renewal may take in (newcomers/introductions.hpp), and what they have to know of the group that
// has them.
#include <algorithm>
#include <utility>

#include "engine/collectives/shrink/heirs.hpp"
#include "engine/collectives/shrink/shrink.hpp"
#include "engine/newcomers/doorway.hpp"
#include "engine/newcomers/introductions.hpp"
#include "engine/wire/address_list.hpp"

namespace coppice::engine {

// What has become known of them since the last look, in the group that may take them in.
void Shrink::heed_newcomers() {
    const Introductions& introductions = *router_.transport_set()->introductions();
    if (!introductions.admits(around_.id().token)) return;
    if (members_.failed_ranks().size() + life_.departed().size() != attended_without_) attend_door();
    if (introductions.version() != newcomers_version_) {
        newcomers_version_ = introductions.version();
        if (succession_) tell_of_newcomers();
    }
    const std::size_t alive = members_.ranks() - members_.failed_ranks().size();
    const bool wait = !introductions.ready().empty() && alive < introductions.most();
    if (wait == newcomers_wait_) return;
    newcomers_wait_ = wait;
    agreement_.announce_change(wait || (succession_ && succession_->is_leaving()));
}

// The member that has been in for longest keeps the door, the lowest rank of those.
void Shrink::attend_door() {
    attended_without_ = members_.failed_ranks().size() + life_.departed().size();
    const TransportSet& transport_set = *router_.transport_set();
    bootstrap::Admission::Company company;
    std::optional<Rank> keeper;
    for (std::uint32_t number = 0; number < members_.ranks(); ++number) {
        const Rank rank(number);
        if (members_.failed(rank) || std::ranges::find(life_.departed(), rank) != life_.departed().end()) continue;
        const Origin origin = around_.lineage().of(rank);
        company.members.push_back({.number = origin.seat.value, .incarnation = origin.incarnation});
        if (!keeper || origin.since < around_.lineage().of(*keeper).since) keeper = rank;
    }
    if (!keeper) return;
    const Origin origin = around_.lineage().of(*keeper);
    company.keeper = {.number = origin.seat.value, .incarnation = origin.incarnation};
    if (transport_set.directory().has(origin.seat, origin.incarnation)) {
        if (const auto door = find_address(transport_set.directory().addresses(origin.seat), kDoorName))
            company.door.assign(door->begin(), door->end());
    }
    router_.transport_set()->introductions()->attend(company);
}

Result<std::vector<std::byte>> Shrink::invite(std::uint32_t uses, std::uint64_t lifetime_ns) {
    const TransportSet& transport_set = *router_.transport_set();
    Introductions* const introductions = router_.transport_set()->introductions();
    if (introductions == nullptr) {
        return fail(COPPICE_ERR_CONFIG,
                    "nobody may join this group: start its ranks with COPPICE_JOIN=host or any, and with "
                    "COPPICE_CAPACITY, how many members it may have");
    }
    if (!introductions->admits(around_.id().token))
        return fail(COPPICE_ERR_BUSY, "another group has been made of this one: invite to that one");
    std::vector<bootstrap::DoorAddress> others;
    for (std::uint32_t number = 0; number < members_.ranks() && others.size() < bootstrap::kMostDoors; ++number) {
        if (Rank(number) == members_.self() || members_.failed(Rank(number))) continue;
        const Origin origin = around_.lineage().of(Rank(number));
        if (!transport_set.directory().has(origin.seat, origin.incarnation)) continue;
        const auto address = find_address(transport_set.directory().addresses(origin.seat), kDoorName);
        if (!address) continue;
        if (auto door = bootstrap::DoorAddress::parse(*address)) others.push_back(std::move(*door));
    }
    return introductions->invite(uses, lifetime_ns, others);
}

void Shrink::tell_of_newcomers() {
    const Introductions* const introductions = router_.transport_set()->introductions();
    if (introductions == nullptr || !introductions->admits(around_.id().token)) return;
    const auto ready = introductions->ready();
    std::erase_if(newcomers_, [&](const Introductions::Person& one) {
        const bool is_gone = std::ranges::find(ready, one.serial, &Introductions::Person::serial) == ready.end();
        if (is_gone) succession_->withdraw(one.number, one.incarnation);
        return is_gone;
    });
    for (const Introductions::Person& one : ready) {
        if (std::ranges::find(newcomers_, one.serial, &Introductions::Person::serial) != newcomers_.end()) continue;
        newcomers_.push_back(one);
        succession_->introduce(one.number, one.incarnation, place_of(one));
    }
}

// A process that was started again gets the rank of the one before, if that was in this group.
std::optional<Rank> Shrink::place_of(const Introductions::Person& person) const {
    for (const Rank rank : members_.failed_ranks())
        if (around_.lineage().of(rank).seat.value == person.number) return rank;
    return std::nullopt;
}

// Others have taken it in; null: there is none.
const Heritage::Heir* Shrink::unknown_newcomer(const Heritage& heritage) const {
    const Introductions* const introductions = router_.transport_set()->introductions();
    const auto unknown = std::ranges::find_if(heritage.heirs, [introductions](const Heritage::Heir& heir) {
        return !heir.before && (introductions == nullptr || !introductions->knows(heir.number, heir.incarnation));
    });
    return unknown == heritage.heirs.end() ? nullptr : &*unknown;
}

Birth Shrink::birth_of(const Heritage& heritage) const {
    const TransportSet& transport_set = *router_.transport_set();
    Birth birth{.id = id_after(around_.id(), heritage),
                .panel = heritage.panel.value_or(0),
                .most = heritage.most,
                .members = {}};
    const bool by_host = around_.settings().hierarchy == Hierarchy::host && around_.settings().allows_within_host();
    const auto host_of = [&transport_set](std::uint32_t number, std::uint32_t incarnation) {
        return transport_set.introductions()->host_of(number, incarnation);
    };
    Heirs heirs = heirs_of(members_, around_.lineage(), heritage.heirs, birth.id.epoch, by_host, host_of);
    birth.members = std::move(heirs.members);
    birth.switches = std::move(heirs.switches);
    return birth;
}

// The new group is the one that may take in more; those that it has taken in are told, and the launcher which it has left out.
void Shrink::announce(const Heritage& heritage, const Birth& birth) {
    Introductions* const introductions = router_.transport_set()->introductions();
    if (introductions == nullptr || !introductions->admits(around_.id().token)) return;
    introductions->admit_from(birth.id.token, birth.most);
    admit_no_more();
    std::vector<Introductions::Person> taken_in;
    for (const Heritage::Heir& heir : heritage.heirs)
        if (!heir.before) taken_in.push_back({.number = heir.number, .incarnation = heir.incarnation});
    std::vector<Introductions::Person> left_out;
    for (std::uint32_t rank = 0; rank < members_.ranks(); ++rank) {
        if (!heritage.excluded->contains(rank)) continue;
        const Origin& origin = around_.lineage().of(Rank(rank));
        left_out.push_back({.number = origin.seat.value, .incarnation = origin.incarnation});
    }
    if (!taken_in.empty() || !left_out.empty()) introductions->announce(taken_in, left_out, birth);
}

// Who waits does so for the new group: this one may go on, and be renewed again, without them.
void Shrink::admit_no_more() {
    for (const Introductions::Person& one : std::exchange(newcomers_, {}))
        succession_->withdraw(one.number, one.incarnation);
    if (std::exchange(newcomers_wait_, false)) agreement_.announce_change(succession_->is_leaving());
}

// All members refuse the change that has them: nobody takes them in.
void Shrink::turn_away(const Heritage& heritage, const std::string& why) {
    Introductions* const introductions = router_.transport_set()->introductions();
    if (introductions == nullptr) return;
    for (const Heritage::Heir& heir : heritage.heirs)
        if (!heir.before) introductions->turn_away(heir.number, heir.incarnation, why);
}

}  // namespace coppice::engine
