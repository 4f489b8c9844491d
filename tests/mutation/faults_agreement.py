"""Faults in agreements: by a tree, and published on a host's board; their codec, operations and trees."""

from catchers import gtest

AGREEMENT = "src/protocol/agreement/agreement.cpp"
REPAIR = "src/protocol/agreement/repair.cpp"
SENDS = "src/protocol/agreement/sends.cpp"
CODEC = "src/protocol/agreement/failed_codec.cpp"
OPERATION = "src/protocol/agreement/operation.cpp"
TREE = "src/protocol/agreement/agreement_tree.cpp"
LEVELS = "src/protocol/agreement/agreement_levels.cpp"
PUBLISHED = "src/protocol/published/published_agreement.cpp"
PHASED = "src/simulation/explore/phased_agreement.cpp"

EXPLORED = "tests/simulation/explore/simulation_explore_agreement"
BOARD = "tests/simulation/explore/simulation_explore_published"


def explored(names):
    return gtest(EXPLORED, f"Everywhere.{names}")


def by_rules(names):
    return gtest("tests/protocol/agreement/agreement_rules", names)


def on_board(names):
    return gtest(BOARD, names)


def in_domains(names):
    return gtest("tests/simulation/explore/simulation_explore_domains", f"Domains.{names}")


def by_caches(names):
    return gtest("tests/protocol/published/published_agreement", f"ByCaches.{names}")


def in_phases(names):
    return gtest("tests/simulation/explore/simulation_explore_phased", f"ExplorePhased.{names}")


