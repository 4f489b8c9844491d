"""Faults that no test catches yet, or whose test nobody has seen catch them: each wants one. tests/mutation/run --open plants them."""

FAULTS = []
