#include "simulation/explore/phased_agreement.hpp"

#include <utility>

namespace coppice::simulation {

using protocol::AgreementPlan;
using protocol::AgreementTree;
using protocol::FailedSet;

namespace {

AgreementTree tree_without(const AgreementPlan& plan, const FailedSet& failed) {
    return *AgreementTree::make(plan.tree.spec(), plan.tree.ranks(), plan.hosts, failed, plan.sites);
}

void append(std::vector<std::uint32_t>& words, std::uint64_t value) {
    words.push_back(static_cast<std::uint32_t>(value));
    words.push_back(static_cast<std::uint32_t>(value >> 32));
}

void append(std::vector<std::uint32_t>& words, const FailedSet& set) {
    words.push_back(static_cast<std::uint32_t>(set.intervals().size()));
    for (const FailedSet::Interval& run : set.intervals())
        words.insert(words.end(), {run.first, run.last});
}

}  // namespace

std::shared_ptr<const PhasedAgreement::Attempt> PhasedAgreement::first_attempt(const AgreementPlan& plan,
                                                                               const FailedSet& known) {
    return std::make_shared<const Attempt>(
        Attempt{.id = {.coordinator = known.lowest_absent(), .number = 0}, .tree = tree_without(plan, known)});
}

PhasedAgreement::PhasedAgreement(const AgreementPlan& plan, std::shared_ptr<const Attempt> first, std::uint32_t self,
                                 std::uint32_t phases)
    : plan_(&plan),
      attempt_(std::move(first)),
      failed_(attempt_->tree.excluded()),
      self_(self),
      steps_(phases == 2 ? 2 : 5) {
    if (!failed_.contains(self_)) join_tree();
}

void PhasedAgreement::Vote::take_in(const Vote& other) {
    if (decided) return;
    value = other.decided ? other.value : value | other.value;
    decided = other.decided;
}

// In the second walk up of three phases it is the proposal that all have.
PhasedAgreement::Vote PhasedAgreement::own_vote() const {
    if (step_ == 3) return {.value = proposal_, .decided = true};
    if (voted_ < agreement_) return {.value = last_value_, .decided = true};
    return {.value = own_, .decided = false};
}

void PhasedAgreement::join_tree() {
    parent_ = attempt_->tree.parent(self_);
    children_ = attempt_->tree.child_count(self_);
}

void PhasedAgreement::walk(std::uint8_t step) {
    step_ = step;
    answers_ = 0;
    gathered_ = {};
}

void PhasedAgreement::start(std::uint64_t value) {
    own_ = value;
    contributed_ = true;
    advance();
}

void PhasedAgreement::peers_failed(const FailedSet& failed) {
    failed_.unite(failed);
    if (self_ == failed_.lowest_absent() && !attempt_->tree.excluded().includes(failed_)) open();
}

void PhasedAgreement::open() {
    const AttemptId last = attempt_->id;
    const AttemptId next{.coordinator = self_, .number = last.coordinator == self_ ? last.number + 1 : 0};
    join(std::make_shared<const Attempt>(Attempt{.id = next, .tree = tree_without(*plan_, failed_)}), agreement_);
}

// What was not yet sent belongs to an attempt in which nobody is to vote any more. A call counts as the first walk down,
// where there is one. If this rank has decided what the attempt begins with, all live ones had voted on it and so have
// returned from the one before, whose decision the call need not bring.
void PhasedAgreement::join(std::shared_ptr<const Attempt> attempt, std::uint32_t agreement) {
    outbox_.clear();
    sent_ = 0;
    attempt_ = std::move(attempt);
    failed_.unite(attempt_->tree.excluded());
    join_tree();
    voted_ = agreement;
    const std::uint64_t before = agreement == agreement_ ? last_value_ : 0;
    for (std::uint32_t i = 0; i < children_; ++i) {
        outbox_.push_back({.to = attempt_->tree.child(self_, i),
                           .agreement = agreement,
                           .attempt = attempt_->id,
                           .down = true,
                           .value = before,
                           .call = attempt_});
    }
    walk(goes_down(0) ? 1 : 0);
    advance();
}

void PhasedAgreement::send(std::uint32_t to, std::uint8_t step, bool down, const Vote& vote) {
    outbox_.push_back({.to = to,
                       .agreement = voted_,
                       .attempt = attempt_->id,
                       .step = step,
                       .down = down,
                       .decided = vote.decided,
                       .value = vote.value});
}

void PhasedAgreement::send_down(std::uint8_t step, const Vote& vote) {
    for (std::uint32_t i = 0; i < children_; ++i)
        send(attempt_->tree.child(self_, i), step, true, vote);
}

std::optional<PhasedAgreement::Message> PhasedAgreement::next_send() {
    if (sent_ == outbox_.size()) return std::nullopt;
    Message message = std::move(outbox_[sent_++]);
    if (sent_ == outbox_.size()) {
        outbox_.clear();
        sent_ = 0;
    }
    return message;
}

void PhasedAgreement::receive(const Message& message) {
    if (message.call) {
        if (message.attempt <= attempt_->id) return;
        if (message.agreement > agreement_) decide(message.value);
        return join(message.call, message.agreement);
    }
    if (message.attempt != attempt_->id || message.agreement != voted_) return;
    if (message.down) return take_in_from_above(message);
    gathered_.take_in({.value = message.value, .decided = message.decided});
    ++answers_;
    advance();
}

void PhasedAgreement::take_in_from_above(const Message& message) {
    send_down(message.step, {.value = message.value, .decided = message.decided});
    if (is_last(message.step)) {
        finish(message.value);
    } else {
        walk(static_cast<std::uint8_t>(message.step + 1));
        proposal_ = message.value;
    }
    advance();
}

// What the present walk lets this rank do.
void PhasedAgreement::advance() {
    while (goes_down(step_) ? lead() : gather()) {
    }
}

// The root's part in a walk down; false: it cannot be yet, or is not this rank's.
bool PhasedAgreement::lead() {
    if (!is_root() || (step_ == 0 && !has_vote())) return false;
    send_down(step_, {.value = proposal_, .decided = is_last(step_)});
    if (is_last(step_)) {
        finish(proposal_);
    } else {
        walk(static_cast<std::uint8_t>(step_ + 1));
    }
    return true;
}

// A rank's part in a walk up; false: it waits for somebody.
bool PhasedAgreement::gather() {
    if (!has_vote() || answers_ < children_) return false;
    Vote vote = own_vote();
    vote.take_in(gathered_);
    if (is_root()) {
        proposal_ = vote.value;
    } else {
        send(parent_, step_, false, vote);
    }
    walk(static_cast<std::uint8_t>(step_ + 1));
    return true;
}

// The attempt has decided the agreement that it is at. Who had decided before knows it.
void PhasedAgreement::finish(std::uint64_t decision) {
    if (voted_ == agreement_) decide(decision);
    ++voted_;
    walk(0);
}

void PhasedAgreement::decide(std::uint64_t decision) {
    last_value_ = decision;
    ++agreement_;
    contributed_ = false;
    own_ = 0;
}

void PhasedAgreement::Message::append_state(std::vector<std::uint32_t>& words) const {
    words.insert(words.end(),
                 {to, agreement, attempt.coordinator, attempt.number, step, down ? 1U : 0U, decided ? 1U : 0U});
    append(words, value);
    append(words, call ? call->tree.excluded() : FailedSet());
}

void PhasedAgreement::append_state(std::vector<std::uint32_t>& words) const {
    words.insert(words.end(), {attempt_->id.coordinator, attempt_->id.number, step_, contributed_ ? 1U : 0U, answers_,
                               agreement_, voted_, gathered_.decided ? 1U : 0U});
    for (const std::uint64_t value : {own_, gathered_.value, proposal_, last_value_})
        append(words, value);
    append(words, attempt_->tree.excluded());
    append(words, failed_);
    for (std::size_t i = sent_; i < outbox_.size(); ++i)
        outbox_[i].append_state(words);
}

}  // namespace coppice::simulation
