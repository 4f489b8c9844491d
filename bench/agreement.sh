#!/usr/bin/env bash
# Agreements of 8 bytes: beside Open MPI's reduction, after deaths, by which rank dies, and along different trees.
#
#   bench/agreement.sh [--part P]... [--quick] [--json FILE] [--build DIR] [--rounds N] [--ranks "2 4 …"]
#
# Rounds of all candidates alternate, because a machine's speed drifts; each candidate gives one median a round, and the
# figure is the median of those with their least and greatest. µs from the last rank's call until the last one has
# returned. The parts, all of them if none is named:
#
#   failure-free   one host, beside MPI_Allreduce of one integer, which tolerates no fault, in the better of Open MPI's
#                  settings
#   post-failure   a group that has lost a rank, beside a fresh one of the size that is left
#   deaths         by which rank dies, on one host and on 4 with TCP between them, of 8 ranks or more: failure-free, the
#                  agreement that detects it (from the death to the last survivor's return), the stabilizing one, and
#                  those after it
#   memory         8 ranks of 1 MB, 512 MB and 1 GB each, one host and 2 of 4 ranks: the agreement that detects a death
#   lost-host      a host of 4 is killed, and falls silent, with a bound of 500 ms and of 50 ms: the agreement that
#                  detects it
#   trees          along which tree contributions travel, on one host and on 4, of 4 ranks or more
#   rebuilt        after the death of half of the ranks, with the tree made anew and only repaired: by messages, binary
#   shrink         a new group, made without a death, and after deaths that an agreement has found: of the first rank, of one in the
#                  middle, of the last, and of half of them
#   algorithms     ERA beside the older agreements in two and in three phases, all by messages along a binary tree
#
# --ranks is not for memory and lost-host. 4 hosts need the right to make network namespaces
# (coppice-run(1)). Exit code 0 when everything ran; what falls short of its aim is marked and does not change it.
set -euo pipefail

# shellcheck source=bench/comparison.sh
. "$(dirname "$0")/comparison.sh"
operation=allreduce
parts="" ranks="2 4 8 16"

usage() { sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "$0"; }
while [ $# -gt 0 ]; do
    if [ "$1" = --part ]; then
        value "$@"
        case $2 in failure-free | post-failure | deaths | memory | lost-host | trees | rebuilt | shrink | algorithms) ;; *) complain "--part $2: see --help" ;; esac
        parts="$parts $2" taken=2
    else
        common_option "$@"
    fi
    shift "$taken"
done
settle_options
parts=${parts:-failure-free post-failure deaths memory lost-host trees rebuilt shrink algorithms}
prepare "$build/tools/coppice-run" "$build/bench/agreement_algorithms"

# coppice CANDIDATE RANKS HOSTS OPTIONS…
coppice() {
    local candidate=$1 count=$2
    local -a hosts=()
    [ "$3" = 1 ] || hosts=(--hosts "$3")
    shift 3
    measure "$candidate" "$count" 8 "$launcher" -n "$count" "${hosts[@]}" "$perf" agree -n "$iterations" \
        -w $((iterations / 10)) "$@"
}

# deadly CANDIDATE RANKS HOSTS VICTIMS ITERATIONS OPTIONS…: notes the candidate's four phases.
deadly() {
    local candidate=$1 count=$2 victims=$4 many=$5 phase median
    local -a hosts=()
    [ "$3" = 1 ] || hosts=(--hosts "$3")
    local -a options=("${@:6}")
    if ! timeout 300 "$launcher" -n "$count" "${hosts[@]}" "$perf" agree -n "$many" -w 100 --victims "$victims" \
        --at $((many / 2)) "${options[@]}" >"$scratch/output" 2>"$scratch/stderr" && ! grep -q '^disagreed 0 wrong 0 lost 0' "$scratch/output"; then
        echo "agreement.sh: $candidate at $count ranks gave no figure" >&2
        tail -5 "$scratch/stderr" >&2
        return 0
    fi
    for phase in failure-free stabilizing post-failure; do
        median=$(typical $phase <"$scratch/output")
        [ -z "$median" ] || note "$candidate/$phase" "$count" 8 "$median"
    done
    median=$(sed -n 's/^agreement .* died; \([0-9]*\) us from the [dl].*/\1/p' "$scratch/output" | tail -1)
    [ -z "$median" ] || note "$candidate/detecting" "$count" 8 "$median"
}

