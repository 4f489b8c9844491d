#!/usr/bin/env bash
# Waiting where cores are shared: agreements and broadcasts of 8 bytes, with COPPICE_SPIN's default beside other
# settings.
#
#   bench/crowded.sh [--part P]... [--quick] [--hosts "1 2 …"] [--json FILE] [--build DIR] [--rounds N]
#
# All that is compared alternates in one run, because a machine's speed drifts; each candidate gives one median a round,
# and the figure is the median of those with their least and greatest. µs from the first call until the last rank has
# returned. The parts, all of them if none is named:
#
#   ranks      2 to 16 ranks on 1 to 8 simulated hosts, which share this machine's cores: the default beside
#              COPPICE_SPIN=0, which yields at once. At most 1.5 times as long. --hosts is for this part: only these
#              numbers of hosts
#   own-core   as many ranks as cores, on one host and on as many hosts: beside COPPICE_SPIN=500us, which spins on. No
#              slower (at most 1.05 times as long)
#   busy       beside a busy loop on each core, back to back, because a start barrier that yields would lose its
#              slices itself: of another program in a session of its own, as from another terminal, at most 3 times as
#              long as quiet; and in the same session (or without autogroup scheduling), where a rank runs when the
#              scheduler lets it: at most 3 times as long as the same number of processes that meet by plain pipes
#              beside the same loops (pipe_meeting)
#   quota      in a control group with half a core: everything ends with the right result. Beside the quiet figure
#
# It uses the cores that it may use itself: taskset -c 0,1 bench/crowded.sh for two of them. Each run ends after a
# second.
#
# More than one host needs the right to make network namespaces (coppice-run(1)), quota the right to make control
# groups. Exit code 0 when everything ran; what falls short of its aim is marked and does not change it. 1 when a run
# gave no figure.
set -euo pipefail

# shellcheck source=bench/comparison.sh
. "$(dirname "$0")/comparison.sh"
parts="" hosts_wanted=""

usage() { sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "$0"; }
while [ $# -gt 0 ]; do
    case $1 in
        --part)
            value "$@"
            case $2 in ranks | own-core | busy | quota) ;; *) complain "--part $2: see --help" ;; esac
            parts="$parts $2" taken=2
            ;;
        --hosts)
            value "$@"
            [[ $2 =~ ^[0-9\ ]+$ ]] || complain "--hosts $2: numbers are wanted"
            hosts_wanted=" $2 " taken=2
            ;;
        --ranks) complain "unknown option $1 (see --help)" ;;
        *) common_option "$@" ;;
    esac
    shift "$taken"
done
iterations=1000 # where comparison.sh has 4000
[ $quick = 0 ] || rounds=${rounds:-1}
rounds=${rounds:-3}
[ $quick = 0 ] || iterations=300
parts=${parts:-ranks own-core busy quota}
# shellcheck disable=SC2119
prepare
meeting=$build/bench/pipe_meeting
[ -x "$meeting" ] || complain "$meeting is missing: build first"
COPPICE_BENCH_CORES=$(nproc)
export COPPICE_BENCH_CORES
more=() # options of coppice-perf
loops="" group="" failed=0
clean_up() {
    stop_loops
    [ -z "$group" ] || rmdir "$group" 2>/dev/null || true
    rm -rf "$scratch"
}
trap clean_up EXIT

# The layouts RANKSxHOSTS of the part ranks.
layouts=""
for layout in 2x1 4x1 8x1 16x1 2x2 3x2 4x2 6x2 8x2 16x2 3x3 6x3 8x3 12x3 4x4 8x4 12x4 16x4 6x6 12x6 16x6 8x8 12x8 16x8; do
    [ -n "$hosts_wanted" ] && [[ $hosts_wanted != *" ${layout#*x} "* ]] || layouts="$layouts $layout"
done
cores=$(nproc)

