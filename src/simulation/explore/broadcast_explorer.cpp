#include "simulation/explore/broadcast_explorer.hpp"

namespace coppice::simulation {

using protocol::BroadcastResult;
using protocol::CorrectionKind;
using protocol::Message;
using protocol::MessageKind;

std::string describe_broadcast(const Message& message) {
    std::string text = describe_ends(message);
    if (message.detail != 0) text.append(" ").append(std::to_string(message.detail));
    return text;
}

std::string BroadcastSubject::describe(const Message& message) {
    return describe_broadcast(message);
}

std::uint64_t BroadcastSubject::encode(const Message& message) {
    return std::uint64_t{static_cast<std::uint8_t>(message.kind)} << 56 | std::uint64_t{message.from.value} << 48 |
           std::uint64_t{message.to.value} << 40 | message.detail;
}

Message BroadcastSubject::decode(std::uint64_t code) {
    return Message{static_cast<MessageKind>(code >> 56), Position{static_cast<std::uint32_t>(code >> 48 & 0xff)},
                   Position{static_cast<std::uint32_t>(code >> 40 & 0xff)}, static_cast<std::uint32_t>(code)};
}

BroadcastSubject::BroadcastSubject(const BroadcastScenario& scenario) : scenario_(scenario) {
    if (!protocol::Schedule::exists_for(scenario.plan)) return;
    schedules_.resize(scenario.processes);
    for (std::uint32_t position = 0; position < scenario.processes; ++position)
        (void)schedules_[position].make(scenario.plan, Position{position});
}

void BroadcastSubject::build(void* where, Position position, const FailedSet& failed) const {
    const bool has_one = !schedules_.empty() && schedules_[position.value].size() > 0;
    const protocol::Schedule* const schedule = has_one ? &schedules_[position.value] : nullptr;
    new (where) ScheduledBroadcast(scenario_.plan, position, scenario_.root_member, failed, schedule);
}

std::string BroadcastSubject::check(const Machines& machines) const {
    bool colored = false;
    bool told = false;
    for (const Machine* machine : machines) {
        if (machine == nullptr) continue;
        colored |= machine->colored();
        told |= machine->result() == BroadcastResult::root_failed;
    }
    const CorrectionKind kind = scenario_.plan.correction.kind;
    const bool verdict_is_uniform = kind != CorrectionKind::none && kind != CorrectionKind::acknowledged;
    return verdict_is_uniform && colored && told ? "a verdict, and a live member with the payload" : "";
}

std::string BroadcastSubject::check_final(const Machines& machines, std::uint32_t retired, Exploration& result) const {
    if (scenario_.must_leave_out && (retired & *scenario_.must_leave_out) != 0) {
        return "somebody is reached, and by the promise is left out";
    }
    bool told = false;
    bool all = true;
    for (std::uint32_t member = 0; member < scenario_.processes; ++member) {
        const Machine* machine = machines[member];
        if (machine == nullptr) continue;
        told |= machine->result() == BroadcastResult::root_failed;
        all &= machine->colored();
        if (scenario_.must_leave_out && machine->colored() == ((*scenario_.must_leave_out >> member & 1) != 0)) {
            return std::to_string(member) + (machine->colored() ? " is reached" : " is never reached") +
                   ", and by the promise it is otherwise";
        }
        if (!scenario_.detection) continue;
        if (machine->result() == BroadcastResult::pending) {
            return "nothing is under way and " + std::to_string(member) + " has no result";
        }
        if (!machine->finished()) return std::to_string(member) + " never finishes";
    }
    if (told) ++result.verdicts;
    if (all) ++result.all_colored;
    return scenario_.must_color_all && !all ? "a live member is never reached" : "";
}

}  // namespace coppice::simulation
