#!/usr/bin/env python3
"""Plants bugs in copies of the engine's and the machines' sources, one at a time, and lets the world find them.

Usage: planted_bugs.py BUILD_DIR SOURCE_DIR [NAME ...]

A bug is a place in one file and what takes its place. That file is compiled again, and linked with all the others into a program that runs
world after world until a promise is broken (find_violation.cpp). Fails when a bug is not found by its number of seeds, and when its
place is not in the source exactly once: it is to be planted elsewhere then.
"""

import dataclasses
import json
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

FINDER = "tests/simulation/world/find_violation"


@dataclasses.dataclass
class Bug:
    name: str
    source: str
    before: str
    after: str
    seeds: int


BUGS = [
    # --- the engine
    Bug("a control message is not sent again",
        "src/engine/core/core.cpp",
        "        if (link.send(bytes_of(control.header), {}, &in_flight) == transport::SendStatus::again)\n"
        "            controls_[kept++] = control;\n",
        "        (void)link.send(bytes_of(control.header), {}, &in_flight);\n", 3000),
    Bug("agreements hear of no death",
        "src/engine/collectives/agreement/agreement.cpp",
        "    if (!core_.revoked()) agreements_.peer_failed(death.rank);\n", "", 3000),
    Bug("the detector hears of no death",
        "src/engine/core/failures.cpp",
        "    detector_.peer_failed(rank);\n", "", 3000),
    Bug("a decided agreement keeps its place",
        "src/engine/collectives/agreement/agreements.cpp",
        "    end_decided();  // one that was decided when", "    // one that was decided when", 6000),
    Bug("a payload lacks a byte",
        "src/engine/collectives/broadcast/machines.cpp",
        "        stage(slot, payload.data(), payload.size());\n",
        "        stage(slot, payload.data(), payload.size() - (payload.size() > 8));\n", 3000),
    Bug("a view is consumed at once",
        "src/engine/collectives/broadcast/delivery.cpp",
        "if (!request.view || status != COPPICE_OK) mark_consumed(slot);", "mark_consumed(slot);", 3000),
    Bug("a slot is used again too early",
        "src/engine/collectives/window/window.cpp",
        "        const std::uint64_t count = board_->consumed(local_peer).value;",
        "        const std::uint64_t count = board_->consumed(local_peer).value + 1;", 3000),
    Bug("a request is not given back",
        "src/engine/group.cpp",
        "    pool_.give_back(request);\n", "", 3000),
    Bug("a callback for a death that others have told is missing",
        "src/engine/core/failures.cpp",
        "if (is_told && stage() == Stage::staying) untold_", "if (is_told && stage() == Stage::staying && death.was_leader) untold_", 3000),
    Bug("logs of the host's ranks are not read",
        "src/engine/core/failures.cpp",
        "if (dead.value < members_.ranks()) learn_failure(dead);", "(void)dead;", 3000),
    Bug("a rank that leaves is taken for dead at once",
        "src/engine/core/leaving.cpp",
        "    departure_.want();\n    progress();\n",
        "    departure_.want();\n    detector_.give_up();\n    progress();\n", 3000),
    # --- the machines
    Bug("a notice is forwarded to nobody",
        "src/protocol/detector/detector.cpp",
        "    if (!is_leader_) return std::nullopt;\n", "    return std::nullopt;\n", 3000),
    Bug("the rank that a dead one observed is observed by none",
        "src/protocol/detector/detector.cpp",
        "    if (next == observed_) return;\n", "    if (next == observed_ || observed_ != kNobody) return;\n", 3000),
    Bug("a node's new leader is told nothing",
        "src/protocol/detector/detector.cpp",
        "        if (now != target.leader) target.told = 0;\n", "", 6000),
    Bug("a revocation stays here",
        "src/protocol/revocation/revocation.cpp",
        "    if (learn(roster_.self())) spread();\n", "    learn(roster_.self());\n", 3000),
    Bug("a root that died is waited for",
        "src/protocol/broadcast.cpp",
        "    idle_ = false;\n    learn_of_failures();\n    forget(position);\n", "    idle_ = false;\n    forget(position);\n", 3000),
    Bug("an own contribution is not counted",
        "src/protocol/agreement/agreement.cpp",
        "    merge(slot, body, &operation);\n    slot.status = Status::gathering;", "    slot.status = Status::gathering;", 3000),
    Bug("an agreement is decided twice",
        "src/protocol/agreement/repair.cpp",
        "    slot.asking = true;\n", "", 3000),
    Bug("a late contributor is not told the decision",
        "src/protocol/agreement/agreement.cpp",
        "            owe(slot, from);\n            break;", "            break;", 3000),
    Bug("acknowledgements are united",
        "src/protocol/agreement/agreement.cpp",
        "trouble(slot).acknowledged.intersect(*body.acknowledged);", "trouble(slot).acknowledged.unite(*body.acknowledged);", 3000),
    Bug("a report that a death has lost is not repeated",
        "src/protocol/stability/stability.cpp",
        "    report_again_ = !is_top() && (report_again_ || !lacks(kReportIsNotRepeated));\n", "", 3000),
]


