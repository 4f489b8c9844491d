// Makes a Simulator of a family of machines. A family is a small struct, shared by threads, that says
//
//   using Machine = …;                                                  // protocol/machine.hpp
//   std::uint32_t processes() const;
//   Machine make(Position, const protocol::FailedSet&, std::uint64_t seed) const;
//   Promise promise(const Faults&) const;                               // checker.hpp
//   std::optional<Step> correction_start() const;
//   Gaps gaps(const Run&) const;                                        // only where its ring is not that of positions
#pragma once

#include <utility>

#include "simulation/checker.hpp"
#include "simulation/conversation.hpp"
#include "simulation/shuffle.hpp"
#include "simulation/simulation.hpp"
#include "simulation/simulator.hpp"

namespace coppice::simulation {

template <class Family, class Wire = EvenWire>
class FamilySimulator final : public Simulator {
    using M = typename Family::Machine;
    using Kind = decltype(M::Message::kind);

  public:
    FamilySimulator(Family family, const LogP& model, const RunOptions& options, const Wire& wire = Wire{})
        : family_(std::move(family)),
          model_(model),
          options_(options),
          wire_(wire),
          simulation_(model, family_.processes(), wire) {
        simulation_.give_up_at(options.give_up_at);
    }

    tl::expected<Outcome, Violation> run(const Faults& faults, std::uint64_t seed) override {
        expect(checker_, faults);
        const Outcome& outcome = simulation_.run(faults, maker(seed), checker_);
        const std::string what = complaint(checker_, simulation_.ended());
        if (what.empty()) return with_gaps(outcome);
        return tl::unexpected(
            Violation{what, checker_.violated_at(), seed, faults, conversation(faults, seed, kConversation)});
    }

    tl::expected<Outcome, Violation> run_shuffled(const Faults& faults, std::uint64_t seed) override {
        Checker checker;
        Promise promise = family_.promise(faults);
        promise.lemma3_start = std::nullopt;
        if (options_.check) {
            checker.expect(model_, family_.processes(), promise);
        } else {
            checker.expect_nothing();
        }
        Conversation<Checker> conversation(checker, kConversation);
        Shuffle<M, Conversation<Checker>> shuffle(family_.processes(), seed);
        const Outcome& outcome = shuffle.run(faults, maker(seed), conversation);
        std::string what = checker.violation();
        if (what.empty() && !shuffle.ended() && options_.check) what = "liveness: messages go on and on";
        if (what.empty()) return outcome;
        return tl::unexpected(Violation{
            what, checker.violated_at(), seed, faults, {conversation.events().begin(), conversation.events().end()}});
    }

    std::vector<Event> conversation(const Faults& faults, std::uint64_t seed, std::size_t most) override {
        Checker checker;
        expect(checker, faults);
        Conversation<Checker> conversation(checker, most);
        Simulation<M, Conversation<Checker>, Wire> simulation(model_, family_.processes(), wire_);
        simulation.give_up_at(options_.give_up_at);
        simulation.run(faults, maker(seed), conversation);
        return {conversation.events().begin(), conversation.events().end()};
    }

    std::uint32_t processes() const override { return family_.processes(); }
    std::optional<Step> correction_start() const override { return family_.correction_start(); }

    std::vector<std::string_view> kinds() const override {
        std::vector<std::string_view> names;
        for (std::size_t kind = 0; kind < kMaxKinds; ++kind) {
            const std::string_view name = to_string(static_cast<Kind>(kind));
            if (name == "unknown") break;
            names.push_back(name);
        }
        return names;
    }

  private:
    auto maker(std::uint64_t seed) const {
        return [this, seed](Position position, const protocol::FailedSet& failed) {
            return family_.make(position, failed, seed);
        };
    }
    void expect(Checker& checker, const Faults& faults) const {
        if (options_.check) {
            checker.expect(model_, family_.processes(), family_.promise(faults));
        } else {
            checker.expect_nothing();
        }
    }
    Outcome with_gaps(const Outcome& outcome) const {
        Outcome result = outcome;
        if constexpr (requires { family_.gaps(simulation_); }) result.gaps = family_.gaps(simulation_);
        return result;
    }
    std::string complaint(const Checker& checker, bool ended) const {
        if (!checker.violation().empty()) return checker.violation();
        return ended || !options_.check ? std::string()
                                        : "the run is not over at step " + std::to_string(options_.give_up_at);
    }

    Family family_;
    LogP model_;
    RunOptions options_;
    [[no_unique_address]] Wire wire_;
    Checker checker_;
    Simulation<M, Checker, Wire> simulation_;
};

}  // namespace coppice::simulation
