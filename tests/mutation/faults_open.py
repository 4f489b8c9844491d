"""Faults that no test catches yet, or whose test nobody has seen catch them: each wants one. tests/mutation/run --open plants them."""

from catchers import gtest, linked

FAULTS = [
    # Each was found by a world; now that a rank that is asked answers, no known seed needs either.
    ("a query about a root that has left in peace is refused", "src/engine/collectives/broadcast/machines.cpp",
     " && !receive_without_root(*slot, envelope)", "", gtest("tests/simulation/world/world_test", "*HaveBroken*")),
    ("a caller that sleeps beats in its own group only", "src/engine/context.cpp",
     " || groups_[i]->timer_is_due()", "", gtest("tests/simulation/world/world_test", "*HaveBroken*")),
    # 20,000 worlds did not need it either: a read that lands after its rank's death was told, and before a verdict.
    ("what is read out of a dead rank's memory counts", "src/engine/collectives/payload/payload_reads.cpp",
     "core_.revoked() || members_.failed(reading.from) || ", "core_.revoked() || ", gtest("tests/simulation/world/world_test", "*HaveBroken*")),
]
