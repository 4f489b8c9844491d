"""How the tests that have to catch a fault are called."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from planted import LIBRARY, Catcher  # noqa: E402


def gtest(program, names):
    return Catcher(program, (f"--gtest_filter={names}", "--gtest_brief=1", "--gtest_fail_fast"))


def linked(program, names):
    """A program that loads the library, which is built with the fault."""
    return Catcher(program, (f"--gtest_filter={names}", "--gtest_brief=1", "--gtest_fail_fast"), linked=LIBRARY)
