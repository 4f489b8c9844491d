// The agreements of one group, moved by hand: what golden conversations, unit tests and seeded random schedules share.
// It keeps a driver's duties (protocol/agreement/agreement.hpp) and checks the promises after every move.
//
// Each rank contributes 16 bytes under OR: a bit for itself, and one for the agreement. So what is decided shows whose
// contributions are in it, and that agreements are not mixed up. Up to 64 ranks and 64 agreements.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "protocol/agreement/agreement.hpp"
#include "protocol/published/published_agreement.hpp"
#include "simulation/explore/board_memory.hpp"

namespace coppice::simulation {

struct GroupMessage {
    protocol::AgreementKind kind = protocol::AgreementKind::up;
    std::uint32_t from = 0;
    std::uint32_t to = 0;
    std::uint64_t agreement = 0;
    std::vector<std::byte> body;
};

// "1 -> 0 up #0 (of 1,3; failed: 2)"
std::string describe(const GroupMessage& message, std::uint32_t ranks);

// By messages, or published on a board (AgreementGroup and PublishedGroup, below).
template <class Machine>
class GroupOf {
  public:
    static constexpr bool kPublishes = std::is_same_v<Machine, protocol::PublishedAgreement>;
    static constexpr std::uint32_t kMostRanks = 64;

    // `own_operation`: OR as a function of the caller's instead of the built-in one. The plan's max_value is at least
    // 16.
    // `domains`: where ranks publish in two levels; outlives this object.
    GroupOf(const protocol::AgreementPlan& plan, bool own_operation, const topology::Nodes* domains = nullptr);
    GroupOf(const GroupOf&) = delete;
    GroupOf& operator=(const GroupOf&) = delete;

    std::uint32_t ranks() const { return plan_.tree.ranks(); }
    Machine& machine(std::uint32_t rank) { return members_[rank]; }
    bool is_dead(std::uint32_t rank) const { return dead_.contains(rank); }
    const protocol::FailedSet& dead() const { return dead_; }
    const std::vector<GroupMessage>& under_way() const { return bag_; }

    // The rank's next agreement; false when its window is full.
    bool start(std::uint32_t rank);
    bool start_flush(std::uint32_t rank);
    // One message of this rank's goes under way; null when it has none.
    const GroupMessage* pull(std::uint32_t rank);
    // The message at `index` under way arrives, or vanishes if its receiver is dead. It is returned.
    GroupMessage deliver(std::size_t index);
    void crash(std::uint32_t rank);
    void notice(std::uint32_t rank, std::uint32_t dead);
    void acknowledge_all(std::uint32_t rank);

    // Where contributions are published: a look at the board, which says whether that changed anything; a death in the
    // middle of a contribution, if there is one to make, or of a look; and what the dead had stored shows after all, if
    // there is anything.
    bool look(std::uint32_t rank, bool thoroughly) requires kPublishes;
    void crash_contributing(std::uint32_t rank) requires kPublishes;
    void crash_looking(std::uint32_t rank) requires kPublishes;
    bool store_late(std::uint32_t rank) requires kPublishes;

    // Empty, or the first promise that was broken.
    const std::string& violation() const { return violation_; }
    // Nothing moves any more, and all deaths are known: everybody has to have decided what it started.
    void check_final();
    std::string describe_outcome(std::uint32_t rank, std::uint64_t agreement) const;

  private:
    struct Known {
        bool decided = false;
        std::uint64_t contributed = 0;
        protocol::FailedSet failed;
        bool acknowledged = false;
    };

    void check(std::uint32_t rank);
    void fail(std::string what);

    protocol::AgreementPlan plan_;
    bool own_operation_;
    std::optional<BoardMemory> board_;
    std::vector<std::unique_ptr<BoardView>> views_;
    std::vector<Machine> members_;
    std::vector<std::vector<Known>> known_;                       // of each rank, by agreement
    std::vector<std::vector<protocol::FailedSet>> acknowledged_;  // at the start of each
    std::vector<std::uint64_t> flushes_;                          // which agreement was a flush; none: UINT64_MAX
    std::vector<std::size_t> fresh_;                              // first agreement whose outcome is not known yet
    protocol::FailedSet dead_;
    std::vector<GroupMessage> bag_;
    std::string violation_;
};

using AgreementGroup = GroupOf<protocol::Agreement>;
using PublishedGroup = GroupOf<protocol::PublishedAgreement>;
extern template class GroupOf<protocol::Agreement>;
extern template class GroupOf<protocol::PublishedAgreement>;

}  // namespace coppice::simulation
