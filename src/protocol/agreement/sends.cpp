// What a rank has to say, one message at a time. What is owed is looked at when it is pulled, with all that is known by
// then.
#include <algorithm>
#include <bit>

#include "protocol/agreement/agreement.hpp"
#include "protocol/agreement/failed_codec.hpp"

namespace coppice::protocol {

std::optional<AgreementMessage> Agreement::next_send(Nanoseconds /*now*/) {
    AgreementMessage message;
    while (pending_ != 0 && !fenced_) {
        const auto index = static_cast<unsigned>(std::countr_zero(pending_));
        if (write_next(slots_[index], message)) return message;
        pending_ &= pending_ - 1;
    }
    return std::nullopt;
}

bool Agreement::write_next(Slot& slot, AgreementMessage& message) {
    out_.clear();
    message.from = Rank{self_};
    message.agreement = Sequence{slot.sequence};
    if (slot.status == Status::broadcasting && slot.up_due) {
        slot.up_due = false;
        message.kind = AgreementKind::up;
        message.to = Rank{slot.parent};
        write_up(slot);
    } else if (slot.status == Status::gathering && slot.asking) {
        const auto target = next_target(slot, true);
        if (!target) return false;
        message.kind = AgreementKind::result_request;
        message.to = Rank{*target};
        write_failed(failed_, out_);
    } else if (slot.status == Status::decided && slot.sequence >= settled_below_) {
        const auto target = next_target(slot, false);
        if (!target) return false;
        message.kind = AgreementKind::down;
        message.to = Rank{*target};
        write_down(slot);
    } else {
        return false;
    }
    message.body = out_;
    return true;
}

// First the children in the tree as made, then the others.
std::optional<std::uint32_t> Agreement::next_target(Slot& slot, bool skip_contributors) {
    const auto is_wanted = [&](std::uint32_t rank) {
        return !failed_.contains(rank) && !(skip_contributors && has_contributed(slot, rank));
    };
    const View& view = view_of(slot);
    while (slot.cursor < view.children) {
        const std::uint32_t child = tree(view).child(self_, slot.cursor++);
        if (is_wanted(child)) return child;
    }
    if (trouble_.empty()) return std::nullopt;
    Trouble& mine = trouble(slot);
    while (mine.told < mine.others.size()) {
        const std::uint32_t rank = mine.others[mine.told++];
        if (is_wanted(rank)) return rank;
    }
    return std::nullopt;
}

// Decided: the ranks to tell beside the children in the tree as made. The repaired tree adds some; others have
// contributed here because their parent died, though this rank may not know of that death yet.
void Agreement::collect_others(Slot& slot) {
    Trouble& mine = trouble(slot);
    mine.told = 0;
    mine.others = view_of(slot).adopted;
    for (const Helper& helper : mine.helpers) {
        if (!std::binary_search(view_of(slot).adopted.begin(), view_of(slot).adopted.end(), helper.rank)) {
            mine.others.push_back(helper.rank);
        }
    }
    mine.helpers.clear();
}

// Decided: somebody asks for the decision. Nobody is told twice, as nothing is lost between the living.
void Agreement::owe(Slot& slot, std::uint32_t rank) {
    std::vector<std::uint32_t>& others = trouble(slot).others;
    const bool once = !as_printed(kDecisionsFromParentOnly);
    if (once && tree(view_of(slot)).child_index(self_, rank)) return;  // told already, or to be told anyway
    if (once && std::find(others.begin(), others.end(), rank) != others.end()) return;
    others.push_back(rank);
    mark(slot);
}

// A contribution, and the decision of a root, tell of all failures known when they leave.
void Agreement::gather_own_failures(Slot& slot) {
    if (failed_.empty()) return;
    FailedSet beyond = failed_;
    beyond.subtract(agreed_before(slot.sequence));
    trouble(slot).failed.unite(beyond);
}

namespace {

// What goes up and what goes down alike; the failed come on top.
template <class Slot>
AgreementBody body_of(const Slot& slot, const std::byte* value) {
    AgreementBody body;
    body.operation = slot.operation;
    body.mismatched = slot.mismatched;
    body.unacknowledged = slot.unacknowledged;
    body.change_waits = slot.change_waits;
    body.lag = slot.lag;
    body.value = {value, slot.bytes};
    return body;
}

}  // namespace

void Agreement::write_up(Slot& slot) {
    gather_own_failures(slot);
    const Trouble* mine = find_trouble(slot);
    AgreementBody body = body_of(slot, value_of(slot));
    if (mine != nullptr) {
        body.failed = &mine->failed;
        body.acknowledged = &mine->acknowledged;
    }
    body.write(out_);
}

void Agreement::write_down(const Slot& slot) {
    const Trouble* mine = find_trouble(slot);
    AgreementBody body = body_of(slot, value_of(slot));
    if (mine != nullptr) body.failed = &mine->failed;
    body.write(out_);
}

}  // namespace coppice::protocol
