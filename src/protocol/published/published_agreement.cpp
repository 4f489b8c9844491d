#include "protocol/published/published_agreement.hpp"

#include <cassert>
#include <cstring>

#include "protocol/agreement/fingerprint.hpp"

namespace coppice::protocol {
namespace {

constexpr Operation kHighest{Operator::max, Element::u64, nullptr, nullptr};

}  // namespace

PublishedAgreement::PublishedAgreement(const AgreementPlan& plan, Rank self, ContributionBoard& board)
    : plan_(&plan),
      self_(self.value),
      board_(&board),
      recovery_(plan, self),
      members_(plan.tree.ranks()),
      acknowledgements_(plan.tree.ranks()),
      agreed_(std::make_shared<const FailedSet>()),
      slots_(std::size_t{plan.window} * 2) {
    for (std::uint32_t rank = 0; rank < plan.tree.ranks(); ++rank)
        members_[rank] = rank;
    for (Slot& slot : slots_)
        slot.agreed = agreed_;
}

// ---------------------------------------------------------------------------------------------------- starting

std::optional<Sequence> PublishedAgreement::contribute(const Operation& operation, std::span<const std::byte> value) {
    assert(value.size() <= plan_->max_value && !reason_against(operation, value.size()));
    return start(encode_operation(operation), operation, value);
}

std::optional<Sequence> PublishedAgreement::flush() {
    return start(kFlushCode, Operation{}, {});
}

std::optional<Sequence> PublishedAgreement::start(std::uint8_t code, const Operation& operation,
                                                  std::span<const std::byte> value) {
    if (!can_start()) return std::nullopt;
    Slot& slot = slot_of(next_);
    slot.sequence = next_;
    slot.cursor = 0;
    slot.differs = AgreementTree::kNobody;
    slot.bytes = static_cast<std::uint16_t>(value.size());
    slot.code = code;
    slot.unacknowledged = false;
    slot.change_waits = false;
    slot.operation = operation;
    board_->publish(next_, {.operation = code, .change_waits = change_waits_, .acknowledged = logged_, .value = value});
    return Sequence{next_++};
}

void PublishedAgreement::acknowledge(const FailedSet& failed) {
    FailedSet fresh = failed;
    fresh.intersect(recovery_.failed());
    fresh.subtract(acknowledged_);
    for (const FailedSet::Interval& interval : fresh.intervals()) {
        for (std::uint32_t rank = interval.first; rank <= interval.last; ++rank) {
            board_->log_acknowledged(rank);
            ++logged_;
        }
    }
    acknowledged_.unite(fresh);
}

// --------------------------------------------------------------------------------------------------- deciding

// Takes in the contributions that are there, in the order of the ranks, so that even an operation that depends on the
// order gives the same everywhere. True when all are in, and were read in time.
bool PublishedAgreement::gather(Slot& slot) {
    Contribution contribution;
    while (slot.cursor < members_.size()) {
        const std::uint32_t member = members_[slot.cursor];
        if (!board_->look(member, slot.sequence, contribution)) return false;
        take(slot, member, contribution);
        ++slot.cursor;
    }
    // A rank that was silent for too long may be taken for dead, and live. If nobody has said so by now, this rank may
    // decide: a rank that is shut out later is like one that dies then. If somebody has, the others may decide without
    // it, and write again where it has read.
    shut_out_ = board_->shut_out();
    return !shut_out_;
}

void PublishedAgreement::take(Slot& slot, std::uint32_t member, const Contribution& contribution) {
    if (contribution.operation != slot.code || contribution.value.size() != slot.bytes) {
        if (slot.differs == AgreementTree::kNobody) slot.differs = member;
        return;
    }
    if (!agreed_->empty() && !has_acknowledged(member, contribution.acknowledged)) slot.unacknowledged = true;
    slot.change_waits |= contribution.change_waits;
    if (slot.bytes == 0) return;
    if (slot.cursor == 0) {
        std::memcpy(slot.value, contribution.value.data(), slot.bytes);
        return;
    }
    alignas(8) std::byte aligned[AgreementPlan::kMaxValue];
    std::memcpy(aligned, contribution.value.data(), slot.bytes);
    combine(slot.operation, slot.value, aligned, slot.bytes);
}

bool PublishedAgreement::has_acknowledged(std::uint32_t member, std::uint32_t count) {
    Acknowledgement& known = acknowledgements_[member];
    if (known.count == count) return known.complete;
    FailedSet acknowledged;
    for (std::uint32_t i = 0; i < count && i < plan_->tree.ranks(); ++i) {
        const std::uint32_t rank = board_->logged_acknowledged(member, i);
        if (rank < plan_->tree.ranks()) acknowledged.insert(rank);
    }
    known = {count, acknowledged.includes(*agreed_)};
    return known.complete;
}

void PublishedAgreement::decide_what_is_there() {
    while (decided_below_ < next_ && gather(slot_of(decided_below_))) {
        Slot& slot = slot_of(decided_below_);
        if (slot.agreed != agreed_) slot.agreed = agreed_;
        ++decided_below_;
    }
}

void PublishedAgreement::look(bool thoroughly) {
    if (fenced()) return;
    if (recovering_) {
        if (!recovery_.decided(Sequence{entered_ - 1})) return;
        end_recovery();
        if (fenced()) return;
    }
    decide_what_is_there();
    const bool member_failed = recovery_.failed().count() != agreed_->count();
    const bool stuck = decided_below_ < next_ && member_failed;
    if (stuck || called_ || ((thoroughly || member_failed) && others_recover())) enter_recovery();
}

// --------------------------------------------------------------------------------------------------- recovery

bool PublishedAgreement::others_recover() const {
    for (const std::uint32_t member : members_) {
        if (member != self_ && board_->recoveries(member) == entered_ + 1) return true;
    }
    return false;
}

void PublishedAgreement::enter_recovery() {
    std::byte value[sizeof decided_below_];
    std::memcpy(value, &decided_below_, sizeof value);
    recovering_ = true;
    called_ = false;
    ++entered_;
    [[maybe_unused]] const auto started = recovery_.contribute(kHighest, value);
    assert(started && started->value + 1 == entered_);
    board_->set_recoveries(entered_);
}

void PublishedAgreement::end_recovery() {
    const auto outcome = recovery_.outcome(Sequence{entered_ - 1});
    std::uint64_t highest = 0;
    if (!outcome || outcome->mismatched || outcome->value.size() != sizeof highest) {
        broken_ = true;
        return;
    }
    std::memcpy(&highest, outcome->value.data(), sizeof highest);
    recovering_ = false;
    while (decided_below_ < highest) {
        // Somebody has decided it: everything that it takes is there, or what is said here is not true.
        if (decided_below_ >= next_ || !gather(slot_of(decided_below_))) {
            broken_ = true;  // or it is shut out
            return;
        }
        slot_of(decided_below_).agreed = agreed_;
        ++decided_below_;
    }
    FailedSet agreed = *agreed_;
    agreed.unite(*outcome->failed);
    agreed_ = std::make_shared<const FailedSet>(std::move(agreed));
    std::erase_if(members_, [this](std::uint32_t rank) { return agreed_->contains(rank); });
    acknowledgements_.assign(acknowledgements_.size(), {});
    for (std::uint64_t sequence = decided_below_; sequence < next_; ++sequence) {
        Slot& slot = slot_of(sequence);
        slot.cursor = 0;
        slot.differs = AgreementTree::kNobody;
        slot.unacknowledged = false;
        slot.change_waits = false;
    }
}

Reception PublishedAgreement::receive(const AgreementMessage& message) {
    const Reception reception = recovery_.receive(message);
    if (reception == Reception::taken && message.agreement.value >= entered_) called_ = true;
    return reception;
}

// A message says what this rank knew before it looks whether it is shut out. If it is not, the message is one that was
// sent before that; if it is, there may be others that don't know yet and would take it for a living rank's.
std::optional<AgreementMessage> PublishedAgreement::next_send(Nanoseconds now) {
    std::optional<AgreementMessage> message = recovery_.next_send(now);
    if (message && board_->shut_out()) {
        shut_out_ = true;
        message.reset();
    }
    return message;
}

void PublishedAgreement::peer_failed(Rank rank) {
    recovery_.peer_failed(rank);
}

// ---------------------------------------------------------------------------------------------------- results

std::optional<AgreementOutcome> PublishedAgreement::outcome(Sequence agreement) const {
    const Slot& slot = slot_of(agreement.value);
    if (!decided(agreement) || slot.sequence != agreement.value) return std::nullopt;
    AgreementOutcome outcome;
    outcome.value = {slot.value, slot.bytes};
    outcome.failed = slot.agreed.get();
    outcome.acknowledged = !slot.unacknowledged;
    outcome.mismatched = slot.differs != AgreementTree::kNobody;
    outcome.change_waits = slot.change_waits;
    return outcome;
}

std::shared_ptr<const FailedSet> PublishedAgreement::agreed(Sequence agreement) const {
    const Slot& slot = slot_of(agreement.value);
    return decided(agreement) && slot.sequence == agreement.value ? slot.agreed : agreed_;
}

std::optional<Rank> PublishedAgreement::who_differs(Sequence agreement) const {
    const Slot& slot = slot_of(agreement.value);
    if (slot.sequence != agreement.value || slot.differs == AgreementTree::kNobody) return std::nullopt;
    return Rank{slot.differs};
}

void PublishedAgreement::waiting_for(Sequence agreement, const std::function<bool(Rank)>& tell) const {
    if (decided(agreement)) return;
    if (waits_for_recovery(agreement)) {
        recovery_.waiting_for(Sequence{entered_ - 1}, tell);
        return;
    }
    for (const std::uint32_t member : members_)
        if (is_missing(member, agreement) && !tell(Rank{member})) return;
}

bool PublishedAgreement::is_missing(std::uint32_t member, Sequence agreement) const {
    Contribution contribution;
    return !failed().contains(member) && !board_->look(member, agreement.value, contribution);
}

// The living have done their part, and come to terms about the dead.
bool PublishedAgreement::waits_for_recovery(Sequence agreement) const {
    const auto is_there = [this, agreement](std::uint32_t member) { return !is_missing(member, agreement); };
    return recovering_ && std::ranges::all_of(members_, is_there);
}

void PublishedAgreement::fingerprint(std::string& out) const {
    put(out, next_);
    put(out, decided_below_);
    put(out, entered_);
    put(out,
        static_cast<std::uint8_t>(recovering_ | called_ << 1 | broken_ << 2 | shut_out_ << 3 | change_waits_ << 4));
    put(out, *agreed_);
    put(out, acknowledged_);
    for (const Slot& slot : slots_) {
        put(out, slot.sequence);
        if (slot.sequence == UINT64_MAX) continue;
        if (slot.sequence < decided_below_) put(out, *slot.agreed);
        put(out, slot.cursor);
        put(out, slot.differs);
        put(out, static_cast<std::uint8_t>(slot.unacknowledged | slot.change_waits << 1));
        if (slot.cursor > 0) out.append(reinterpret_cast<const char*>(slot.value), slot.bytes);
    }
    recovery_.fingerprint(out);
}

}  // namespace coppice::protocol
