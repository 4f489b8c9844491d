#!/usr/bin/env bash
# Bandwidth of large broadcasts, Coppice's beside Open MPI's and MPICH's, all in one run.
#
#   bench/large.sh [--transport tcp | --hosts H] [--no-mpi] [--also DIR] [--sizes "16K 1M …"] [--quick] [--json FILE] [--build DIR]
#                  [--rounds N] [--ranks "2 4 …"]
#
# Rounds of all candidates alternate, because a machine's speed drifts; each gives one median a round, and the figure is the median of
# those with the least and the greatest. Every candidate is measured by the same code (measure.h): bytes of the payload by the time from
# the root's call until the last rank has returned from its own, in MB/s (10^6 bytes). The root writes its payload anew before each:
# one that never changes lies in the receivers' caches, where nothing has to be brought.
#
#   (nothing)         one host: Open MPI over shared memory with ob1 and with UCX, MPICH, Coppice with copies, with views, and with
#                     views of memory that was allocated for the root, and the limit: one memcpy by each receiver, all at
#                     the same time
#   --transport tcp   every pair over TCP on loopback: Open MPI with ob1 and with UCX, MPICH (UCX), and Coppice
#   --hosts H         8 ranks on H simulated hosts, TCP between these, memory within: Open MPI with ob1 (shared memory and TCP), the same with
#                     TCP alone, and Coppice. MPICH, which spins, is left out: ranks share cores
#   --no-mpi          Coppice alone, for comparisons of builds
#   --also DIR        a second build, as candidate "before"
#
# Held against the best of the others: on one host Coppice is to have its bandwidth, with views 1.5 times as much; over TCP, and between hosts, 0.95.
# Exit code 0 when everything ran; what falls short of its aim is marked and does not change it.
set -euo pipefail

# shellcheck source=bench/comparison.sh
. "$(dirname "$0")/comparison.sh"
arguments=(rewritten) mode=shm hosts=0 with_mpi=1 also="" sizes="16K 64K 1M 16M 64M"

usage() { sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//p}' "$0"; }
while [ $# -gt 0 ]; do
    case $1 in
        --transport) value "$@"; [ "$2" = tcp ] || complain "--transport $2: tcp is known"; mode=tcp taken=2 ;;
        --hosts) value "$@"; [[ $2 =~ ^[2-9]$ ]] || complain "--hosts $2: 2 to 9 are wanted"; mode=hosts hosts=$2 taken=2 ;;
        --no-mpi) with_mpi=0 taken=1 ;;
        --also) value "$@"; also=$2 taken=2 ;;
        --sizes) value "$@"; [[ $2 =~ ^[0-9KMG\ ]+$ ]] || complain "--sizes $2: sizes such as 16K or 1M are wanted"; sizes=$2 taken=2 ;;
        *) common_option "$@" ;;
    esac
    shift "$taken"
done
settle_options
[ "$mode" = shm ] || [ "$sizes" != "16K 64K 1M 16M 64M" ] || sizes="64K 1M 16M 64M"
if [ "$mode" != shm ]; then : "${ranks:=8}"; elif [ $quick = 1 ]; then : "${ranks:=2 4 8}"; else : "${ranks:=2 4 8 16}"; fi
prepare "$build/bench/coppice-perf"
[ -z "$also" ] || [ -x "$also/bench/coppice-perf" ] || complain "$also/bench/coppice-perf is missing"
prepare_mpich() {
    local missing=""
    command -v mpicc.mpich >/dev/null || missing="libmpich-dev"
    command -v mpiexec.mpich >/dev/null || missing="$missing mpich"
    [ -z "$missing" ] || complain "MPICH is missing; install the Debian packages: $missing"
    mpicc.mpich -O2 -o "$scratch/mpich_collective" "$here/mpi_collective.c" -lm
}
if [ $with_mpi = 1 ]; then
    prepare_mpi
    [ "$mode" = hosts ] || prepare_mpich
fi
"${CC:-cc}" -O2 -o "$scratch/copies" "$here/copies.c" -lm

# As many as take about a second at 1 GB/s, and no fewer than five.
iterations_of() {
    local most=500 budget=$((1 << 29))
    [ $quick = 0 ] || { most=100 budget=$((1 << 27)); }
    iterations=$((budget / $1))
    [ "$iterations" -le $most ] || iterations=$most
    [ "$iterations" -ge 5 ] || iterations=5
}

