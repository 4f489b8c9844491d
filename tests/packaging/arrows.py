#!/usr/bin/env python3
"""The arrows between the rooms point one way, and what is pure stays pure: a scan of every #include in src/."""
import pathlib
import re
import sys

MAY_USE = {
    "base": set(),
    "topology": {"base"},
    "protocol": {"base", "topology"},
    "transport": {"base", "topology"},
    "bootstrap": {"base", "topology"},
    "engine": {"base", "topology", "protocol", "transport", "bootstrap"},
    "api": {"base", "topology", "engine", "bootstrap", "transport"},
}
PURE = {"topology", "protocol"}
# A clock, a thread, a file, a source of chance: what a pure function or state machine has no use for.
IMPURE = {"chrono", "ctime", "thread", "mutex", "shared_mutex", "condition_variable", "future", "semaphore", "random",
          "iostream", "fstream", "ostream", "istream", "cstdio", "filesystem", "csignal", "syncstream"}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


def complaints(path, room):
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        match = INCLUDE.match(line)
        if not match:
            continue
        quoted, name = match[1] == '"', match[2]
        other = name.split("/")[0]
        if quoted and other in MAY_USE and other != room and other not in MAY_USE[room]:
            yield f"{path}:{number}: {room} may not use {other}"
        elif quoted and other not in MAY_USE and other != "coppice":
            yield f"{path}:{number}: \"{name}\" is in no room; includes begin with the room's name"
        elif room in PURE and not quoted and (name in IMPURE or name.endswith(".h")) and not name.startswith("fmt/"):
            yield f"{path}:{number}: {room} is pure and may not use <{name}>"


def main():
    source = pathlib.Path(sys.argv[1]) / "src"
    rooms = {directory.name for directory in source.iterdir() if directory.is_dir()}
    found = [f"{source / room}: a room that this test does not know" for room in sorted(rooms - MAY_USE.keys())]
    scanned = 0
    for room in sorted(rooms & MAY_USE.keys()):
        for path in sorted((source / room).rglob("*")):
            if path.suffix in {".hpp", ".cpp", ".h", ".c"}:
                scanned += 1
                found += complaints(path, room)
    print("\n".join(found) or f"{scanned} files, every arrow points the right way")
    return 1 if found or not scanned else 0


if __name__ == "__main__":
    sys.exit(main())
