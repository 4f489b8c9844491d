#!/usr/bin/env bash
# Groups that lose ranks and get others in their places: how long that takes, and what it costs those that stay.
#
#   bench/membership.sh [--quick] [--json FILE] [--build DIR] [--before DIR] [--rounds N] [--ranks "4 8 …"] [--hosts "1 2"] [--part P]…
#
# Rounds of all candidates alternate, because a machine's speed drifts; the figure is the median of the rounds' figures with their
# least and greatest, in µs. The parts, all of them if none is named:
#
#   renewal    the renewal after a death, of the rank that it takes longest: without the dead (shrink), and with a spare in its place; with
#              --before DIR also shrinks after a death by that build beside those by this one
#   join       from a newcomer's call to its first agreement; making the whole group anew, to its first agreement, in the contexts that
#              are there (anew), and with contexts, transports and connections, as a newcomer has to (scratch); and on one host
#              MPI_Comm_spawn and MPI_Intercomm_merge of Open MPI, from the new process's main() to its first MPI_Allreduce
#   agreement  an agreement in a group with a replacement beside one in the group before; and one from a newcomer's call until it is ready,
#              beside those of the tenth of a second before; and, for what the scheduler does to these, while a process computes for as long as
#              the newcomer's call took of a processor, and no longer
#   open       instructions of a broadcast (callgrind) in a group that others of this host may join, or any, beside one that nobody may
#
# More hosts than one are network namespaces (coppice-run(1)). Exit code 0 when everything ran; what falls short of its aim is marked
# and does not change it.
set -euo pipefail

# shellcheck source=bench/comparison.sh
. "$(dirname "$0")/comparison.sh"
parts="" ranks="4 8 16" hosts="1 2" before=""

usage() { sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "$0"; }
while [ $# -gt 0 ]; do
    case $1 in
        --part)
            value "$@"
            case $2 in renewal | join | agreement | open) ;; *) complain "--part $2: see --help" ;; esac
            parts="$parts $2" taken=2 ;;
        --hosts) value "$@"; [[ $2 =~ ^[0-9\ ]+$ ]] || complain "--hosts $2: numbers are wanted"; hosts=$2 taken=2 ;;
        --before) value "$@"; before=$2 taken=2 ;;
        *) common_option "$@" ;;
    esac
    shift "$taken"
done
settle_options
parts=${parts:-renewal join agreement open}
prepare "$build/bench/membership"
[ -z "$before" ] || [ -x "$before/bench/coppice-perf" ] || complain "$before/bench/coppice-perf is missing"

# figure CANDIDATE RANKS HOSTS AWK COMMAND…: notes what the program makes of the command's output.
figure() {
    local candidate=$1 count=$2 on=$3 program=$4 found
    shift 4
    timeout 300 "$@" >"$scratch/output" 2>"$scratch/stderr" || true
    found=$(awk "$program" "$scratch/output")
    if [ -z "$found" ]; then
        echo "membership.sh: $candidate of $count ranks on $on hosts gave no figure: $*" >&2
        tail -5 "$scratch/stderr" >&2
        return 0
    fi
    note "$candidate" "$count" "$on" "$found"
}
# run RANKS HOSTS OPTIONS…: the launcher's words, in `job`.
run() {
    local count=$1 on=$2
    shift 2
    job=("$launcher" -n "$count")
    [ "$on" = 1 ] || job+=(--hosts "$on")
    job+=("$@")
}
# shellcheck disable=SC2016 # the dollars are awk's
{
    typical_of_views='/^#(renewals|joins) / { getline; print $3 }' second='{ print $2 }'
    after_death='$10 == "after-death" { print $5 }' of_fresh='$1 == "fresh" { print $2 }' of_replaced='$1 == "replaced" { print $2 }'
    of_anew='$1 == "anew" { print $2 }' of_scratch='$1 == "scratch" { print $2 }'
    of_quiet='$1 == "quiet" { print $2 }' of_meanwhile='$1 == "meanwhile" { print $2 }'
    of_alone='$1 == "alone" { print $2 }' of_beside='$1 == "beside" { print $2 }'
}

