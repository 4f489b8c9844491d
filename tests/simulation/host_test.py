"""coppice-sim host: what the library's own agreement moves between caches is what topology/domains.hpp reckons with, on machines of files."""

import csv
import io
import subprocess
import sys

SIM, DATA = sys.argv[1:3]


def run(file, *options):
    return subprocess.run([SIM, "host", "--machine", f"{DATA}/{file}", *options], capture_output=True, text=True, timeout=300)


def rows(file, *options):
    done = run(file, "--format", "csv", *options)
    assert done.returncode == 0, done.stderr
    return {(row["operation"], row["levels"]): {key: float(value) for key, value in row.items() if key not in ("operation", "levels")}
            for row in csv.DictReader(io.StringIO(done.stdout))}


def between(row):
    return row["within_socket"] + row["across_sockets"]


def check(file, ranks, domains, choice):
    counted = rows(file, "--ranks", str(ranks))
    one, two = counted["agreement", "one"], counted["agreement", "two"]
    assert between(one) == ranks * (domains - 1), (file, one)
    assert one["most_fetched"] == ranks - 1, (file, one)
    assert sum(one[key] for key in ("within_domain", "within_socket", "across_sockets")) == ranks * (ranks - 1), (file, one)
    assert between(two) == domains * (domains - 1), (file, two)
    assert two["most_fetched"] <= max(ranks // domains - 1, 1) + domains - 1, (file, two)
    assert f"takes {choice} for" in run(file, "--ranks", str(ranks)).stdout, file


check("two-sockets-128-cores.xml", 128, 16, "two levels")
check("two-sockets-128-cores.xml", 64, 16, "two levels")
check("two-sockets-128-cores.xml", 16, 16, "one level")
check("four-numa-nodes.xml", 16, 4, "one level")
# More ranks than cores take turns.
check("four-numa-nodes.xml", 64, 4, "one level")
# Every line of a broadcast enters each cache once.
assert between(rows("two-sockets-128-cores.xml")["broadcast", "one"]) < 16 + 128 / 16
assert "takes one level" in run("hybrid-cores.xml").stdout
for file, options in (("fattree-k8.ibnet", ()), ("none.xml", ()), ("hybrid-cores.xml", ("--ranks", "513")), ("hybrid-cores.xml", ("--size", "257"))):
    refused = run(file, *options)
    assert refused.returncode == 2 and refused.stderr, (file, options)
