// The explorer of broadcasts, under the names by which tests speak of it.
#pragma once

#include "explorer.hpp"
#include "simulation/explore/broadcast_explorer.hpp"

namespace coppice::protocol::testing {

using Scenario = simulation::BroadcastScenario;
using simulation::BroadcastSubject;

class Explorer {
  public:
    explicit Explorer(const Scenario& scenario) : scenario_(scenario) {}
    Exploration run() {
        BroadcastSubject subject(scenario_);
        return StateExplorer<BroadcastSubject>(subject, scenario_).run();
    }

  private:
    Scenario scenario_;
};

inline std::string describe(const Message& message) {
    return simulation::describe_broadcast(message);
}

}  // namespace coppice::protocol::testing
