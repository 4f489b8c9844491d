// Two older agreements, for comparison in the simulator and in bench, as far as Herault et al. (SC'15, §6) describe
// them.
//
//  - Two phases (Hursey et al., "Log2phases"): contributions are gathered over a tree at one root, known to all, which
//    tells everybody.
//  - Three phases (Buntinas): a ballot number is chosen, a value is proposed, and it is committed. Each phase goes down
//    a tree and, the last one excepted, back up with an answer; a rank that is committed returns.
//
// When a rank dies before the end, both start again over the ranks that are left, on a fresh tree: a round is named by
// the number of known failures. A rank that has returned answers a later round with its decision, which that round then
// takes over. Correct as long as all ranks are told of a death at one time, as this simulator does; no more is claimed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "protocol/agreement/agreement_tree.hpp"

namespace coppice::simulation {

class PhasedAgreement {
  public:
    struct Message {
        std::uint32_t to = 0;
        std::uint32_t agreement = 0;
        std::uint32_t round = 0;
        std::uint8_t step = 0;  // which of the walks over the tree
        bool down = false;
        bool decided = false;  // `value` is the decision
        std::uint64_t value = 0;
    };

    // `tree` stands over those that live; two or three phases. Contributions are combined by OR.
    PhasedAgreement(const protocol::AgreementTree& tree, std::uint32_t self, std::uint32_t phases);

    // This rank's part in its next agreement: call when decided_count() has grown.
    void start(std::uint64_t value);
    void receive(std::uint32_t from, const Message& message);
    // Somebody has died: from now on this tree.
    void new_round(const protocol::AgreementTree& tree, std::uint32_t round);
    std::optional<Message> next_send();
    bool wants_to_send() const { return sent_ < outbox_.size(); }
    std::uint32_t decided_count() const { return agreement_; }
    std::uint64_t last_value() const { return last_value_; }

  private:
    bool goes_down(std::uint8_t step) const { return steps_ == 2 ? step == 1 : step % 2 == 0; }
    bool is_last(std::uint8_t step) const { return step + 1 == steps_; }
    void join_tree();
    void begin();
    void advance();
    void send_down(std::uint8_t step, std::uint32_t agreement, bool decided, std::uint64_t value);
    void send(std::uint32_t to, std::uint8_t step, std::uint32_t agreement, bool down, bool decided,
              std::uint64_t value);
    void return_with(std::uint64_t value);

    const protocol::AgreementTree* tree_;
    std::uint32_t self_;
    std::uint8_t steps_;
    std::uint8_t step_ = 0;  // the walk that this rank has to take part in next
    bool contributed_ = false;
    std::uint32_t parent_ = 0;
    std::uint32_t children_ = 0;
    std::uint32_t answers_ = 0;  // of children, in this walk
    std::uint32_t round_ = 0;
    std::uint32_t agreement_ = 0;  // the present one; all below have been returned from
    std::uint64_t own_ = 0;
    std::uint64_t value_ = 0;  // gathered, or proposed
    std::uint64_t last_value_ = 0;
    std::vector<Message> outbox_;
    std::size_t sent_ = 0;
};

}  // namespace coppice::simulation
