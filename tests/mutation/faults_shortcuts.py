"""Faults in the simulator's shortcuts, which have to come to what the machines come to."""

from catchers import gtest

CHECKED = "src/simulation/checked_rounds.cpp"
OPPORTUNISTIC = "src/simulation/opportunistic_steps.cpp"
GOSSIP = "src/simulation/gossip_phase.cpp"
ROUNDS = "src/simulation/gossip_rounds.cpp"
PROOF = "src/simulation/failure_proof_rounds.cpp"
SIMULATOR = "src/simulation/shortcut_simulator.cpp"


def test(names):
    return gtest("tests/simulation/simulation_shortcut", names)


def gossip_test(names):
    return gtest("tests/simulation/simulation_gossip_shortcut", names)


FAULTS = [
    ("a shortcut: of two open directions that are level the right one is first", CHECKED,
     "edge.left <= edge.right", "edge.left < edge.right", test("Shortcut.OfChecked*")),
    ("a shortcut: a port serves many messages in a round", CHECKED,
     "    busy_until_[to] = begin + 1;\n", "    busy_until_[to] = begin;\n", test("Shortcut.OfChecked*")),
    ("a shortcut: a part of a round counts as none", CHECKED,
     "      lag_(2 + (model.latency + model.overhead - 1) / model.overhead),\n", "      lag_(2 + model.latency / model.overhead),\n",
     test("Shortcut.OfChecked*")),
    ("a shortcut: what was heard in the run before is remembered", CHECKED,
     "        heard.clear();\n", "        (void)heard;\n", test("Shortcut.OfChecked*")),
    ("a shortcut: those beside an edge are colored a round early", CHECKED,
     "std::min(2 * (gap.length - 1 - i), 2 * i + 1)", "std::min(2 * (gap.length - 1 - i), 2 * i)", test("Shortcut.OfChecked*")),
    ("a shortcut: messages to the dead are no activity", CHECKED,
     "        last_vanished_ = round;\n", "", test("Shortcut.OfChecked*")),
    ("a shortcut: of equal turns the other one is first", OPPORTUNISTIC,
     "(others == own && !self_is_left)", "(others == own && self_is_left)", test("Shortcut.OfOpportunistic*")),
    ("a shortcut: turns do not grow", OPPORTUNISTIC,
     "static_cast<std::uint16_t>(correction.turn + 1)", "static_cast<std::uint16_t>(correction.turn)", test("Shortcut.OfOpportunistic*")),
    ("a shortcut: a parent is sent to", OPPORTUNISTIC,
     "        member.needless |= heard_by_tree_[to];\n", "", test("Shortcut.OfOpportunistic*")),
    ("a shortcut: ports are never busy", OPPORTUNISTIC,
     "std::max(receiver.busy_until, arrival) + overhead_", "arrival + overhead_", test("Shortcut.OfOpportunistic*")),
    ("a shortcut: nobody goes on who has sent to the dead", OPPORTUNISTIC,
     "        last_ = std::max(last_, arrival);  // its sender goes on before\n", "", test("Shortcut.OfOpportunistic*")),
    ("a shortcut is never compared", SIMULATOR,
     " && seed % kCompared != 0", "", test("Comparison.*")),
    ("a shortcut may break promises", SIMULATOR,
     "keeps(promises_(faults), *outcome) && seed", "seed", test("Comparison.*")),
    ("a shortcut is taken past deaths on the way", SIMULATOR,
     "!faults.dying.empty() || ", "", test("Comparison.*")),
    ("a shortcut may leave out anybody", SIMULATOR,
     "!promise.all_or_none && !(promise.covers && outcome.gaps.largest <= *promise.covers)", "true", test("Comparison.*")),
    ("a shortcut of gossip: who is reached draws from the first word of all", GOSSIP,
     " - kWeyl * static_cast<std::uint64_t>(at);", ";", gossip_test("GossipShortcut.OfGossip*")),
    ("a shortcut of gossip: members draw themselves, too", GOSSIP,
     "(other >= members[i] ? 1 : 0)", "(other > members[i] ? 1 : 0)", gossip_test("GossipShortcut.OfGossip*")),
    ("a shortcut of gossip: the dead are reached", GOSSIP,
     "        ports_.busy_until[position.value] = 1;\n", "", gossip_test("GossipShortcut.OfGossip*")),
    ("a shortcut of gossip: ports are never busy", GOSSIP,
     "std::max(free, arrival) + live[to]", "arrival + live[to]", gossip_test("GossipShortcut.OfGossip*")),
    ("a shortcut of gossip: who is reached in the end has sent less than nothing", GOSSIP,
     "std::max(limit_ - at, 0)", "limit_ - at", gossip_test("GossipShortcut.OfChecked*")),
    ("a shortcut of gossip: who was reached in the run before is remembered", GOSSIP,
     "    reached_.clear();\n", "", gossip_test("GossipShortcut.OfGossip*")),
    ("a shortcut of gossip: on whatever clock", GOSSIP,
     "model.latency % o != 0 || ", "", gossip_test("GossipShortcut.IsThere*")),
    ("a shortcut of checked gossip: what takes effect at once comes too late", ROUNDS,
     "now < closes[i] ? 1 : 0", "now <= closes[i] ? 1 : 0", gossip_test("GossipShortcut.OfChecked*")),
    ("a shortcut of checked gossip: nobody in a row hears of anybody", ROUNDS,
     "(std::min(at, after) & all)", "(std::min(at, kNeverRound) & all)", gossip_test("GossipShortcut.OfChecked*")),
    ("a shortcut of checked gossip: nobody is heard across the ring's beginning", ROUNDS,
     "        if (is_checked()) other.closes[to] = std::min(other.closes[to], effect);\n", "        (void)effect;\n        (void)other;\n",
     gossip_test("GossipShortcut.OfChecked*")),
    ("a shortcut of checked gossip: a row that is open nowhere opens the next one", ROUNDS,
     "own.open[row] = sends ? 1 : 0;", "own.open[row] = any ? 1 : 0;", gossip_test("GossipShortcut.OfChecked*")),
    ("a shortcut of checked gossip: goes round all of the ring", ROUNDS,
     "round + 3 >= rounds_", "round + 3 >= 2 * rounds_", gossip_test("GossipShortcut.OfChecked*")),
    ("a shortcut of gossip: a run is colored from the left only", ROUNDS,
     "std::min(2 * i, 2 * (length - 1 - i) + 1)", "2 * i", gossip_test("GossipShortcut.OfOpportunistic*")),
    ("a shortcut of gossip: an odd number of corrections is one more", ROUNDS,
     "round + 1 < rounds_", "round < rounds_", gossip_test("GossipShortcut.OfOpportunistic*")),
    ("a shortcut of failure-proof gossip: the same g-node is known twice", PROOF,
     "one == offset ? UINT16_MAX : farther", "farther", gossip_test("GossipShortcut.OfFailureProof*")),
    ("a shortcut of failure-proof gossip: no final round", PROOF,
     "    member.sent[1 - side] = 0;\n", "", gossip_test("GossipShortcut.OfFailureProof*")),
    ("a shortcut of failure-proof gossip: g-nodes learn on in the final round", PROOF,
     "    member.learned[side] = true;\n", "", gossip_test("GossipShortcut.OfFailureProof*")),
    ("a shortcut of failure-proof gossip: what is known is what lies ahead", PROOF,
     "member.known[comes_from], comes_from", "member.known[towards], comes_from", gossip_test("GossipShortcut.OfFailureProof*")),
    ("a shortcut of failure-proof gossip: messages to the dead take effect", PROOF,
     "    if (gossip_.is_dead(to)) return true;\n", "", gossip_test("GossipShortcut.OfFailureProof*")),
    ("a shortcut of failure-proof gossip: nobody waits for others", PROOF,
     "    if (offset >= processes_ - 1) return false;\n", "", gossip_test("GossipShortcut.OfFailureProof*:GossipShortcut.Leaves*")),
]
