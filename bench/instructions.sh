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
# awaits its turn, uncounted, but in the lines that say so: there, on one host, it has nothing to take in. MPI_Bcast of Debian's Open MPI and MPICH is counted in the same way where they are
# installed. Compare the figures of two builds made with the same compiler and options. docs/benchmarks.md says more.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
build=${1:-$here/../build}
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

# count_within FUNCTION RANK-VARIABLE: how a rank runs under callgrind, which counts within that function, goes to `counted`.
count_within() {
    counted=(valgrind -q --tool=callgrind "--toggle-collect=$1" "--callgrind-out-file=$scratch/out.%q{$2}")
}

# totals RANKS: what callgrind has counted at each rank, in rank order.
totals() {
    local rank
    for ((rank = 0; rank < $1; ++rank)); do
        awk '/^(totals|summary):/ { total = $2 } END { print total }' "$scratch/out.$rank"
    done
}

# attempt COMMAND…: its output is only for when it fails.
attempt() {
    timeout 600 "$@" >"$scratch/stdout" 2>"$scratch/stderr" && return
    cat "$scratch/stdout" "$scratch/stderr" >&2
    echo "instructions.sh: the run failed: $*" >&2
    exit 1
}

# coppice RANKS BROADCASTS OPTIONS…: the instructions counted at each rank, in rank order, one per line.
coppice() {
    local ranks=$1 broadcasts=$2
    shift 2
    count_within '*Run::broadcast(*' COPPICE_RANK
    attempt "$launcher" -n "$ranks" --timeout 600 "${counted[@]}" \
        "$perf" broadcast -s 8 -w 64 -n "$broadcasts" --staggered --timeout 300 "$@"
    totals "$ranks"
}

# open_mpi RANKS BROADCASTS OPTIONS…, mpich RANKS BROADCASTS: the same of MPI_Bcast.
open_mpi() {
    count_within call_once OMPI_COMM_WORLD_RANK
    attempt mpirun.openmpi --allow-run-as-root --oversubscribe --bind-to none --mca mpi_yield_when_idle 1 \
        "${@:3}" -n "$1" "${counted[@]}" "$scratch/openmpi" bcast 8 "$2" staggered
    totals "$1"
}
mpich() {
    count_within call_once PMI_RANK
    attempt mpirun.mpich -n "$1" "${counted[@]}" "$scratch/mpich" bcast 8 "$2" staggered
    totals "$1"
}

# per_broadcast WHO RANKS OPTIONS…: the same, per broadcast.
per_broadcast() {
    local who=$1 ranks=$2
    shift 2
    rm -f "$scratch"/out.*
    "$who" "$ranks" "$count" "$@" >"$scratch/once"
    "$who" "$ranks" $((2 * count)) "$@" >"$scratch/twice"
    paste "$scratch/once" "$scratch/twice" | awk -v n="$count" '{ printf "%.2f\n", ($2 - $1) / n }'
}

# show TITLE WHO RANKS OPTIONS…
show() {
    local title=$1
    shift
    per_broadcast "$@" >"$scratch/first"
    per_broadcast "$@" >"$scratch/second"
    paste "$scratch/first" "$scratch/second" | awk -v title="$title" '{
        difference = $1 > $2 ? $1 - $2 : $2 - $1
        printf "%-38s rank %d   %9.1f   %s\n", title, NR - 1, $1,
               difference <= 0.01 * $1 ? "repeats" : sprintf("varies: %.1f the second time", $2)
    }'
}

echo "instructions per broadcast of 8 bytes, inside coppice_broadcast"
show "publish, 2 ranks on a host" coppice 2 --hierarchy host
COPPICE_PROGRESS_THREAD=auto show "publish, 2 ranks on a host, thread" coppice 2 --hierarchy host
show "publish, 4 ranks on a host" coppice 4 --hierarchy host
show "flat binomial, opportunistic:1, 4" coppice 4 --hierarchy flat --tree binomial --correction opportunistic:1
show "flat, default tree and correction, 4" coppice 4 --hierarchy flat
COPPICE_TRANSPORT=ucx show "UCX over TCP, 2" coppice 2 --hierarchy flat

# compare NAME WHO SUFFIX PACKAGES: MPI_Bcast, as that Debian package has it.
compare() {
    if ! command -v "mpicc.$3" >/dev/null || ! command -v "mpirun.$3" >/dev/null; then
        echo "$1 is missing (Debian packages: $4)"
        return
    fi
    "mpicc.$3" -O2 -o "$scratch/$3" "$here/mpi_collective.c" -lm
    show "$1, 2 ranks on a host" "$2" 2
    show "$1, 4 ranks on a host" "$2" 4
}
echo "the same inside MPI_Bcast, over shared memory, and over UCX's TCP"
compare "Open MPI" open_mpi openmpi "libopenmpi-dev openmpi-bin"
[ ! -x "$scratch/openmpi" ] || show "Open MPI, UCX over TCP, 2" open_mpi 2 --mca pml ucx --mca pml_ucx_tls any --mca pml_ucx_devices any -x UCX_TLS=tcp,self
compare MPICH mpich mpich "libmpich-dev mpich"
