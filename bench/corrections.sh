#!/usr/bin/env bash
# PPoPP'19, Figures 11, 12 and 15, in shape: what corrections cost beside none, with ranks dead, and beside MPI's own
# binomial broadcast.
#
#   bench/corrections.sh [--transport shm|tcp|verbs] [--quick] [--json FILE] [--build DIR] [--rounds N] [--ranks "4 8 …"]
#
# All candidates broadcast along a binomial tree in which each rank is a position of its own, by messages: over shared
# memory, over TCP on loopback, or over verbs, for instance in `tools/rxe-guest bench/corrections.sh --transport verbs`, where only
# ratios mean anything. (By default ranks of a host share a position, and nothing is sent between them.)
#
#   openmpi, mpich      MPI_Bcast, set to the binomial algorithm; MPICH where mpicc.mpich is there, over shared memory and where every
#                       rank has a core only
#   none                no correction: one dead rank leaves others out
#   one, two, four      opportunistic correction with so many messages a rank: to the right; to each side; two to each side
#   two, dead           the same with an eighth of the ranks dead, at least one
#   checked             checked correction
#
# Every candidate is measured by the same code (measure.h): µs from the root's call until the last rank has returned from
# its own. Rounds of all candidates alternate, because a machine's speed drifts; the figures are medians of the rounds,
# with the least and the greatest, and ratios to none.
#
# Exit code 0 when everything ran.
set -euo pipefail

# shellcheck source=bench/comparison.sh
. "$(dirname "$0")/comparison.sh"
transport=shm

usage() { sed -n '2,24s/^# \{0,1\}//p' "$0"; }
while [ $# -gt 0 ]; do
    case $1 in
        --transport) value "$@"; case $2 in shm | tcp | verbs) ;; *) complain "--transport $2: shm, tcp and verbs are known" ;; esac; transport=$2 taken=2 ;;
        *) common_option "$@" ;;
    esac
    shift "$taken"
done
settle_options
# In the guest a broadcast takes milliseconds, and 16 ranks of Open MPI more memory than there is by default.
if [ "$transport" = verbs ]; then
    iterations=$((iterations * 3 / 10))
    : "${ranks:=4 8}"
fi
: "${ranks:=4 8 16}"
# shellcheck disable=SC2119
prepare
prepare_mpi
candidates="openmpi none one two four two,dead checked"
if [ "$transport" = shm ] && command -v mpicc.mpich >/dev/null && command -v mpiexec.hydra >/dev/null; then
    mpicc.mpich -O2 -o "$scratch/mpich_collective" "$here/mpi_collective.c" -lm
    candidates="openmpi mpich none one two four two,dead checked"
fi

# coppice CANDIDATE RANKS BYTES CORRECTION OPTIONS…
coppice() {
    local candidate=$1 count=$2 bytes=$3 correction=$4 over=auto
    [ "$transport" = shm ] || over=$transport
    shift 4
    COPPICE_TRANSPORT=$over measure "$candidate" "$count" "$bytes" "$launcher" -n "$count" "$perf" broadcast -s "$bytes" \
        -n "$iterations" -w $((iterations / 10)) --metric "done" --tree binomial --hierarchy flat --correction "$correction" "$@"
}

# Every eighth rank, beginning with the fourth: none of them is the root.
dead_of() {
    local rank list=""
    for ((rank = 3; rank < $1; rank += 8)); do list=$list,$rank; done
    echo "${list#,}"
}

one() {
    local count=$1 bytes=$2
    local -a wire=(--mca pml ob1 --mca btl "vader,self")
    case $transport in
        tcp) wire=(--mca pml ob1 --mca btl "tcp,self" --mca btl_tcp_if_include lo) ;;
        # Without this UCX makes no connection over soft-RoCE (docs/soft-roce.md).
        verbs) wire=(--mca pml ucx -x "UCX_TLS=rc,self" -x "UCX_UD_VERBS_ETH_DGID_CHECK=n") ;;
    esac
    mpi openmpi "$count" "$bytes" "${wire[@]}" --mca coll_tuned_use_dynamic_rules 1 \
        --mca coll_tuned_bcast_algorithm 6
    # MPICH spins, which means nothing where ranks share cores.
    [ ! -x "$scratch/mpich_collective" ] || [ "$count" -gt "$(nproc)" ] || MPIR_CVAR_BCAST_INTRA_ALGORITHM=binomial MPIR_CVAR_BCAST_DEVICE_COLLECTIVE=0 \
        measure mpich "$count" "$bytes" mpiexec.hydra -n "$count" "$scratch/mpich_collective" bcast "$bytes" "$iterations"
    coppice none "$count" "$bytes" none
    coppice one "$count" "$bytes" opportunistic:1:one-directional
    coppice two "$count" "$bytes" opportunistic:1
    coppice four "$count" "$bytes" opportunistic:2
    [ "$count" -lt 4 ] || coppice two,dead "$count" "$bytes" opportunistic:1 --dead "$(dead_of "$count")"
    coppice checked "$count" "$bytes" checked
}

for ((round = 1; round <= rounds; ++round)); do
    for bytes in 8 256; do
        for count in $ranks; do one "$count" "$bytes"; done
    done
    [ -t 2 ] && echo "round $round of $rounds" >&2
done
medians >"$scratch/medians"

awk -v candidates="$candidates" -v ranks="$ranks" '
    { m[$1, $2, $3] = $4; l[$1, $2, $3] = $5; g[$1, $2, $3] = $6 }
    END {
        printf "%-6s %-6s %-10s %9s %19s  %s\n", "bytes", "ranks", "", "median us", "min..max of rounds", "/none"
        n = split("8 256", B, " "); k = split(ranks, R, " "); c = split(candidates, C, " ")
        for (b = 1; b <= n; ++b) for (r = 1; r <= k; ++r) for (i = 1; i <= c; ++i) {
            if (!((C[i], R[r], B[b]) in m)) { printf "%-6s %-6s %-10s no figure\n", B[b], R[r], C[i]; continue }
            none = m["none", R[r], B[b]]
            ratio = (none + 0 > 0) ? sprintf("%.2f", m[C[i], R[r], B[b]] / none) : "-"
            printf "%-6s %-6s %-10s %9.2f %9.2f..%-8.2f  %s\n", B[b], R[r], C[i], m[C[i], R[r], B[b]], l[C[i], R[r], B[b]],
                g[C[i], R[r], B[b]], ratio
        }
    }' "$scratch/medians"
[ -z "$json" ] || write_json "corrections-$transport" "$json" "$scratch/medians"
