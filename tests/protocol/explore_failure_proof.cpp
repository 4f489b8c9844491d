#include "explore_failure_proof.hpp"

namespace coppice::protocol::testing {

std::string describe(const FailureProofMessage& message) {
    std::string text = describe_ends(message);
    if (message.detail != 0) text.append(" ").append(std::to_string(message.detail));
    for (std::uint32_t i = 0; i < message.known_count; ++i)
        text.append(i == 0 ? ", knows " : " ").append(std::to_string(message.known[i].value));
    return text;
}

std::uint64_t FailureProofSubject::encode(const FailureProofMessage& message) {
    std::uint64_t code = std::uint64_t{static_cast<std::uint8_t>(message.kind)} << 56 |
                         std::uint64_t{message.from.value} << 48 | std::uint64_t{message.to.value} << 40 |
                         std::uint64_t{message.known_count} << 28;
    if (message.known_count == 0) return code | message.detail;
    for (std::uint32_t i = 0; i < message.known_count; ++i)
        code |= std::uint64_t{message.known[i].value} << 4 * i;
    return code;
}

FailureProofMessage FailureProofSubject::decode(std::uint64_t code) {
    FailureProofMessage message;
    message.kind = static_cast<FailureProofKind>(code >> 56);
    message.from = Position{static_cast<std::uint32_t>(code >> 48 & 0xff)};
    message.to = Position{static_cast<std::uint32_t>(code >> 40 & 0xff)};
    message.known_count = static_cast<std::uint8_t>(code >> 28 & 0xf);
    if (message.known_count == 0) message.detail = static_cast<std::uint32_t>(code & 0xfffff);
    for (std::uint32_t i = 0; i < message.known_count; ++i)
        message.known[i] = Position{static_cast<std::uint32_t>(code >> 4 * i & 0xf)};
    return message;
}

void FailureProofSubject::build(void* where, Position position, const FailedSet& failed) const {
    new (where) FailureProofBroadcast(plan_, position, conditions_.root_member, failed, position.value == 0);
}

std::string FailureProofSubject::check(const Machines& machines) const {
    bool colored = false;
    bool told = false;
    for (const FailureProofBroadcast* machine : machines) {
        if (machine == nullptr) continue;
        colored |= machine->colored();
        told |= machine->result() == BroadcastResult::root_failed;
    }
    return colored && told ? "a verdict, and a live member with the payload" : "";
}

std::string FailureProofSubject::check_final(const Machines& machines, std::uint32_t retired,
                                             Exploration& result) const {
    bool all = true;
    bool none = retired == 0;
    bool told = false;
    for (std::uint32_t member = 0; member < conditions_.processes; ++member) {
        const FailureProofBroadcast* machine = machines[member];
        if (machine == nullptr) continue;
        (machine->colored() ? none : all) = false;
        told |= machine->result() == BroadcastResult::root_failed;
        if (machine->colored() && !machine->finished()) return std::to_string(member) + " is never through";
        if (!conditions_.detection) continue;
        if (machine->result() == BroadcastResult::pending) {
            return "nothing is under way and " + std::to_string(member) + " has no result";
        }
    }
    if (told) ++result.verdicts;
    if (all) ++result.all_colored;
    return all || none ? "" : "some members have the payload or were through, and a live one never gets it";
}

}  // namespace coppice::protocol::testing
