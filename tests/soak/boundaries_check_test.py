"""What the soak of chunk boundaries calls wrong: a job whose rank outlived it, and so shows nothing. And each rank dies where it is told to, with
nothing lost, also one that no other takes its chunks from."""

import pathlib
import subprocess
import sys
import unittest

SOAK = pathlib.Path(__file__).resolve().parent / "boundaries.sh"
RANKS, HOSTS, CHUNKS = 5, 2, 16


class Boundaries(unittest.TestCase):
    def soak(self, *options):
        """Its exit code, and what it says."""
        done = subprocess.run([SOAK, "--build", sys.argv[-1], "-s", "256K", "--chunk", "16", "-n", str(RANKS), "--hosts", str(HOSTS), "--verbose", *options],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        return done.returncode, done.stdout

    def test_a_rank_that_outlives_its_job_is_found(self):
        code, said = self.soak("--at", str(CHUNKS + 1))
        self.assertEqual(code, 1, said)
        for victim in range(1, RANKS):
            self.assertIn(f"not killed: COPPICE_FAULTS=kill-at-chunk:{CHUNKS + 1}@{victim},", said)
        self.assertIn(f"{RANKS - 1} jobs, 0 deaths, 0 chunks in vain, {RANKS - 1} found", said)

    def test_every_rank_dies_at_the_first_chunk_and_at_the_last(self):
        code, said = self.soak("--every", str(CHUNKS))
        self.assertEqual(code, 0, said)
        for victim in range(1, RANKS):
            for chunk in (1, CHUNKS):
                self.assertIn(f"kill-at-chunk:{chunk}@{victim}: ", said)
        self.assertIn(f"{2 * (RANKS - 1)} jobs, {2 * (RANKS - 1)} deaths, ", said)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
