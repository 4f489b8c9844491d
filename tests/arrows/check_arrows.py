#!/usr/bin/env python3
"""Checks that the arrows between the rooms of src/ point the way docs/architecture.md draws them, and that those between the parts of
a room run in no circle.

A part is a folder of a room with what lies directly in it. What lies in no folder is one part, and in the engine as many as there are
names: router.hpp and router.cpp are one.

Usage: check_arrows.py SOURCE_ROOT    prints one line for each include that goes the wrong way, and one for each circle; exit code 1 if any
       check_arrows.py --self-test    plants wrong includes in a temporary tree and checks that each is found

Reads the #include lines of every C and C++ file under src/ and include/.
"""

import pathlib
import re
import sys
import tempfile

PUBLIC = "coppice"  # include/coppice: what users include

# Each room, and what else it may include. The public C header is named where a room speaks its status codes.
ARROWS = {
    "topology": set(),
    "protocol": {"topology"},
    # Published protocols and printed rules to compare with: nothing of ours is built on them, and no part of the library has them.
    "protocol/baselines": {"protocol", "topology"},
    "base": {PUBLIC},
    "status": {"base", PUBLIC},
    "trace": {"base", "status", PUBLIC},
    "transport": {"base", PUBLIC},
    "bootstrap": {"base", PUBLIC},
    "engine": {"protocol", "transport", "topology", "base", "status", "trace", "bootstrap", PUBLIC},
    "simulation": {"protocol", "protocol/baselines", "topology"},
    # A room within a room: what judges whole ranks knows calls and results alone.
    "simulation/promises": {PUBLIC},
    "simulation/world": {"simulation", "simulation/promises", "api", "engine", "bootstrap", "status", "protocol", "transport", "topology", "base", PUBLIC},
    "api": {"engine", "base", "status", "trace", "bootstrap", "transport", "topology", "protocol", PUBLIC},
    PUBLIC: set(),
}

# Arithmetic and words that every room may include, as pure as the purest room.
FOR_ALL = {"base/mix.hpp", "base/words.hpp"}

# Rooms of pure functions and machines: C++ standard headers without a clock, a thread or input and output.
PURE = {"topology", "protocol", "protocol/baselines"}
IMPURE_HEADERS = {
    "barrier", "chrono", "clocale", "condition_variable", "csignal", "cstdio", "ctime", "filesystem", "fstream",
    "future", "iomanip", "ios", "iostream", "istream", "latch", "locale", "mutex", "ostream", "print", "semaphore",
    "shared_mutex", "sstream", "stop_token", "streambuf", "syncstream", "thread",
}
PURE_THIRD_PARTY = {"tl/expected.hpp"}

# Rooms whose files in no folder lie above some of the folders and below others.
MANY_TOP_PARTS = {"engine"}
TOP = "(top)"

# The engine asks the table of transports (transport/registry.hpp) and names none of them.
NAMED_TRANSPORT = re.compile(r"^transport/[^/]+/")

SUFFIXES = {".c", ".cc", ".cpp", ".cxx", ".h", ".hh", ".hpp", ".hxx", ".inc", ".ipp"}
DIRECTIVE = re.compile(r"^\s*#\s*include\b\s*(.*)$")
NAME = re.compile(r'^(?:"([^"]+)"|<([^>]+)>)')


def room_of(root, path):
    """The room that a file below `root` lies in, or None."""
    try:
        parts = path.resolve().relative_to(root.resolve()).parts
    except ValueError:
        return None
    if len(parts) > 2 and parts[0] in ("src", "include"):
        within = "/".join(parts[1:3])
        return within if within in ARROWS else parts[1]
    return None


def target_room(root, file, name, quoted):
    """The room that an include leads to, or None when it leads out of the project."""
    if quoted and (file.parent / name).is_file():
        return room_of(root, file.parent / name)
    for base in ("src", "include"):
        if (root / base / name).is_file():
            return room_of(root, root / base / name)
    first = name.split("/")[0]
    return first if first in ARROWS and "/" in name else None


