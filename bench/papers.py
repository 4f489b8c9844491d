#!/usr/bin/env python3
"""The papers' figures that take real processes, on this machine, in one go: a page of tables, and the figures of each part beside it.

  bench/papers.py [--out DIR] [--part PART]... [--rounds N] [--ranks "4 8 …"] [--build DIR] [--list]

Writes DIR/processes.md and DIR/processes-PART.json (docs/figures, unless told otherwise). Parts that are not asked for keep the figures
that they have there, so one part may be run alone, and --part none writes the page only. Every part alternates its candidates, and gives
medians of rounds with the least and the greatest. The page says how busy the machine was: on one that is not quiet most of what is
measured is the wait for a core.

Exit code: 0 when every part gave figures; 1 when one did not, which the page says, too; 2 bad options.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent

CORRECTIONS = {"openmpi": "Open MPI, binomial", "mpich": "MPICH, binomial", "none": "none", "one": "one message", "two": "two", "four": "four",
               "two,dead": "two, a rank in eight dead", "checked": "checked"}
AGREED = {"published": "published", "era-library": "ERA in the library", "era": "ERA, the machine alone",
          "two-phase": "two phases, the machine alone"}
TREES = {"auto,1": "one host, published", "binary,1": "one host, binary", "binomial,1": "binomial", "kary:4,1": "kary:4", "star,1": "star",
         "chain,1": "chain", "bin/star,4": "4 hosts, bin/star", "bin/bin,4": "bin/bin", "star/star,4": "star/star", "binary,4": "binary",
         "binomial,4": "binomial", "star,4": "star", "chain,4": "chain"}
VICTIMS = {"root,1": "one host: the root", "child-of-root,1": "a child of the root", "root,4": "4 hosts: the root",
           "child-of-root,4": "a child of the root", "host-leader,4": "a host's leader", "child-of-leader,4": "a child of that",
           "whole-host,4": "a whole host"}


class Measured:
    """The figures of a part: by candidate, ranks and bytes."""
    def __init__(self, kept):
        self.kept = kept
        self.by = {(f["candidate"], f["ranks"], f["bytes"]): f for f in kept["figures"]}
        self.ranks = sorted({ranks for _, ranks, _ in self.by})

    def cell(self, candidate, ranks, size=0):
        figure = self.by.get((candidate, ranks, size))
        return "" if figure is None else f"{short(figure['median'])} ({short(figure['min'])}..{short(figure['max'])})"

    def ratio(self, candidate, rival, ranks, size=0):
        figure, other = self.by.get((candidate, ranks, size)), self.by.get((rival, ranks, size))
        return "" if not (figure and other and other["median"]) else f"{figure['median'] / other['median']:.2f}"


def short(value):
    """Three digits."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def table(head, rows):
    rows = [row for row in rows if any(row[1:])]
    return "\n".join("| " + " | ".join(row) + " |" for row in (head, ["---"] * len(head), *rows))


def corrections(measured):
    parts = []
    for size in (8, 256):
        rows = []
        for candidate, called in CORRECTIONS.items():
            row = [called]
            for ranks in measured.ranks:
                ratio = measured.ratio(candidate, "none", ranks, size)
                row.append(measured.cell(candidate, ranks, size) + (f", {ratio}" if ratio else ""))
            rows.append(row)
        parts.append(table([f"{size} bytes, µs, ratio to none", *(f"{ranks} ranks" for ranks in measured.ranks)], rows))
    return "\n\n".join(parts)


def cg(measured):
    rows = []
    for ranks in measured.ranks:
        for deaths in (0, 1):
            for candidate, called in AGREED.items():
                of = f"{candidate}/{deaths}/"
                rival = "era-library" if candidate in ("published", "era-library") else "era"
                rows.append([f"{ranks}, {deaths}", called, *(measured.cell(of + what, ranks) for what in ("total", "agreeing", "each", "recovery")),
                             measured.ratio(of + "agreeing", f"{rival}/{deaths}/agreeing", ranks)])
    rows = [row for row in rows if any(row[2:])]
    return table(["ranks, deaths", "", "total, ms", "in agreements, ms", "an agreement, µs", "recovery, ms", "in agreements, to ERA's"], rows)


def by_ranks(measured, columns, size, rival=None):
    """A row for each number of ranks. `columns`: heading to candidate, and by how many ranks more it is called."""
    rows = []
    for ranks in measured.ranks:
        row = [str(ranks), *(measured.cell(candidate, ranks + more, size) for candidate, more in columns.values())]
        if rival:
            row.append(measured.ratio(*rival, ranks, size))
        rows.append(row)
    return table(["ranks, µs", *columns, *(["ratio"] if rival else [])], rows)


def algorithms(measured):
    return by_ranks(measured, {"ERA": ("ERA", 0), "two phases": ("two-phase", 0), "three phases": ("three-phase", 0)}, 8, ("two-phase", "ERA"))


def failure_free(measured):
    return by_ranks(measured, {"published": ("coppice", 0), "MPI_Allreduce": ("openmpi", 0), "the same over UCX": ("openmpi-ucx", 0)}, 8)


def rebuilt(measured):
    return by_ranks(measured, {"before": ("kept/failure-free", 0), "the tree made anew": ("rebuilt/post-failure", 0),
                               "the tree repaired": ("kept/post-failure", 0)}, 8, ("kept/post-failure", "rebuilt/post-failure"))


def shrink(measured):
    return by_ranks(measured, {"without a death": ("shrink", 0), "after the first's": ("shrink/first", 0), "one in the middle": ("shrink/middle", 0),
                               "the last's": ("shrink/last", 0), "half of them": ("shrink/half", 0)}, 0)


