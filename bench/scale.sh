#!/usr/bin/env bash
# What one rank of a large group keeps: its memory once the group is formed, and how long forming takes it without the network.
#
#   bench/scale.sh [--rounds N] [--ranks "1024 16384 65536"] [BUILD_DIR]
#
# Each rank is a host of its own on a fat tree, over tcp. One rank is formed for real; an exchange plays all others
# (bench/scale.cpp). Memory is how much more of the process is resident than before, when what forming
# needed for itself has been given back. Medians of the rounds with least and greatest. Exit code 1 when a rank of 65,536 keeps more
# than 8 MiB.
set -euo pipefail

rounds=5 ranks="1024 16384 65536" build=
while [ $# -gt 0 ]; do
    case $1 in
        -h | --help) sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "$0"; exit 0 ;;
        --rounds) rounds=${2:?--rounds needs a number}; shift ;;
        --ranks) ranks=${2:?--ranks needs numbers}; shift ;;
        -*) echo "scale.sh: unknown option '$1' (see --help)" >&2; exit 2 ;;
        *) build=$1 ;;
    esac
    shift
done
build=${build:-$(cd "$(dirname "$0")/.." && pwd)/build}
program=$build/bench/scale
[ -x "$program" ] || { echo "scale.sh: $program is missing: build first, or name the build directory" >&2; exit 2; }
[[ $rounds =~ ^[1-9][0-9]{0,3}$ ]] || { echo "scale.sh: --rounds $rounds: a number from 1 to 9999 is wanted" >&2; exit 2; }

found=$(for ((round = 0; round < rounds; ++round)); do
    for count in $ranks; do
        "$program" "$count"
    done
done)
awk '
    function median(list, n,    i, j, held) {
        for (i = 2; i <= n; ++i) {
            held = list[i]
            for (j = i - 1; j > 0 && list[j] > held; --j) list[j + 1] = list[j]
            list[j + 1] = held
        }
        return list[int((n + 1) / 2)]
    }
    { ++n[$2]; seconds[$2, n[$2]] = $6; memory[$2, n[$2]] = $8 }
    END {
        print "| ranks | MiB once formed | bytes a rank | seconds to form |"
        print "|---|---|---|---|"
        count = split(ranks, order, " ")
        for (i = 1; i <= count; ++i) {
            which = order[i]
            for (k = 1; k <= n[which]; ++k) { m[k] = memory[which, k] + 0; s[k] = seconds[which, k] + 0 }
            mib = median(m, n[which]); took = median(s, n[which])
            printf "| %d | %.2f (%.2f to %.2f)%s | %.0f | %.3f (%.3f to %.3f) |\n", which, mib, m[1], m[n[which]],
                (which == 65536 && mib > 8 ? " above the aim of 8" : ""), mib * 1048576 / which, took, s[1], s[n[which]]
            if (which == 65536 && mib > 8) failed = 1
        }
        exit failed
    }' ranks="$ranks" <<<"$found"
