#include "engine/formation/transports.hpp"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "transport/registry.hpp"

namespace coppice::engine {
namespace {

bool is_listed(std::string_view list, std::string_view name) {
    for (;;) {
        const std::size_t comma = list.find(',');
        if (list.substr(0, comma) == name) return true;
        if (comma == std::string_view::npos) return false;
        list.remove_prefix(comma + 1);
    }
}

class Making {
  public:
    Making(TransportSet& set, const Settings& settings, const Meeting& meeting, const Reach& reach,
           std::span<const transport::Region> regions)
        : set_(set), settings_(settings), meeting_(meeting), reach_(reach), regions_(regions) {}

    Result<MadeTransports> run() {
        const bool needs_wire =
            may_have_far_ranks() || (!settings_.allows_within_host() && (!reach_.is_alone || may_join()));
        auto their_addresses = meeting_.their_addresses;
        // Later ones come from the hosts on which ranks begin, this one among them.
        if (may_join()) their_addresses.push_back(meeting_.own_addresses);
        const transport::GroupFacts facts{.self = Seat(meeting_.self.value),
                                          .group_size = reach_.capacity,
                                          .group_token = meeting_.token,
                                          .secret = meeting_.secret,
                                          .window = settings_.window,
                                          .host = settings_.host,
                                          .local_ranks = may_join() ? reach_.capacity : reach_.local_ranks,
                                          .has_far_ranks = may_have_far_ranks(),
                                          .admitted = transport::Admission::of(meeting_.own_addresses, their_addresses),
                                          .regions = regions_};
        for (const TransportChoice& choice : settings_.transports) {
            const bool of_use = choice.transport->within_host ? reach_.has_local_peers || may_join() : needs_wire;
            if (!of_use || !wants(choice)) continue;
            auto made = choice.maker->make(facts);
            if (!made) {
                if (made.error().status == COPPICE_ERR_NO_TRANSPORT && can_do_without(settings_, choice)) continue;
                return tl::unexpected(std::move(made.error()));
            }
            if (made->host_memory != nullptr) made_.host_memory = made->host_memory;
            if (auto added = add(std::move(made->transport)); !added) return tl::unexpected(std::move(added.error()));
        }
        return std::move(made_);
    }

    Result<MadeTransports> take_those_of(Platform& platform) {
        const bool near = settings_.allows_within_host();
        Platform::Wires wires = platform.make_transports(
            {.self = Seat(meeting_.self.value),
             .ranks = reach_.capacity,
             .window = settings_.window,
             .has_local_peers = near && (reach_.has_local_peers || may_join()),
             .has_far_peers = may_have_far_ranks() || (!near && (!reach_.is_alone || may_join())),
             .regions = regions_});
        made_.host_memory = wires.host_memory;
        for (auto* wire : {&wires.near, &wires.far}) {
            if (*wire == nullptr) continue;
            if (auto added = add(std::move(*wire)); !added) return tl::unexpected(std::move(added.error()));
        }
        return std::move(made_);
    }

  private:
    bool may_join() const { return settings_.join != Join::none; }
    bool may_have_far_ranks() const { return reach_.has_far_peers || settings_.join == Join::any; }

    // Where the hardware decides, a rank makes what it needs for any of the others: the first one that is meant for both hosts.
    bool wants(const TransportChoice& choice) const {
        const transport::Registration& one = *choice.transport;
        if (!choice.allowed) return false;
        if (!settings_.chosen_by_hardware || one.within_host) return true;
        if (settings_.join == Join::any && is_listed(meeting_.own_defaults, one.name)) return true;
        return std::ranges::any_of(meeting_.far_defaults, [&](const std::string& theirs) {
            const auto first = std::ranges::find_if(settings_.transports, [&](const TransportChoice& other) {
                return is_listed(meeting_.own_defaults, other.transport->name) &&
                       is_listed(theirs, other.transport->name);
            });
            return first != settings_.transports.end() && first->transport == &one;
        });
    }

    Result<void> add(std::unique_ptr<transport::Transport> wire) {
        if (!settings_.faults.empty()) {
            auto plan = transport::parse_faults(settings_.faults, Seat(meeting_.self.value));
            if (!plan) return tl::unexpected(std::move(plan.error()));
            if (!made_.fault_count) made_.fault_count = std::make_shared<transport::MessageCount>(*plan);
            wire = std::make_unique<transport::FaultyTransport>(std::move(wire), *plan, made_.fault_count);
        }
        set_.add(std::move(wire));
        return {};
    }

    TransportSet& set_;
    const Settings& settings_;
    const Meeting& meeting_;
    const Reach& reach_;
    std::span<const transport::Region> regions_;
    MadeTransports made_;
};

}  // namespace

bool can_do_without(const Settings& settings, const TransportChoice& choice) {
    if (settings.chosen_by_hardware) return false;
    return std::ranges::any_of(settings.transports, [&](const TransportChoice& other) {
        return other.allowed && !other.transport->within_host && other.transport != choice.transport;
    });
}

Result<MadeTransports> make_transports(TransportSet& set, const Settings& settings, const Meeting& meeting,
                                       const Reach& reach, std::span<const transport::Region> regions,
                                       Platform* platform) {
    Making making(set, settings, meeting, reach, regions);
    return platform != nullptr ? making.take_those_of(*platform) : making.run();
}

}  // namespace coppice::engine
