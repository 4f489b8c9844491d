// The machines of a group that is explored, as numbers: each state that a machine was ever in, once, and what it does
// upon each event, worked out once.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "protocol/agreement/agreement.hpp"
#include "simulation/explore/agreement_explorer.hpp"

namespace coppice::simulation {

inline constexpr std::uint32_t kMostAgreements = 4;
inline constexpr std::uint32_t kNoMessage = UINT32_MAX;

// What the explorer looks at in a machine's state, without the machine.
struct LocalFacts {
    std::uint32_t rank = 0;
    std::uint32_t known_dead = 0;  // as bits
    std::uint8_t started = 0;
    std::uint8_t decided_below = 0;
    std::uint8_t settled_below = 0;
    bool can_start = false;
    bool has_left = false;                                     // flushed, and nothing to send
    std::optional<std::uint32_t> next;                         // the message that the next pull gives
    std::uint32_t after_pull = 0;                              // and the state after it
    std::array<std::uint16_t, kMostAgreements> outcome{};      // numbered; 0 is undecided
    std::array<std::uint8_t, kMostAgreements> acknowledged{};  // what had been acknowledged at its start, as bits
};

struct LocalMessage {
    protocol::AgreementKind kind = protocol::AgreementKind::up;
    std::uint32_t from = 0;
    std::uint32_t to = 0;
    std::uint64_t agreement = 0;
    std::vector<std::byte> body;
};

class Locals {
  public:
    explicit Locals(const AgreementScenario& scenario);

    std::uint32_t initial(std::uint32_t rank);
    const LocalFacts& facts(std::uint32_t local) const { return locals_[local].facts; }
    const LocalMessage& message(std::uint32_t message) const { return messages_[message]; }

    // The state after the event; broken() may tell of a promise broken by it.
    std::uint32_t start(std::uint32_t local);
    std::uint32_t notice(std::uint32_t local, std::uint32_t dead);
    std::uint32_t receive(std::uint32_t local, std::uint32_t message);
    // It has nothing to do for this machine, now or later.
    bool is_stale(std::uint32_t local, std::uint32_t message);

    const std::string& broken() const { return broken_; }
    // The ranks that the agreed failed set of an outcome names, as bits.
    std::uint32_t failed_of(std::uint16_t outcome) const { return outcomes_[outcome - 1U].failed; }
    bool is_acknowledged(std::uint16_t outcome) const { return outcomes_[outcome - 1U].acknowledged; }

    std::size_t count() const { return locals_.size(); }
    std::size_t message_count() const { return messages_.size(); }
    std::string describe(std::uint32_t message) const;
    std::string describe_outcome(std::uint16_t outcome) const;

  private:
    struct Local {
        protocol::Agreement machine;
        LocalFacts facts;
    };
    struct Outcome {
        std::vector<std::byte> value;
        std::uint32_t failed = 0;
        bool acknowledged = false;
        bool mismatched = false;
        bool operator==(const Outcome&) const = default;
    };
    struct Hash128 {
        std::uint64_t a;
        std::uint64_t b;
        bool operator==(const Hash128&) const = default;
    };
    struct Hasher {
        std::size_t operator()(const Hash128& hash) const { return hash.a; }
    };

    std::uint32_t total() const { return scenario_.agreements + (scenario_.flush ? 1 : 0); }
    std::uint32_t intern(protocol::Agreement machine, LocalFacts facts);
    void look_at(const protocol::Agreement& machine, LocalFacts& facts);
    void check_waiting(const protocol::Agreement& machine, const LocalFacts& facts);
    std::uint32_t number_of(const protocol::AgreementMessage& message);
    std::uint16_t number_of(const protocol::AgreementOutcome& outcome);
    void check_outcome(const LocalFacts& facts, std::uint32_t agreement, const protocol::AgreementOutcome& outcome);
    void fail(const std::string& what);

    const AgreementScenario& scenario_;
    std::vector<Local> locals_;
    std::vector<LocalMessage> messages_;
    std::vector<Outcome> outcomes_;
    std::unordered_map<Hash128, std::uint32_t, Hasher> local_numbers_;
    std::unordered_map<Hash128, std::uint32_t, Hasher> message_numbers_;
    std::unordered_map<std::uint64_t, std::uint32_t> moves_;
    std::unordered_map<std::uint64_t, bool> stale_;
    std::string broken_;
    std::string scratch_;
};

}  // namespace coppice::simulation