one_failure_free() {
    local count
    for count in $ranks; do
        mpi openmpi "$count" 8
        mpi_ucx posix,self openmpi-ucx "$count" 8
        coppice coppice "$count" 1
    done
}
one_post_failure() {
    local count
    for count in $ranks; do
        coppice fresh "$count" 1
        # The last rank dies, so that the others have the cores that the ranks of a fresh group have.
        deadly repaired $((count + 1)) 1 "$count" $((2 * iterations))
    done
}
# Ranks of a host stand side by side.
one_deaths() {
    local count hosts each
    for count in $ranks; do
        [ "$count" -ge 8 ] || continue
        each=$((count / 4))
        for hosts in 1 4; do
            deadly "root,$hosts" "$count" $hosts 0 200
            deadly "child-of-root,$hosts" "$count" $hosts 1 200
            [ $hosts != 1 ] || continue
            deadly "host-leader,$hosts" "$count" $hosts $each 200
            deadly "child-of-leader,$hosts" "$count" $hosts $((each + 1)) 200
            deadly "whole-host,$hosts" "$count" $hosts "$(seq -s, $each $((2 * each - 1)))" 200
        done
    done
}
one_memory() {
    local hosts size
    for hosts in 1 2; do
        for size in 1M 512M 1G; do
            deadly "$size,$hosts" 8 $hosts 5 2000 --resident $size
        done
    done
}
one_lost_host() {
    local bound
    for bound in 500 50; do
        COPPICE_DETECTION_BOUND=${bound}ms deadly "killed,$bound" 16 4 8,9,10,11 200
        COPPICE_DETECTION_BOUND=${bound}ms deadly "silent,$bound" 16 4 8,9,10,11 200 --silent
    done
}
one_trees() {
    local count tree
    for count in $ranks; do
        [ "$count" -ge 4 ] || continue
        coppice "auto,1" "$count" 1
        for tree in binary binomial kary:4 star chain; do coppice "$tree,1" "$count" 1 --tree $tree; done
        for tree in bin/star bin/bin star/star binary binomial star chain; do coppice "$tree,4" "$count" 4 --tree $tree; done
    done
}

# Of four ranks the second and the third die, so that those that are left have the cores that all had.
one_rebuilt() {
    local count rank victims
    for count in $ranks; do
        victims=""
        for ((rank = 0; rank < count; ++rank)); do
            if [ $((rank % 4)) = 1 ] || [ $((rank % 4)) = 2 ]; then victims=$victims,$rank; fi
        done
        [ -n "$victims" ] || continue
        COPPICE_HIERARCHY=flat COPPICE_AGREEMENT_REBALANCE=always deadly rebuilt "$count" 1 "${victims#,}" $((2 * iterations))
        COPPICE_HIERARCHY=flat COPPICE_AGREEMENT_REBALANCE=never deadly kept "$count" 1 "${victims#,}" $((2 * iterations))
    done
}

# A run has one shrink that leaves dead ranks out: many short ones.
one_shrink() {
    local count which victims again
    for count in $ranks; do
        measure shrink "$count" 0 "$launcher" -n "$count" "$perf" shrink -n 200 -w 20
        for which in middle first last half; do
            case $which in
                middle) victims=$((count / 2)) ;;
                first) victims=0 ;;
                last) victims=$((count - 1)) ;;
                half) victims=$(seq -s, $((count / 2)) $((count - 1))) ;;
            esac
            for again in 1 2 3 4 5; do
                timeout 300 "$launcher" -n "$count" "$perf" shrink -n 20 -w 20 --victims "$victims" --at 10 \
                    >"$scratch/output" 2>"$scratch/stderr" || grep -q '^disagreed 0' "$scratch/output" || {
                    echo "agreement.sh: shrink $again after the death of the $which at $count ranks gave no figure" >&2
                    tail -5 "$scratch/stderr" >&2
                    continue
                }
                note "shrink/$which" "$count" 0 "$(typical after-death <"$scratch/output")"
            done
        done
    done
}
one_algorithms() {
    local count name median
    for count in $ranks; do
        timeout 300 "$build/bench/agreement_algorithms" "$count" $((iterations / 4)) >"$scratch/output" 2>"$scratch/stderr" || {
            echo "agreement.sh: agreement_algorithms at $count ranks gave no figure" >&2
            tail -5 "$scratch/stderr" >&2
            continue
        }
        for name in ERA two-phase three-phase; do
            median=$(awk -v name=$name '$1 == name { print $2 }' "$scratch/output")
            note "$name" "$count" 8 "$median"
        done
    done
}

for part in $parts; do [ "$part" != failure-free ] || prepare_mpi; done
for ((round = 1; round <= rounds; ++round)); do
    for part in $parts; do "one_${part//-/_}"; done
    [ -t 2 ] && echo "round $round of $rounds" >&2
done
medians >"$scratch/medians"

