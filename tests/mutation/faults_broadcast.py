"""Faults in broadcasts: corrections, the root's death, failure-proof correction, gossip, the binomial graph."""

from catchers import gtest, linked

BROADCAST = "src/protocol/broadcast.cpp"
HEADER = "src/protocol/broadcast.hpp"
CORRECTION = "src/protocol/correction.cpp"
OPPORTUNISTIC = "src/protocol/correction_opportunistic.cpp"
CHECKED = "src/protocol/correction_checked.cpp"
DELAYED = "src/protocol/correction_delayed.cpp"
ROOT = "src/protocol/root_failure.cpp"
PROOF = "src/protocol/failure_proof.cpp"
GOSSIP = "src/protocol/baselines/gossip.cpp"
GRAPH = "src/protocol/baselines/binomial_graph.cpp"


def test(name, names="*"):
    return gtest(f"tests/protocol/protocol_{name}", names)


ROOTS = linked("tests/integration/integration_roots", "Jobs/RootsBetweenHosts.*:RootsOfTwoRanks.*")

FAULTS = [
    # --- the ring, beyond what is remembered one by one
    ("a target is left to a member beyond the offset 64", OPPORTUNISTIC,
     "    if (offset > kRemembered && rule == CorrectionKind::optimized_opportunistic) return;\n", "", test("far_offsets", "Rings/FarOffsetsIn.*")),
    ("of those beyond the offset 64 the farthest is remembered", CORRECTION,
     "    if (far == 0 || offset < far) far = offset;\n", "    if (far == 0 || offset > far) far = offset;\n", test("far_offsets", "Rings/FarOffsetsIn.*")),
    ("a dead member beyond the offset 64 is relied on", CORRECTION,
     "    for (std::uint32_t* offset : {&relied_left_, &equal_left_}) {\n        if (*offset == left) *offset = 0;\n    }\n", "",
     test("far_offsets", "Rings/FarOffsetsIn.*")),
    ("a sender beyond the offset 64 is not stopped", DELAYED,
     "        equal_left_ = offset;\n", "        equal_left_ = 0;\n", test("far_offsets", "Rings/FarOffsetsIn.*")),
    ("the member at the offset 64 is not forgotten", CORRECTION,
     "    if (left <= kRemembered) heard_left_ &= ~bit(left);\n", "    if (left < kRemembered) heard_left_ &= ~bit(left);\n",
     test("far_offsets", "Rings/FarOffsetsIn.*")),
    # --- corrections
    ("an optimized stand-in relies on others", OPPORTUNISTIC,
     "    if (color_ == Color::from_start) return;\n", "", test("broadcast", "OptimizedCorrection.*")),
    ("targets that were left to the dead are not served", CORRECTION,
     "    if (heard && (kind == CorrectionKind::optimized_opportunistic || kind == CorrectionKind::optimized_paper)) {",
     "    if (heard && kind == CorrectionKind::optimized_paper) {", test("far_offsets", "Rings/FarOffsetsIn.*")),
    ("what was left to the dead root is not served", CORRECTION,
     "    if (from.value == 0 && (kind == CorrectionKind::opportunistic || kind == CorrectionKind::optimized_opportunistic)) {",
     "    if (false) {", test("broadcast", "OpportunisticCorrection.*")),
    ("a dead root still serves its children", HEADER,
     "        return !root_dead_ && (target.value == 0", "        return (target.value == 0", test("broadcast", "OpportunisticCorrection.*")),
    ("turns do not grow", OPPORTUNISTIC,
     "        if (turn >= turn_) turn_ = turn + 1;\n", "", test("broadcast", "OptimizedCorrection.*")),
    ("a range does not reach over the known dead", OPPORTUNISTIC,
     "    return count - failed_among(*failed_, first_member, count, processes()) < plan_->correction.distance;\n",
     "    return count < plan_->correction.distance && first_member < processes();\n", test("property", "LiveRoot.*")),
    ("a range of equal turns is served by the right one too", OPPORTUNISTIC,
     "(others < own || (others == own && !self_is_left))", "(others < own || (others == own && self_is_left))", test("broadcast", "OptimizedCorrection.*")),
    ("checked stops one before the nearest", CHECKED,
     "left_limit == 0 || left_ < left_limit;", "left_limit == 0 || left_ + 1 < left_limit;", test("broadcast", "CheckedCorrection.*")),
    ("delayed never sends to the right", DELAYED,
     "    if (is_alone && wake_ != kNever) return std::nullopt;\n", "    if (is_alone) return std::nullopt;\n", test("broadcast", "Delayed.*")),
    ("delayed is not stopped by an answer", DELAYED,
     "    while (right_ < processes() - 1 && (is_alone || right_ < turn_)) {", "    while (right_ < processes() - 1) {", test("golden", "*")),
    ("a tree message after a correction changes nothing", BROADCAST,
     "    if (color_ == Color::uncolored || comes_late) color(Color::by_tree);\n", "    if (color_ == Color::uncolored) color(Color::by_tree);\n",
     test("broadcast", "*")),
    ("an acknowledgement of the dead is waited for", BROADCAST,
     "    while (first_awaited_ < children_ && ((answered_ & 1) != 0 || failed(plan_->tree.child(self, first_awaited_)))) {",
     "    while (first_awaited_ < children_ && (answered_ & 1) != 0) {", test("broadcast", "Acknowledged.*")),
    # --- the root is dead
    ("denials of an earlier round are counted", ROOT,
     "    if (!is_asking() || message.detail != round_) return true;\n", "    if (!is_asking()) return true;\n", test("broadcast", "Denial.*")),
    ("a growing set of failures starts no new round", ROOT,
     "    if (round_ != failed_->count()) {", "    if (round_ == 0) {", test("broadcast", "Denial.*")),
    ("the round of the last query counts, in whatever order", ROOT,
     "    if (!asked_later) asked_round_ = message.detail;\n", "    asked_round_ = message.detail;\n", test("broadcast", "Machine.*")),
    ("a coordinator that has the verdict tells nobody", ROOT,
     "    while (coordinator_ && ask_next_ < processes()) {\n", "    while (self_ == 0 && ask_next_ < processes()) {\n", test("broadcast", "Denial.*")),
    ("members colored by a correction take no part when the root is dead", BROADCAST,
     "    if (self_ == 0 || root_dead_) return true;\n", "    if (self_ == 0) return true;\n", test("property", "DeadRoot.*")),
    # --- failure-proof
    ("failure-proof does not reopen after a notice", PROOF,
     "    if (forgot && role_ == Role::done) reopen();\n", "", test("failure_proof", "Notice.*")),
    ("failure-proof knows one fewer", PROOF,
     "    if (known_on.count <= failures()) {\n        ++known_on.count;", "    if (known_on.count < failures()) {\n        ++known_on.count;",
     test("failure_proof", "Figure6.*:CNode.*:Sos.*:Knowledge.*:Noticed.*")),
    ("a final round does not start again from the nearest", PROOF,
     "    side(left).is_final = true;\n    side(left).sent = 0;\n", "    side(left).is_final = true;\n", test("failure_proof", "FinalRound.*")),
    ("one survivor on both sides counts twice", PROOF,
     "        alive += failed(at(false, right_.known[i])) || is_known_on_the_left(right_.known[i]) ? 0 : 1;\n",
     "        alive += failed(at(false, right_.known[i])) ? 0 : 1;\n", test("failure_proof", "Figure6.*:CNode.*:Sos.*:Knowledge.*:Noticed.*")),
    ("a cry for help is not passed on", PROOF,
     "        begin_sos();\n        return true;\n", "        return true;\n", test("failure_proof", "Figure6.*:CNode.*:Sos.*:Knowledge.*:Noticed.*")),
    # --- gossip, the binomial graph
    ("gossip relies on the dead far away", GOSSIP,
     "    if (far_right_ == right) far_right_ = 0;\n", "", test("gossip", "*")),
    ("gossip does not go on correcting after a notice", GOSSIP,
     "    if (phase_ == Phase::done && is_checked() && (gossiped_ || root_dead_)) phase_ = Phase::correcting;\n", "", test("gossip", "*")),
    ("a stand-in in the binomial graph is not sent to again", GRAPH,
     "        resend_ |= std::uint32_t{1} << index;\n",
     "        (void)index;\n", test("binomial_graph", "*")),
    ("a neighbour on both sides in the binomial graph is served twice", GRAPH,
     "        if (is_served_twice(index)) continue;\n", "", test("binomial_graph", "BinomialGraphBothWays.*")),
    ("with the binomial graph used both ways a member counts on its left only", GRAPH,
     "        if (directions_ == Directions::both &&\n            !failed(", "        if (false && !failed(", test("binomial_graph", "BinomialGraphBothWays.*")),
    ("a stand-in in the binomial graph used both ways is not sent to again", GRAPH,
     "            sent_ = 0;\n", "", test("binomial_graph", "BinomialGraphBothWays.*")),
    # --- what is only there to be compared with
    ("users may choose gossip without a correction", "src/protocol/gossip_spec.cpp",
     "    return parse_gossip(text, kNames);\n", "    return parse_gossip(text, std::array{kNames[0], kNames[1], kNames[2], kPlainNames[0]});\n",
     test("correction_names", "Baselines.*")),
    ("who asks for a printed rule is not told where it is", "src/protocol/correction_spec.cpp",
     "refuse(is_printed ? kOnlyToCompare : \"is unknown\")", "refuse(is_printed ? \"is unknown\" : \"is unknown\")",
     test("correction_names", "Baselines.*")),
    ("who asks for the binomial graph is not told where it is", "src/engine/algorithm.cpp",
     "name == \"bfb\" || name == \"big\")", "name == \"bfb\")", gtest("tests/engine/engine_unit", "Algorithms.*")),
    # --- two roots on two hosts
    ("a rank that is sent two roots' payloads tells nobody", "src/engine/collectives/broadcast/machines.cpp",
     "            (void)roots_.tell({header.sequence, slot.root, Rank(header.root)});\n", "            (void)0;\n", ROOTS),
    ("nobody revokes a group in which two roots were found by messages", "src/engine/collectives/broadcast/broadcasts.cpp",
     "    if (roots_.found() != nullptr) revocation_.begin();\n", "", ROOTS),
    # --- what a rank reads that the others have left out: its memory of the group may be another one's by now
    ("what a rank reads begins broadcasts that are another group's", "src/engine/collectives/broadcast/deaths.cpp",
     "            if (board_->fenced()) return life_.be_fenced();", "            if (false) return life_.be_fenced();",
     gtest("tests/simulation/world/world_test", "World.ARankThatMakesItsGroupLateTakes*")),
    ("roots of another group are taken for this one's", "src/engine/collectives/broadcast/roots.cpp", "    return !board_->fenced() && tell(found);",
     "    return tell(found);", gtest("tests/simulation/world/world_test", "World.ARankThatIsLeftOutFinds*")),
]
