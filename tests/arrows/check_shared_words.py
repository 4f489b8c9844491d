#!/usr/bin/env python3
"""Checks that words which processes or threads share are those of src/base/shared_words.hpp, or in C of mpi/shared.h, and that these stay short.

Usage: check_shared_words.py SOURCE_ROOT    prints one line for each other one; exit code 1 if any
       check_shared_words.py --self-test    plants some in a temporary tree and checks that each is found

In src/, include/, tools/ and mpi/ nothing else may have an atomic of the standard library or of the compiler. Tests and benchmarks may,
as long as they name no order of memory. Examples are programs of users, and have what users have.
"""

import pathlib
import re
import sys
import tempfile

VOCABULARY = "src/base/shared_words.hpp"
ITS_TEST = "tests/base/shared_words_test.cpp"
IN_C = "mpi/shared.h"
MOST_LINES = {VOCABULARY: 150, IN_C: 50}

ORDER = re.compile(r"\bmemory_order\w*|\bkill_dependency\b")
ATOMIC = re.compile(r"<(?:stdatomic\.h|atomic)>|\batomic_\w+|\b(?:std::)?atomic\s*<|\b_Atomic\b|\b__atomic_\w+|\b__sync_\w+")

SUFFIXES = {".c", ".cc", ".cpp", ".cxx", ".h", ".hh", ".hpp", ".hxx", ".inc", ".ipp"}
FOLDERS = {"src": (ORDER, ATOMIC), "include": (ORDER, ATOMIC), "tools": (ORDER, ATOMIC), "mpi": (ORDER, ATOMIC), "tests": (ORDER,), "bench": (ORDER,)}


def check(root):
    """All words of other kinds below `root`, as lines "file:line: what"; and how many files were read."""
    wrong = []
    files = 0
    for folder, patterns in FOLDERS.items():
        for file in sorted((root / folder).rglob("*")):
            where = file.relative_to(root).as_posix()
            if file.suffix not in SUFFIXES or not file.is_file() or where in (VOCABULARY, IN_C, ITS_TEST):
                continue
            files += 1
            for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), start=1):
                found = next((match for pattern in patterns if (match := pattern.search(line))), None)
                if found:
                    wrong.append(f"{where}:{number}: \"{found.group(0)}\": use a word of {IN_C if folder == 'mpi' else VOCABULARY}")
    for vocabulary, most in MOST_LINES.items():
        file = root / vocabulary
        if not file.is_file():
            wrong.append(f"{vocabulary}:1: is missing")
        elif (lines := len(file.read_text(encoding="utf-8").splitlines())) > most:
            wrong.append(f"{vocabulary}:{lines}: has {lines} lines, more than {most}")
    return wrong, files


# file, line, and whether it is right
PLANTED = [
    ("src/engine/a.cpp", "word.store(1, std::memory_order_relaxed);", False),
    ("src/engine/a.cpp", "constexpr auto kOrder = std::memory_order::acquire;", False),
    ("src/engine/a.hpp", "#include <atomic>", False),
    ("src/engine/a.hpp", "std::atomic<bool> stop_{false};", False),
    ("src/engine/a.hpp", "std::atomic_flag busy;", False),
    ("src/transport/a.cpp", "std::atomic_ref<int>(word).load();", False),
    ("src/transport/shm/a.cpp", "std::atomic_thread_fence(order);", False),
    ("src/transport/shm/a.cpp", "__atomic_store_n(&word, 1, __ATOMIC_RELEASE);", False),
    ("src/transport/shm/a.cpp", "__sync_synchronize();", False),
    ("src/transport/shm/a.cpp", "shared::Published<std::uint64_t> stamp;", True),
    ("src/protocol/a.hpp", "// an atomic broadcast in the sense of the paper", True),
    ("include/coppice/a.h", "_Atomic int word;", False),
    ("tools/a/main.cpp", "std::atomic<int> count;", False),
    ("tests/a/a_test.cpp", "std::atomic<int> count;", True),
    ("tests/a/a_test.cpp", "count.load(std::memory_order_relaxed);", False),
    ("bench/a.cpp", "count.load(std::memory_order_relaxed);", False),
    ("bench/measure.h", "__atomic_load_n(&word, __ATOMIC_ACQUIRE);", True),
    (ITS_TEST, "expect(std::memory_order_acquire);", True),
    (VOCABULARY, "word_.load(std::memory_order_acquire);", True),
    (VOCABULARY, "\n" * MOST_LINES[VOCABULARY], False),
    ("mpi/a.c", "__atomic_store_n(&head, state, __ATOMIC_RELEASE);", False),
    ("mpi/a.c", "static atomic_ulong count;", False),
    ("mpi/a.c", "#include <stdatomic.h>", False),
    ("mpi/a.c", "SHARED_PUBLISH(head, state);", True),
    (IN_C, "__atomic_store_n(&(word), (value), __ATOMIC_RELEASE)", True),
    (IN_C, "\n" * MOST_LINES[IN_C], False),
]


def self_test():
    failures = 0
    for path, line, right in PLANTED:
        with tempfile.TemporaryDirectory() as directory:
            root = pathlib.Path(directory)
            for file in (*MOST_LINES, path):
                (root / file).parent.mkdir(parents=True, exist_ok=True)
                (root / file).write_text("// first line\n", encoding="utf-8")
            (root / path).write_text(f"// first line\n{line}\n", encoding="utf-8")
            wrong, _ = check(root)
            if right != (not wrong):
                failures += 1
                print(f"{path} with {line!r}: expected {'no objection' if right else 'an objection'}, got {wrong}")
    print(f"{len(PLANTED)} planted lines, {failures} judged wrongly")
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
    print(f"{files} files, {len(wrong)} other shared words")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