# timed OPERATION NAME RANKS HOSTS COMMAND…: notes its median. It has to end with success: what was agreed upon and
# delivered is right.
timed() {
    local candidate=$1/$2 count=$3 hosts=$4
    shift 4
    if timeout 120 "$@" >"$scratch/output" 2>"$scratch/stderr"; then
        # shellcheck disable=SC2119
        note "$candidate" "$count" "$hosts" "$(typical <"$scratch/output")"
    else
        echo "crowded.sh: $candidate, $count ranks on $hosts hosts, failed: $*" >&2
        tail -5 "$scratch/output" "$scratch/stderr" >&2
        failed=1
    fi
}
# both NAME LAYOUT SPIN [COMMAND…]: an agreement and a broadcast with that COPPICE_SPIN, started by the command.
both() {
    local name=$1 count=${2%x*} hosts=${2#*x} spin=$3
    shift 3
    local -a run=("$@" env COPPICE_SPIN="$spin" "$launcher" -n "$count")
    [ "$hosts" = 1 ] || run+=(--hosts "$hosts")
    timed agree "$name" "$count" "$hosts" "${run[@]}" "$perf" agree --for 1s -n "$iterations" -w $((iterations / 10)) "${more[@]}"
    timed broadcast "$name" "$count" "$hosts" "${run[@]}" "$perf" broadcast --verify --for 1s -n "$iterations" \
        -w $((iterations / 10)) "${more[@]}"
}

one_ranks() {
    local layout
    for layout in $layouts; do
        both default "$layout" auto
        both at-once "$layout" 0
    done
}
one_own_core() {
    local layout
    for layout in "${cores}x1" "${cores}x$cores"; do
        both own "$layout" auto
        both spins "$layout" 500us
    done
}

# start_loops COMMAND…: a busy loop for each core, started by the command.
start_loops() {
    local core
    for ((core = 0; core < cores; ++core)); do
        taskset -c "$core" "$@" bash -c 'while :; do :; done' &
        loops="$loops $!"
    done
    sleep 0.2
}
stop_loops() {
    local loop
    for loop in $loops; do
        kill "$loop" 2>/dev/null || true
        wait "$loop" 2>/dev/null || true
    done
    loops=""
}
busy_layouts="${cores}x1 $((2 * cores))x1 ${cores}x2 $((2 * cores))x2 $((4 * cores))x2"
one_busy() {
    local layout
    more=(--back-to-back)
    for layout in $busy_layouts; do
        both quiet "$layout" auto
        # Neither setsid nor taskset forks here: what is ended is the loop.
        start_loops setsid
        both busy "$layout" auto
        both busy-at-once "$layout" 0
        stop_loops
        start_loops
        both same-session "$layout" auto
        both same-session-at-once "$layout" 0
        timed meet pipes "${layout%x*}" "${layout#*x}" "$meeting" "${layout%x*}" "$iterations"
        stop_loops
    done
    more=()
}

# A control group with half a core, of version 1 or 2, in `group`.
make_group() {
    if [ -w /sys/fs/cgroup/cgroup.subtree_control ]; then
        echo +cpu >/sys/fs/cgroup/cgroup.subtree_control 2>/dev/null || true
        mkdir "/sys/fs/cgroup/coppice-crowded-$$" 2>/dev/null || return 1
        group=/sys/fs/cgroup/coppice-crowded-$$
        echo "50000 100000" 2>/dev/null >"$group/cpu.max"
    else
        local own
        own=$(sed -n 's/^[0-9]*:\(.*,\)*cpu\(,.*\)*://p' /proc/self/cgroup)
        group=/sys/fs/cgroup/cpu${own%/}/coppice-crowded-$$
        mkdir "$group" 2>/dev/null || { group=""; return 1; }
        echo 100000 >"$group/cpu.cfs_period_us" && echo 50000 >"$group/cpu.cfs_quota_us"
    fi
}
one_quota() {
    local layout
    [ -n "$group" ] || make_group || {
        echo "crowded.sh: no control group with a quota can be made here: the part quota is left out" >&2
        return 0
    }
    for layout in $busy_layouts; do
        both unlimited "$layout" auto
        # shellcheck disable=SC2016 # for the inner shell
        both quota "$layout" auto bash -c 'echo $$ >"$0/cgroup.procs" && exec "$@"' "$group"
    done
}

for ((round = 1; round <= rounds; ++round)); do
    for part in $parts; do "one_${part//-/_}"; done
    [ -t 2 ] && echo "round $round of $rounds" >&2
done
medians >"$scratch/medians"

# show TITLE LAYOUTS OPERATION CANDIDATE BESIDE LIMIT: a table; ratios above the limit are marked (0: none is). BESIDE
# may be OPERATION/CANDIDATE of another operation.
show() {
    local beside=$5
    [[ $beside = */* ]] || beside=$3/$5
    echo "$1"
    awk -v layouts="$2" -v c="$3/$4" -v beside="$beside" -v limit="$6" '
        { m[$1, $2, $3] = $4; l[$1, $2, $3] = $5; g[$1, $2, $3] = $6 }
        function figure(c, k) { return (c, k) in m ? sprintf("%9.2f %9.2f..%-9.2f", m[c, k], l[c, k], g[c, k]) : "        - no figure          " }
        END { n = split(layouts, L, " ")
            for (i = 1; i <= n; ++i) { split(L[i], part, "x"); k = part[1] SUBSEP part[2]
                q = (c, k) in m && (beside, k) in m && m[beside, k] > 0 ? m[c, k] / m[beside, k] : 0
                printf "%3d ranks on %d  %s  %s %s\n", part[1], part[2], figure(c, k), figure(beside, k),
                       q == 0 ? "        -" : sprintf("%9.2f%s", q, limit > 0 && q > limit ? "   FALLS SHORT" : "") } }' "$scratch/medians"
    echo
}
for part in $parts; do
    for what in agree broadcast; do
        case $part in
            ranks) show "$what: default, yields at once, ratio (at most 1.5)" "$layouts" $what default at-once 1.5 ;;
            own-core) show "$what, a core for each rank: default, spins on, ratio (at most 1.05)" "${cores}x1 ${cores}x$cores" $what own spins 1.05 ;;
            busy)
                show "$what beside busy loops of another session: default, quiet, ratio (at most 3)" "$busy_layouts" $what busy quiet 3
                show "$what, the same with yields at once" "$busy_layouts" $what busy-at-once quiet 0
                show "$what beside busy loops of the same session: default, quiet, ratio" "$busy_layouts" $what same-session quiet 0
                show "$what beside busy loops of the same session: default, pipes beside them, ratio (at most 3)" "$busy_layouts" \
                    $what same-session meet/pipes 3
                show "$what, the same with yields at once" "$busy_layouts" $what same-session-at-once quiet 0
                ;;
            quota) show "$what in half a core: default, unlimited, ratio" "$busy_layouts" $what quota unlimited 0 ;;
        esac
    done
done
if [ -n "$group" ]; then grep -H . "$group/cpu.stat" | sed 's/^.*cpu.stat:/half a core: /'; fi
[ -z "$json" ] || write_json crowded "$json" "$scratch/medians"
[ $failed = 0 ]
