"""Faults in the machines that a group keeps beside its collectives: detection, revocation, stability, leaving, views."""

from catchers import gtest

DETECTOR = "src/protocol/detector/detector.cpp"
REVOCATION = "src/protocol/revocation/revocation.cpp"
STABILITY = "src/protocol/stability/stability.cpp"
DEPARTURE = "src/protocol/departure/departure.cpp"
ASSEMBLY = "src/engine/collectives/agreement/assembly.cpp"
MEMBERSHIP = "src/protocol/membership/"

FAULTS = [
    ("of several failures the first run is passed on", DETECTOR,
     "            news_.emplace_back(rank);\n    }\n    note_absence();\n",
     "            news_.emplace_back(rank);\n        break;\n    }\n    note_absence();\n",
     gtest("tests/protocol/detector/detector_rules", "*")),
    ("a rank that is observed anew has no time to learn of it", DETECTOR,
     "    silence_ = -static_cast<std::int64_t>(bound_.value);\n", "    silence_ = 0;\n",
     gtest("tests/protocol/detector/detector_rules", "*")),
    ("the rank that is observed is not told of those between", DETECTOR,
     "        if (between != observed_ && failed_.contains(between)) {", "        if (false) {",
     gtest("tests/protocol/detector/detector_rules", "*")),
    ("a gap in this rank's own time counts as the other's silence", DETECTOR,
     "    const std::uint64_t gap = std::min(now.value - looked_, period_.value);\n", "    const std::uint64_t gap = now.value - looked_;\n",
     gtest("tests/protocol/detector/detector_rules", "*")),
    ("a place in the tree of notices is told twice", DETECTOR,
     "        if (std::find_if(targets_.begin(), target, same) != target) continue;\n", "        (void)same;\n",
     gtest("tests/protocol/detector/detector_rules", "*")),
    ("news are sent to those that are gone", REVOCATION,
     "        if (!roster_.gone(message.to.value)) return message;\n", "        return message;\n",
     gtest("tests/protocol/revocation/revocation_rules", "*")),
    ("a report that is older counts", STABILITY,
     "    if (message.count >= known.count) known = {message.count, message.slowest.value, true};\n",
     "    known = {message.count, message.slowest.value, true};\n", gtest("tests/protocol/stability/stability_rules", "*")),
    ("a consent that nobody shares may have been decided", MEMBERSHIP + "consent.cpp",
     "    return !needed.empty() && consent.members.includes(needed);\n", "    return !needed.empty();\n",
     gtest("tests/protocol/membership/membership_explore", "*consents*")),
    ("an answer is waited for from the dead", REVOCATION,
     "    if (!roster_.lose(rank)) return;\n    std::erase(unaware_, rank.value);\n", "    if (!roster_.lose(rank)) return;\n",
     gtest("tests/protocol/revocation/revocation_explore", "*")),
    ("a rank that leaves says no farewell to those that ask late", DEPARTURE,
     "            return heard(asker);\n", "            return;\n", gtest("tests/protocol/departure/departure_explore", "*")),
    ("an answer names the rank that asked", DEPARTURE,
     "            if (reply.about == self() || reply.about == asker) return;\n", "            if (reply.about == self()) return;\n",
     gtest("tests/protocol/departure/departure_rules", "*")),
    ("a half without the lowest may go on", MEMBERSHIP + "quorum.cpp",
     "    return halves || !failures.suspected.contains(lowest);\n", "    return true;\n",
     gtest("tests/protocol/membership/membership_quorum", "*")),
    ("parts of two messages are put together", ASSEMBLY,
     "    if (message != mine.message || part.empty()", "    if (part.empty()", gtest("tests/engine/engine_unit", "Parts.*")),
    ("a message in parts may be of any length", ASSEMBLY,
     "part.empty() || part.size() + std::size_t{rest} > longest_", "part.empty()", gtest("tests/engine/engine_unit", "Parts.*")),
]
