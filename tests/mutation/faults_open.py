"""Faults that no test catches yet, or whose test nobody has seen catch them: each wants one. tests/mutation/run --open plants them."""

from catchers import gtest
from faults_machines import MEMBERSHIP

FAULTS = [
    # Two votes for different changes, both held by live members, may be impossible.
    ("a vote for an earlier root replaces a later one's", MEMBERSHIP + "talk.cpp",
     "    if (!latest_ || vote.root >= latest_->root) latest_ = vote;\n", "    latest_ = vote;\n",
     gtest("tests/protocol/membership/membership_explore", "*deaths_never_certain:*a_cut_of_four:*no_witness")),
]
