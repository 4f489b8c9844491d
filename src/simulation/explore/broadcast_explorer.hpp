// The explorer's view of Broadcast.
#pragma once

#include <optional>
#include <vector>

#include "protocol/broadcast.hpp"
#include "protocol/schedule.hpp"
#include "simulation/explore/state_explorer.hpp"

namespace coppice::simulation {

struct BroadcastScenario : Conditions {
    explicit BroadcastScenario(const protocol::BroadcastPlan& with) : plan(with) { processes = with.tree.processes(); }
    protocol::BroadcastPlan plan;
    bool must_color_all = false;  // in a final state every live member has the payload
    // In a final state exactly these live members have it not, as bits. They wait, and nothing is under way.
    std::optional<std::uint8_t> must_leave_out{};
};

// A machine as the engine drives it: by a schedule, where there is one.
class ScheduledBroadcast : public protocol::Broadcast {
  public:
    ScheduledBroadcast(const protocol::BroadcastPlan& plan, Position self, std::uint32_t root_member,
                       const protocol::FailedSet& failed, const protocol::Schedule* schedule)
        : Broadcast(plan, self, root_member, failed, self.value == 0), schedule_(schedule) {}

    std::optional<protocol::Message> next_send(Nanoseconds now) {
        return schedule_ != nullptr ? Broadcast::next_send(now, *schedule_) : Broadcast::next_send(now);
    }

  private:
    const protocol::Schedule* schedule_;
};

class BroadcastSubject {
  public:
    using Machine = ScheduledBroadcast;
    using Machines = std::array<const Machine*, kMaxExplored>;

    explicit BroadcastSubject(const BroadcastScenario& scenario);

    static std::uint64_t encode(const protocol::Message& message);
    static protocol::Message decode(std::uint64_t code);
    static std::string describe(const protocol::Message& message);
    static bool carries_set(const protocol::Message& message) {
        return message.kind == protocol::MessageKind::query || message.kind == protocol::MessageKind::denial;
    }
    // In delayed correction finished members still answer; in synchronized ones a late tree message makes a member take
    // part that a correction has colored.
    bool end_is_final() const {
        const protocol::CorrectionSpec& correction = scenario_.plan.correction;
        return correction.kind != protocol::CorrectionKind::delayed && !correction.synchronized;
    }
    static bool is_monotone() { return false; }
    void build(void* where, Position position, const FailedSet& failed) const;
    std::string check(const Machines& machines) const;
    std::string check_final(const Machines& machines, std::uint32_t retired, Exploration& result) const;

  private:
    const BroadcastScenario& scenario_;
    std::vector<protocol::Schedule> schedules_;  // by position; empty where there is none
};

std::string describe_broadcast(const protocol::Message& message);

}  // namespace coppice::simulation
