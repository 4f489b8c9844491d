#!/usr/bin/env python3
"""Takes guards out of the shortcuts of blocking broadcasts and of the tables behind them, one at a time, and lets tests find it.

Usage: planted_guards.py BUILD_DIR SOURCE_DIR [NAME ...]

What is planted is a place in one file and what takes its place. What includes that file, or is it, is compiled again and linked into
another libcoppice.so, with which the test runs that is to fail. Fails when a test does not notice, when it fails without anything
planted, and when a place is not in the source exactly once: it is to be planted elsewhere then.
"""

import dataclasses
import json
import os
import pathlib
import shlex
import subprocess
import sys
import tempfile

LIBRARY = "src/api/libcoppice.so"
ENGINE = "src/engine/collectives/broadcast/"
# A test that hangs has noticed.
MOST_SECONDS = 120


@dataclasses.dataclass
class Guard:
    name: str
    source: str
    before: str
    after: str
    filter: str
    program: str = "tests/api/api_unit"


GUARDS = [
    Guard("a payload of any length is sent",
          ENGINE + "at_once.cpp", "payload.size() > transport::kMaxPayload || ", "",
          "*AtOnce.MistakesAreToldAsEver/1"),
    Guard("a root without a table of sends goes on",
          ENGINE + "at_once.cpp", "slot == nullptr || plan == nullptr ||", "slot == nullptr ||",
          "*AtOnce.MixesWithEverythingElse/1"),
    Guard("a table that was never made is used",
          ENGINE + "send_plans.hpp", "place.is_made && place.root == root ?", "place.root == root ?",
          "*AtOnce.MixesWithEverythingElse/1"),
    Guard("a payload is copied that is longer than the buffer",
          ENGINE + "at_once.cpp", "slot.root != root || slot.length > buffer.size()", "slot.root != root",
          "*AtOnce.MistakesAreToldAsEver/1"),
    Guard("the payload of the broadcast W before is taken",
          ENGINE + "at_once.cpp", "slot.engaged && slot.sequence == sequence &&", "slot.engaged &&",
          "*AtOnce.MixesWithEverythingElse/1"),
    Guard("what was taken is not noted as consumed",
          ENGINE + "at_once.cpp", "    slot.consumed = true;\n", "",
          "*AtOnce.MixesWithEverythingElse/1"),
    Guard("nobody looks for news",
          ENGINE + "at_once.cpp", "    core_.look_for_news();\n", "",
          "*AtOnce.ARevokedGroupTakesNothingMore/0"),
    Guard("a view is held and the shortcut taken",
          ENGINE + "at_once.hpp", "!window_.all_consumed() || (buffer", "(buffer",
          "*AtOnce.AViewHoldsTheWindow/0"),
    Guard("a buffer need not be there",
          ENGINE + "at_once.hpp", "!window_.all_consumed() || (buffer == nullptr && bytes > 0)", "!window_.all_consumed()",
          "*AtOnce.MistakesAreToldAsEver/*"),
    Guard("what is published has no room",
          ENGINE + "at_once.hpp", "!has_room || bytes > t", "bytes > t",
          "*AtOnce.ARootIsAWindowAheadAtMost/0"),
    Guard("a payload of any length is published",
          ENGINE + "at_once.hpp", "!has_room || bytes > transport::kMaxPayload", "!has_room",
          "*AtOnce.MistakesAreToldAsEver/0"),
    Guard("the shortcut stays open at the end",
          ENGINE + "broadcasts.cpp", "    next_look_ = Sequence(0);\n", "",
          "*AtOnce.ARevokedGroupTakesNothingMore/*"),
]


def objects_of(build, source_dir, source, into):
    """How the files of the library that `source` is a part of are compiled: an object's name and the command."""
    entries = json.loads((build / "compile_commands.json").read_text(encoding="utf-8"))
    wanted = []
    for entry in entries:
        words = shlex.split(entry["command"])
        made = words[words.index("-o") + 1]
        if not made.startswith("src/") or "-flto" in words:
            continue
        path = (pathlib.Path(entry["directory"]) / entry["file"]).resolve()
        if path == source_dir / source:
            wanted.append((made, words, True))
        elif source.endswith(".hpp") and includes(build, made, source_dir / source):
            wanted.append((made, words, False))
    if not wanted:
        raise SystemExit(f"{source}: nothing of the library is compiled from it")
    for made, words, is_source in wanted:
        words = [word for word in words if word not in ("-Werror", "-MD", "-O3")]
        for option in ("-MF", "-MQ"):
            place = words.index(option)
            del words[place:place + 2]
        if is_source:
            words[words.index("-c") + 1] = str(into / source)
        words[words.index("-o") + 1] = str(into / made.replace("/", "_"))
        compiler = next(i for i, word in enumerate(words) if word.startswith("-"))
        yield made, words[:compiler] + [f"-I{into / 'src'}", "-O1", "-w"] + words[compiler:]