def objection(root, file, room, rest):
    """What is wrong with one include of a file in `room`, or None."""
    match = NAME.match(rest)
    if not match:
        return "an include that can't be read"
    name = match.group(1) or match.group(2)
    target = target_room(root, file, name, match.group(1) is not None)
    if room == "engine" and NAMED_TRANSPORT.match(name):
        return f"the engine names no transport ({name}): ask transport/registry.hpp"
    for_all = any(file == root / "src" / header for header in FOR_ALL)
    if target is not None:
        if for_all:
            return f"every room may include this header, so it may include nothing of ours ({name})"
        if target == room or target in ARROWS[room] or name in FOR_ALL:
            return None
        return f"{room} may not include {target} ({name})"
    if (room in PURE or for_all) and name not in PURE_THIRD_PARTY:
        if not re.fullmatch(r"[a-z0-9_]+", name) or name in IMPURE_HEADERS:
            return f"{room} is pure here and may not include <{name}>"
    return None


def sources(root):
    """All C and C++ files of the project's rooms below `root`."""
    for base in ("src", "include"):
        for file in sorted((root / base).rglob("*")):
            if file.suffix in SUFFIXES and file.is_file():
                yield file


def part_of(root, path):
    """The part of a room that a file below `root` lies in, as (room, part), or None outside of all rooms."""
    room = room_of(root, path)
    if room is None:
        return None
    home = root / "include" if room == PUBLIC else root / "src"
    within = path.resolve().relative_to((home / room).resolve())
    if len(within.parts) > 1:
        return room, str(within.parent)
    return room, within.stem if room in MANY_TOP_PARTS else TOP


def included_file(root, file, rest):
    """The file of the project that an include leads to, or None."""
    match = NAME.match(rest)
    name = match and (match.group(1) or match.group(2))
    for candidate in (file.parent / name, root / "src" / name, root / "include" / name) if name else ():
        if candidate.is_file():
            return candidate
    return None


def part_arrows(root):
    """Which part includes which other one, as {(room, part): {(room, part): [place, ...]}}, all parts of the rooms among the keys."""
    arrows = {}
    for file in sources(root):
        part = part_of(root, file)
        if part is None:
            continue
        leads = arrows.setdefault(part, {})
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), start=1):
            match = DIRECTIVE.match(line)
            to = match and included_file(root, file, match.group(1))
            target = part_of(root, to) if to else None
            if target is not None and target != part:
                leads.setdefault(target, []).append(f"{file.relative_to(root)}:{number}")
    return arrows


def knots(arrows):
    """The sets of nodes that reach each other (Tarjan), those below first; `arrows` says for each node what it leads to."""
    index, low, stack, found = {}, {}, [], []

    def visit(node):
        index[node] = low[node] = len(index)
        stack.append(node)
        for to in sorted(arrows.get(node, ())):
            if to not in index:
                visit(to)
            if to in stack:
                low[node] = min(low[node], low[to])
        if low[node] == index[node]:
            at = stack.index(node)
            found.append(stack[at:])
            del stack[at:]

    for node in sorted(arrows):
        if node not in index:
            visit(node)
    return found


def shortest_circle(arrows, knot):
    """A shortest way within the knot from some node back to it."""
    ways = []
    for start in sorted(knot):
        before, queue = {}, [start]
        while queue and start not in before:
            node = queue.pop(0)
            for to in sorted(arrows[node]):
                if to in knot and to not in before:
                    before[to] = node
                    queue.append(to)
        way = [start]
        while way[0] != start or len(way) == 1:
            way.insert(0, before[way[0]])
        ways.append(way)
    return min(ways, key=len)


def circles(root):
    """The circles among the parts of each room, as lines "file:line: what"."""
    arrows = part_arrows(root)
    wrong = []
    for room in sorted({room for room, _ in arrows}):
        within = {part: {to: places for to, places in leads.items() if to[0] == room}
                  for part, leads in arrows.items() if part[0] == room}
        for knot in knots(within):
            if len(knot) == 1:
                continue
            way = shortest_circle(within, knot)
            places = ", ".join(within[one][to][0] for one, to in zip(way, way[1:]))
            wrong.append(f"{within[way[0]][way[1]][0]}: the parts of {room} include each other in a circle: "
                         f"{' -> '.join(part for _, part in way)} ({places})")
    return wrong


def check(root):
    """All wrong includes below `root`, as lines "file:line: what"; and how many files were read."""
    wrong = []
    files = 0
    for file in sources(root):
        files += 1
        where = file.relative_to(root)
        room = room_of(root, file)
        if room not in ARROWS:
            wrong.append(f"{where}:1: lies in no room that has arrows: add it to {pathlib.Path(__file__).name}")
            continue
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), start=1):
            match = DIRECTIVE.match(line)
            problem = match and objection(root, file, room, match.group(1))
            if problem:
                wrong.append(f"{where}:{number}: {problem}")
    return wrong + circles(root), files


