// Figure 3 of IPDPS'17: how long to gossip before opportunistic correction.
#include "reproduce/gossip_time.hpp"

namespace coppice::sim {

using protocol::GossipKind;

Study gossip_fig3(Scale scale, std::uint64_t seed) {
    const TimeFigure figure{"gossip-fig3",
                            "Opportunistic corrected gossip: gossip time and largest time to reach all",
                            "IPDPS'17, Figure 3",
                            GossipKind::opportunistic,
                            "OCG, largest coloring latency",
                            Metric::coloring,
                            18,
                            32,
                            "T + 2L + (2 + K)O, Equation 3"};
    Study e = over_gossip_time(figure, scale, seed);
    e.claims = best_time_claims(figure, 24);
    e.claims.push_back(
        difference_claim(figure, "A maximal difference of only one time-step in all the experiments.", 1));
    e.remarks = "Corrections go on a little longer than foreseen, so that a longer gap shows as a later coloring.";
    return e;
}

}  // namespace coppice::sim
