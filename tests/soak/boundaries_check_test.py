"""What the soak of chunk boundaries calls wrong: a job whose rank outlived it, and so shows nothing. And each rank dies where it is told to, with
nothing lost, also one that no other takes its chunks from."""

import pathlib
import re
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
        self.assertIn(f"{RANKS - 1} jobs, 0 deaths, lost 0 corrupt 0, 0 chunks of 16 KiB again (0 bytes), at most 0 by one death, {RANKS - 1} found", said)

    def test_every_rank_dies_at_the_first_chunk_and_at_the_last(self):
        code, said = self.soak("--every", str(CHUNKS))
        self.assertEqual(code, 0, said)
        for victim in range(1, RANKS):
            for chunk in (1, CHUNKS):
                self.assertIn(f"kill-at-chunk:{chunk}@{victim}: ", said)
        jobs = 2 * (RANKS - 1)
        sums = re.search(rf"^{jobs} jobs, {jobs} deaths, lost 0 corrupt 0, (\d+) chunks of 16 KiB again \((\d+) bytes\), at most (\d+) by one death, 0 found$", said, re.M)
        self.assertIsNotNone(sums, said)
        again, bytes_, most = (int(number) for number in sums.groups())
        self.assertEqual(bytes_, again * 16 * 1024)
        self.assertLessEqual(most, again)
        self.assertEqual(again, sum(int(vain) for vain in re.findall(r": (\d+) chunks in vain$", said, re.M)))

    def test_a_part_of_the_boundaries_is_a_part(self):
        code, said = self.soak("--every", "1", "--from", "15", "--to", "15")
        self.assertEqual(code, 0, said)
        self.assertEqual(re.findall(r"kill-at-chunk:(\d+)@(\d+): ", said), [("15", str(victim)) for victim in range(1, RANKS)])
        self.assertEqual(self.soak("--every", "1", "--from", "17")[0], 2)
        self.assertEqual(self.soak("--from", "3")[0], 2)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