def trees(measured):
    return table(["µs", *(f"{ranks} ranks" for ranks in measured.ranks)],
                 [[called, *(measured.cell(tree, ranks, 8) for ranks in measured.ranks)] for tree, called in TREES.items()])


def deaths(measured):
    phases = ("failure-free", "detecting", "stabilizing", "post-failure")
    return "\n\n".join(table([f"{ranks} ranks, µs", *phases],
                             [[called, *(measured.cell(f"{victim}/{phase}", ranks, 8) for phase in phases)] for victim, called in VICTIMS.items()])
                       for ranks in measured.ranks)


SHARED = "PPoPP'19, Figures 11, 12 and 15: broadcasts of a binomial tree, each rank a position, "
# Part: heading, command, its ranks, how its figures are shown.
PARTS = {
    "corrections-shm": (SHARED + "over shared memory", ["bench/corrections.sh"], "2 4 8 16", corrections),
    "corrections-tcp": (SHARED + "over TCP on loopback", ["bench/corrections.sh", "--transport", "tcp"], "2 4 8 16", corrections),
    "corrections-verbs": (SHARED + "over verbs on soft-RoCE", ["bench/corrections.sh", "--transport", "verbs"], "2 4", corrections),
    "failure-free": ("SC'15, Figure 2a: agreements without a failure, one host", ["bench/agreement.sh", "--part", "failure-free"], "4 8 16 32",
                     failure_free),
    "algorithms": ("SC'15, §5.2.1: ERA beside the older agreements, by messages along a binary tree", ["bench/agreement.sh", "--part", "algorithms"],
                   "4 8 16 32", algorithms),
    "trees": ("SC'15, Figure 2b: topologies", ["bench/agreement.sh", "--part", "trees"], "4 8 16 32", trees),
    "rebuilt": ("SC'15, Figure 2c: after half of the ranks have died, by messages along a binary tree", ["bench/agreement.sh", "--part", "rebuilt"],
                "4 8 16 32", rebuilt),
    "deaths": ("SC'15, Figure 2d: by the role of the dead", ["bench/agreement.sh", "--part", "deaths"], "8 16 32", deaths),
    "shrink": ("SC'15, Figure 3: a new group", ["bench/agreement.sh", "--part", "shrink"], "4 8 16 32", shrink),
    "cg": ("SC'15, Figure 4: conjugate gradients, each sum agreed upon; 32³ unknowns, one equation", ["bench/cg.sh"], "4 8 16 32", cg),
}


def options_of():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", 1)[0], epilog=__doc__.split("\n\n", 1)[1],
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "docs" / "figures", help="where the page and the figures go (docs/figures)")
    parser.add_argument("--part", action="append", choices=[*PARTS, "none"], help="more than one is possible; all without")
    parser.add_argument("--rounds", type=int, default=3, help="of each part (3)")
    parser.add_argument("--ranks", help="in place of each part's own")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build", help="the build directory (build)")
    parser.add_argument("--list", action="store_true", help="print the parts, and end")
    options = parser.parse_args()
    if options.rounds < 1:
        parser.error("--rounds is positive")
    return options


def measure(part, options):
    """The part's figures with what the machine did meanwhile; nothing when there are none."""
    _, command, ranks, _ = PARTS[part]
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "figures.json"
        command = [str(ROOT / command[0]), *command[1:], "--quick", "--rounds", str(options.rounds), "--build", str(options.build.resolve()),
                   "--json", str(path)]
        command += ["--ranks", options.ranks or ranks]
        if part == "corrections-verbs":
            command = [str(ROOT / "tools/rxe-guest"), "--writable", folder, *command]
        load, start = os.getloadavg()[0], time.monotonic()
        code = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=False).returncode
        minutes = (time.monotonic() - start) / 60
        try:
            kept = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            kept = {"figures": []}
        if code != 0 or not kept["figures"]:
            print(f"papers.py: {part} gave no figures (exit code {code})", file=sys.stderr)
            return None
    kept["machine"] = {"cores": os.cpu_count(), "rounds": options.rounds, "load_before": round(load, 1), "load_after": round(os.getloadavg()[0], 1),
                       "minutes": round(minutes, 1), "day": time.strftime("%Y-%m-%d")}
    return kept


def section(part, kept):
    heading, command, _, show = PARTS[part]
    text = f"## {heading}\n\n`{' '.join(command)}`: "
    if kept is None:
        return text + "no figures."
    machine = kept["machine"]
    rounds = "one round" if machine["rounds"] == 1 else f"{machine['rounds']} rounds"
    busy = "" if machine["load_before"] < 1 else ", so this machine was **not quiet**"
    return (text + f"{machine['cores']} cores, load {machine['load_before']} before it{busy}; {rounds}, {machine['minutes']} minutes, "
            f"{machine['day']}.\n\n{show(Measured(kept))}")


def main():
    options = options_of()
    if options.list:
        print("\n".join(f"{part}: {heading}" for part, (heading, *_) in PARTS.items()))
        return 0
    options.out.mkdir(parents=True, exist_ok=True)
    failed = False
    sections = []
    for part in PARTS:
        path = options.out / f"processes-{part}.json"
        if not options.part or part in options.part:
            print(f"papers.py: {part}", file=sys.stderr)
            if (kept := measure(part, options)) is None:
                failed = True
            else:
                path.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
        sections.append(section(part, json.loads(path.read_text(encoding="utf-8")) if path.exists() else None))
    introduction = ("# The papers' figures on real processes\n\nWritten by `bench/papers.py`; "
                    "[reproduction](../reproduction.md#on-real-processes) says what can be concluded. "
                    "Medians of the rounds with the least and the greatest; candidates alternate.")
    (options.out / "processes.md").write_text("\n\n".join([introduction, *sections]) + "\n", encoding="utf-8")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
