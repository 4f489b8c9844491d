#!/usr/bin/env bash
# What ranks cost that are outside of the library: the sum of all their threads, in percent of a core.
#
#   bench/idle.sh [--ranks N] [--seconds S] [BUILD_DIR]
#
# Read from /proc/PID/task/*/schedstat. One line for each way in which ranks reach each other, and one for a rank that is alone in its group.
# Exit code 1 when one of them costs more than 0.2 % of a core.
set -euo pipefail

ranks=8 seconds=10 build=
while [ $# -gt 0 ]; do
    case $1 in
        -h | --help) sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "$0"; exit 0 ;;
        --ranks) ranks=$2; shift ;;
        --seconds) seconds=$2; shift ;;
        -*) echo "idle.sh: unknown option '$1'" >&2; exit 2 ;;
        *) build=$1 ;;
    esac
    shift
done
build=${build:-$(cd "$(dirname "$0")/.." && pwd)/build}
launcher=$build/tools/coppice-run
program=$build/bench/idle_ranks
for file in "$launcher" "$program"; do
    [ -x "$file" ] || { echo "idle.sh: $file is missing: build first, or name the build directory" >&2; exit 2; }
done

worst=0
# show TITLE OPTIONS-OF-COPPICE-RUN… (environment as given)
show() {
    local title=$1 share
    shift
    share=$("$launcher" -n "$ranks" "$@" "$program" "$seconds" |
        awk -v seconds="$seconds" '{ sum += $NF } END { printf "%.4f", 100 * sum / (seconds * 1e9) }')
    printf '%-28s %s ranks, %s s: %s %% of a core together\n' "$title" "$ranks" "$seconds" "$share"
    awk -v share="$share" 'BEGIN { exit !(share > 0.2) }' && worst=1
    return 0
}

ranks=1 show "alone"
show "one host"
COPPICE_HIERARCHY=flat show "one host, by messages"
COPPICE_TRANSPORT=ucx show "ucx, on loopback"
show "two hosts" --hosts 2
show "a host for each rank" --hosts "$ranks"
exit $worst
