#!/usr/bin/env bash
# Streams of broadcasts, Coppice's beside Open MPI's: nobody waits between two of them.
#
#   bench/streams.sh [--transport shm|tcp] [--bytes N] [--quick] [--json FILE] [--build DIR] [--rounds N] [--ranks "…"]
#
# Both libraries are in the same processes and take turns, because a machine's speed drifts. The figure is
# microseconds an operation at the slowest rank; the ratio is Coppice's to Open MPI's of the same round, of which the
# median is told with the least and the greatest. From one root, and from each rank in turn.
#
#   shm   one host: Coppice as it is by default, Open MPI over shared memory
#   tcp   every pair over TCP on loopback, both (Open MPI by ob1)
#
# Without --transport both. Exit code 0 when everything ran; what falls short of its aim is marked and does not change
# it.
set -euo pipefail

# shellcheck source=bench/comparison.sh
. "$(dirname "$0")/comparison.sh"
transports="shm tcp" bytes=8

usage() { sed -n '2,14s/^# \{0,1\}//p' "$0"; }
while [ $# -gt 0 ]; do
    case $1 in
        --transport) value "$@"; case $2 in shm | tcp) ;; *) complain "--transport $2: shm and tcp are known" ;; esac; transports=$2 taken=2 ;;
        --bytes) value "$@"; [[ $2 =~ ^[1-9][0-9]*$ ]] || complain "--bytes $2: a number is wanted"; bytes=$2 taken=2 ;;
        *) common_option "$@" ;;
    esac
    shift "$taken"
done
settle_options
ranks=${ranks:-2 4 8 16}
library=$build/src/api/libcoppice.so
prepare "$library"
prepare_mpi
mpicc -O2 -I "$here/../include" -o "$scratch/streams" "$here/streams.c" "$library" -Wl,-rpath,"$(dirname "$(realpath "$library")")" -lm

# stream TRANSPORT RANKS: notes a line of transport, roots, ranks, ours, theirs for each round.
stream() {
    local options=()
    [ "$1" = shm ] || options=(--mca pml ob1 --mca btl "tcp,self" --mca btl_tcp_if_include lo -x "COPPICE_TRANSPORT=$1")
    mpirun_of "$2" "${options[@]}"
    if timeout 600 "${mpirun[@]}" "$scratch/streams" "$bytes" "$iterations" "$rounds" >"$scratch/stdout" 2>"$scratch/stderr"; then
        awk -v transport="$1" -v ranks="$2" '{ print transport, $1, ranks, $2, $3 }' "$scratch/stdout" >>"$raw"
    else
        echo "streams.sh: $1 at $2 ranks gave no figure" >&2
        tail -5 "$scratch/stderr" >&2
    fi
}

for transport in $transports; do
    for count in $ranks; do
        stream "$transport" "$count"
        [ -t 2 ] && echo "$transport, $count ranks" >&2
    done
done

# Medians of ours, theirs and their ratio, and the ratio's least and greatest.
sort -k1,1 -k2,2 -k3,3n "$raw" | awk '
    function median(list,    i, j, t, n, v) {
        n = split(list, v, " ")
        for (i = 2; i <= n; ++i) for (j = i; j > 1 && v[j - 1] + 0 > v[j] + 0; --j) { t = v[j]; v[j] = v[j - 1]; v[j - 1] = t }
        least = v[1]; greatest = v[n]
        return n % 2 ? v[(n + 1) / 2] : (v[n / 2] + v[n / 2 + 1]) / 2
    }
    function out() { if (key != "") print key, median(ours), median(theirs), median(ratios), least, greatest, number }
    { if ($1 " " $2 " " $3 != key) { out(); key = $1 " " $2 " " $3; ours = theirs = ratios = ""; number = 0 }
      ours = ours " " $4; theirs = theirs " " $5; ratios = ratios " " ($4 / $5); ++number }
    END { out() }' >"$scratch/medians"

echo "$bytes bytes, us an operation at the slowest rank, medians of $rounds rounds of $iterations"
awk '
    BEGIN { printf "%-10s %-10s %5s %10s %10s %8s   %s\n", "transport", "roots", "ranks", "Coppice", "Open MPI", "ratio", "least..greatest" }
    { aim = $1 == "shm" ? 0.8 : 1.0
      short = $1 == "shm" || $2 == "one" ? $6 > aim : 0
      printf "%-10s %-10s %5d %10.2f %10.2f %8.2f   %.2f..%.2f%s\n", $1, $2, $3, $4, $5, $6, $7, $8, short ? "   FALLS SHORT" : "" }' "$scratch/medians"

[ -z "$json" ] || awk -v bytes="$bytes" 'BEGIN { printf "{\"mode\": \"streams\", \"unit\": \"us\", \"bytes\": %d, \"figures\": [", bytes }
    { printf "%s\n  {\"transport\": \"%s\", \"roots\": \"%s\", \"ranks\": %d, \"coppice\": %s, \"openmpi\": %s, \"ratio\": %s, \"min\": %s, \"max\": %s, \"rounds\": %d}",
             (NR > 1 ? "," : ""), $1, $2, $3, $4, $5, $6, $7, $8, $9 }
    END { print "\n]}" }' "$scratch/medians" >"$json"