def command_of(build, source):
    """How `source` is compiled for the library."""
    entries = json.loads((build / "compile_commands.json").read_text(encoding="utf-8"))
    for entry in entries:
        at = (pathlib.Path(entry["directory"]) / entry["file"]).resolve()
        if at == source.resolve() and "-flto" not in entry["command"]:
            return entry["command"]
    raise SystemExit(f"{source}: no compile command")


def plant(bug, source_dir):
    source = source_dir / bug.source
    text = source.read_text(encoding="utf-8")
    times = text.count(bug.before)
    if times != 1:
        raise SystemExit(
            f"'{bug.name}' cannot be planted any more: {bug.source} has its place {times} times, not once:\n{bug.before}\n"
            "Plant it where the code does that now (planted_bugs.py).")
    return source, text.replace(bug.before, bug.after)


def build_with(bug, build, source_dir, into):
    """The finder with that bug."""
    source, text = plant(bug, source_dir)
    mutated = into / source.name
    mutated.write_text(text, encoding="utf-8")
    compile_command = command_of(build, source)
    made = into / "planted.o"
    words = [word for word in shlex.split(compile_command) if word not in ("-Werror", "-MD", "-O3")]
    words[words.index("-c") + 1] = str(mutated)
    for option in ("-MF", "-MQ", "-o"):
        if option in words:
            place = words.index(option)
            del words[place:place + 2]
    subprocess.run(words + ["-O1", "-w", "-o", str(made)], cwd=build, check=True)
    link = subprocess.run(["ninja", "-C", str(build), "-t", "commands", "-s", FINDER], check=True, capture_output=True,
                          text=True).stdout.splitlines()[-1]
    program = into / "find"
    words = shlex.split(link)
    words[words.index("-o") + 1] = str(program)
    words.insert(words.index("-o") + 2, str(made))
    subprocess.run(words, cwd=build, check=True)
    return program


def main():
    build, source_dir = (pathlib.Path(argument).resolve() for argument in sys.argv[1:3])
    wanted = sys.argv[3:]
    lost = []
    for bug in BUGS:
        if wanted and bug.name not in wanted:
            continue
        with tempfile.TemporaryDirectory() as folder:
            program = build_with(bug, build, source_dir, pathlib.Path(folder))
            ended = subprocess.run([program, str(bug.seeds)], capture_output=True, text=True)
        words = (ended.stdout + ended.stderr).strip()
        found = ended.returncode == 0 and re.match(r"seed \d+: ", words)
        print(f"{bug.name}: {words or f'ended with {ended.returncode}'}", flush=True)
        if not found:
            lost.append(bug.name)
    if lost:
        print(f"{len(lost)} planted bugs were not found: {', '.join(lost)}")
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
