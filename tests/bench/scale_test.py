"""What one rank of a large group keeps: so many bytes for each further rank, whatever the machine's speed."""

import subprocess
import sys
import unittest

SCALE = sys.argv[1]
MOST_BYTES = 128  # for each further rank: 8 MiB for 65,536


def kept(ranks):
    words = subprocess.run([SCALE, str(ranks)], capture_output=True, text=True, check=True).stdout.split()
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
