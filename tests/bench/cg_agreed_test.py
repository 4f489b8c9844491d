#!/usr/bin/env python3
"""Whatever agrees on the iterations of the benchmark, and whether a rank dies or not: the residuals are the same, to the last bit.

Usage: cg_agreed_test.py COPPICE_RUN CG_AGREED"""

import os
import re
import subprocess
import sys
import unittest

RUN, CG = (os.path.abspath(path) for path in sys.argv[1:3])


def solve(*options):
    environment = {k: v for k, v in os.environ.items() if not k.startswith("COPPICE_")}
    done = subprocess.run([RUN, "-n", "4", CG, "--grid", "8", "--sources", "1", *options], capture_output=True, text=True, check=False,
                          stdin=subprocess.DEVNULL, timeout=240, env=environment)
    return re.findall(r"^residual .*$", done.stdout, re.M), done


class Agreed(unittest.TestCase):
    def test_the_result_is_the_same_whatever_agrees(self):
        expected, done = solve()
        self.assertEqual((len(expected), done.returncode), (1, 0), done.stderr)
        for algorithm in ("library", "era", "two-phase"):
            for deaths in (0, 1):
                with self.subTest(algorithm=algorithm, deaths=deaths):
                    residuals, done = solve("--agree", algorithm, *(["--kill", "2@20"] if deaths else []))
                    self.assertEqual(residuals, expected, done.stderr)
                    self.assertIn(f"ranks {4 - deaths} of 4 total_ms", done.stdout)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
