#!/usr/bin/env bash
# A soak of agreements: jobs drawn from a seed, one after the other, whose ranks are killed and stopped at drawn
# moments.
#
#   tests/soak/agree.sh [--minutes M | --seconds S] [--seed N] [--job N] [--build DIR] [--verbose]
#
#   --minutes M   how long (default 5); --seconds S the same for short runs
#   --seed N      of everything that is drawn (default: from the clock; it is printed)
#   --job N       only the N-th job of that seed, to repeat what went wrong (the moments of deaths repeat to some
#                 microseconds)
#   --build DIR   where Coppice was built (default: build beside tests)
#   --verbose     a line for each job, not only for those that went wrong
#
# Every survivor checks each of its results (whose contribution is in it, which ranks are among the failed, what was
# contributed by all); afterwards value, failed set and status of all agreements are compared across survivors by a
# digest. Found are:
#   differed   survivors had different results, or different numbers of them
#   wrong      a result broke a promise by itself, or a call failed
#   hung       a call took longer than 60 s; the ranks that it waited for are named
#   leaked     heap or descriptors grew with the number of agreements or of groups, or a process was left behind
# Two of the jobs are long ones, of a million agreements each (of as many as fit into a third of the time), with a death
# on the way.
#
# Exit code: 0 nothing of that was found; 1 something was; 2 the options make no sense.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
build=$here/../../build
seconds=300 seed="" only="" verbose=0
longest=1000000                # agreements of a long job
heap_limit=$((256 * 1024))     # bytes that the heap of a rank may grow by while agreements go on, or over all groups

usage() { sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "$0"; }
complain() { echo "agree.sh: $*" >&2; exit 2; }
number() { [[ ${2-} =~ ^[0-9]+$ ]] || complain "$1 needs a number"; }
while [ $# -gt 0 ]; do
    case $1 in
        --minutes) number "$@"; seconds=$((60 * $2)); shift ;;
        --seconds) number "$@"; seconds=$2; shift ;;
        --seed) number "$@"; seed=$2; shift ;;
        --job) number "$@"; only=$2; shift ;;
        --build) [ $# -ge 2 ] || complain "--build needs a directory"; build=$2; shift ;;
        --verbose) verbose=1 ;;
        -h | --help) usage; exit 0 ;;
        *) complain "unknown option $1 (see --help)" ;;
    esac
    shift
done
[ "$seconds" -gt 0 ] || complain "there is nothing to do in no time"
seed=${seed:-$(date +%s)}
launcher=$build/tools/coppice-run rank=$build/tests/soak/agree_rank
for file in "$launcher" "$rank"; do
    [ -x "$file" ] || complain "$file is missing: build first, or name the build directory with --build"
done
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# Sets $drawn to a number from 0 to $1 − 1; the state is the job's own, so that a job can be repeated alone.
state=0 drawn=0
draw() {
    state=$(((state * 6364136223846793005 + 1442695040888963407) & 0x7fffffffffffffff))
    drawn=$(((state >> 24) % $1))
}

# What all jobs have come to.
jobs=0 agreements=0 killed=0 stopped=0 differed=0 wrong=0 hung=0 leaked=0 most_growth=0

# most NAME: the greatest number under that name in the reports.
reports() { find "$scratch/reports" -type f -exec cat {} +; }
most() { reports | awk -v name="$1" '$1 == name && $2 > all { all = $2 } END { print all + 0 }'; }

# Of a call, in seconds. A machine that stands still for a minute, as virtual ones do, hangs no rank.
patience=$((60 * ${COPPICE_TEST_PATIENCE:-1}))

