#!/usr/bin/env python3
"""bench/papers.py shows the figures that its parts have kept, and says what is missing and when the machine was busy.

Usage: papers_test.py BENCH_PAPERS"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

PAPERS = os.path.abspath(sys.argv[1])


def page_of(**parts):
    with tempfile.TemporaryDirectory() as folder:
        for part, kept in parts.items():
            (pathlib.Path(folder) / f"processes-{part.replace('_', '-')}.json").write_text(json.dumps(kept), encoding="utf-8")
        subprocess.run([PAPERS, "--out", folder, "--part", "none"], check=True)
        return (pathlib.Path(folder) / "processes.md").read_text(encoding="utf-8")


def kept(load, *figures):
    names = ("candidate", "ranks", "bytes", "median", "min", "max")
    return {"figures": [dict(zip(names, figure)) for figure in figures],
            "machine": {"cores": 2, "rounds": 3, "load_before": load, "load_after": 2.0, "minutes": 1.5, "day": "2026-01-31"}}


class Papers(unittest.TestCase):
    def test_a_candidate_stands_beside_none(self):
        page = page_of(corrections_tcp=kept(0.2, ("none", 4, 8, 14.1, 13.8, 15.3), ("one", 4, 8, 16.92, 16.1, 1742),
                                            ("checked", 4, 8, 39.7, 39.1, 41.4), ("none", 8, 8, 30, 29, 31)))
        self.assertIn("| 8 bytes, µs, ratio to none | 4 ranks | 8 ranks |", page)
        self.assertIn("| one message | 16.9 (16.1..1,742), 1.20 |  |", page)
        self.assertIn("| none | 14.1 (13.8..15.3), 1.00 | 30.0 (29.0..31.0), 1.00 |", page)
        self.assertNotIn("MPICH", page)
        self.assertNotIn("not quiet", page)

    def test_an_agreement_stands_beside_eras_that_goes_the_same_way(self):
        page = page_of(cg=kept(37.0, ("era/1/agreeing", 4, 0, 10, 9, 11), ("two-phase/1/agreeing", 4, 0, 12, 9, 20),
                               ("two-phase/1/total", 4, 0, 120, 110, 130), ("two-phase/1/recovery", 4, 0, 1.234, 1, 2)))
        self.assertIn("| 4, 1 | two phases, the machine alone | 120 (110..130) | 12.0 (9.00..20.0) |  | 1.23 (1.00..2.00) | 1.20 |", page)
        self.assertIn("load 37.0 before it, so this machine was **not quiet**; 3 rounds", page)
        self.assertNotIn("| 4, 0 |", page)

    def test_parts_without_figures_are_named(self):
        page = page_of()
        self.assertEqual(page.count(": no figures."), page.count("\n## "))
        listed = subprocess.run([PAPERS, "--list"], check=True, capture_output=True, text=True).stdout.splitlines()
        self.assertEqual(len(listed), page.count("\n## "))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
