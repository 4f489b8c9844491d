// The machines of a group that is explored, as numbers: each state that a machine was ever in, once, and what it does
// upon each event, worked out once.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <variant>
#include <vector>

#include "protocol/agreement/agreement.hpp"
#include "protocol/published/published_agreement.hpp"
#include "simulation/explore/agreement_explorer.hpp"
#include "simulation/explore/explored_board.hpp"

namespace coppice::simulation {

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
    bool fenced = false;                                       // it knows that others take it for dead
    std::uint32_t page = 0;                                    // what it has published
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

// One part of a look at the board.
struct LocalLook {
    std::uint32_t after = 0;  // the state after it
    bool pauses = false;      // for want of a contribution; then it goes on some time
    std::uint32_t missing = 0;
    bool matters = false;  // it changes something if nobody else does anything meanwhile
};

class Locals {
  public:
    explicit Locals(const AgreementScenario& scenario);

    std::uint32_t initial(std::uint32_t rank);
    const LocalFacts& facts(std::uint32_t local) const { return locals_[local].facts; }
    const LocalMessage& message(std::uint32_t message) const { return messages_[message]; }

    // The state after the event; broken() may tell of a promise broken by it.
    std::uint32_t start(std::uint32_t local);
    // `dead`: as bits, at least one.
    std::uint32_t notice(std::uint32_t local, std::uint32_t dead);
    std::uint32_t receive(std::uint32_t local, std::uint32_t message);
    // A look at the board up to the first contribution that is missing, or all of it where none is. In `after_pause`
    // that of the rank `missing` is taken to be missing still.
    LocalLook look(std::uint32_t local, bool thoroughly, const BoardState& board);
    std::uint32_t look_after_pause(std::uint32_t local, bool thoroughly, std::uint32_t missing,
                                   const BoardState& board);
    // Told on the board that it is shut out, it sends its next message all the same.
    bool sends_when_shut_out(std::uint32_t local);
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
    using Machine = std::variant<protocol::Agreement, protocol::PublishedAgreement>;
    struct Local {
        Machine machine;
        LocalFacts facts;
    };
    struct Outcome {
        std::vector<std::byte> value;
        std::uint32_t failed = 0;
        bool acknowledged = false;
        bool mismatched = false;
        bool change_waits = false;
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

    // How long an outcome is kept: until so many agreements later this rank starts one.
    std::uint32_t kept() const { return scenario_.plan.window * (scenario_.published ? 2 : 3) + scenario_.published; }
    std::uint32_t total() const { return scenario_.agreements + (scenario_.flush ? 1 : 0); }
    std::uint32_t intern(Machine machine, LocalFacts facts);
    void look_at(const Machine& machine, LocalFacts& facts);
    void check_waiting(const protocol::Agreement& machine, const LocalFacts& facts);
    std::uint32_t look_as(std::uint32_t local, bool thoroughly, const ExploredBoard::Turn& turn);
    Hash128 look_key(std::uint32_t local, std::uint32_t how, const BoardState& board) const;
    std::uint32_t number_of(const protocol::AgreementMessage& message);
    std::uint16_t number_of(const protocol::AgreementOutcome& outcome);
    void check_outcome(const LocalFacts& facts, std::uint32_t agreement, const protocol::AgreementOutcome& outcome);
    void fail(const std::string& what);

    const AgreementScenario& scenario_;
    ExploredBoard board_;
    std::vector<Local> locals_;
    std::vector<LocalMessage> messages_;
    std::vector<Outcome> outcomes_;
    std::unordered_map<Hash128, std::uint32_t, Hasher> local_numbers_;
    std::unordered_map<Hash128, std::uint32_t, Hasher> message_numbers_;
    std::unordered_map<std::uint64_t, std::uint32_t> moves_;
    std::unordered_map<Hash128, LocalLook, Hasher> looks_;
    std::unordered_map<std::uint64_t, bool> stale_;
    std::string broken_;
    std::string scratch_;
};

}  // namespace coppice::simulation