# run_job NUMBER WHAT ENVIRONMENT LAUNCHER-OPTIONS -- RANK-OPTIONS: runs it, judges it, tells of it.
run_job() {
    local job=$1 what=$2 environment=$3 code=0 faults="" ranks left growth
    shift 3
    ranks=$2
    local -a options=()
    while [ "$1" != -- ]; do
        options+=("$1"); shift
    done
    shift
    rm -rf "$scratch/reports"; mkdir "$scratch/reports"
    # shellcheck disable=SC2086 # settings, one word each
    env $environment "$launcher" "${options[@]}" --timeout $((seconds + 3 * patience)) "$rank" --report "$scratch/reports" \
        --seed $((seed + job)) --patience "$patience" "$@" >"$scratch/output" 2>&1 || code=$?
    jobs=$((jobs + 1))
    agreements=$((agreements + $(most agreements)))
    # A rank that has not reported was killed in time, or the job has failed.
    [ $code != 0 ] || killed=$((killed + ranks - $(find "$scratch/reports" -type f | wc -l)))

    # Reports of ranks that were killed right after writing theirs are as good as any.
    if [ "$(reports | grep -E '^(digest|agreements) ' | sort -u | wc -l)" -gt 2 ]; then differed=$((differed + 1)); faults="$faults differed"; fi
    if grep -q "the deadline has passed" "$scratch/output" || [ $code = 124 ]; then
        hung=$((hung + 1)); faults="$faults hung"
    elif [ $code != 0 ]; then
        wrong=$((wrong + 1)); faults="$faults wrong"
    fi
    left=$(pgrep -fc -- "--report $scratch/reports" || true)
    growth=$(most heap_growth)
    [ "$growth" -le "$most_growth" ] || most_growth=$growth
    if [ "$left" != 0 ] || [ "$growth" -gt $heap_limit ] || [ "$(most heap_leaked)" -gt $heap_limit ] ||
        [ "$(most descriptors_leaked)" != 0 ]; then
        leaked=$((leaked + 1)); faults="$faults leaked"
    fi
    if [ -n "$faults" ] || [ $verbose = 1 ]; then
        echo "job $job, $what: $(most agreements) agreements in $(most groups) groups, ${faults:-all well}"
    fi
    if [ -n "$faults" ]; then
        echo "  exit code $code, $left processes left; heap grew by $growth, leaked $(most heap_leaked) bytes and" \
            "$(most descriptors_leaked) descriptors"
        echo "  $environment $launcher ${options[*]} agree_rank --seed $((seed + job)) $*"
        sed 's/^/  | /' "$scratch/output" | tail -20
        find "$scratch/reports" -type f -exec tail -n +1 {} + | sed 's/^/  | /'
        echo "  again: tests/soak/agree.sh --seed $seed --job $job --seconds $seconds"
    fi
}

# A job of few seconds with everything drawn.
drawn_job() {
    local job=$1 ranks hosts=1 kills length environment="" what="one host" i
    local -a options=()
    state=$((seed * 1000003 + job))
    draw 7; draw 9; ranks=$((2 + drawn))
    draw 5
    case $drawn in
        1) environment="COPPICE_HIERARCHY=flat"; what="flat" ;;
        2) environment="COPPICE_TRANSPORT=ucx"; what="ucx" ;;
        3 | 4) draw $((ranks - 1)); hosts=$((2 + drawn > 4 ? 4 : 2 + drawn)); what="$hosts hosts" ;;
    esac
    draw 4
    if [ "$drawn" = 0 ]; then environment="$environment COPPICE_PROGRESS_THREAD=1"; what="$what, progress thread"; fi
    options=(-n "$ranks")
    [ "$hosts" = 1 ] || options+=(--hosts "$hosts")
    draw 3
    length=$((seconds < 30 ? 1 : 1 + drawn))
    draw $((ranks + 1)); kills=$((drawn < ranks ? drawn : 0))
    local -a order=()
    for ((i = 0; i < ranks; ++i)); do order+=("$i"); done
    for ((i = 0; i < kills; ++i)); do
        draw $((ranks - i))
        local victim=${order[drawn]}
        order[drawn]=${order[ranks - i - 1]}
        # Some die together, as those of one host do.
        draw 3
        if [ $i = 0 ] || [ "$drawn" != 0 ]; then draw $((length * 1100000)); moment=$drawn; fi
        options+=(--kill "$victim@${moment}us")
    done
    draw 4
    if [ "$drawn" = 0 ]; then
        draw $ranks; local victim=$drawn
        draw $((length * 800000)); options+=(--stop "$victim@${drawn}us+50ms")
        stopped=$((stopped + 1))
    fi
    draw 3
    run_job "$job" "$ranks ranks, $what, $kills killed" "$environment" "${options[@]}" -- \
        --seconds "$length" --groups $((1 + 2 * drawn))
}

# A long one. Its ranks stop when they have had so many; one dies on the way.
long_job() {
    local job=$1 environment=$2 what=$3 count=$4
    run_job "$job" "$what, $count agreements, 1 killed" "$environment" -n 4 --kill "2@$((count / 1000))ms" -- --agreements "$count" --seconds $((1 + seconds / 3))
}

one_job() {
    local fitting=$((seconds * 10000 < longest ? seconds * 10000 : longest))
    case $1 in
        1) long_job 1 COPPICE_HIERARCHY=host "4 ranks, one host" $fitting ;;
        2) long_job 2 COPPICE_HIERARCHY=flat "4 ranks, flat" $fitting ;;
        *) drawn_job "$1" ;;
    esac
}

echo "agree.sh: seed $seed, $seconds s"
begun=$SECONDS
if [ -n "$only" ]; then
    verbose=1
    one_job "$only"
else
    for ((job = 1; job <= 3 || SECONDS - begun < seconds; ++job)); do one_job $job; done
fi
echo "$jobs jobs in $((SECONDS - begun)) s: $agreements agreements, $killed ranks killed, $stopped stopped;" \
    "the heap of a rank grew by at most $most_growth bytes"
echo "differed $differed wrong $wrong hung $hung leaked $leaked"
[ $((differed + wrong + hung + leaked)) = 0 ]
