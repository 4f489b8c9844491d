"""256 real processes on one host agree, each looking at everybody and by caches; some of them are killed in the middle, speakers of
caches among them."""

import subprocess
import sys

RUN, PERF = sys.argv[1:3]
BY_CACHES = ["sh", "-c", "COPPICE_WITHIN=l3-$((COPPICE_RANK / 16)) exec \"$@\"", "sh"]


def agrees(prefix, victims):
    command = [RUN, "-n", "256", *prefix, PERF, "agree", "-n", "20", "-w", "2", "--timeout", "300", "--victims", *victims, "--at", "10"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=550)
    print(done.stdout, done.stderr)
    assert f"{len(victims)} of 256 ranks died" in done.stdout, command
    assert "22 agreements at 253 survivors" in done.stdout and "disagreed 0 wrong 0 lost 0" in done.stdout, command


agrees([], ["0", "64", "255"])
agrees(BY_CACHES, ["0", "16", "77"])
