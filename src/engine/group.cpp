#include "engine/group.hpp"

#include <fmt/format.h>

#include <array>

#include "engine/requests/tracing.hpp"

namespace coppice::engine {

std::vector<transport::Region> Group::host_regions(std::uint32_t ranks, const Settings& settings) {
    const auto [roots, roots_found] = Roots::host_regions();
    return {Agreements::host_region(ranks, settings.agreement_window),
            Revocation::host_region(),
            roots,
            roots_found,
            Shrink::host_region(settings),
            Shown::host_region(settings)};
}

Group::Group(Core::Parts parts, Plan plan, std::shared_ptr<bool> established)
    : core_(std::move(parts)),
      revocation_(core_),
      window_(core_),
      payloads_(core_, window_),
      broadcasts_(core_, window_, revocation_, payloads_, std::move(plan)),
      agreement_(core_),
      shrink_(core_, agreement_, *this, std::move(established)),
      pool_(static_cast<std::uint32_t>(core_.around().settings().requests())) {
    const auto add = [this](Collective& collective, Channel channel) { core_.add(collective, {&channel, 1}); };
    add(shrink_, Channel::succession);
    add(window_, Channel::window);
    constexpr std::array kOfPayloads{Channel::payload, Channel::reading};
    core_.add(payloads_, kOfPayloads);
    core_.add(broadcasts_, broadcasts_.channels());
    add(agreement_, Channel::agreement);
    add(revocation_, Channel::revocation);
    core_.open();
}

Group::~Group() {
    TransportSet& transport_set = *core_.around().router().transport_set();
    if (transport_set.users() == 0) transport_set.end();
    core_.close();
}

void Group::finish(Request& request) {
    request.collective->finish(request);
    trace_end(request);
    pool_.give_back(request);
}

TransportSet::Armed Group::arm(bool listens) {
    window_.before_sleep();
    const TransportSet::Armed armed = core_.around().router().transport_set()->arm();
    if ((listens || owes_summary()) && core_.local_peers().publishing()) core_.local_peers().board()->listen();
    return armed;
}

void Group::make(Core::Parts parts, Plan plan, std::shared_ptr<bool> established, std::span<const Rank> dead) {
    successor_ = std::make_unique<Group>(std::move(parts), std::move(plan), std::move(established));
    successor_->start_with_failed({}, dead);
    core_.around().context().attach(*successor_);
}

// The others have made it with this rank, which does not take part in it.
void Group::drop_successor() {
    if (!successor_) return;
    successor_->abandon();
    core_.around().context().retire(std::move(successor_));
}

void Group::retire() {
    drop_successor();
    core_.retire();
}

bool Group::may_go() const {
    return core_.around().router().transport_set()->users() == 0 || core_.quiet();
}

std::uint64_t Group::garbage() const {
    return core_.news().garbage() + counters().garbage;
}

std::uint64_t Group::refused() const {
    return core_.news().refused() + counters().refused;
}

std::uint32_t Group::connections() const {
    return static_cast<std::uint32_t>(counters().connections);
}

std::string Group::transports() const {
    std::string within, between;
    const auto add = [](std::string& to, const std::string& what) {
        if (to.find(what) != std::string::npos) return;
        if (!to.empty()) to.append(" and ");
        to.append(what);
    };
    for (std::uint32_t peer = 0; peer < core_.members().ranks(); ++peer) {
        const Link link = core_.around().router().to(Rank(peer));
        if (!link || !core_.around().router().is_wired(Rank(peer)) || Rank(peer) == core_.members().self()) continue;
        const bool same_host = link.within_host() || core_.members().node_of(Rank(peer)) == core_.members().own_node();
        add(same_host ? within : between, link.description());
    }
    if (within.empty() && between.empty()) return "none";
    if (within.empty()) return between;
    if (between.empty()) return within.append(" within hosts");
    if (within == between) return within;
    return fmt::format("{} within hosts, {} between them", within, between);
}

transport::Counters Group::counters() const {
    transport::Counters sum;
    for (const auto& wire : core_.around().router().wires())
        sum += wire->counters();
    return sum;
}

}  // namespace coppice::engine
