#!/usr/bin/env python3
"""Which ranks wait for the notice of deaths that cut them off from a broadcast, and that they then get it: real ranks
on simulated hosts, and the ones that coppice-sim names.

Usage: unnoticed_test.py COPPICE_RUN UNNOTICED COPPICE_SIM"""

import json
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "support"))
import jobs  # noqa: E402

RUN, UNNOTICED, SIM = (os.path.abspath(path) for path in sys.argv[1:4])
DEADLINE = 300


def run(*command, **settings):
    return jobs.run(command, DEADLINE, settings)


class Unnoticed(unittest.TestCase):
    RANKS, VICTIMS = 8, (1, 4, 6)

    def expect(self, correction, **settings):
        victims = ",".join(map(str, self.VICTIMS))
        simulated = run(SIM, "broadcast", "--ranks", str(self.RANKS), "--tree", "binomial", "--correction", correction,
                        "--failed", victims, "--format", "json")
        left_out = json.loads(simulated.stdout)["unreached_ranks"]
        others = self.RANKS - 1 - len(self.VICTIMS) - len(left_out)
        done = run(RUN, "-n", str(self.RANKS), "--hosts", str(self.RANKS), "--timeout", "120", UNNOTICED, victims, str(others),
                   COPPICE_TREE="binomial", **settings)
        if "--hosts:" in done.stderr:
            self.skipTest(done.stderr.strip())
        lines = [line.split() for line in done.stdout.splitlines()]
        killed = [float(time) for word, _, time in lines if word == "killed"]
        at = {int(rank): float(time) for word, rank, time in lines if word == "rank"}
        self.assertEqual(len(killed), 1, done.stdout + done.stderr)
        self.assertEqual(sorted(at), sorted(set(range(self.RANKS)) - set(self.VICTIMS)), "a live rank never got it")
        self.assertEqual(sorted(rank for rank, time in at.items() if time > killed[0]), left_out, done.stdout)
        return left_out

    def test_a_rank_that_is_cut_off_waits_for_the_notice_and_then_gets_it(self):
        self.assertEqual(self.expect("opportunistic:1", COPPICE_CORRECTION="opportunistic:1"), [5])

    def test_by_default_nobody_waits_while_three_are_dead(self):
        self.assertEqual(self.expect("optimized:2"), [])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
