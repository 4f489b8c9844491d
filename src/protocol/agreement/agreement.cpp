// Contributions and decisions.
#include "protocol/agreement/agreement.hpp"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstring>

#include "protocol/agreement/failed_codec.hpp"
#include "protocol/agreement/fingerprint.hpp"

namespace coppice::protocol {

std::string_view to_string(AgreementKind kind) {
    switch (kind) {
        case AgreementKind::up:
            return "up";
        case AgreementKind::down:
            return "down";
        case AgreementKind::result_request:
            return "result_request";
    }
    return "unknown";
}

bool AgreementPlan::is_valid() const {
    return window >= 1 && window <= kMaxWindow && std::has_single_bit(window) && max_value <= kMaxValue &&
           tree.excluded().empty();
}

Agreement::Agreement(const AgreementPlan& plan, Rank self)
    : plan_(&plan),
      self_(self.value),
      stride_(std::max<std::uint32_t>(8, (plan.max_value + 7) & ~7U)),
      slots_(std::size_t{plan.window} * 4),
      values_(slots_.size() * stride_) {
    assert(plan.is_valid() && self_ < plan.tree.ranks());
    add_view({});
    out_.reserve(body_bytes(plan.max_value));
}

// ------------------------------------------------------------------------------------------------------ slots
//
// A ring of four windows. To contribute to k is to have decided k − W, W the window; so once k is decided, all live
// ranks have decided k − W. Hence what a message may be about: below d + 2W, d the first agreement undecided here (its
// sender has decided k − W, to which this rank has contributed, having decided k − 2W). And of what lies 2W behind d
// every live rank has returned, which the decision d − 1 or an earlier one has said. Three windows are live at most;
// four make a mask.

Agreement::Slot* Agreement::find(std::uint64_t sequence) {
    Slot& slot = slots_[sequence & (slots() - 1)];
    return slot.status != Status::free && slot.sequence == sequence ? &slot : nullptr;
}

const Agreement::Slot* Agreement::find(std::uint64_t sequence) const {
    return const_cast<Agreement*>(this)->find(sequence);
}

Agreement::Slot& Agreement::engage(std::uint64_t sequence) {
    Slot& slot = slots_[sequence & (slots() - 1)];
    if (slot.status != Status::free && slot.sequence == sequence) return slot;
    slot = Slot{};
    slot.sequence = sequence;
    slot.status = Status::not_contributed;
    slot.view = latest_view_;
    std::fill_n(bits_of(slot), words_, std::uint64_t{0});
    if (!user_.empty()) user_[index_of(slot)] = Operation{};
    if (!trouble_.empty()) {
        Trouble& trouble = trouble_[index_of(slot)];
        trouble.agreed.clear();
        trouble.failed.clear();
        trouble.acknowledged.clear();
        trouble.helpers.clear();
        trouble.others.clear();
        trouble.told = 0;
        trouble.early.clear();
    }
    return slot;
}

Agreement::Trouble& Agreement::trouble(const Slot& slot) {
    if (trouble_.empty()) trouble_.resize(slots_.size());
    return trouble_[index_of(slot)];
}

const Agreement::Trouble* Agreement::find_trouble(const Slot& slot) const {
    return trouble_.empty() ? nullptr : &trouble_[index_of(slot)];
}

// The set to which those of `sequence` are relative. Its slot is not reused before `sequence` is decided.
const FailedSet& Agreement::agreed_before(std::uint64_t sequence) const {
    static const FailedSet kNone;
    if (trouble_.empty() || sequence < plan_->window) return kNone;
    return trouble_[(sequence - plan_->window) & (slots() - 1)].agreed;
}

// ------------------------------------------------------------------------------------------------------- start

std::optional<Sequence> Agreement::contribute(const Operation& operation, std::span<const std::byte> value) {
    assert(value.size() <= plan_->max_value && !reason_against(operation, value.size()));
    return start(encode_operation(operation), operation, value);
}

std::optional<Sequence> Agreement::flush() {
    return start(kFlushCode, Operation{}, {});
}

void Agreement::acknowledge(const FailedSet& failed) {
    acknowledged_.unite(failed);
    acknowledged_.intersect(failed_);
}

std::optional<Sequence> Agreement::start(std::uint8_t code, const Operation& operation,
                                         std::span<const std::byte> value) {
    if (!can_start()) return std::nullopt;
    Slot& slot = engage(next_++);
    choose_view(slot);
    if (operation.op == Operator::user && code != kFlushCode) {
        if (user_.empty()) user_.resize(slots_.size());
        user_[index_of(slot)] = operation;
        merge_early(slot, operation);
    }
    AgreementBody body;
    body.operation = code;
    body.lag = static_cast<std::uint8_t>(slot.sequence - decided_below_);
    body.value = value;
    body.change_waits = change_waits_;
    FailedSet failed;
    FailedSet acknowledged;
    if (!failed_.empty()) {
        const FailedSet& before = agreed_before(slot.sequence);
        failed = failed_;
        failed.subtract(before);
        acknowledged = acknowledged_;
        acknowledged.subtract(before);
        body.unacknowledged = !acknowledged_.includes(before);
        body.failed = &failed;
        body.acknowledged = &acknowledged;
    }
    merge(slot, body, &operation);
    slot.status = Status::gathering;
    slot.missing = count_missing(slot);
    settle(slot);
    return Sequence{slot.sequence};
}

// ------------------------------------------------------------------------------------------------ contributions

// `operation` is null while this rank has not contributed itself: then only built-in ones can be combined.
void Agreement::merge(Slot& slot, const AgreementBody& body, const Operation* operation) {
    const bool first = !slot.has_value;
    slot.lag = std::max(slot.lag, body.lag);
    slot.mismatched |= body.mismatched;
    slot.unacknowledged |= body.unacknowledged;
    slot.change_waits |= body.change_waits;
    merge_value(slot, body, operation);
    const bool has_acknowledged = body.acknowledged != nullptr && !body.acknowledged->empty();
    if (body.failed != nullptr && !body.failed->empty()) trouble(slot).failed.unite(*body.failed);
    if (first) {
        if (has_acknowledged) trouble(slot).acknowledged = *body.acknowledged;
    } else if (!trouble_.empty()) {
        if (has_acknowledged) {
            trouble(slot).acknowledged.intersect(*body.acknowledged);
        } else {
            trouble(slot).acknowledged.clear();
        }
    }
}

void Agreement::merge_value(Slot& slot, const AgreementBody& body, const Operation* operation) {
    if (!slot.has_value) {
        slot.has_value = true;
        slot.operation = body.operation;
        slot.bytes = static_cast<std::uint16_t>(body.value.size());
        if (slot.bytes != 0) std::memcpy(value_of(slot), body.value.data(), slot.bytes);
        return;
    }
    if (slot.operation != body.operation || slot.bytes != body.value.size()) {
        slot.mismatched = true;
        return;
    }
    if (slot.bytes == 0) return;
    Operation decoded;
    if (operation == nullptr) {
        decoded = *decode_operation(body.operation);
        operation = &decoded;
    }
    if (operation->op != Operator::user) {
        combine(*operation, value_of(slot), body.value.data(), slot.bytes);
    } else if (operation->combine == nullptr) {
        std::vector<std::byte>& early = trouble(slot).early;
        early.insert(early.end(), body.value.begin(), body.value.end());
    } else {
        alignas(8) std::byte aligned[AgreementPlan::kMaxValue];
        std::memcpy(aligned, body.value.data(), slot.bytes);
        combine(*operation, value_of(slot), aligned, slot.bytes);
    }
}

// Contributions that came before this rank knew their function.
void Agreement::merge_early(Slot& slot, const Operation& operation) {
    if (trouble_.empty() || !slot.has_value) return;
    std::vector<std::byte>& early = trouble(slot).early;
    if (slot.operation == encode_operation(operation) && slot.bytes != 0) {
        alignas(8) std::byte aligned[AgreementPlan::kMaxValue];
        for (std::size_t at = 0; at < early.size(); at += slot.bytes) {
            std::memcpy(aligned, early.data() + at, slot.bytes);
            combine(operation, value_of(slot), aligned, slot.bytes);
        }
    }
    early.clear();
}

// The paper's spontaneous rule: when everybody of this rank's subtree has contributed.
void Agreement::settle(Slot& slot) {
    if (slot.status != Status::gathering || slot.missing != 0) return;
    const View& view = view_of(slot);
    if (view.parent == kNobody) {
        gather_own_failures(slot);
        if (const Trouble* trouble = find_trouble(slot)) {
            slot.unacknowledged |= !trouble->acknowledged.includes(trouble->failed);
        }
        decide(slot);
        return;
    }
    slot.status = Status::broadcasting;
    slot.parent = view.parent;
    slot.up_due = true;
    mark(slot);
}

// The slot holds what was decided.
void Agreement::decide(Slot& slot) {
    slot.status = Status::decided;
    slot.asking = false;
    slot.up_due = false;
    slot.cursor = 0;
    if (!trouble_.empty()) {
        Trouble& mine = trouble(slot);
        mine.agreed = agreed_before(slot.sequence);
        mine.agreed.unite(mine.failed);
        mine.early.clear();
        collect_others(slot);
    }
    mark(slot);
    while (find(decided_below_) != nullptr && find(decided_below_)->status == Status::decided)
        ++decided_below_;
    if (slot.lag <= slot.sequence) settled_below_ = std::max(settled_below_, slot.sequence - slot.lag);
}

// --------------------------------------------------------------------------------------------------- messages

bool Agreement::is_about_us(const FailedSet& failed, Rank from, Reception& verdict) {
    if (failed.contains(from.value)) {
        verdict = Reception::garbage;
        return true;
    }
    if (!failed.contains(self_)) return false;
    fenced_ = true;
    verdict = Reception::stale;
    return true;
}

Reception Agreement::receive(const AgreementMessage& message) {
    const std::uint32_t from = message.from.value;
    const std::uint64_t sequence = message.agreement.value;
    if (from == self_ || from >= plan_->tree.ranks() || message.to.value != self_) return Reception::garbage;
    const bool is_dead = failed_.contains(from) && !as_printed(kHearsTheDead);
    if (fenced_ || is_dead || sequence < settled_below_) return Reception::stale;
    if (sequence >= decided_below_ + 2 * std::uint64_t{plan_->window}) return Reception::garbage;
    Reception verdict = Reception::taken;
    FailedSet failed;
    if (message.kind == AgreementKind::result_request) {
        std::span<const std::byte> rest = message.body;
        if (!read_failed(rest, plan_->tree.ranks(), failed) || !rest.empty()) return Reception::garbage;
        // The rank that asks is root: everybody below it has failed.
        if (failed.lowest_absent() != from) return Reception::garbage;
        return is_about_us(failed, message.from, verdict) ? verdict : receive_request(message, failed);
    }
    FailedSet acknowledged;
    AgreementBody body;
    if (!read_body(message.body, plan_->max_value, plan_->tree.ranks(), failed, acknowledged, body) ||
        body.lag >= plan_->window || body.lag > sequence) {
        return Reception::garbage;
    }
    if (is_about_us(failed, message.from, verdict)) return verdict;
    switch (message.kind) {
        case AgreementKind::up:
            return receive_up(message, body);
        case AgreementKind::down:
            return receive_down(message, body);
        case AgreementKind::result_request:
            break;
    }
    return Reception::garbage;
}

Reception Agreement::receive_up(const AgreementMessage& message, const AgreementBody& body) {
    if (body.failed != nullptr && !as_printed(kLearnsFromNobody)) learn(*body.failed);
    const std::uint32_t from = message.from.value;
    Slot& slot = engage(message.agreement.value);
    switch (slot.status) {
        case Status::not_contributed:
            merge(slot, body, nullptr);
            note_contributor(slot, from);
            break;
        case Status::gathering: {
            const bool own = !user_.empty() && user_[index_of(slot)].op == Operator::user;
            merge(slot, body, own ? &user_[index_of(slot)] : nullptr);
            note_contributor(slot, from);
            settle(slot);
            break;
        }
        case Status::broadcasting:
            // Its parent died, and this rank has contributed already: the decision is owed to it.
            if (!as_printed(kForgetsLateContributors)) note_contributor(slot, from);
            break;
        case Status::decided:
            owe(slot, from);
            break;
        case Status::free:
            break;
    }
    return Reception::taken;
}

Reception Agreement::receive_down(const AgreementMessage& message, const AgreementBody& body) {
    const auto may_decide = [this, &message] {
        const Slot* slot = find(message.agreement.value);
        if (slot == nullptr || slot->status == Status::not_contributed) return false;
        return slot->status != Status::gathering || slot->asking;
    };
    if (!may_decide()) return Reception::garbage;
    if (as_printed(kDecisionsFromParentOnly) && view_of(*find(message.agreement.value)).parent != message.from.value) {
        return Reception::stale;
    }
    if (body.failed != nullptr && !as_printed(kLearnsFromNobody)) learn(*body.failed);
    Slot& slot = *find(message.agreement.value);
    if (slot.status == Status::decided) return Reception::taken;
    slot.lag = body.lag;
    slot.mismatched = body.mismatched;
    slot.unacknowledged = body.unacknowledged;
    slot.change_waits = body.change_waits;
    slot.operation = body.operation;
    slot.bytes = static_cast<std::uint16_t>(body.value.size());
    if (slot.bytes != 0) std::memcpy(value_of(slot), body.value.data(), slot.bytes);
    if (!trouble_.empty()) trouble(slot).failed.clear();
    if (body.failed != nullptr) trouble(slot).failed = *body.failed;
    decide(slot);
    return Reception::taken;
}

Reception Agreement::receive_request(const AgreementMessage& message, const FailedSet& failed) {
    FailedSet elders;
    if (message.from.value > 0) elders.append({0, message.from.value - 1});
    const FailedSet& told = as_printed(kRequestsTellOfElders) ? elders : failed;
    if (as_printed(kMarksEldersSilently)) {
        learn_silently(told);
    } else {
        learn(told);
    }
    Slot* slot = find(message.agreement.value);
    if (slot == nullptr) return Reception::taken;
    if (slot->status == Status::decided) {
        owe(*slot, message.from.value);
    } else if (slot->status == Status::broadcasting) {
        if (slot->parent != message.from.value && plan_->printed == 0) return Reception::garbage;
        if (failed_.contains(message.from.value)) return Reception::stale;
        slot->parent = message.from.value;
        slot->up_due = true;
        mark(*slot);
    }
    // Otherwise nobody has decided: this rank's contribution is still to come, and goes to the one that asks.
    return Reception::taken;
}

// ---------------------------------------------------------------------------------------------------- results

bool Agreement::decided(Sequence agreement) const {
    if (agreement.value < decided_below_) return true;
    const Slot* slot = find(agreement.value);
    return slot != nullptr && slot->status == Status::decided;
}

std::optional<AgreementOutcome> Agreement::outcome(Sequence agreement) const {
    static const FailedSet kNone;
    const Slot* slot = find(agreement.value);
    if (slot == nullptr || slot->status != Status::decided) return std::nullopt;
    AgreementOutcome outcome;
    outcome.value = {value_of(*slot), slot->bytes};
    outcome.failed = trouble_.empty() ? &kNone : &find_trouble(*slot)->agreed;
    outcome.acknowledged = !slot->unacknowledged;
    outcome.mismatched = slot->mismatched;
    outcome.change_waits = slot->change_waits;
    return outcome;
}

void Agreement::waiting_for(Sequence agreement, const std::function<bool(Rank)>& tell) const {
    if (decided(agreement)) return;
    const Slot* slot = find(agreement.value);
    if (slot == nullptr || slot->status == Status::not_contributed) {
        tell(Rank{self_});
        return;
    }
    if (slot->status == Status::broadcasting) {
        tell(Rank{slot->parent});
        return;
    }
    const View& view = view_of(*slot);
    for (std::uint32_t i = 0; i < view.children; ++i) {
        const std::uint32_t child = tree(view).child(self_, i);
        if (!failed_.contains(child) && !has_contributed(*slot, child) && !tell(Rank{child})) return;
    }
    for (const std::uint32_t child : view.adopted) {
        if (!has_contributed(*slot, child) && !tell(Rank{child})) return;
    }
}

void Agreement::fingerprint(std::string& out) const {
    put(out, next_);
    put(out, decided_below_);
    put(out, settled_below_);
    put(out, pending_);
    put(out, checked_failed_);
    put(out, static_cast<std::uint8_t>(fenced_ | change_waits_ << 1));
    put(out, latest_view_);
    put(out, failed_);
    put(out, acknowledged_);
    for (const View& view : views_)
        put(out, tree(view).excluded());
    for (const Slot& slot : slots_) {
        put(out, slot.status);
        if (slot.status == Status::free) continue;
        put(out, slot.sequence);
        put(out, slot.missing);
        put(out, slot.parent);
        put(out, slot.cursor);
        put(out, slot.bytes);
        put(out, slot.operation);
        put(out, slot.lag);
        put(out, slot.view);
        put(out, static_cast<std::uint8_t>(slot.has_value | slot.mismatched << 1 | slot.unacknowledged << 2 |
                                           slot.asking << 3 | slot.up_due << 4 | slot.change_waits << 5));
        out.append(reinterpret_cast<const char*>(value_of(slot)), slot.bytes);
        for (std::uint32_t word = 0; word < words_; ++word)
            put(out, bits_of(slot)[word]);
        const Trouble* trouble = find_trouble(slot);
        if (trouble == nullptr) continue;
        put(out, trouble->agreed);
        put(out, trouble->failed);
        put(out, trouble->acknowledged);
        put(out, trouble->told);
        put(out, static_cast<std::uint32_t>(trouble->helpers.size()));
        for (const Helper& helper : trouble->helpers)
            put(out, helper.rank << 1 | helper.counts);
        put(out, static_cast<std::uint32_t>(trouble->others.size()));
        for (const std::uint32_t rank : trouble->others)
            put(out, rank);
        put(out, static_cast<std::uint32_t>(trouble->early.size()));
        out.append(reinterpret_cast<const char*>(trouble->early.data()), trouble->early.size());
    }
}

}  // namespace coppice::protocol
