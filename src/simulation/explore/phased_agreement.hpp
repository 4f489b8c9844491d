// Two older agreements, for comparison in the simulator and in bench, as far as Herault et al. (SC'15, §6) describe
// them.
//
//  - Two phases (Hursey et al., "Log2phases"): contributions are gathered over a tree at one root, known to all, which
//    tells everybody.
//  - Three phases (Buntinas): a ballot number is chosen, a value is proposed, and it is committed. Each phase goes down
//    a tree and, the last one excepted, back up with an answer; a rank that is committed returns.
//
// How they go on after a death is told in one sentence there: the algorithm "tries to re-elect a root to reconcile the
// situation". Here that is:
//
//  - Agreements run in attempts. An attempt has a coordinator, the lowest rank that its coordinator knows not to be
//    dead, a number, and a tree over all ranks that its coordinator does not know to be dead, which is the root. Each
//    message names its attempt.
//  - A coordinator that learns of a death opens an attempt with a new tree. So does the rank that learns that all lower
//    ones are dead. All other ranks only note deaths: they wait for the coordinator.
//  - The call to an attempt goes down its tree, and says with which agreement it begins and what the one before decided.
//    It asks at the same time whether anybody has decided: who has votes with the decision, which is then taken over.
//  - A rank takes part in the highest attempt of which it has heard, the coordinator's rank first, and hears nothing
//    from lower ones. The first attempt, and each agreement after the first in an attempt, need no call.
//
// Promised, if nobody is taken for dead who lives, whenever each rank is told, and in whatever order messages arrive
// (with three phases, those from one rank to another in the order in which they were sent): all live ranks decide
// alike; what they decide is the OR of contributions, those of all live ranks among them; and all decide once each live
// rank has been told of each death. Not promised: that a rank that dies after it has decided had the same decision (the
// agreement is not uniform, nor is ERA); and progress before the coordinator has been told: until then everybody waits.
// Ranks have to answer calls after they have returned. Told of many deaths one after the other, the coordinator opens
// an attempt for each.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "protocol/agreement/agreement.hpp"

namespace coppice::simulation {

class PhasedAgreement {
  public:
    // Later attempts are greater: a rank becomes the coordinator when all lower ones are dead.
    struct AttemptId {
        std::uint32_t coordinator = 0;
        std::uint32_t number = 0;  // of the coordinator's attempts
        auto operator<=>(const AttemptId&) const = default;
    };
    struct Attempt {
        AttemptId id;
        protocol::AgreementTree tree;  // over all whom the coordinator does not know to be dead; it is the root
    };
    struct Message {
        std::uint32_t to = 0;
        std::uint32_t agreement = 0;
        AttemptId attempt{};
        std::uint8_t step = 0;  // which of the walks over the tree
        bool down = false;
        bool decided = false;  // `value` is a decision
        std::uint64_t value = 0;
        // A call to this attempt, which begins with `agreement`; `value` is the decision of the one before.
        std::shared_ptr<const Attempt> call{};

        void append_state(std::vector<std::uint32_t>& words) const;
    };

    // The attempt with which all begin that know of these dead.
    static std::shared_ptr<const Attempt> first_attempt(const protocol::AgreementPlan& plan,
                                                        const protocol::FailedSet& known);
    // Two or three phases. Contributions are combined by OR. The plan has to outlive this, and gives the trees.
    PhasedAgreement(const protocol::AgreementPlan& plan, std::shared_ptr<const Attempt> first, std::uint32_t self,
                    std::uint32_t phases);

    // This rank's part in its next agreement: call when decided_count() has grown.
    void start(std::uint64_t value);
    void receive(const Message& message);
    // These, and perhaps ones that were known, have died.
    void peers_failed(const protocol::FailedSet& failed);
    std::optional<Message> next_send();
    bool wants_to_send() const { return sent_ < outbox_.size(); }
    std::uint32_t decided_count() const { return agreement_; }
    std::uint64_t last_value() const { return last_value_; }

    // Equal words, equal states.
    void append_state(std::vector<std::uint32_t>& words) const;

  private:
    // What a rank and those below it say: contributions, or a decision that one of them knows.
    struct Vote {
        std::uint64_t value = 0;
        bool decided = false;
        void take_in(const Vote& other);
    };

    bool goes_down(std::uint8_t step) const { return steps_ == 2 ? step == 1 : step % 2 == 0; }
    bool is_last(std::uint8_t step) const { return step + 1 == steps_; }
    bool is_root() const { return parent_ == protocol::AgreementTree::kNobody; }
    bool has_vote() const { return voted_ < agreement_ || contributed_; }
    Vote own_vote() const;
    void join_tree();
    void join(std::shared_ptr<const Attempt> attempt, std::uint32_t agreement);
    void open();
    void walk(std::uint8_t step);
    void take_in_from_above(const Message& message);
    void advance();
    bool lead();
    bool gather();
    void finish(std::uint64_t decision);
    void decide(std::uint64_t decision);
    void send_down(std::uint8_t step, const Vote& vote);
    void send(std::uint32_t to, std::uint8_t step, bool down, const Vote& vote);

    const protocol::AgreementPlan* plan_;
    std::shared_ptr<const Attempt> attempt_;
    protocol::FailedSet failed_;
    std::uint32_t self_;
    std::uint8_t steps_;
    std::uint8_t step_ = 0;  // the walk that this rank has to take part in next
    bool contributed_ = false;
    std::uint32_t parent_ = 0;
    std::uint32_t children_ = 0;
    std::uint32_t answers_ = 0;    // of children, in this walk
    std::uint32_t agreement_ = 0;  // all below have been returned from
    std::uint32_t voted_ = 0;      // the one that the attempt is at: agreement_, or the one before
    std::uint64_t own_ = 0;
    Vote gathered_;               // from children, in this walk
    std::uint64_t proposal_ = 0;  // what came down, or is to go down
    std::uint64_t last_value_ = 0;
    std::vector<Message> outbox_;
    std::size_t sent_ = 0;
};

}  // namespace coppice::simulation
