#!/usr/bin/env bash
# A soak of groups that grow again: jobs drawn from a seed, one after the other, whose ranks are killed at drawn moments and started
# again, or replaced by spares, while others join.
#
#   tests/soak/replace.sh [--minutes M | --seconds S] [-n RANKS] [--hosts H] [--job-seconds S] [--keep K] [--seed N] [--job N]
#                         [--build DIR] [--verbose]
#
#   --minutes M   how long (default 5); --seconds S the same for short runs
#   -n RANKS      of each job (default 8)
#   --hosts H     of each job, simulated: one in four kills is that of a whole host (default: this one)
#   --job-seconds S   for how long ranks are killed in each job (default 10)
#   --keep K      ranks that are never killed, the last ones (default 0; not with --hosts): what leaks in long jobs leaks in them
#   --seed N      of everything that is drawn (default: from the clock; it is printed)
#   --job N       only the N-th job of that seed, to repeat what went wrong (moments repeat to some milliseconds)
#   --build DIR   where Coppice was built (default: build beside tests)
#   --verbose     a line for each job, not only for those that went wrong
#
# Each job is a `coppice-perf stabilize`: in each round all members compare what they have come to, which newcomers have from the eldest.
# Kills come 20 to 160 ms after each other, also of processes that no group has taken in yet. It ends with
# as many members as it should have. Found are, as it says them: divergent, lost, hung (also: a job that does not end), leaked.
# A job in which all members are killed before any other was taken in has nobody left; it is told, and is no finding.
#
# Exit code: 0 nothing of that was found; 1 something was; 2 the options make no sense.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
build=$here/../../build
seconds=300 ranks=8 hosts=0 seed="" only="" verbose=0
job_ms=10000 keep=0

usage() { sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "$0"; }
complain() { echo "replace.sh: $*" >&2; exit 2; }
number() { [[ ${2-} =~ ^[0-9]+$ ]] || complain "$1 needs a number"; }
while [ $# -gt 0 ]; do
    case $1 in
        --minutes) number "$@"; seconds=$((60 * $2)); shift ;;
        --seconds) number "$@"; seconds=$2; shift ;;
        -n) number "$@"; ranks=$2; shift ;;
        --hosts) number "$@"; hosts=$2; shift ;;
        --job-seconds) number "$@"; job_ms=$((1000 * $2)); shift ;;
        --keep) number "$@"; keep=$2; shift ;;
        --seed) number "$@"; seed=$2; shift ;;
        --job) number "$@"; only=$2; shift ;;
        --build) [ $# -ge 2 ] || complain "--build needs a directory"; build=$2; shift ;;
        --verbose) verbose=1 ;;
        -h | --help) usage; exit 0 ;;
        *) complain "unknown option $1 (see --help)" ;;
    esac
    shift
done
[ "$seconds" -gt 0 ] || complain "there is nothing to do in no time"
[ "$ranks" -ge 2 ] || complain "-n $ranks: nobody would be left"
[ "$keep" -lt "$ranks" ] || complain "--keep $keep: nobody of $ranks ranks would be killed"
[ "$keep" = 0 ] || [ "$hosts" = 0 ] || complain "--keep and --hosts: hosts are killed with all ranks that are on them"
seed=${seed:-$(date +%s)}
launcher=$build/tools/coppice-run perf=$build/bench/coppice-perf
for file in "$launcher" "$perf"; do
    [ -x "$file" ] || complain "$file is missing: build first, or name the build directory with --build"
done
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# Sets $drawn to a number from 0 to $1 − 1; the state is the job's own, so that a job can be repeated alone.
state=0 drawn=0
draw() {
    state=$(((state * 6364136223846793005 + 1442695040888963407) & 0x7fffffffffffffff))
    drawn=$(((state >> 24) % $1))
}

jobs=0 nobody=0 agreements=0 killed=0 newcomers=0 divergent=0 lost=0 hung=0 leaked=0

run_job() {
    state=$((seed * 1000003 + $1))
    draw 1000
    local options=(-n "$ranks" --respawn --timeout $(((job_ms / 1000 + 110) * ${COPPICE_TEST_PATIENCE:-1}))) at=300
    [ "$hosts" = 0 ] || options+=(--hosts "$hosts")
    draw 3
    if [ "$drawn" = 0 ]; then
        draw 3
        options+=(--join "$((drawn + 1))@2s")
    fi
    while [ "$at" -lt "$job_ms" ]; do
        local what=--kill among=$((ranks - keep))
        if [ "$hosts" -gt 0 ]; then
            draw 4
            [ "$drawn" != 0 ] || what=--kill-host among=$hosts
        fi
        draw "$among"
        options+=("$what" "$drawn@${at}ms")
        draw 140
        at=$((at + 20 + drawn))
    done
    local code=0 line count
    env -u COPPICE_RANK "$launcher" "${options[@]}" "$perf" stabilize -n 200 >"$scratch/out" 2>"$scratch/errors" || code=$?
    jobs=$((jobs + 1))
    killed=$((killed + $(grep -c ' killed rank ' "$scratch/errors" || true)))
    if grep 'no process has ended well' "$scratch/errors" >/dev/null; then
        nobody=$((nobody + 1))
        echo "job $1: nobody was left"
        return
    fi
    line=$(grep '^divergent ' "$scratch/out" | tail -n 1 || true)
    [ -n "$line" ] || line="divergent 0 lost 0 hung 1 leaked 0"
    read -r _ d _ l _ h _ k <<<"$line"
    divergent=$((divergent + d)) lost=$((lost + l)) hung=$((hung + h)) leaked=$((leaked + k))
    count=$(sed -n 's/^# stabilize of .* \([0-9]*\) newcomers$/\1/p' "$scratch/out")
    newcomers=$((newcomers + ${count:-0}))
    count=$(sed -n 's/^# stabilize of .* ranks: \([0-9]*\) rounds.*$/\1/p' "$scratch/out")
    agreements=$((agreements + ${count:-0}))
    if [ "$code" != 0 ] || [ "$d$l$h$k" != 0000 ]; then
        [ "$h$d$l$k" != 0000 ] || hung=$((hung + 1))
        echo "job $1 (--seed $seed --job $1): exit code $code, $line"
        grep -v ' killed rank \| started rank ' "$scratch/errors" | tail -n 20 || true
    elif [ "$verbose" = 1 ]; then
        echo "job $1: $(grep '^# ' "$scratch/out" | paste -s -d ';' -)"
    fi
}

echo "seed $seed"
if [ -n "$only" ]; then
    run_job "$only"
else
    until=$((SECONDS + seconds))
    for ((job = 0; SECONDS < until; ++job)); do run_job "$job"; done
fi
echo "$jobs jobs, $agreements agreements, $killed killed, $newcomers newcomers, $nobody without anybody left"
echo "divergent $divergent lost $lost hung $hung leaked $leaked"
[ "$((divergent + lost + hung + leaked))" = 0 ]
