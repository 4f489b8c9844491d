"""Faults in the simulator's shortcuts, which have to come to what the machines come to."""

from catchers import gtest

CHECKED = "src/simulation/checked_rounds.cpp"
OPPORTUNISTIC = "src/simulation/opportunistic_steps.cpp"
SIMULATOR = "src/simulation/shortcut_simulator.cpp"


def test(names):
    return gtest("tests/simulation/simulation_shortcut", names)


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
     "keeps(promises_(faults), outcome) && seed", "seed", test("Comparison.*")),
    ("a shortcut is taken past deaths on the way", SIMULATOR,
     "!faults.dying.empty() || ", "", test("Comparison.*")),
]
