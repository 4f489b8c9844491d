"""Faults that no test catches yet, or whose test nobody has seen catch them: each wants one. tests/mutation/run --open plants them."""

from catchers import gtest
from faults_agreement import REPAIR, explored
from faults_broadcast import GOSSIP, test
from faults_machines import DETECTOR, MEMBERSHIP, REVOCATION, STABILITY

FAULTS = [
    ("the latest tree is replaced", REPAIR,
     "        return place == latest_view_ || std::any_of(", "        return std::any_of(", explored("OneAfterTheOther*:Everywhere.SlotsAreUsedAgain")),
    ("gossip relies on the dead far away", GOSSIP,
     "    if (far_right_ == right) far_right_ = 0;\n", "", test("gossip", "*")),
    ("a place in the tree of notices is told twice", DETECTOR,
     "        if (std::find_if(targets_.begin(), target, same) != target) continue;\n", "        (void)same;\n",
     gtest("tests/protocol/detector/detector_rules", "*")),
    ("news are sent to those that are gone", REVOCATION,
     "        if (!roster_.gone(message.to.value)) return message;\n", "        return message;\n",
     gtest("tests/protocol/revocation/revocation_rules", "*")),
    ("a child of two parents reports to both", STABILITY,
     "    std::erase_if(children_, [this](std::uint32_t child) { return live_parent(child) != roster_.own_node(); });\n", "",
     gtest("tests/protocol/stability/stability_rules", "*")),
    ("a report that is older counts", STABILITY,
     "    if (message.count >= known.count) known = {message.count, message.slowest.value, true};\n",
     "    known = {message.count, message.slowest.value, true};\n", gtest("tests/protocol/stability/stability_rules", "*")),
    ("a consent that nobody shares may have been decided", MEMBERSHIP + "consent.cpp",
     "    return !needed.empty() && consent.members.includes(needed);\n", "    return !needed.empty();\n",
     gtest("tests/protocol/membership/membership_explore", "*consents*")),
    ("a vote for an earlier root replaces a later one's", MEMBERSHIP + "talk.cpp",
     "    if (!latest_ || vote.root >= latest_->root) latest_ = vote;\n", "    latest_ = vote;\n",
     gtest("tests/protocol/membership/membership_explore", "*")),
]
