// A simulator that takes a shortcut where there is one, and runs the machines where there is none: with deaths on the way or notices,
// to write a conversation down, and in orders drawn by chance.
//
// It runs the machines, too, for one seed of kCompared, and each time the shortcut breaks Lemma 3, or leaves out others than promised. Where the outcomes differ that is a
// violation. So a campaign of many broadcasts is held against the machines as long as it lasts.
#pragma once

#include <functional>
#include <memory>

#include "simulation/checker.hpp"
#include "simulation/shortcut.hpp"
#include "simulation/simulator.hpp"

namespace coppice::simulation {

class ShortcutSimulator final : public Simulator {
  public:
    static constexpr std::uint64_t kCompared = 1024;

    // What the machines promise, and a simulator of them, which is made when it is first needed.
    using Promises = std::function<Promise(const Faults& faults)>;
    using Machines = std::function<std::unique_ptr<Simulator>()>;
    ShortcutSimulator(std::unique_ptr<Shortcut> shortcut, const LogP& model, std::uint32_t processes,
                      std::optional<Step> correction_start, Promises promises, Machines machines);

    tl::expected<Outcome, Violation> run(const Faults& faults, std::uint64_t seed) override;
    tl::expected<Outcome, Violation> run_shuffled(const Faults& faults, std::uint64_t seed) override;
    std::vector<Event> conversation(const Faults& faults, std::uint64_t seed, std::size_t most) override;

    std::uint32_t processes() const override { return processes_; }
    std::vector<std::string_view> kinds() const override { return machines().kinds(); }
    std::optional<Step> correction_start() const override { return correction_start_; }

  private:
    Simulator& machines() const;
    bool keeps(const Promise& promise, const Outcome& outcome) const;

    std::unique_ptr<Shortcut> shortcut_;
    LogP model_;
    std::uint32_t processes_;
    std::optional<Step> correction_start_;
    Promises promises_;
    Machines make_machines_;
    mutable std::unique_ptr<Simulator> machines_;
};

}  // namespace coppice::simulation