# mpich CANDIDATE RANKS BYTES NAME VALUE…: with these variables.
mpich() {
    local candidate=$1 count=$2 bytes=$3 settings=()
    shift 3
    while [ $# -gt 0 ]; do settings+=(-genv "$1" "$2"); shift 2; done
    measure "$candidate" "$count" "$bytes" mpiexec.mpich "${settings[@]}" -n "$count" "$scratch/mpich_collective" bcast "$bytes" "$iterations" rewritten
}
# coppice CANDIDATE RANKS BYTES OPTIONS…
coppice() {
    local candidate=$1 count=$2 bytes=$3 where=()
    shift 3
    # Simulated by name, as with MPI: both then have the same network, the machine's loopback.
    [ "${1-}" != --hosts ] || { where=("$here/as_host.sh" --each $(((count + hosts - 1) / hosts))); shift; }
    measure "$candidate" "$count" "$bytes" "$launcher" -n "$count" "${where[@]}" "$perf" broadcast -s "$bytes" -n "$iterations" \
        -w $((iterations / 10)) --rewrite --metric "done" "$@"
}
# on_hosts RANKS MPIRUN-OPTIONS…: of simulated hosts, over an interface that both sides take for a network.
on_hosts() {
    local count=$1 list="" each=$((($1 + hosts - 1) / hosts)) host
    shift
    for ((host = 1; host <= hosts; ++host)); do list="$list${list:+,}h$host:$each"; done
    on=(--mca plm_rsh_agent "$here/as_host.sh" --host "$list" --mca pml ob1 --mca btl_tcp_if_exclude lo "$@")
}
others() {
    [ $with_mpi = 1 ] || return 0
    if [ "$mode" = shm ]; then
        mpi openmpi "$1" "$2"
        mpi_ucx shm,self openmpi-ucx "$1" "$2"
        mpich mpich "$1" "$2"
    elif [ "$mode" = hosts ]; then
        on_hosts "$1" --mca btl tcp,vader,self
        mpi openmpi "$1" "$2" "${on[@]}"
        on_hosts "$1" --mca btl tcp,self
        mpi openmpi-tcp "$1" "$2" "${on[@]}"
    else
        mpi openmpi "$1" "$2" --mca pml ob1 --mca btl tcp,self --mca btl_tcp_if_include lo
        mpi_ucx tcp,self openmpi-ucx "$1" "$2"
        mpich mpich "$1" "$2" MPIR_CVAR_NOLOCAL 1 UCX_TLS tcp,self UCX_NET_DEVICES lo
    fi
}
ours() {
    if [ "$mode" = hosts ]; then
        coppice "$@" --hosts
    elif [ "$mode" = tcp ]; then
        COPPICE_TRANSPORT=tcp coppice "$@"
    else
        coppice "$@"
    fi
}
one() {
    others "$1" "$2"
    if [ -n "$also" ]; then launcher=$also/tools/coppice-run perf=$also/bench/coppice-perf ours before "$1" "$2"; fi
    ours coppice "$1" "$2"
    if [ "$mode" = shm ]; then
        measure memcpy "$1" "$2" "$scratch/copies" "$1" "$2" "$iterations"
        coppice coppice-view "$1" "$2" --view
        coppice coppice-lent "$1" "$2" --view --allocated
    fi
}

in_bytes=""
for size in $sizes; do in_bytes="$in_bytes $(numfmt --from=iec "$size")"; done
for ((round = 1; round <= rounds; ++round)); do
    for bytes in $in_bytes; do
        iterations_of "$bytes"
        for count in $ranks; do one "$count" "$bytes"; done
    done
    [ -t 2 ] && echo "round $round of $rounds" >&2
done

# From µs to MB/s: a byte in a µs is one MB/s.
awk '{ print $1, $2, $3, $3 / $4 }' "$raw" >"$scratch/rates"
mv "$scratch/rates" "$raw"
medians >"$scratch/medians"

echo "MB/s, medians of $rounds rounds, least..greatest"
sort -k3,3n -k2,2n -s "$scratch/medians" | awk -v mode="$mode" '
    function out(    i, best, name, aim, ratio, list, n, line) {
        if (key == "") return
        n = split("openmpi openmpi-ucx openmpi-tcp mpich", list, " ")
        best = 0
        for (i = 1; i <= n; ++i) if (list[i] in median && median[list[i]] + 0 > best) { best = median[list[i]]; name = list[i] }
        n = split("memcpy openmpi openmpi-ucx openmpi-tcp mpich before coppice coppice-view coppice-lent", list, " ")
        for (i = 1; i <= n; ++i) {
            if (!(list[i] in median)) continue
            line = sprintf("%-10s %5s  %-14s %9.0f  %9.0f..%-9.0f", bytes, ranks, list[i], median[list[i]], least[list[i]], greatest[list[i]])
            if (list[i] ~ /^coppice/ && best > 0) {
                ratio = median[list[i]] / best
                aim = mode != "shm" ? 0.95 : list[i] == "coppice" ? 1 : 1.5
                line = line sprintf(" %6.2f of %s", ratio, name) (ratio < aim ? "   FALLS SHORT" : "")
            }
            sub(/ +$/, "", line)
            print line
        }
        split("", median)
    }
    BEGIN { printf "%-10s %5s  %-14s %9s  %20s\n", "bytes", "ranks", "", "MB/s", "least..greatest" }
    { if ($2 " " $3 != key) { out(); key = $2 " " $3; ranks = $2; bytes = $3 }
      median[$1] = $4; least[$1] = $5; greatest[$1] = $6 }
    END { out() }'

[ -z "$json" ] || write_json "large $mode" "$json" "$scratch/medians" MB/s
