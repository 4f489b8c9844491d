#!/usr/bin/env bash
# Instructions per simulated broadcast and per message, by callgrind: figures that noisy clocks do not touch.
#
#   bench/simulator_instructions.sh [BUILD_DIR]
#
# Each figure is the difference of a run of three broadcasts and one of one, halved: start-up, and making the simulator,
# cancels. Compare the figures of two builds made with the same compiler and options.
set -euo pipefail

build=${1:-$(cd "$(dirname "$0")/.." && pwd)/build}
once=$build/bench/simulator_once

command -v valgrind >/dev/null || { echo "simulator_instructions.sh: valgrind is missing (Debian package: valgrind)" >&2; exit 2; }
[ -x "$once" ] || { echo "simulator_instructions.sh: $once is missing: build first, or name the build directory" >&2; exit 2; }
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# count RANKS RUNS TREE CORRECTION: instructions of the whole program
count() {
    valgrind -q --tool=callgrind --callgrind-out-file="$scratch/out" "$once" "$@" >"$scratch/stdout"
    awk '/^(totals|summary):/ { total = $2 } END { print total }' "$scratch/out"
}

# show RANKS TREE CORRECTION
show() {
    local one three messages
    one=$(count "$1" 1 "$2" "$3")
    three=$(count "$1" 3 "$2" "$3")
    messages=$(awk '{ print $3; exit }' "$scratch/stdout")
    awk -v a="$one" -v b="$three" -v m="$messages" -v title="$1 ranks, $2, $3" \
        'BEGIN { printf "%-50s %12.0f instructions, %d messages: %.1f each\n", title, (b - a) / 2, m, (b - a) / 2 / m }'
}

show 4096 binomial checked:synchronized
show 65536 binomial checked:synchronized
show 65536 lame:2 checked
show 65536 binomial optimized:4
