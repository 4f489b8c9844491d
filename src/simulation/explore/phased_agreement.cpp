#include "simulation/explore/phased_agreement.hpp"

namespace coppice::simulation {

using protocol::AgreementTree;

PhasedAgreement::PhasedAgreement(const AgreementTree& tree, std::uint32_t self, std::uint32_t phases)
    : tree_(&tree), self_(self), steps_(phases == 2 ? 2 : 5) {
    join_tree();
    begin();
}

void PhasedAgreement::join_tree() {
    parent_ = tree_->parent(self_);
    children_ = tree_->child_count(self_);
}

void PhasedAgreement::begin() {
    step_ = 0;
    answers_ = 0;
    value_ = own_;
}

void PhasedAgreement::start(std::uint64_t value) {
    own_ = value;
    value_ |= value;
    contributed_ = true;
    advance();
}

void PhasedAgreement::new_round(const AgreementTree& tree, std::uint32_t round) {
    tree_ = &tree;
    round_ = round;
    outbox_.clear();
    sent_ = 0;
    join_tree();
    begin();
    if (agreement_ > 0) {
        // Neighbours may not have returned from the last one.
        send_down(static_cast<std::uint8_t>(steps_ - 1), agreement_ - 1, true, last_value_);
        if (parent_ != AgreementTree::kNobody) send(parent_, 0, agreement_ - 1, false, true, last_value_);
    }
    advance();
}

void PhasedAgreement::send(std::uint32_t to, std::uint8_t step, std::uint32_t agreement, bool down, bool decided,
                           std::uint64_t value) {
    outbox_.push_back({to, agreement, round_, step, down, decided, value});
}

void PhasedAgreement::send_down(std::uint8_t step, std::uint32_t agreement, bool decided, std::uint64_t value) {
    for (std::uint32_t i = 0; i < children_; ++i)
        send(tree_->child(self_, i), step, agreement, true, decided, value);
}

std::optional<PhasedAgreement::Message> PhasedAgreement::next_send() {
    if (sent_ == outbox_.size()) return std::nullopt;
    const Message message = outbox_[sent_++];
    if (sent_ == outbox_.size()) {
        outbox_.clear();
        sent_ = 0;
    }
    return message;
}

void PhasedAgreement::receive(std::uint32_t from, const Message& message) {
    if (message.round != round_) return;
    if (message.agreement < agreement_) {
        // A rank that asks for an agreement from which this rank has returned missed the decision.
        if (!message.down && !message.decided && message.agreement + 1 == agreement_) {
            send(from, static_cast<std::uint8_t>(steps_ - 1), message.agreement, true, true, last_value_);
        }
        return;
    }
    if (message.agreement > agreement_) return;
    if (message.decided) {
        if (!message.down && parent_ != AgreementTree::kNobody)
            send(parent_, 0, agreement_, false, true, message.value);
        return_with(message.value);
    } else if (message.down) {
        step_ = static_cast<std::uint8_t>(message.step + 1);
        answers_ = 0;
        value_ = message.step == 0 ? own_ : message.value;
        send_down(message.step, agreement_, false, message.value);
        advance();
    } else {
        value_ |= message.value;
        ++answers_;
        advance();
    }
}

// What the present walk lets this rank do.
void PhasedAgreement::advance() {
    const bool is_root = parent_ == AgreementTree::kNobody;
    if (is_root && goes_down(step_)) {
        if (step_ == 0 && !contributed_) return;
        if (is_last(step_)) return return_with(value_);
        send_down(step_++, agreement_, false, value_);
        answers_ = 0;
        if (step_ == 1) value_ = own_;
    }
    if (goes_down(step_) || !contributed_ || answers_ < children_) return;
    if (!is_root) {
        send(parent_, step_, agreement_, false, false, value_);
        ++step_;
        answers_ = 0;
        return;
    }
    ++step_;
    answers_ = 0;
    advance();
}

void PhasedAgreement::return_with(std::uint64_t value) {
    send_down(static_cast<std::uint8_t>(steps_ - 1), agreement_, true, value);
    last_value_ = value;
    ++agreement_;
    contributed_ = false;
    own_ = 0;
    begin();
}

}  // namespace coppice::simulation