one_renewal() {
    local dead=$(($1 - 1)) which
    run "$1" "$2" --kill "$dead@joined+300ms"
    figure shrink "$1" "$2" "$typical_of_views" "${job[@]}" "$perf" stabilize -n 200
    run "$1" "$2" --spares 1 --kill "$dead@joined+300ms"
    figure spare "$1" "$2" "$typical_of_views" "${job[@]}" "$perf" stabilize -n 200
    run "$1" "$2"
    for which in "$before" "$build"; do
        [ -n "$before" ] || continue
        figure "$([ "$which" = "$before" ] && echo old || echo new)" "$1" "$2" "$after_death" \
            "${job[@]}" "$which/bench/coppice-perf" shrink -n 20 -w 20 --victims $(($1 / 2)) --at 10
    done
}
one_join() {
    run "$1" "$2" --join "1@joined+300ms"
    figure join "$1" "$2" "$typical_of_views" "${job[@]}" "$perf" join -n 200
    run $(($1 + 1)) "$2"
    "${job[@]}" "$build/bench/membership" anew >"$scratch/both" 2>"$scratch/errors" || true
    figure anew "$1" "$2" "$of_anew" cat "$scratch/both"
    figure scratch "$1" "$2" "$of_scratch" cat "$scratch/both"
    [ "$2" = 1 ] || return 0
    mpirun_of "$1"
    figure spawn "$1" 1 "$second" "${mpirun[@]}" "$scratch/mpi_spawn"
}
one_agreement() {
    run "$1" "$2" --spares 1
    "${job[@]}" "$build/bench/membership" replaced "$iterations" $(($1 - 1)) >"$scratch/both" 2>"$scratch/errors" || true
    figure fresh "$1" "$2" "$of_fresh" cat "$scratch/both"
    figure replaced "$1" "$2" "$of_replaced" cat "$scratch/both"
    run "$1" "$2" --join "1@joined+500ms"
    "${job[@]}" "$build/bench/membership" meanwhile >"$scratch/both" 2>"$scratch/errors" || true
    figure quiet "$1" "$2" "$of_quiet" cat "$scratch/both"
    figure meanwhile "$1" "$2" "$of_meanwhile" cat "$scratch/both"
    work=$(awk '$1 == "work" { print $2 }' "$scratch/both")
    [ -n "$work" ] || return 0  # the figures before say what went wrong
    run "$1" "$2"
    "${job[@]}" "$build/bench/membership" beside "$work" >"$scratch/both" 2>"$scratch/errors" || true
    figure alone "$1" "$2" "$of_alone" cat "$scratch/both"
    figure beside "$1" "$2" "$of_beside" cat "$scratch/both"
}
# instructions COUNT SETTING…: of rank 1, within its broadcasts.
instructions() {
    local count=$1
    shift
    rm -f "$scratch"/out.*
    env COPPICE_PROGRESS_THREAD=0 "$@" timeout 600 "$launcher" -n 2 --timeout 600 valgrind -q --tool=callgrind \
        "--toggle-collect=*Run::broadcast(*" "--callgrind-out-file=$scratch/out.%q{COPPICE_RANK}" \
        "$perf" broadcast -s 8 -w 64 -n "$count" --staggered --timeout 300 >"$scratch/output" 2>"$scratch/stderr"
    awk '/^(totals|summary):/ { total = $2 } END { print total }' "$scratch/out.1"
}
one_open() {
    local candidate count=1024
    for candidate in closed open any; do
        local -a settings=(COPPICE_JOIN=none)
        case $candidate in
            open) settings=(COPPICE_JOIN=host COPPICE_CAPACITY=4) ;;
            any) settings=(COPPICE_JOIN=any COPPICE_CAPACITY=4) ;;
        esac
        note $candidate 2 1 "$(($(instructions $((2 * count)) "${settings[@]}") - $(instructions $count "${settings[@]}")))"
    done
}

for part in $parts; do
    [ "$part" != join ] || { prepare_mpi && mpicc -O2 -o "$scratch/mpi_spawn" "$here/mpi_spawn.c"; }
    [ "$part" != open ] || command -v valgrind >/dev/null || complain "valgrind is missing (Debian package: valgrind)"
done
for ((round = 1; round <= rounds; ++round)); do
    for part in $parts; do
        if [ "$part" = open ]; then
            [ "$round" -gt 2 ] || one_open
            continue
        fi
        for count in $ranks; do
            for on in $hosts; do "one_$part" "$count" "$on"; done
        done
    done
    [ -t 2 ] && echo "round $round of $rounds" >&2
done
medians >"$scratch/medians"

# show TITLE PAIR:AIM…: for all ranks and hosts the figures of the two that the pair names, and how the first is to the second.
show() {
    echo "$1"
    shift
    awk -v ranks="$ranks" -v hosts="$hosts" -v pairs="$*" '
        { m[$1, $2, $3] = $4; l[$1, $2, $3] = $5; g[$1, $2, $3] = $6 }
        function told(x) { return sprintf(x >= 1000 ? "%.0f" : "%.4g", x) }
        function figure(k) { return told(m[k]) " (" told(l[k]) " to " told(g[k]) ")" }
        END { n = split(pairs, P, " ")
            for (p = 1; p <= n; ++p) { split(P[p], W, ":"); nr = split(ranks, R, " "); nh = split(hosts, H, " ")
                for (i = 1; i <= nr; ++i) for (h = 1; h <= nh; ++h) { a = W[1] SUBSEP R[i] SUBSEP H[h]; b = W[2] SUBSEP R[i] SUBSEP H[h]
                    if (!(a in m) || !(b in m) || m[b] <= 0) continue
                    q = m[a] / m[b]
                    printf "  %2d ranks, %d host%s: %s %s, %s %s: %.3f, aim %s%s\n", R[i], H[h], (H[h] > 1 ? "s" : ""), W[1], figure(a), W[2],
                           figure(b), q, W[3], (q > W[3] ? "   FALLS SHORT" : "") } } }' "$scratch/medians"
    echo
}
for part in $parts; do
    case $part in
        renewal) show "renewal after a death, us" spare:shrink:1.5 new:old:1.1 ;;
        join) show "a newcomer, us" join:scratch:1.0 join:anew:1.0 join:spawn:0.25 ;;
        agreement) show "an agreement, us" replaced:fresh:1.05 meanwhile:quiet:1.25 beside:alone:1.25 ;;
        open) ranks=2 hosts=1 show "1,024 broadcasts of 8 bytes, rank 1 of 2, instructions" open:closed:1.02 any:closed:1.02 ;;
    esac
done
[ -z "$json" ] || write_json membership "$json" "$scratch/medians"
