#!/usr/bin/env bash
# Instructions per small broadcast, by callgrind: a figure that noisy clocks do not touch, so that a regression shows.
#
#   bench/instructions.sh [BUILD_DIR]          prints one line per case and rank
#
# Counted is coppice_broadcast as coppice-perf's measured loop calls it (calls at the start, which wait, do not count).
# Waiting would be counted too and differ from run to run; therefore coppice-perf runs --staggered: a rank calls only
# when the rank before it is through, so that whatever it is to receive is there already. Each figure is the difference
# of two runs with N and 2N broadcasts over N: start-up, and what is done once only, cancels. Each case runs twice;
# "repeats" says whether both gave the same. There is no progress thread, which would take messages in while a rank
# awaits its turn, uncounted. Compare the figures of two builds made with the same compiler and options.
# docs/benchmarks.md says more.
set -euo pipefail

build=${1:-$(cd "$(dirname "$0")/.." && pwd)/build}
launcher=$build/tools/coppice-run
perf=$build/bench/coppice-perf
count=${COPPICE_COUNT:-1024}
export COPPICE_PROGRESS_THREAD=0

command -v valgrind >/dev/null || { echo "instructions.sh: valgrind is missing (Debian package: valgrind)" >&2; exit 2; }
for file in "$launcher" "$perf"; do
    [ -x "$file" ] || { echo "instructions.sh: $file is missing: build first, or name the build directory" >&2; exit 2; }
done
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# run RANKS BROADCASTS OPTIONS…: the instructions counted at each rank, in rank order, one per line.
run() {
    local ranks=$1 broadcasts=$2 rank
    shift 2
    rm -f "$scratch"/out.*
    timeout 600 "$launcher" -n "$ranks" --timeout 600 \
        valgrind -q --tool=callgrind --toggle-collect='*Run::broadcast(*' \
        --callgrind-out-file="$scratch/out.%q{COPPICE_RANK}" \
        "$perf" broadcast -s 8 -w 64 -n "$broadcasts" --staggered --timeout 300 "$@" \
        >"$scratch/stdout" 2>"$scratch/stderr" ||
        { cat "$scratch/stdout" "$scratch/stderr" >&2; echo "instructions.sh: the run failed" >&2; exit 1; }
    for ((rank = 0; rank < ranks; ++rank)); do
        awk '/^(totals|summary):/ { total = $2 } END { print total }' "$scratch/out.$rank"
    done
}

# per_broadcast RANKS OPTIONS…: the same, per broadcast.
per_broadcast() {
    local ranks=$1
    shift
    run "$ranks" "$count" "$@" >"$scratch/once"
    run "$ranks" $((2 * count)) "$@" >"$scratch/twice"
    paste "$scratch/once" "$scratch/twice" | awk -v n="$count" '{ printf "%.2f\n", ($2 - $1) / n }'
}

# show TITLE RANKS OPTIONS…
show() {
    local title=$1
    shift
    per_broadcast "$@" >"$scratch/first"
    per_broadcast "$@" >"$scratch/second"
    paste "$scratch/first" "$scratch/second" | awk -v title="$title" '{
        difference = $1 > $2 ? $1 - $2 : $2 - $1
        printf "%-34s rank %d   %9.1f   %s\n", title, NR - 1, $1,
               difference <= 0.01 * $1 ? "repeats" : sprintf("varies: %.1f the second time", $2)
    }'
}

echo "instructions per broadcast of 8 bytes, inside coppice_broadcast"
show "publish, 2 ranks on a host" 2 --hierarchy host
show "publish, 4 ranks on a host" 4 --hierarchy host
show "flat binomial, opportunistic:1, 4" 4 --hierarchy flat --tree binomial --correction opportunistic:1
