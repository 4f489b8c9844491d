#include "reproduce/catalogue.hpp"

#include <array>
#include <stdexcept>

namespace coppice::sim {
namespace {

struct Named {
    const char* name;
    Study (*make)(Scale scale, std::uint64_t first_seed);
};

constexpr std::array kStudies{
    Named{"fig1b", fig1b},
    Named{"fig6", fig6},
    Named{"fig7", fig7},
    Named{"fig14", fig14},
    Named{"fig8", fig8},
    Named{"fig9", fig9},
    Named{"incomplete", incomplete},
    Named{"fig10", fig10},
    Named{"table1", table1},
    Named{"gossip-fig1", gossip_fig1},
    Named{"gossip-fig3", gossip_fig3},
    Named{"gossip-fig5", gossip_fig5},
    Named{"gossip-fig9", gossip_fig9},
    Named{"gossip-table", gossip_table},
    Named{"gossip-scaling", gossip_scaling},
    Named{"era-2a", era_2a},
    Named{"era-2b", era_2b},
    Named{"era-2c", era_2c},
    Named{"era-2d", era_2d},
    Named{"era-3", era_3},
    Named{"era-4", era_4},
    Named{"membership-fig4", membership_fig4},
    Named{"membership-fig5", membership_fig5},
    Named{"membership-fig6", membership_fig6},
    Named{"membership-fig7", membership_fig7},
    Named{"membership-fig8", membership_fig8},
};

}  // namespace

protocol::GossipSpec gossip_by_equations(protocol::GossipKind kind, std::uint32_t ranks, const simulation::LogP& model,
                                         double delta, std::uint32_t failures) {
    const protocol::GossipModel gossip{ranks, ranks, model.latency, model.overhead};
    const auto time = protocol::choose_gossip_time(kind, gossip, delta, failures);
    if (!time) throw std::logic_error(time.error());
    protocol::GossipSpec spec{.kind = kind, .failures = failures};
    spec.limit = time->time;
    if (kind == protocol::GossipKind::opportunistic) spec.corrections = time->length;
    return spec;
}

const std::vector<std::string>& known_experiments() {
    static const std::vector<std::string> names = [] {
        std::vector<std::string> all;
        for (const Named& study : kStudies)
            all.emplace_back(study.name);
        return all;
    }();
    return names;
}

Study make_study(const std::string& name, Scale scale, std::uint64_t first_seed) {
    for (const Named& study : kStudies) {
        if (study.name == name) return study.make(scale, first_seed);
    }
    throw std::logic_error("no experiment " + name);
}

}  // namespace coppice::sim
