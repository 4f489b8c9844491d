#!/usr/bin/env python3
"""The example that brings a file to all ranks, with real processes: whichever ranks die, the survivors have the file.

Usage: example_weights_test.py COPPICE_RUN WEIGHTS"""

import hashlib
import os
import random
import re
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "support"))
import jobs  # noqa: E402

RUN, WEIGHTS = (os.path.abspath(path) for path in sys.argv[1:3])
DEADLINE = 240


class Weights(unittest.TestCase):
    PIECE = 50_000
    CONTENT = random.Random(1).randbytes(6 * PIECE + 123)

    @classmethod
    def setUpClass(cls):
        with tempfile.NamedTemporaryFile(delete=False) as file:
            file.write(cls.CONTENT)
            cls.path = file.name

    @classmethod
    def tearDownClass(cls):
        os.unlink(cls.path)

    def deliver(self, ranks, may_die, *launcher, faults=None):
        """All survivors have the file. Returns which ranks died: how many messages a rank sends depends on its neighbours."""
        done = jobs.run([RUN, "-n", str(ranks), *launcher, WEIGHTS, "--piece", str(self.PIECE), "--file", self.path], DEADLINE,
                        {"COPPICE_FAULTS": faults} if faults else {})
        if "--hosts:" in done.stderr:
            self.skipTest(done.stderr.strip())
        said = done.stdout + done.stderr
        dead = {int(rank) for rank in re.findall(r"rank (\d+) \(pid \d+\) was killed by signal 9", done.stderr)}
        self.assertLessEqual(dead, may_die, said)
        self.assertNotIn("exited with code", done.stderr, said)
        have = re.findall(r"^weights: rank (\d+): (\d+) bytes, sha256 (\w+)$", done.stdout, re.M)
        self.assertLessEqual(set(range(ranks)) - dead, {int(rank) for rank, _, _ in have}, said)
        digest = hashlib.sha256(self.CONTENT).hexdigest()
        self.assertEqual({(size, sum_) for _, size, sum_ in have}, {(str(len(self.CONTENT)), digest)}, said)
        if 0 not in dead:  # which tells it
            self.assertIn(f"] {len(self.CONTENT) / 2**20:.1f} of ", done.stdout, said)
            self.assertIn("weights: the same at all live ranks, ", done.stdout, said)
        return dead

    def test_all_ranks_of_all_hosts_have_the_file(self):
        self.deliver(5, set(), "--hosts", "2")

    def test_receivers_may_die_at_any_message(self):
        # Counted in messages of the victim: rank 2 leads a host, and others take their chunks from it.
        self.assertEqual(self.deliver(6, {2}, "--hosts", "3", faults="kill-before:1@2"), {2})
        for message in (20, 45):
            with self.subTest(message=message):
                self.deliver(6, {2}, "--hosts", "3", faults=f"kill-before:{message}@2")

    def test_the_rank_that_sends_may_die_and_the_one_after_it(self):
        self.assertIn(0, self.deliver(6, {0, 1}, "--hosts", "3", faults="kill-before:1@0,kill-before:21@1"))
        for message in (15, 40):
            with self.subTest(message=message):
                self.deliver(6, {0, 1}, "--hosts", "3",
                             faults=f"kill-before:{message}@0,kill-before:{message + 20}@1")

    def test_a_file_of_a_few_hundred_mib_reaches_the_survivors_of_two_hosts(self):
        # Rank 2 leads the second host: rank 3 takes what it gets from there. It dies once it has 100 chunks, of at most 1 MiB each.
        size, digest = 256 << 20, hashlib.sha256()
        draw = random.Random(2)
        with tempfile.NamedTemporaryFile() as file:
            for _ in range(size >> 20):
                block = draw.randbytes(1 << 20)
                digest.update(block)
                file.write(block)
            file.flush()
            done = jobs.run([RUN, "-n", "4", "--hosts", "2", WEIGHTS, "--file", file.name], DEADLINE, {"COPPICE_FAULTS": "kill-at-chunk:100@2"})
        if "--hosts:" in done.stderr:
            self.skipTest(done.stderr.strip())
        said = done.stdout + done.stderr
        self.assertEqual(re.findall(r"rank (\d+) \(pid \d+\) was killed by signal 9", done.stderr), ["2"], said)
        have = sorted(re.findall(r"^weights: rank (\d+): (\d+) bytes, sha256 (\w+)$", done.stdout, re.M))
        self.assertEqual(have, [(rank, str(size), digest.hexdigest()) for rank in "013"], said)
        self.assertIn("] 256.0 of 256.0 MiB, ", done.stdout, said)
        self.assertIn("weights: the same at all live ranks, ", done.stdout, said)

    def test_a_file_that_is_not_there_is_named(self):
        done = jobs.run([RUN, "-n", "2", WEIGHTS, "--file", self.path + ".not"], DEADLINE)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn(self.path + ".not", done.stderr + done.stdout)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
