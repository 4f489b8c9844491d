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
#include <vector>

#include "protocol/agreement/agreement.hpp"

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

class AgreementGroup {
  public:
    static constexpr std::uint32_t kMostRanks = 64;

    // `own_operation`: OR as a function of the caller's instead of the built-in one. The plan's max_value is at least
    // 16.
    AgreementGroup(const protocol::AgreementPlan& plan, bool own_operation);
    AgreementGroup(const AgreementGroup&) = delete;
    AgreementGroup& operator=(const AgreementGroup&) = delete;

    std::uint32_t ranks() const { return plan_.tree.ranks(); }
    protocol::Agreement& machine(std::uint32_t rank) { return members_[rank]; }
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
    std::vector<protocol::Agreement> members_;
    std::vector<std::vector<Known>> known_;                       // of each rank, by agreement
    std::vector<std::vector<protocol::FailedSet>> acknowledged_;  // at the start of each
    std::vector<std::uint64_t> flushes_;                          // which agreement was a flush; none: UINT64_MAX
    std::vector<std::size_t> fresh_;                              // first agreement whose outcome is not known yet
    protocol::FailedSet dead_;
    std::vector<GroupMessage> bag_;
    std::string violation_;
};

}  // namespace coppice::simulation