FAULTS = [
    # --- slots, and what lies behind the window
    ("a slot that is used again keeps its failed set", AGREEMENT,
     "        trouble.failed.clear();\n        trouble.acknowledged.clear();\n", "        trouble.acknowledged.clear();\n",
     explored("AcknowledgedFailuresStaySo*")),
    ("a message on an agreement that is settled is let in", AGREEMENT,
     "fenced_ || is_dead || sequence < settled_below_", "fenced_ || is_dead", by_rules("*Settled*")),
    ("messages of the farthest future are let in", AGREEMENT,
     "if (sequence >= decided_below_ + 2 *", "if (sequence >= decided_below_ + 3 *",
     gtest("tests/protocol/agreement/agreement_agreement", "*")),
    ("that a change waits is told by each rank for its own subtree", AGREEMENT,
     "    slot.change_waits = body.change_waits;\n", "", gtest("tests/protocol/agreement/agreement_agreement", "*AChange*")),
    ("a word of a change counts though its contribution does not", PUBLISHED,
     "    unacknowledged = false;\n    change_waits = false;\n", "    unacknowledged = false;\n",
     gtest("tests/protocol/published/published_agreement", "*AWordOfAChange*")),
    # --- published in two levels
    ("a speaker that is shut out says what it has read", PUBLISHED,
     "slot.domain) || !is_not_shut_out()) return false;", "slot.domain)) return false;", by_caches("*ShutOut*")),
    ("what somebody has decided is looked for in summaries of speakers that are dead", PUBLISHED,
     "!gather_directly(slot_of(decided_below_))) {", "!gather(slot_of(decided_below_))) {", in_domains("OneAgreement*")),
    ("a speaker says nothing more after a recovery", PUBLISHED,
     "    spoken = false;\n    all.restart();\n", "    all.restart();\n", in_domains("OneAgreement*")),
    ("that a failure was not acknowledged stays in its domain", PUBLISHED,
     "    slot.all.unacknowledged |= summary.unacknowledged;\n", "", in_domains("*")),
    ("that a change waits stays in its domain", PUBLISHED,
     "    slot.all.change_waits |= summary.change_waits;\n", "",
     gtest("tests/simulation/explore/simulation_fuzz_agreement", "Fuzz.SoDoThoseThatPublish")),
    ("an operation that differs is known in its domain alone", PUBLISHED,
     "alike ? summary.differs : speaker", "alike ? AgreementTree::kNobody : speaker", by_caches("*DifferentOperation*")),
    ("summaries are of no period", PUBLISHED,
     "publish_summary(slot.sequence, entered_,", "publish_summary(slot.sequence, 0,", in_domains("OneAgreement*")),
    ("a domain's sum goes on after a recovery", PUBLISHED,
     "    all.restart();\n    domain.restart();\n", "    all.restart();\n", in_domains("*")),
    ("what others have not returned from is settled", AGREEMENT,
     "    slot.lag = std::max(slot.lag, body.lag);\n", "", explored("TwoOverlapping*")),
    ("an agreement is settled one too early", AGREEMENT,
     "std::max(settled_below_, slot.sequence - slot.lag)", "std::max(settled_below_, slot.sequence + 1 - slot.lag)",
     explored("OneAgreement*")),
    ("sets are relative to the agreement before", AGREEMENT,
     "trouble_[(sequence - plan_->window) & (slots() - 1)].agreed", "trouble_[(sequence - 1) & (slots() - 1)].agreed",
     explored("SlotsAreUsedAgain")),
    # --- merging
    ("what one contributor has acknowledged counts for all", AGREEMENT,
     "        } else {\n            trouble(slot).acknowledged.clear();\n        }\n", "        }\n", explored("Acknowledged*")),
    ("earlier agreed failures need no acknowledgement", AGREEMENT,
     "        body.unacknowledged = !acknowledged_.includes(before);\n", "", explored("SlotsAreUsedAgain")),
    ("the root does not compare acknowledged with failed", AGREEMENT,
     "            slot.unacknowledged |= !trouble->acknowledged.includes(trouble->failed);\n", "", explored("OneAgreement*")),
    ("what all have acknowledged is told as news", AGREEMENT,
     "            slot.unacknowledged |= !trouble->acknowledged.includes(trouble->failed);\n",
     "            slot.unacknowledged |= !trouble->failed.empty();\n",
     gtest("tests/simulation/explore/simulation_fuzz_agreement", "Fuzz.SmallGroups*")),
    ("a decision leaves out the failures that its root knows", AGREEMENT,
     "    if (view.parent == kNobody) {\n        gather_own_failures(slot);\n", "    if (view.parent == kNobody) {\n",
     explored("OneAgreement*")),
    ("a decision is added to what was gathered here", AGREEMENT,
     "    if (!trouble_.empty()) trouble(slot).failed.clear();\n", "", explored("OneAgreement*")),
    ("early contributions under a function are dropped", AGREEMENT,
     "        early.insert(early.end(), body.value.begin(), body.value.end());\n", "", explored("EveryOperation")),
    ("early contributions of others are merged once more", AGREEMENT,
     "        for (std::size_t at = 0; at < early.size(); at += slot.bytes) {", "        for (std::size_t at = slot.bytes; at < early.size(); at += slot.bytes) {",
     explored("EveryOperation")),
    ("the contribution of a child is not merged", AGREEMENT,
     "            merge(slot, body, own ? &user_[index_of(slot)] : nullptr);\n", "            (void)own;\n", explored("OneAgreement*")),
    ("a decision is asked for in vain", AGREEMENT,
     "        owe(*slot, message.from.value);\n", "", explored("OneAgreement*")),
    ("any rank may ask as root", AGREEMENT,
     "        if (failed.lowest_absent() != from) return Reception::garbage;\n", "",
     gtest("tests/protocol/agreement/agreement_agreement", "*")),
    # --- failures
    ("of several failures the first is learned", REPAIR,
     "ranks.intervals().back().last < plan_->tree.ranks()) learn(ranks);",
     "ranks.intervals().back().last < plan_->tree.ranks()) peer_failed(Rank{ranks.intervals().front().first});",
     explored("OneAgreement*")),
    ("a new root does not ask the children that it adopts", REPAIR,
     "    mine.others = view_of(slot).adopted;\n    mine.told = 0;\n    slot.missing", "    mine.told = 0;\n    slot.missing",
     explored("OneAgreement*")),
    ("children of the dead are not asked", REPAIR,
     "            others.insert(others.end(), view.fresh.begin(), view.fresh.end());\n", "", explored("OneAgreement*")),
    ("children of the dead are not waited for", REPAIR,
     "        missing += has_contributed(slot, child) ? 0 : 1;\n", "        (void)child;\n", explored("OneAgreement*")),
    ("contributions of the dead are counted", REPAIR,
     "        contributed -= static_cast<std::uint32_t>(bits[index / 64] >> (index % 64) & 1);\n", "        (void)index;\n",
     explored("OneAgreement*")),
    ("a tree follows from what is known here", REPAIR,
     "        rebalance(agreed_before(slot.sequence));\n", "        rebalance(failed_);\n", explored("OneAfterTheOther*")),
    ("a tree in use is replaced", REPAIR,
     "    while (place < views_.size() && is_used())\n", "    while (false && is_used())\n",
     explored("OneAfterTheOther*:Everywhere.FourOverlapping*")),
    ("helpers are lost when the tree is made anew", REPAIR,
     "            contributors.push_back(helper.rank);\n", "            (void)helper;\n",
     explored("OneAfterTheOther*:Everywhere.SlotsAreUsedAgain")),
    ("a late contributor that is no child is not told", SENDS,
     "            mine.others.push_back(helper.rank);\n", "            (void)0;\n", gtest(EXPLORED, "PrintedRule.UpDropped*")),
    ("a contribution tells of no failure", SENDS,
     "void Agreement::write_up(Slot& slot) {\n    gather_own_failures(slot);\n", "void Agreement::write_up(Slot& slot) {\n",
     explored("OneAgreement*")),
    # --- codec, operations, trees
    ("a bitmap may name ranks beyond the group", CODEC,
     "            if (rank >= ranks) return false;\n", "", gtest("tests/protocol/agreement/agreement_codec", "*")),
    ("what would be shorter as ranges is taken as a bitmap", CODEC,
     "    return !ranges_are_smaller(failed);\n", "    return true;\n", gtest("tests/protocol/agreement/agreement_codec", "*")),
    ("the highest is the lowest", OPERATION,
     "bool largest = operation.op == Operator::max;", "bool largest = operation.op == Operator::min;", explored("EveryOperation")),
    ("a tree degenerates when all of it is dead", TREE,
     "if (std::uint64_t{dead} * 2 >= standing_) return true;", "if (std::uint64_t{dead} >= standing_) return true;",
     gtest("tests/protocol/agreement/agreement_tree", "*")),
    ("a tree of levels takes leaves for pods", LEVELS,
     "keys.push_back(by_leaf ? site.leaf : site.pod);", "keys.push_back(site.leaf);", gtest("tests/protocol/agreement/agreement_tree", "AgreementTree.*")),
    ("a group's leader has children in its own level only", LEVELS,
     "        if (place > 0) return found;\n        at = group;\n", "        return found;\n", gtest("tests/protocol/agreement/agreement_tree", "RepairedTree.*")),
    ("a tree made anew knows hosts by their new numbers", TREE,
     "sites_left.push_back(sites[host_of[left.members(host).front().value]]);", "sites_left.push_back(sites[host]);",
     gtest("tests/protocol/agreement/agreement_tree", "AgreementTree.*")),
    ("a dead parent stays the parent", TREE,
     "    while (at != kNobody && failed.contains(at))\n        at = parent(at);\n", "", explored("OneAgreement*")),
    # --- published on a board
    ("a ring of published results is half as long", PUBLISHED,
     "slots_(std::size_t{plan.window} * 2)", "slots_(std::size_t{plan.window})", on_board("Published.*")),
    ("a rank that is shut out decides", PUBLISHED,
     "    shut_out_ = board_->shut_out();\n    return !shut_out_;\n", "    return true;\n",
     on_board("Suspected.ALiveRankDecides*")),
    ("a rank that is shut out sends", PUBLISHED,
     "    if (message && board_->shut_out()) {", "    if (message && false) {", on_board("Suspected.ALiveRankWithdraws*")),
    ("nobody is followed into a recovery", PUBLISHED,
     "    if (stuck || called_ || ((thoroughly || member_failed) && others_recover())) enter_recovery();",
     "    if (stuck) enter_recovery();", on_board("Published.*")),
    ("the dead stay members", PUBLISHED,
     "    leave_out_agreed();\n    acknowledgements_.assign", "    acknowledgements_.assign", on_board("Published.*")),
    ("decisions are made during a recovery", PUBLISHED,
     "    if (recovering_) {\n        if (!recovery_.decided(Sequence{entered_ - 1})) return;\n",
     "    if (recovering_ && recovery_.decided(Sequence{entered_ - 1})) {\n", on_board("Published.*")),
    ("what was gathered before a recovery is kept", PUBLISHED,
     "        slot_of(sequence).restart();\n", "        (void)slot_of(sequence);\n", on_board("Published.*")),
    ("a recovery agrees on the lowest agreement", PUBLISHED,
     "constexpr Operation kHighest{Operator::max,", "constexpr Operation kHighest{Operator::min,", on_board("Published.*")),
    ("a recovery names what was started", PUBLISHED,
     "std::memcpy(value, &decided_below_, sizeof value);", "std::memcpy(value, &next_, sizeof value);", on_board("Published.*")),
    ("everything published is acknowledged", PUBLISHED,
     "    known = {count, acknowledged.includes(*agreed_)};\n", "    known = {count, true};\n", on_board("Published.*")),
    ("acknowledgements of before a recovery are remembered", PUBLISHED,
     "    acknowledgements_.assign(acknowledgements_.size(), {});\n", "", on_board("Published.*")),
    # --- the older algorithms that agreements are compared with
    ("who has decided does not say so in a new attempt", PHASED,
     "    if (voted_ < agreement_) return {.value = last_value_, .decided = true};\n", "", in_phases("TwoPhases*")),
    ("a call does not bring the decision of the agreement before", PHASED,
     "        if (message.agreement > agreement_) decide(message.value);\n", "", in_phases("TwoPhases*")),
    ("nobody follows a coordinator that is dead", PHASED,
     "self_ == failed_.lowest_absent()", "self_ == attempt_->id.coordinator", in_phases("TwoPhases*")),
    ("what belongs to an earlier attempt is let in", PHASED,
     "    if (message.attempt != attempt_->id || message.agreement != voted_) return;",
     "    if (message.agreement != voted_) return;", in_phases("TwoPhases*")),
]