def includes(build, made, header):
    deps = includes.known.setdefault(made, None)
    if deps is None:
        said = subprocess.run(["ninja", "-C", str(build), "-t", "deps", made], check=True, capture_output=True, text=True).stdout
        deps = {(build / line.strip()).resolve() for line in said.splitlines()[1:] if line.startswith("    ")}
        includes.known[made] = deps
    return header in deps


includes.known = {}


def link_with(build, made, library):
    """Links the library with these objects, by name, in the place of the ones in its archives."""
    said = subprocess.run(["ninja", "-C", str(build), "-t", "commands", "-s", str((build / LIBRARY).resolve().relative_to(build))],
                          check=True, capture_output=True, text=True).stdout.splitlines()[-1]
    words = []
    for word in shlex.split(said):
        if word.startswith("src/") and word.endswith(".a"):
            for member in subprocess.run(["ar", "t", word], cwd=build, check=True, capture_output=True, text=True).stdout.split():
                folder = f"{word}.p/"
                name = member if member.startswith(folder) else folder + pathlib.Path(member).name
                words.append(made.get(name, name))
        else:
            words.append(made.get(word, word))
    words[words.index("-o") + 1] = str(library)
    subprocess.run(words, cwd=build, check=True)


def plant(guard, build, source_dir, into):
    source = source_dir / guard.source
    text = source.read_text(encoding="utf-8")
    times = text.count(guard.before)
    if times != 1:
        raise SystemExit(f"'{guard.name}' cannot be planted any more: {guard.source} has its place {times} times, not once:\n"
                         f"{guard.before}\nPlant it where the code does that now (planted_guards.py).")
    mutated = into / guard.source
    mutated.parent.mkdir(parents=True)
    mutated.write_text(text.replace(guard.before, guard.after), encoding="utf-8")
    made = {}
    for name, command in objects_of(build, source_dir, guard.source, into):
        subprocess.run(command, cwd=build, check=True)
        made[name] = command[command.index("-o") + 1]
    link_with(build, made, into / "libcoppice.so.0")


def fails(guard, build, library_dir):
    environment = dict(os.environ)
    if library_dir:
        environment["LD_LIBRARY_PATH"] = str(library_dir)
    try:
        ended = subprocess.run([build / guard.program, f"--gtest_filter={guard.filter}"], env=environment, capture_output=True,
                               text=True, timeout=MOST_SECONDS)
    except subprocess.TimeoutExpired:
        return "it hung"
    if "Running 0 tests" in ended.stdout:
        raise SystemExit(f"{guard.program} has no test {guard.filter}")
    if ended.returncode == 0:
        return None
    failed = [line.split("] ")[1].split(",")[0].split(" (")[0] for line in ended.stdout.splitlines() if line.startswith("[  FAILED  ] ")]
    return failed[0] if failed else f"ended with {ended.returncode}"


def main():
    build, source_dir = (pathlib.Path(argument).resolve() for argument in sys.argv[1:3])
    wanted = [guard for guard in GUARDS if not sys.argv[3:] or guard.name in sys.argv[3:]]
    for program, names in sorted({(guard.program, guard.filter) for guard in wanted}):
        if failed := fails(Guard("", "", "", "", names, program), build, None):
            raise SystemExit(f"with nothing planted: {program} {names}: {failed}")
    unnoticed = []
    for guard in wanted:
        with tempfile.TemporaryDirectory() as folder:
            plant(guard, build, source_dir, pathlib.Path(folder))
            failed = fails(guard, build, folder)
        print(f"{guard.name}: {failed or 'NOT NOTICED'}", flush=True)
        if not failed:
            unnoticed.append(guard.name)
    if unnoticed:
        print(f"{len(unnoticed)} guards are missed by no test: {', '.join(unnoticed)}")
    return 1 if unnoticed else 0


if __name__ == "__main__":
    sys.exit(main())