# show TITLE AWK-PROGRAM: a part's table, of the medians in m, l (least) and g (greatest) by candidate and ranks.
show() {
    echo "$1"
    awk -v ranks="$ranks" '
        { m[$1, $2] = $4; l[$1, $2] = $5; g[$1, $2] = $6 }
        function figure(c, r) { return (c, r) in m ? sprintf("%8.2f %8.2f..%-8.2f", m[c, r], l[c, r], g[c, r]) : "       - no figure        " }
        function ratio(a, ar, b, br) { return (a, ar) in m && (b, br) in m && m[b, br] > 0 ? m[a, ar] / m[b, br] : 0 }
        function told(q) { return q == 0 ? "        -" : sprintf("%9.2f%s", q, q > 1 ? "   FALLS SHORT" : "") }
        '"$2" "$scratch/medians"
    echo
}
for part in $parts; do
    case $part in
        failure-free)
            # shellcheck disable=SC2016 # the dollars are awk's
            show "failure-free, one host: ranks, Coppice, Open MPI (better of two), ratio" '
                END { n = split(ranks, R, " "); for (i = 1; i <= n; ++i) { r = R[i]; best = "openmpi"
                    if (("openmpi-ucx", r) in m && (!(("openmpi", r) in m) || m["openmpi-ucx", r] < m["openmpi", r])) best = "openmpi-ucx"
                    printf "%-4s %s  %s %s\n", r, figure("coppice", r), figure(best, r), told(ratio("coppice", r, best, r)) } }' ;;
        post-failure)
            # shellcheck disable=SC2016
            show "post-failure, one host: ranks left, after a death, fresh, ratio" '
                END { n = split(ranks, R, " "); for (i = 1; i <= n; ++i) { r = R[i]
                    printf "%-4s %s  %s %s\n", r, figure("repaired/post-failure", r + 1), figure("fresh", r),
                           told(ratio("repaired/post-failure", r + 1, "fresh", r)) } }' ;;
        rebuilt)
            # shellcheck disable=SC2016
            show "rebuilt, one host by messages: ranks before half of them die, before, after it with a tree made anew, with one repaired, ratio" '
                END { n = split(ranks, R, " "); for (i = 1; i <= n; ++i) { r = R[i]
                    printf "%-4s %s  %s  %s %9.2f\n", r, figure("kept/failure-free", r), figure("rebuilt/post-failure", r),
                           figure("kept/post-failure", r), ratio("kept/post-failure", r, "rebuilt/post-failure", r) } }' ;;
        shrink)
            # shellcheck disable=SC2016
            show "shrink, one host: ranks, without a death, after that of the first, one in the middle, the last, half of them" '
                END { n = split(ranks, R, " "); for (i = 1; i <= n; ++i) { r = R[i]
                    printf "%-4s %s  %s  %s  %s  %s\n", r, figure("shrink", r), figure("shrink/first", r), figure("shrink/middle", r),
                           figure("shrink/last", r), figure("shrink/half", r) } }' ;;
        algorithms)
            # shellcheck disable=SC2016
            show "algorithms, one host, binary tree: ranks, ERA, two phases, three phases, ratios to ERA" '
                END { n = split(ranks, R, " "); for (i = 1; i <= n; ++i) { r = R[i]
                    printf "%-4s %s  %s  %s %9.2f %9.2f\n", r, figure("ERA", r), figure("two-phase", r), figure("three-phase", r),
                           ratio("two-phase", r, "ERA", r), ratio("three-phase", r, "ERA", r) } }' ;;
        deaths)
            # shellcheck disable=SC2016
            show "deaths: ranks, victim,hosts: failure-free, detecting, stabilizing, post-failure" '
                END { n = split("root,1 child-of-root,1 root,4 child-of-root,4 host-leader,4 child-of-leader,4 whole-host,4", V, " ")
                    k = split(ranks, R, " "); for (j = 1; j <= k; ++j) { r = R[j]; if (r < 8) continue
                    for (i = 1; i <= n; ++i) printf "%-4s %-18s %s  %s  %s  %s\n", r, V[i], figure(V[i] "/failure-free", r),
                        figure(V[i] "/detecting", r), figure(V[i] "/stabilizing", r), figure(V[i] "/post-failure", r) } }' ;;
        memory)
            # shellcheck disable=SC2016
            show "memory of each of 8 ranks,hosts: detecting" '
                END { n = split("1M,1 512M,1 1G,1 1M,2 512M,2 1G,2", V, " ")
                    for (i = 1; i <= n; ++i) printf "%-8s %s%s\n", V[i], figure(V[i] "/detecting", 8),
                        (m[V[i] "/detecting", 8] > 500 && V[i] ~ /,1$/) ? "   FALLS SHORT" : "" }' ;;
        lost-host)
            # shellcheck disable=SC2016
            show "a lost host, 4 of 16 ranks: how,bound in ms: detecting, ratio to the bound" '
                END { n = split("killed,500 killed,50 silent,500 silent,50", V, " ")
                    for (i = 1; i <= n; ++i) { split(V[i], W, ","); c = V[i] "/detecting"
                        printf "%-11s %s %s\n", V[i], figure(c, 16), told((c, 16) in m ? m[c, 16] / (1000 * W[2]) : 0) } }' ;;
        trees)
            # shellcheck disable=SC2016
            show "trees: ranks, tree,hosts: median, ratio to the one that is taken by itself" '
                END { k = split(ranks, R, " "); n = split("auto,1 binary,1 binomial,1 kary:4,1 star,1 chain,1 bin/star,4 bin/bin,4 star/star,4 binary,4 binomial,4 star,4 chain,4", T, " ")
                    for (j = 1; j <= k; ++j) { r = R[j]; if (r < 4) continue
                    for (i = 1; i <= n; ++i) printf "%-4s %-12s %s %9.2f\n", r, T[i], figure(T[i], r),
                        ratio(T[i], r, T[i] ~ /,1$/ ? "auto,1" : "bin/star,4", r) } }' ;;
    esac
done
[ -z "$json" ] || write_json agreement "$json" "$scratch/medians"
