#!/usr/bin/env bash
# Coppice's broadcast beside Open MPI's and beside the floor, all in one run.
#
#   bench/compare_mpi.sh [--transport tcp|ucx | --dead] [--quick] [--json FILE] [--build DIR] [--rounds N]
#                        [--ranks "2 4 …"]
#
# Rounds of all candidates alternate, because a machine's speed drifts; each candidate gives one median a round, and the
# figure is the median of those with their least and greatest. Every candidate is measured by the same code (measure.h):
# µs from the root's call until the last rank has returned from its own.
#
#   (nothing)         one host: floor, Open MPI over shared memory (its better setting), Coppice opportunistic:1, checked
#   --transport tcp   Coppice over tcp on loopback for every pair, beside Open MPI over TCP, the better of ob1 and UCX
#   --transport ucx   the same over UCX/TCP
#   --dead            3 of 16 ranks dead before the run, beside the same without
#
# Exit code 0 when everything ran; what falls short of its aim is marked and does not change it.
set -euo pipefail

# shellcheck source=bench/comparison.sh
. "$(dirname "$0")/comparison.sh"
mode=shm

usage() { sed -n '2,16s/^# \{0,1\}//p' "$0"; }
while [ $# -gt 0 ]; do
    case $1 in
        --transport) value "$@"; case $2 in ucx | tcp) ;; *) complain "--transport $2: ucx and tcp are known" ;; esac; mode=$2 taken=2 ;;
        --dead) mode=dead taken=1 ;;
        *) common_option "$@" ;;
    esac
    shift "$taken"
done
settle_options

floor=$build/bench/floor
prepare "$floor"
[ "$mode" = dead ] || prepare_mpi

# coppice CANDIDATE RANKS BYTES OPTIONS…
coppice() {
    local candidate=$1 count=$2 bytes=$3
    shift 3
    measure "$candidate" "$count" "$bytes" "$launcher" -n "$count" "$perf" broadcast -s "$bytes" -n "$iterations" \
        -w $((iterations / 10)) --metric "done" "$@"
}

case $mode in
    shm)
        candidates="floor openmpi openmpi-ucx coppice-opportunistic:1 coppice-checked" sizes="8 256"
        : "${ranks:=2 4 8 16 32}"
        one() {
            measure floor "$1" "$2" "$floor" "$1" "$2" "$iterations"
            mpi openmpi "$1" "$2"
            mpi_ucx posix,self openmpi-ucx "$1" "$2"
            coppice coppice-opportunistic:1 "$1" "$2" --correction opportunistic:1
            coppice coppice-checked "$1" "$2" --correction checked
        } ;;
    ucx | tcp)
        candidates="openmpi-tcp openmpi-ucx-tcp coppice-opportunistic:1 coppice-checked" sizes="8"
        : "${ranks:=2 4 8 16}"
        one() {
            mpi openmpi-tcp "$1" "$2" --mca pml ob1 --mca btl tcp,self --mca btl_tcp_if_include lo
            mpi_ucx tcp,self openmpi-ucx-tcp "$1" "$2"
            COPPICE_TRANSPORT=$mode coppice coppice-opportunistic:1 "$1" "$2" --correction opportunistic:1
            COPPICE_TRANSPORT=$mode coppice coppice-checked "$1" "$2" --correction checked
        } ;;
    dead)
        candidates="opportunistic:1 opportunistic:1-3-dead checked checked-3-dead flat-checked flat-checked-3-dead"
        sizes="8" ranks="16"
        one() {
            local dead=3,7,11
            coppice opportunistic:1 "$1" "$2" --correction opportunistic:1
            coppice opportunistic:1-3-dead "$1" "$2" --correction opportunistic:1 --dead $dead
            coppice checked "$1" "$2" --correction checked
            coppice checked-3-dead "$1" "$2" --correction checked --dead $dead
            coppice flat-checked "$1" "$2" --correction checked --hierarchy flat
            coppice flat-checked-3-dead "$1" "$2" --correction checked --hierarchy flat --dead $dead
        } ;;
esac

for ((round = 1; round <= rounds; ++round)); do
    for bytes in $sizes; do
        for count in $ranks; do one "$count" "$bytes"; done
    done
    [ -t 2 ] && echo "round $round of $rounds" >&2
done

medians >"$scratch/medians"

awk -v mode="$mode" -v candidates="$candidates" -v sizes="$sizes" -v ranks="$ranks" '
    { median[$1, $2, $3] = $4; least[$1, $2, $3] = $5; greatest[$1, $2, $3] = $6 }
    # The better of the rivals; the failure-free run is the rival of the one with dead ranks.
    function rival(name, r, b,    best, other, i, n, list) {
        if (mode == "dead") { sub(/-3-dead$/, "", name); return median[name, r, b] }
        n = split("openmpi openmpi-ucx openmpi-tcp openmpi-ucx-tcp", list, " ")
        for (i = 1; i <= n; ++i) {
            other = median[list[i], r, b]
            if (other != "" && (best == "" || other + 0 < best + 0)) best = other
        }
        return best
    }
    function ratio(a, b) { return a != "" && b > 0 ? sprintf("%.2f", a / b) : "-" }
    BEGIN { limit = mode == "dead" ? 1.3 : 1.0 }
    END {
        printf "%-6s %-6s %-26s %9s %19s  %s\n", "bytes", "ranks", "", "median us", "min..max of rounds",
               mode == "dead" ? "/failure-free" : mode == "shm" ? "/Open MPI  /floor" : "/Open MPI"
        nb = split(sizes, B, " "); nr = split(ranks, R, " "); nc = split(candidates, C, " ")
        for (b = 1; b <= nb; ++b) for (r = 1; r <= nr; ++r) for (c = 1; c <= nc; ++c) {
            m = median[C[c], R[r], B[b]]
            if (m == "") { printf "%-6s %-6s %-26s no figure\n", B[b], R[r], C[c]; continue }
            line = sprintf("%-6s %-6s %-26s %9.2f %9.2f..%-8.2f", B[b], R[r], C[c], m, least[C[c], R[r], B[b]],
                           greatest[C[c], R[r], B[b]])
            if (mode == "dead" ? C[c] ~ /-3-dead$/ : C[c] ~ /^coppice/) {
                q = ratio(m, rival(C[c], R[r], B[b]))
                line = line sprintf("  %9s", q)
                if (mode == "shm") line = line sprintf(" %7s", ratio(m, median["floor", R[r], B[b]]))
                if (q != "-" && q > limit) line = line "   FALLS SHORT"
            }
            print line
        }
    }' "$scratch/medians"

[ -z "$json" ] || write_json "$mode" "$json" "$scratch/medians"
