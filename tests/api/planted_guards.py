#!/usr/bin/env python3
"""Takes guards out of the shortcuts of blocking broadcasts and of the tables behind them, one at a time, and lets tests find it.

Usage: planted_guards.py BUILD_DIR SOURCE_DIR [NAME ...]

What is planted (tests/support/planted.py) goes into another libcoppice.so, with which the test runs that is to fail. Fails when a test
does not notice, when it fails without anything planted, and when a place is not in the source exactly once.
"""

import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from planted import LIBRARY, Catcher, Fault, Planter  # noqa: E402

ENGINE = "src/engine/collectives/broadcast/"


def guard(name, source, before, after, names):
    return Fault(name, source, before, after), Catcher("tests/api/api_unit", (f"--gtest_filter={names}",), linked=LIBRARY)


GUARDS = [
    guard("a payload of any length is sent",
          ENGINE + "at_once.cpp", "payloads_.goes_in_chunks(payload.size()) || ", "",
          "*AtOnce.MistakesAreToldAsEver/1"),
    guard("a root without a table of sends goes on",
          ENGINE + "at_once.cpp", "slot == nullptr || plan == nullptr ||", "slot == nullptr ||",
          "*AtOnce.MixesWithEverythingElse/1"),
    guard("a table that was never made is used",
          ENGINE + "send_plans.hpp", "place.is_made && place.root == root ?", "place.root == root ?",
          "*AtOnce.MixesWithEverythingElse/1"),
    guard("a payload is copied that is longer than the buffer",
          ENGINE + "at_once.cpp", "slot.root != root || slot.length > buffer.size()", "slot.root != root",
          "*AtOnce.MistakesAreToldAsEver/1"),
    guard("the payload of the broadcast W before is taken",
          ENGINE + "broadcasts.hpp", "slot.engaged && slot.sequence == sequence &&", "slot.engaged &&",
          "*AtOnce.MixesWithEverythingElse/1"),
    guard("what was taken is not noted as consumed",
          ENGINE + "at_once.cpp", "    slot.consumed = true;\n", "",
          "*AtOnce.MixesWithEverythingElse/1"),
    guard("nobody looks for news",
          ENGINE + "at_once.cpp", "    core_.look_for_news();\n", "",
          "*AtOnce.ARevokedGroupTakesNothingMore/0"),
    guard("what is stable is not passed on",
          "src/engine/core/core.cpp", "    passenger_->pass_on();\n", "",
          "*AtOnce.AStreamGoesOnWithoutAnyOtherCall/1"),
    guard("a view is held and the shortcut taken",
          ENGINE + "at_once.hpp", "!window_.all_consumed() || (buffer", "(buffer",
          "*AtOnce.AViewHoldsTheWindow/0"),
    guard("a buffer need not be there",
          ENGINE + "at_once.hpp", "!window_.all_consumed() || (buffer == nullptr && bytes > 0)", "!window_.all_consumed()",
          "*AtOnce.MistakesAreToldAsEver/*"),
    guard("what is published has no room",
          ENGINE + "at_once.hpp", "!has_room || payloads_", "payloads_",
          "*AtOnce.ARootIsAWindowAheadAtMost/0"),
    guard("a view takes the shortcut",
          ENGINE + "at_once.hpp", "!publishing_ || call.view || ", "!publishing_ || ",
          "*AtOnce.MixesWithEverythingElse/0"),
    guard("a request that ended at once has no length",
          ENGINE + "at_once.hpp", "    request.received = received;\n", "",
          "*AtOnce.ANonBlockingOneTellsWhatItHasReceived/0"),
    guard("a payload of any length is published",
          ENGINE + "at_once.hpp", "!has_room || payloads_.goes_in_chunks(bytes)", "!has_room",
          "*AtOnce.MistakesAreToldAsEver/0"),
    guard("the payload of another root is taken",
          ENGINE + "at_once.cpp", "slot.root != root || slot.length", "slot.length",
          "AtOnceOfThree.ThePayloadOfAnotherRootIsNotTaken"),
    guard("the shortcut stays open at the end",
          ENGINE + "broadcasts.cpp", "    next_look_ = Sequence(0);\n", "",
          "*AtOnce.ARevokedGroupTakesNothingMore/*"),
]


def main():
    planter = Planter(*sys.argv[1:3])
    wanted = [(fault, catcher) for fault, catcher in GUARDS if not sys.argv[3:] or fault.name in sys.argv[3:]]
    for catcher in dict.fromkeys(catcher for _, catcher in wanted):
        if failed := planter.says(catcher):
            raise SystemExit(f"with nothing planted: {catcher.called()}: {failed}")
    unnoticed = []
    for fault, catcher in wanted:
        with tempfile.TemporaryDirectory() as folder:
            failed = planter.planted_says(fault, catcher, pathlib.Path(folder))
        print(f"{fault.name}: {failed or 'NOT NOTICED'}", flush=True)
        if not failed:
            unnoticed.append(fault.name)
    if unnoticed:
        print(f"{len(unnoticed)} guards are missed by no test: {', '.join(unnoticed)}")
    return 1 if unnoticed else 0


if __name__ == "__main__":
    sys.exit(main())
