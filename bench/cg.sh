#!/usr/bin/env bash
# SC'15, Figure 4, on this machine: conjugate gradients, each sum of which is an agreement, with and without a death.
#
#   bench/cg.sh [--quick] [--json FILE] [--build DIR] [--rounds N] [--ranks "4 8 …"]
#
#   published     the library, as it does it on one host: contributions are published, nothing is sent
#   era-library   the library with COPPICE_HIERARCHY=flat: Early Returning Agreement, by messages
#   era           the machine of that alone, without engine and transport (bench/cg_agreed.cpp)
#   two-phase     the older algorithm's machine, in the same way
#
# Total is from the start of the solver to its end; in agreements, what the lowest rank spent in them; recovery, from where
# it learns of the death to where it computes on: a new group, and what was lost restored from a checkpoint. The library
# renews the group whatever agrees. Rounds of all candidates alternate, because a machine's speed drifts; the figures are
# medians of the rounds, with the least and the greatest. The ratio is that of the times in agreements.
#
# Exit code 0 when everything ran.
set -euo pipefail

# shellcheck source=bench/comparison.sh
. "$(dirname "$0")/comparison.sh"

usage() { sed -n '2,17s/^# \{0,1\}//p' "$0"; }
while [ $# -gt 0 ]; do
    common_option "$@"
    shift "$taken"
done
settle_options
: "${ranks:=4 8 16 32}"
prepare "$build/tools/coppice-run" "$build/bench/cg_agreed"
grid=32 sources=4
[ $quick = 0 ] || sources=1

# one CANDIDATE RANKS DEATHS
one() {
    local candidate=$1 count=$2 deaths=$3 line
    local -a kill=() agree=(--agree "$candidate") hierarchy=(COPPICE_HIERARCHY=host)
    case $candidate in
        published) agree=(--agree library) ;;
        era-library) agree=(--agree library) hierarchy=(COPPICE_HIERARCHY=flat) ;;
    esac
    # One that does not speak for the others, in the middle of the first equation.
    [ "$deaths" = 0 ] || kill=(--kill $((count / 2))@100)
    # The launcher reports the killed rank as a failure.
    env "${hierarchy[@]}" timeout 300 "$launcher" -n "$count" "$build/bench/cg_agreed" --grid "$grid" --sources "$sources" \
        "${agree[@]}" "${kill[@]}" >"$scratch/output" 2>"$scratch/stderr" || true
    line=$(sed -n "s/^ranks $((count - deaths)) of $count total_ms \([0-9.]*\) agreements \([0-9]*\) agreeing_ms \([0-9.]*\) recovery_ms \([0-9.]*\)\$/\1 \2 \3 \4/p" "$scratch/output")
    if [ -z "$line" ]; then
        echo "cg.sh: $candidate at $count ranks with $deaths deaths gave no figure" >&2
        tail -5 "$scratch/stderr" >&2
        return 0
    fi
    local total many agreeing recovery
    read -r total many agreeing recovery <<<"$line"
    note "$candidate/$deaths/total" "$count" 0 "$total"
    note "$candidate/$deaths/agreeing" "$count" 0 "$agreeing"
    note "$candidate/$deaths/each" "$count" 0 "$(awk -v ms="$agreeing" -v n="$many" 'BEGIN { print 1000 * ms / n }')"
    [ "$deaths" = 0 ] || note "$candidate/$deaths/recovery" "$count" 0 "$recovery"
}

candidates="published era-library era two-phase"
for ((round = 1; round <= rounds; ++round)); do
    for count in $ranks; do
        for deaths in 0 1; do
            for candidate in $candidates; do one "$candidate" "$count" $deaths; done
        done
    done
    [ -t 2 ] && echo "round $round of $rounds" >&2
done
medians >"$scratch/medians"

printf '%-5s %-6s %-12s %28s %28s %24s %28s %s\n' ranks deaths "" "total ms" "in agreements ms" "us an agreement" "recovery ms" "ratio to ERA's"
awk -v ranks="$ranks" -v candidates="$candidates" '
    { m[$1, $2] = $4; l[$1, $2] = $5; g[$1, $2] = $6 }
    function figure(c, r) { return (c, r) in m ? sprintf("%.2f (%.2f..%.2f)", m[c, r], l[c, r], g[c, r]) : "-" }
    END {
        n = split(ranks, R, " "); k = split(candidates, C, " ")
        for (i = 1; i <= n; ++i) for (d = 0; d <= 1; ++d) for (j = 1; j <= k; ++j) {
            c = C[j] "/" d; r = R[i]
            # Each beside the one that goes by messages as it does.
            rival = (C[j] ~ /library|published/ ? "era-library/" : "era/") d "/agreeing"
            ratio = (c "/agreeing", r) in m && m[rival, r] > 0 ? sprintf("%.2f", m[c "/agreeing", r] / m[rival, r]) : "-"
            printf "%-5s %-6s %-12s %28s %28s %24s %28s %s\n", r, d, C[j], figure(c "/total", r), figure(c "/agreeing", r),
                figure(c "/each", r), d ? figure(c "/recovery", r) : "", ratio
        }
    }' "$scratch/medians"
[ -z "$json" ] || write_json cg "$json" "$scratch/medians"