# file, include line, and whether it is right
PLANTED = [
    ("src/topology/a.hpp", "#include <vector>", True),
    ("src/topology/a.hpp", "#include <tl/expected.hpp>", True),
    ("src/topology/a.hpp", '#include "topology/b.hpp"', True),
    ("src/topology/a.hpp", '#include "protocol/b.hpp"', False),
    ("src/topology/a.hpp", '#include "base/error.hpp"', False),
    ("src/topology/a.hpp", '#include "base/mix.hpp"', True),
    ("src/topology/a.hpp", '#include "base/words.hpp"', True),
    ("src/simulation/a.cpp", '#include "base/words.hpp"', True),
    ("src/base/words.hpp", '#include "base/error.hpp"', False),
    ("src/base/words.hpp", "#include <mutex>", False),
    ("src/base/a.hpp", '#include "topology/b.hpp"', False),
    ("src/topology/a.hpp", '#include "../engine/b.hpp"', False),
    ("src/topology/a.hpp", "#include <coppice/coppice.h>", False),
    ("src/topology/a.cpp", "#include <sys/mman.h>", False),
    ("src/topology/a.cpp", "#include <unistd.h>", False),
    ("src/topology/a.cpp", "#include <time.h>", False),
    ("src/topology/a.cpp", "  #  include <chrono> // no clock", False),
    ("src/protocol/a.cpp", "#include <thread>", False),
    ("src/protocol/a.cpp", "#include <iostream>", False),
    ("src/protocol/a.cpp", "#include <fmt/format.h>", False),
    ("src/protocol/a.cpp", "#include SOME_MACRO", False),
    ("src/protocol/a.cpp", '#include "topology/b.hpp"', True),
    ("src/protocol/deep/a.cpp", '#include "engine/b.hpp"', False),
    ("src/protocol/a.cpp", '#include "protocol/baselines/b.hpp"', False),
    ("src/protocol/baselines/a.cpp", '#include "protocol/b.hpp"', True),
    ("src/protocol/baselines/a.cpp", "#include <thread>", False),
    ("src/protocol/a.cpp", '#include "transport/b.hpp"', False),
    ("src/transport/shm/a.cpp", '#include "transport/b.hpp"', True),
    ("src/transport/shm/a.cpp", "#include <sys/mman.h>", True),
    ("src/transport/shm/a.cpp", '#include "engine/b.hpp"', False),
    ("src/transport/a.cpp", '#include "protocol/b.hpp"', False),
    ("src/transport/a.cpp", '#include "topology/b.hpp"', False),
    ("src/bootstrap/a.cpp", '#include "topology/b.hpp"', False),
    ("src/bootstrap/a.cpp", '#include "transport/b.hpp"', False),
    ("src/engine/a.cpp", '#include "protocol/b.hpp"', True),
    ("src/engine/a.cpp", '#include "api/b.hpp"', False),
    ("src/engine/a.cpp", '#include "transport/registry.hpp"', True),
    ("src/engine/a.cpp", '#include "transport/tcp/tcp_transport.hpp"', False),
    ("src/engine/a.hpp", '#include "transport/shm/layout.hpp"', False),
    ("src/engine/a.cpp", '#include "simulation/b.hpp"', False),
    ("src/engine/a.cpp", '#include "protocol/baselines/b.hpp"', False),
    ("src/api/a.cpp", '#include "protocol/baselines/b.hpp"', False),
    ("src/simulation/world/a.cpp", '#include "protocol/baselines/b.hpp"', False),
    ("src/simulation/a.cpp", '#include "protocol/baselines/b.hpp"', True),
    ("src/simulation/a.cpp", '#include "transport/b.hpp"', False),
    ("src/simulation/a.cpp", '#include "simulation/world/b.hpp"', False),
    ("src/simulation/world/a.cpp", '#include "engine/b.hpp"', True),
    ("src/simulation/promises/a.cpp", '#include "engine/b.hpp"', False),
    ("src/simulation/promises/a.cpp", '#include "simulation/world/b.hpp"', False),
    ("src/base/a.hpp", "#include <coppice/coppice.h>", True),
    ("src/base/mix.hpp", '#include "topology/b.hpp"', False),
    ("src/base/mix.hpp", "#include <chrono>", False),
    ("src/base/a.hpp", "#include <chrono>", True),
    ("src/simulation/promises/a.cpp", '#include "base/mix.hpp"', True),
    ("src/simulation/promises/a.cpp", '#include "base/error.hpp"', False),
    ("src/base/a.hpp", '#include "transport/b.hpp"', False),
    ("src/api/a.cpp", '#include "engine/b.hpp"', True),
    ("src/nowhere/a.cpp", "#include <vector>", False),
    ("include/coppice/a.h", '#include "engine/b.hpp"', False),
    ("include/coppice/a.h", "#include <stdint.h>", True),
]

