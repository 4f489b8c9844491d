// Figure 5 of IPDPS'17: how long to gossip before checked correction.
#include "reproduce/gossip_time.hpp"

namespace coppice::sim {

using protocol::GossipKind;

Study gossip_fig5(Scale scale, std::uint64_t seed) {
    const TimeFigure figure{"gossip-fig5",
                            "Checked corrected gossip: gossip time and largest time to complete",
                            "IPDPS'17, Figure 5",
                            GossipKind::checked,
                            "CCG, largest quiescence latency",
                            Metric::quiescence,
                            18,
                            34,
                            "T + 2L + (2 + 2K)O, Equation 4"};
    Study e = over_gossip_time(figure, scale, seed);
    e.claims = best_time_claims(figure, 25);
    e.claims.push_back(
        difference_claim(figure, "A maximal difference of only two time-steps in all the experiments.", 2));
    e.remarks = std::string("Quiescence counts the last message until its reception ends. ") + kPorts;
    return e;
}

}  // namespace coppice::sim
