"""What one rank of a large group keeps: so many bytes for each further rank, whatever the machine's speed."""

import os
import subprocess
import sys
import unittest

SCALE = sys.argv[1]
MOST_BYTES = 128  # for each further rank: 8 MiB for 65,536


def kept(ranks):
    # Memory that is given back is not to be written to once more, which makes it resident.
    environment = {name: value for name, value in os.environ.items() if name != "MALLOC_PERTURB_"}
    words = subprocess.run([SCALE, str(ranks)], capture_output=True, text=True, check=True, env=environment).stdout.split()
    figures = dict(zip(words[0::2], words[1::2]))
    assert int(figures["ranks"]) == ranks, words
    return float(figures["resident_mib"]) * 1048576


class Scale(unittest.TestCase):
    def test_a_further_rank_costs_little(self):
        few, many = 8192, 73728
        grown = (kept(many) - kept(few)) / (many - few)
        self.assertLess(grown, MOST_BYTES)
        self.assertGreater(grown, 13)  # an address alone takes as much: less, and nothing was formed


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
