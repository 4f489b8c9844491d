"""Faults in what the groups of one origin share, and in how a rank that was taken for dead comes to know it."""

from catchers import gtest, linked

SET = "src/engine/transport_set.cpp"
SHARED = gtest("tests/engine/engine_unit", "TransportSet.*")
# Worlds in which ranks were stopped for longer than the bound.
SILENT = gtest("tests/simulation/world/world_test", "World.SeedsThat*:World.ARankThat*")

FAULTS = [
    # --- seats
    ("a seat is vacated while a group is made in which its holder may be well", SET,
     "    if (expected_ > 0 && ended == Ended::perhaps) return false;\n", "", SHARED),
    ("a seat is vacated though a group is not done with its holder", SET,
     "    if (!std::ranges::all_of(groups_, is_done)) return false;\n", "", SHARED),
    ("who loses its seat is not cut off", SET, "        if (!is_over(seat)) wire->fence(seat);\n", "", SHARED),
    ("the death of a seat's earlier holder is that of the later one", SET,
     "{&dead_, &to_fence_, &gone_}", "{&to_fence_, &gone_}", SHARED),
    ("the suspicion of a seat's earlier holder is that of the later one", SET,
     "{&dead_, &to_fence_, &gone_}", "{&dead_, &gone_}", SHARED),
    ("that a seat's earlier holder has left is said of the later one", SET,
     "{&dead_, &to_fence_, &gone_}", "{&dead_, &to_fence_}", SHARED),
    ("answers to a seat's earlier holder go to the later one", SET,
     "    std::erase_if(replies_, [seat](const Reply& one) { return one.to == seat; });\n", "", SHARED),
    ("what a seat's earlier holder has said too early is heard of the later one", SET,
     "    std::erase_if(early_, [seat](const Early& one) { return one.from == seat; });\n", "", SHARED),
    # --- groups that are gone
    ("who never had a group says that it has left it in peace", SET,
     "past == past_.end() ? MembersKind::never_here : MembersKind::left;", "MembersKind::left;",
     gtest("tests/engine/engine_unit", "LeavingGroup.AProcess*")),
    ("two that never had a group answer each other for ever", SET,
     "        seen.tag == Tag(Channel::members, MembersKind::never_here) ||\n", "", SHARED),
    ("what came for a group that will never be here is not answered", SET,
     "            answer_stranger(one.from, *seen);\n", "", SHARED),
    ("who never had a group goes on in it", "src/engine/core/core.cpp",
     "            note_voteless({&from, 1});\n            return learn_failure(from);\n", "            return;\n",
     gtest("tests/engine/engine_unit", "LeavingGroup.AProcess*")),
    ("two that have given the same group up answer each other for ever", SET, "                        .sequence = failed ? kAnswered : 0,\n",
     "", SHARED),
    ("who tells of a death in a group that was given up does not hear of it", SET, " && seen.sequence == kAnswered);", ");", SHARED),
    # --- cutting off
    ("a rank is cut off while a group is made in which it may be well", SET,
     "    if (expected_ > 0 || groups_.empty() || to_fence_.empty()) return;\n",
     "    if (groups_.empty() || to_fence_.empty()) return;\n", SHARED),
    ("a rank is cut off that is well in another group", SET, "        if (!all_are_done(peer)) {\n", "        if (false) {\n", SHARED),
    ("a rank is cut off that is well in a group which this rank leaves", SET,
     "    std::erase_if(to_fence_, [&](Seat peer) { return !group.is_done_with(peer); });\n", "", SHARED),
    ("one that has left in peace is taken for dead", SET, "    if (peer == nowhere() || is_over(peer)) return;\n",
     "    if (peer == nowhere() || std::ranges::find(dead_, peer) != dead_.end()) return;\n", SHARED),
    ("one that is taken for dead is not cut off", SET,
     "    peer_failed(peer, transport::FailureCause::notice);\n    if (transport::Transport* const wire = to(peer)) wire->fence(peer);\n",
     "    peer_failed(peer, transport::FailureCause::notice);\n", SHARED),
    ("a later group does not hear who has left", SET, "        group.peer_left(rank);\n", "        (void)rank;\n", SHARED),
    # --- messages of groups that are not here
    ("what comes for a group that has yet to be made is not kept", SET, "    if (past == past_.end() && may_come(header)) {",
     "    if (past == past_.end() && expected_ > 0) {", SHARED),
    ("what comes too early is kept without bound", SET, "        } else if (early_.size() < kMostEarly) {", "        } else {", SHARED),
    ("answers to strangers are kept without bound", SET, "    if (farewell || replies_.size() >= capacity()) return;\n", "    if (farewell) return;\n",
     SHARED),
    ("beats of a group that may come are answered, whether they ask or not", SET, "beat.sequence != static_cast<std::uint64_t>(Beat::asks) || ", "",
     SHARED),
    ("farewells are answered", SET, "    if (farewell || replies_.size()", "    if (replies_.size()", SHARED),
    ("a message for a group that is gone is garbage", SET, "        if (past != past_.end()) return false;\n", "", SHARED),
    ("a rank that has given a group up says that it has left in peace", SET, "const bool failed = past != past_.end() && past->failed_as;",
     "const bool failed = false;", SHARED),
    # --- a rank that was taken for dead
    ("silence counts in one group only", "src/engine/core/detection.cpp",
     "        if (detector_.found_silent(*failed)) router_.take_for_dead(*failed);\n", "", SILENT),
    ("a rank is taken for dead without being asked whether it has only left the group", "src/engine/core/detection.cpp",
     "                send_beat(next->to, Beat::asks);\n", "", SILENT),
    ("ranks that had ended before have fenced nobody", "src/engine/core/detection.cpp",
     "(!members_.failed(*by) || ended_early_.contains(by->value))", "!members_.failed(*by)", SILENT),
    ("no group is to come of this one", "src/engine/core/failures.cpp",
     "    return epoch.value > id_.epoch.value && stage()", "    return epoch.value == UINT32_MAX && stage()", SILENT),
    ("a shrink begins that nothing ends", "src/engine/collectives/shrink/shrink.cpp",
     "    // There this rank may find that it is fenced: nothing would end a shrink that has yet to begin.\n    core_.read_failure_logs();\n    if (core_.fenced())\n        return fail(COPPICE_ERR_FENCED, \"rank {} was taken for dead by the others\", members_.self().value);\n    if (shrinking_ != nullptr) return fail(COPPICE_ERR_BUSY, \"this group is being shrunk already: wait for that\");\n",
     "    if (core_.fenced())\n        return fail(COPPICE_ERR_FENCED, \"rank {} was taken for dead by the others\", members_.self().value);\n    if (shrinking_ != nullptr) return fail(COPPICE_ERR_BUSY, \"this group is being shrunk already: wait for that\");\n    core_.read_failure_logs();\n", SILENT),
    ("a rank that has left in peace is waited for", "src/engine/collectives/broadcast/deaths.cpp",
     "    core_.do_without_the_departed();\n", "", linked("tests/integration/integration_leaving", "Hosts/Leaving.ABroadcastWhoseRootHasLeftInPeaceFails/hosts_2")),
]
