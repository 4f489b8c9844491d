# What the comparisons with Open MPI share; sourced by them, not to be run.
# shellcheck shell=bash

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
build=$here/../build  # all of these may be set to something else
operation=bcast       # or allreduce
iterations=4000
arguments=()          # of the program for MPI, besides
rounds="" json="" ranks="" quick=0

complain() { echo "$(basename "$0"): $*" >&2; exit 2; }
value() { [ $# -ge 2 ] || complain "$1 needs a value"; }

# common_option OPTION…: one that all comparisons have; `taken` is how many words it was.
# shellcheck disable=SC2034 # for scripts that source this
common_option() {
    taken=2
    case $1 in
        --quick) quick=1 taken=1 ;;
        --json) value "$@"; json=$2 ;;
        --build) value "$@"; build=$2 ;;
        --rounds) value "$@"; [[ $2 =~ ^[1-9][0-9]*$ ]] || complain "--rounds $2: a number is wanted"; rounds=$2 ;;
        --ranks) value "$@"; [[ $2 =~ ^[0-9\ ]+$ ]] || complain "--ranks $2: numbers are wanted"; ranks=$2 ;;
        -h | --help) usage; exit 0 ;;
        *) complain "unknown option $1 (see --help)" ;;
    esac
}
# What --quick leaves open.
settle_options() {
    if [ $quick = 1 ]; then iterations=1000 rounds=${rounds:-3}; fi
    rounds=${rounds:-9}
}

# prepare PROGRAM…: these and the ones that all need are there; makes a place for figures, lines of candidate, ranks,
# bytes, median.
prepare() {
    launcher=$build/tools/coppice-run perf=$build/bench/coppice-perf
    local file
    for file in "$launcher" "$perf" "$@"; do
        [ -x "$file" ] || complain "$file is missing: build first, or name the build directory with --build"
    done
    scratch=$(mktemp -d)
    trap 'rm -rf "$scratch"' EXIT
    raw=$scratch/raw
    : >"$raw"
}

prepare_mpi() {
    local missing=""
    command -v mpicc >/dev/null || missing="libopenmpi-dev"
    command -v mpirun >/dev/null || missing="$missing openmpi-bin"
    [ -z "$missing" ] || complain "Open MPI is missing; install the Debian packages: $missing"
    grep -q "Open MPI" <<<"$(mpirun --version 2>&1)" || complain "mpirun is not Open MPI's: $(command -v mpirun)"
    mpicc -O2 -o "$scratch/mpi_collective" "$here/mpi_collective.c" -lm
}

# typical [PHASE]: the median of a benchmark's last result line, or of the one of that phase.
# shellcheck disable=SC2120
typical() {
    awk -v phase="${1-}" '$1 ~ /^[0-9]+$/ && NF >= 9 && $2 ~ /^[0-9]+$/ && (phase == "" || $10 == phase) { median = $5 }
                          END { print median }'
}

# note CANDIDATE RANKS BYTES MEDIAN
note() { echo "$*" >>"$raw"; }

# measure CANDIDATE RANKS BYTES COMMAND…: runs it and notes its median.
measure() {
    local candidate=$1 count=$2 bytes=$3 median
    shift 3
    # shellcheck disable=SC2119
    median=$(timeout 300 "$@" 2>"$scratch/stderr" | typical) || true
    if [ -z "$median" ]; then
        echo "$(basename "$0"): $candidate at $count ranks, $bytes bytes gave no figure: $*" >&2
        tail -5 "$scratch/stderr" >&2
        return 0
    fi
    note "$candidate" "$count" "$bytes" "$median"
}

# mpirun_of RANKS MPIRUN-OPTIONS…: the words before a program and its arguments, in `mpirun`.
mpirun_of() {
    local count=$1
    shift
    # The programs pin rank mod cores themselves, as coppice-run does. Yielding costs 50 % where every rank has a core.
    local yield=0
    [ "$count" -le "$(nproc)" ] || yield=1
    mpirun=(mpirun --allow-run-as-root --oversubscribe --bind-to none --mca mpi_yield_when_idle "$yield" "$@" -n "$count")
}
# mpi CANDIDATE RANKS BYTES MPIRUN-OPTIONS…
mpi() {
    local candidate=$1 count=$2 bytes=$3
    shift 3
    mpirun_of "$count" "$@"
    measure "$candidate" "$count" "$bytes" "${mpirun[@]}" "$scratch/mpi_collective" "$operation" "$bytes" "$iterations" "${arguments[@]}"
}
mpi_ucx() {
    local tls=$1 candidate=$2 count=$3 bytes=$4
    mpi "$candidate" "$count" "$bytes" --mca pml ucx --mca pml_ucx_tls any --mca pml_ucx_devices any -x "UCX_TLS=$tls"
}

# Median, least and greatest per candidate, ranks and bytes, and of how many.
medians() {
    sort -k1,1 -k2,2n -k3,3n -k4,4g "$raw" | awk '
        function out() { if (n) print key, n % 2 ? v[(n + 1) / 2] : (v[n / 2] + v[n / 2 + 1]) / 2, v[1], v[n], n }
        { if ($1 " " $2 " " $3 != key) { out(); key = $1 " " $2 " " $3; n = 0 } v[++n] = $4 }
        END { out() }'
}

# write_json MODE FILE MEDIANS [UNIT]
write_json() {
    awk -v mode="$1" -v unit="${4:-us}" 'BEGIN { printf "{\"mode\": \"%s\", \"unit\": \"%s\", \"figures\": [", mode, unit }
        { printf "%s\n  {\"candidate\": \"%s\", \"ranks\": %d, \"bytes\": %d, \"median\": %s, \"min\": %s, \"max\": %s, \"rounds\": %d}",
                 (NR > 1 ? "," : ""), $1, $2, $3, $4, $5, $6, $7 }
        END { print "\n]}" }' "$3" >"$2"
}
