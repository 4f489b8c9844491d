// The explorer's view of FailureProofBroadcast.
#pragma once

#include "explorer.hpp"
#include "protocol/failure_proof_broadcast.hpp"

namespace coppice::protocol::testing {

std::string describe(const FailureProofMessage& message);

class FailureProofSubject {
  public:
    using Machine = FailureProofBroadcast;
    using Machines = std::array<const FailureProofBroadcast*, kMaxExplored>;

    FailureProofSubject(const FailureProofPlan& plan, const Conditions& conditions)
        : plan_(plan), conditions_(conditions) {}

    static std::uint64_t encode(const FailureProofMessage& message);
    static FailureProofMessage decode(std::uint64_t code);
    static std::string describe(const FailureProofMessage& message) { return testing::describe(message); }
    static bool carries_set(const FailureProofMessage& message) {
        return message.kind == FailureProofKind::query || message.kind == FailureProofKind::denial;
    }
    static bool end_is_final() { return true; }
    static bool is_monotone() { return true; }
    void build(void* where, Position position, const FailedSet& failed) const;
    // A verdict only where nobody live has the payload.
    std::string check(const Machines& machines) const;
    // None or all of the live members are colored, and every colored one is through.
    std::string check_final(const Machines& machines, std::uint32_t retired, Exploration& result) const;

  private:
    FailureProofPlan plan_;
    Conditions conditions_;
};

}  // namespace coppice::protocol::testing
