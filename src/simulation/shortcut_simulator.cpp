#include "simulation/shortcut_simulator.hpp"

namespace coppice::simulation {

ShortcutSimulator::ShortcutSimulator(std::unique_ptr<Shortcut> shortcut, const LogP& model, std::uint32_t processes,
                                     std::optional<Step> correction_start, Promises promises, Machines machines)
    : shortcut_(std::move(shortcut)),
      model_(model),
      processes_(processes),
      correction_start_(correction_start),
      promises_(std::move(promises)),
      make_machines_(std::move(machines)) {}

tl::expected<Outcome, Violation> ShortcutSimulator::run(const Faults& faults, std::uint64_t seed) {
    if (!faults.dying.empty() || faults.notice_after || root_dies(faults)) return machines().run(faults, seed);
    const Outcome* outcome = shortcut_->run(faults.dead, seed);
    if (outcome == nullptr) return machines().run(faults, seed);
    if (keeps(promises_(faults), *outcome) && seed % kCompared != 0) return *outcome;

    auto by_machines = machines().run(faults, seed);
    if (!by_machines || *by_machines == *outcome) return by_machines;
    return tl::unexpected(Violation{"the shortcut's outcome is not that of the machines", outcome->quiescence_latency,
                                    seed, faults, machines().conversation(faults, seed, kConversation)});
}

// Gossip promises nothing of whom it leaves out, and with a tree the dead alone decide which members it reaches.
bool ShortcutSimulator::keeps(const Promise& promise, const Outcome& outcome) const {
    const auto nobody = [](Position) { return false; };
    if (!outcome.unreached.empty() && promise.leaves_out) return promise.leaves_out(nobody) == outcome.unreached;
    if (!outcome.unreached.empty())
        return !promise.all_or_none && !(promise.covers && outcome.gaps.largest <= *promise.covers);
    if (!promise.lemma3_start || !is_ring_large_enough(model_, processes_, outcome.gaps.largest)) return true;
    const Bounds bounds = checked_latency_bounds(model_, outcome.gaps.largest);
    const Step lasted = outcome.quiescence_latency - *promise.lemma3_start;
    return lasted >= bounds.least && lasted <= bounds.most;
}

tl::expected<Outcome, Violation> ShortcutSimulator::run_shuffled(const Faults& faults, std::uint64_t seed) {
    return machines().run_shuffled(faults, seed);
}

std::vector<Event> ShortcutSimulator::conversation(const Faults& faults, std::uint64_t seed, std::size_t most) {
    return machines().conversation(faults, seed, most);
}

Simulator& ShortcutSimulator::machines() const {
    if (!machines_) machines_ = make_machines_();
    return *machines_;
}

}  // namespace coppice::simulation
