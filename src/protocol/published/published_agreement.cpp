#include "protocol/published/published_agreement.hpp"

#include <cassert>
#include <cstring>

#include "protocol/agreement/fingerprint.hpp"

namespace coppice::protocol {
namespace {

constexpr Operation kHighest{Operator::max, Element::u64, nullptr, nullptr};

}  // namespace

PublishedAgreement::PublishedAgreement(const AgreementPlan& plan, Rank self, ContributionBoard& board,
                                       const topology::Nodes* domains)
    : plan_(&plan),
      self_(self.value),
      board_(&board),
      domains_(domains),
      recovery_(plan, self),
      acknowledgements_(plan.tree.ranks()),
      agreed_(std::make_shared<const FailedSet>()),
      slots_(std::size_t{plan.window} * 2) {
    members_.reserve(plan.tree.ranks());
    leave_out_agreed();
    for (Slot& slot : slots_)
        slot.agreed = agreed_;
}

void PublishedAgreement::Sum::restart() {
    cursor = 0;
    differs = AgreementTree::kNobody;
    has_value = false;
    unacknowledged = false;
    change_waits = false;
}

void PublishedAgreement::Slot::restart() {
    spoken = false;
    all.restart();
    domain.restart();
}

// M, after a recovery or before the first one.
void PublishedAgreement::leave_out_agreed() {
    members_.clear();
    bounds_.assign(1, 0);
    const auto add = [this](Rank rank) {
        if (!agreed_->contains(rank.value)) members_.push_back(rank.value);
    };
    const auto end_domain = [this] { bounds_.push_back(static_cast<std::uint32_t>(members_.size())); };
    if (domains_ == nullptr) {
        for (std::uint32_t rank = 0; rank < plan_->tree.ranks(); ++rank)
            add(Rank{rank});
        end_domain();
        return;
    }
    for (std::uint32_t domain = 0; domain < domains_->count(); ++domain) {
        for (const Rank rank : domains_->members(domain))
            add(rank);
        end_domain();
    }
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
    slot.bytes = static_cast<std::uint16_t>(value.size());
    slot.code = code;
    slot.operation = operation;
    slot.restart();
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

// Takes in what is there, in the order of the ranks, or of the domains, so that even an operation that depends on the order
// gives the same everywhere. True when all is in, and was read in time.
bool PublishedAgreement::gather(Slot& slot) {
    if (!has_domains()) return gather_members(slot, members_, slot.all) && is_not_shut_out();
    if (speaks() && !slot.spoken && !speak(slot)) return false;
    Summary summary;
    for (; slot.all.cursor < domain_count(); ++slot.all.cursor) {
        const std::span<const std::uint32_t> members = members_of(slot.all.cursor);
        if (members.empty()) continue;
        if (!board_->look_summary(members.front(), slot.sequence, entered_, summary)) return false;
        take(slot, members.front(), summary);
    }
    return is_not_shut_out();
}

// Of an agreement that somebody has decided: by contributions alone.
bool PublishedAgreement::gather_directly(Slot& slot) {
    if (!has_domains()) return gather(slot);
    slot.all.restart();
    for (std::uint32_t domain = 0; domain < domain_count(); ++domain) {
        const std::span<const std::uint32_t> members = members_of(domain);
        if (members.empty()) continue;
        slot.domain.restart();
        if (!gather_members(slot, members, slot.domain)) return false;
        take(slot, members.front(), summary_of(slot, slot.domain));
    }
    return is_not_shut_out();
}

bool PublishedAgreement::gather_members(const Slot& slot, std::span<const std::uint32_t> members, Sum& sum) {
    Contribution contribution;
    for (; sum.cursor < members.size(); ++sum.cursor) {
        const std::uint32_t member = members[sum.cursor];
        if (!board_->look(member, slot.sequence, contribution)) return false;
        take(slot, member, contribution, sum);
    }
    return true;
}

bool PublishedAgreement::speak(Slot& slot) {
    if (!gather_members(slot, own_domain(), slot.domain) || !is_not_shut_out()) return false;
    board_->publish_summary(slot.sequence, entered_, summary_of(slot, slot.domain));
    slot.spoken = true;
    return true;
}

bool PublishedAgreement::owes_summary() const {
    if (!speaks()) return false;
    for (std::uint64_t sequence = decided_below_; sequence < next_; ++sequence)
        if (!slot_of(sequence).spoken) return true;
    return false;
}

// A rank that was silent for too long may be taken for dead, and live. If nobody has said so by now, this rank may
// decide: a rank that is shut out later is like one that dies then. If somebody has, the others may decide without
// it, and write again where it has read.
bool PublishedAgreement::is_not_shut_out() {
    shut_out_ = board_->shut_out();
    return !shut_out_;
}

Summary PublishedAgreement::summary_of(const Slot& slot, const Sum& sum) {
    return {.operation = slot.code,
            .change_waits = sum.change_waits,
            .unacknowledged = sum.unacknowledged,
            .differs = sum.differs,
            .value = {sum.value, slot.bytes}};
}

void PublishedAgreement::take(const Slot& slot, std::uint32_t member, const Contribution& contribution, Sum& sum) {
    if (contribution.operation != slot.code || contribution.value.size() != slot.bytes) {
        if (sum.differs == AgreementTree::kNobody) sum.differs = member;
        return;
    }
    if (!agreed_->empty() && !has_acknowledged(member, contribution.acknowledged)) sum.unacknowledged = true;
    sum.change_waits |= contribution.change_waits;
    combine_into(slot, contribution.value, sum);
}

// What a summary says of its own domain is said of all: if it is not of one kind, then nothing is.
void PublishedAgreement::take(Slot& slot, std::uint32_t speaker, const Summary& summary) {
    const bool alike = summary.operation == slot.code && summary.value.size() == slot.bytes;
    const std::uint32_t differs = alike ? summary.differs : speaker;
    if (slot.all.differs == AgreementTree::kNobody) slot.all.differs = differs;
    if (!alike) return;
    slot.all.unacknowledged |= summary.unacknowledged;
    slot.all.change_waits |= summary.change_waits;
    combine_into(slot, summary.value, slot.all);
}

void PublishedAgreement::combine_into(const Slot& slot, std::span<const std::byte> value, Sum& sum) {
    const bool is_first = !sum.has_value;
    sum.has_value = true;
    if (slot.bytes == 0) return;
    if (is_first) {
        std::memcpy(sum.value, value.data(), slot.bytes);
        return;
    }
    alignas(8) std::byte aligned[AgreementPlan::kMaxValue];
    std::memcpy(aligned, value.data(), slot.bytes);
    combine(slot.operation, sum.value, aligned, slot.bytes);
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
        if (decided_below_ >= next_ || !gather_directly(slot_of(decided_below_))) {
            broken_ = true;  // or it is shut out
            return;
        }
        slot_of(decided_below_).agreed = agreed_;
        ++decided_below_;
    }
    FailedSet agreed = *agreed_;
    agreed.unite(*outcome->failed);
    agreed_ = std::make_shared<const FailedSet>(std::move(agreed));
    leave_out_agreed();
    acknowledgements_.assign(acknowledgements_.size(), {});
    for (std::uint64_t sequence = decided_below_; sequence < next_; ++sequence)
        slot_of(sequence).restart();
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
    outcome.value = {slot.all.value, slot.bytes};
    outcome.failed = slot.agreed.get();
    outcome.acknowledged = !slot.all.unacknowledged;
    outcome.mismatched = slot.all.differs != AgreementTree::kNobody;
    outcome.change_waits = slot.all.change_waits;
    return outcome;
}

std::shared_ptr<const FailedSet> PublishedAgreement::agreed(Sequence agreement) const {
    const Slot& slot = slot_of(agreement.value);
    return decided(agreement) && slot.sequence == agreement.value ? slot.agreed : agreed_;
}

std::optional<Rank> PublishedAgreement::who_differs(Sequence agreement) const {
    const Slot& slot = slot_of(agreement.value);
    if (slot.sequence != agreement.value || slot.all.differs >= plan_->tree.ranks()) return std::nullopt;
    return Rank{slot.all.differs};
}

void PublishedAgreement::waiting_for(Sequence agreement, const std::function<bool(Rank)>& tell) const {
    if (decided(agreement)) return;
    if (waits_for_recovery(agreement)) {
        recovery_.waiting_for(Sequence{entered_ - 1}, tell);
        return;
    }
    bool is_complete = true;
    for (const std::uint32_t member : members_) {
        if (!is_missing(member, agreement)) continue;
        is_complete = false;
        if (!tell(Rank{member})) return;
    }
    if (is_complete && has_domains()) waiting_for_speakers(agreement, tell);
}

// All contributions are there, and somebody has not looked at them.
void PublishedAgreement::waiting_for_speakers(Sequence agreement, const std::function<bool(Rank)>& tell) const {
    Summary summary;
    for (std::uint32_t domain = 0; domain < domain_count(); ++domain) {
        const std::span<const std::uint32_t> members = members_of(domain);
        if (members.empty() || members.front() == self_ || failed().contains(members.front())) continue;
        if (board_->look_summary(members.front(), agreement.value, entered_, summary)) continue;
        if (!tell(Rank{members.front()})) return;
    }
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
        put(out, slot.spoken);
        for (const Sum* const sum : {&slot.all, &slot.domain}) {
            put(out, sum->cursor);
            put(out, sum->differs);
            put(out, static_cast<std::uint8_t>(sum->unacknowledged | sum->change_waits << 1 | sum->has_value << 2));
            if (sum->has_value) out.append(reinterpret_cast<const char*>(sum->value), slot.bytes);
        }
    }
    recovery_.fingerprint(out);
}

}  // namespace coppice::protocol
