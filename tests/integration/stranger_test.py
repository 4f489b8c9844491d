"""A stranger on the network, no part of the job. Usage: stranger_test.py COPPICE_RUN STRANGER"""

import os
import subprocess
import sys
import tempfile
import unittest

RUN, STRANGER = (os.path.abspath(path) for path in sys.argv[1:3])


def attack(**variables):
    """Two ranks on two hosts, and a third host that attacks their listeners."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("COPPICE_")}
    with tempfile.TemporaryDirectory() as directory:
        return subprocess.run([RUN, "--timeout", "120s", "-n", "3", "--hosts", "3", STRANGER, directory],
                              capture_output=True, text=True, check=False, timeout=300, env=clean | variables)


class Strangers(unittest.TestCase):
    def check(self, done):
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("rank 0 lives", done.stdout)
        self.assertIn("rank 1 lives", done.stdout)

    def test_a_listener_of_ucx_does_not_hear_other_hosts(self):
        done = attack(COPPICE_TRANSPORT="ucx")
        self.check(done)
        self.assertIn("connected to 0 of 2 listeners", done.stdout)

    def test_what_ranks_use_by_default_outlives_it(self):
        done = attack()
        self.check(done)
        self.assertIn("connected to 2 of 2 listeners", done.stdout)  # tcp hears everybody, and listens to ranks alone


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
