"""Faults that no test catches yet, or whose test nobody has seen catch them: each wants one. tests/mutation/run --open plants them."""

from catchers import gtest, linked

FAULTS = [
    ("a renewal that lacks a quorum does not wait for a witness", "src/engine/collectives/shrink/shrink.cpp",
     "if (!votes_ || !votes_->has_witness() || no_quorum_) return false;", "if (true) return false;",
     linked("tests/integration/integration_witnessed", "*CostNoQuorum*")),
    ("a shortcut of failure-proof gossip: who is far enough away is somebody else", "src/simulation/failure_proof_rounds.cpp",
     "    return !is_beyond_;\n", "    return true;\n",
     gtest("tests/simulation/simulation_gossip_shortcut", "GossipShortcut.OfFailureProof*")),
]
