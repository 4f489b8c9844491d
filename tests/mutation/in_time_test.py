#!/usr/bin/env python3
"""tests/mutation/run --minutes ends when the time is over, whatever is under way. Usage: in_time_test.py BUILD_DIR"""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

BUILD = None
RUN = pathlib.Path(__file__).resolve().parent / "run"


def run_with(ninja, *arguments):
    """Where `ninja` is what this script does."""
    with tempfile.TemporaryDirectory() as folder:
        program = pathlib.Path(folder) / "ninja"
        program.write_text(f"#!/bin/sh\n{ninja}\n", encoding="utf-8")
        program.chmod(0o755)
        environment = dict(os.environ, PATH=f"{folder}:{os.environ['PATH']}")
        return subprocess.run([RUN, "--build", BUILD, *arguments], env=environment, capture_output=True, text=True, check=False, timeout=300)


class InTime(unittest.TestCase):
    def test_what_hangs_while_a_fault_is_planted_is_ended(self):
        done = run_with("exec sleep 10000", "--no-build", "--minutes", "0.01", "--only", "the offset 64")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("not reached in 0.01 minutes: ", done.stdout)
        self.assertRegex(done.stdout, r"0 planted, 0 caught, \d+ not reached\n$")

    def test_nothing_more_is_started_once_the_time_is_over(self):
        with tempfile.TemporaryDirectory() as folder:
            called = pathlib.Path(folder) / "called"
            done = run_with(f"echo $* >>{called}", "--no-build", "--minutes", "1e-9")
            self.assertRegex(done.stdout, r"0 planted, 0 caught, \d{3,} not reached\n$")
            self.assertFalse(called.exists())

    def test_the_time_may_be_over_before_the_tests_are_built(self):
        done = run_with("exec sleep 10000", "--minutes", "0.01", "--always")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("the time was over before the tests were built", done.stdout)


if __name__ == "__main__":
    BUILD = sys.argv.pop(1)
    unittest.main()
