// What a group shows on a status page (status/page.hpp).
#include <algorithm>

#include "engine/group.hpp"

namespace coppice::engine {

void Group::show_facts(status::Group& to) const {
    const Members& members = core_.members();
    to.token = core_.around().id().token;
    to.epoch = core_.around().id().epoch.value;
    to.rank = members.self().value;
    to.size = members.ranks();
    to.hosts = members.nodes();
    to.host = members.own_node().value;
    to.window = window_.size();
    to.leaves = leaves();
    status::set_text(to.transports, transports());
}

void Group::show(status::Group& to) const {
    const Members& members = core_.members();
    to.leader = members.leader(members.own_node()).value_or(members.self()).value;
    to.standing = core_.life().fenced()       ? status::Standing::fenced
                  : shrink_.has_lost_quorum() ? status::Standing::without_quorum
                  : core_.life().revoked()    ? status::Standing::revoked
                                              : status::Standing::member;
    const auto failed = members.failed_ranks();
    to.failed = static_cast<std::uint32_t>(failed.size());
    const std::size_t shown = std::min(failed.size(), to.failed_ranks.size());
    for (std::size_t i = 0; i < shown; ++i)
        to.failed_ranks[i] = failed[i].value;
    to.consumed = window_.consumed().value;
    to.stable = window_.stable();
    const transport::Counters now = counters();
    const Payloads::Counts& payloads = payloads_.counts();
    to.counters = {.sends = now.sends,
                   .writes = now.writes,
                   .received = now.received,
                   .garbage = core_.news().garbage() + now.garbage,
                   .refused = core_.news().refused() + now.refused,
                   .connections = now.connections,
                   .chunks = payloads.taken,
                   .chunks_damaged = payloads.damaged,
                   .unregistered = payloads.unregistered};
}

void Group::show_request(const Request& request, status::Operation& to) const {
    to.kind = request.collective->kind();
    to.begun = 1;
    to.number = request.sequence.value;
    to.root = request.root.value;
    request.collective->show_waits(request, to.waits);
}

void Group::show_unbegun(status::Operation& to) const {
    switch (to.kind) {
        case status::Kind::broadcast:
            to.number = window_.next().value;
            return window_.show_holder(to.waits);
        case status::Kind::agreement:
        case status::Kind::barrier:
            to.number = agreement_.entered();
            return agreement_.show_holders(to.waits);
        case status::Kind::leaving:
            to.begun = 1;
            return core_.leaving().show(to.waits);
        case status::Kind::renewal:
        case status::Kind::creation:
        case status::Kind::none:
            return;
    }
}

void Group::count_entered_in(status::Entered* entered) {
    window_.show_entered_in(entered != nullptr ? &entered->broadcasts : nullptr);
    agreement_.show_entered_in(entered != nullptr ? &entered->agreements : nullptr);
}

}  // namespace coppice::engine