# files with what they include, and how many circles there are
CIRCLES = [
    ({"src/engine/core/a.hpp": "engine/requests/b.hpp", "src/engine/requests/b.hpp": ""}, 0),
    ({"src/engine/core/a.hpp": "engine/requests/b.hpp", "src/engine/requests/c.cpp": "engine/core/a.hpp"}, 0),
    ({"src/engine/core/a.hpp": "engine/requests/b.hpp", "src/engine/requests/b.hpp": "engine/core/c.hpp"}, 0),
    ({"src/engine/core/a.hpp": "engine/requests/b.hpp", "src/engine/requests/b.hpp": "engine/core/c.hpp",
      "src/engine/core/c.hpp": ""}, 1),
    # The way back need not be that of the same file, nor direct, nor through folders alone.
    ({"src/engine/core/a.hpp": "engine/requests/b.hpp", "src/engine/requests/b.hpp": "",
      "src/engine/requests/c.cpp": "engine/core/a.hpp"}, 1),
    ({"src/engine/core/a.hpp": "engine/router.hpp", "src/engine/router.hpp": "",
      "src/engine/router.cpp": "engine/set/c.hpp", "src/engine/set/c.hpp": "../core/a.hpp"}, 1),
    ({"src/engine/router.hpp": "", "src/engine/router.cpp": "engine/router.hpp"}, 0),
    ({"src/engine/core/a.hpp": "engine/core/b.hpp", "src/engine/core/b.hpp": "engine/core/a.hpp"}, 0),
    # A folder of a folder is a part of its own; a room within a room is no part.
    ({"src/engine/core/a.hpp": "engine/core/deep/b.hpp", "src/engine/core/deep/b.hpp": "engine/core/a.hpp"}, 1),
    ({"src/transport/shm/a.hpp": "transport/b.hpp", "src/transport/b.hpp": "transport/shm/a.hpp"}, 1),
    ({"src/transport/a.hpp": "transport/b.hpp", "src/transport/b.hpp": "transport/a.hpp"}, 0),
    ({"src/engine/a.hpp": "engine/b.hpp", "src/engine/b.hpp": "engine/a.hpp",
      "src/bootstrap/a.hpp": "bootstrap/door/b.hpp", "src/bootstrap/door/b.hpp": "bootstrap/a.hpp"}, 2),
]


def self_test_circles():
    failures = 0
    for files, expected in CIRCLES:
        with tempfile.TemporaryDirectory() as directory:
            root = pathlib.Path(directory)
            for path, included in files.items():
                (root / path).parent.mkdir(parents=True, exist_ok=True)
                (root / path).write_text(f'#include "{included}"\n' if included else "", encoding="utf-8")
            found = circles(root)
            if len(found) != expected:
                failures += 1
                print(f"{files}: expected {expected} circles, got {found}")
    print(f"{len(CIRCLES)} planted graphs, {failures} judged wrongly")
    return failures


def self_test():
    failures = self_test_circles()
    for path, line, right in PLANTED:
        with tempfile.TemporaryDirectory() as directory:
            root = pathlib.Path(directory)
            for room in ARROWS:
                if room != PUBLIC:
                    (root / "src" / room).mkdir(parents=True)
                    (root / "src" / room / "b.hpp").write_text("#pragma once\n", encoding="utf-8")
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(f"// first line\n{line}\n", encoding="utf-8")
            wrong, _ = check(root)
            if right != (not wrong):
                failures += 1
                print(f"{path} with {line!r}: expected {'no objection' if right else 'an objection'}, got {wrong}")
    print(f"{len(PLANTED)} planted includes, {failures} judged wrongly")
    return 1 if failures else 0


def main(arguments):
    if arguments == ["--self-test"]:
        return self_test()
    if len(arguments) != 1 or arguments[0].startswith("-"):
        print(__doc__, file=sys.stderr)
        return 2
    wrong, files = check(pathlib.Path(arguments[0]))
    for line in wrong:
        print(line)
    if files == 0:
        print(f"no source files below {arguments[0]}")
        return 1
    print(f"{files} files, {len(wrong)} wrong includes or circles")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
