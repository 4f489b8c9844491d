#!/usr/bin/env bash
# A soak of large broadcasts in which a rank dies at a drawn chunk: 64 MiB to 8 ranks on four hosts, each rank but the root in turn.
#
#   tests/soak/boundaries.sh [--minutes M | --seconds S | --every N] [-s SIZE] [--chunk K] [-n RANKS] [--hosts H] [--seed N] [--build DIR]
#                            [--verbose]
#
#   --minutes M   how long (default 5); --seconds S the same for short runs
#   --every N     in place of a time: each rank but the root dies at every N-th message, from the first to the last one
#   --chunk K     kibibytes of a chunk (default: as COPPICE_PAYLOAD_CHUNK=auto has it)
#   -s SIZE       of each broadcast, as coppice-perf has it (default 64M)
#   -n RANKS      of each job (default 8)
#   --hosts H     of each job, simulated (default 4)
#   --seed N      of the chunks at which ranks die (default: from the clock; it is printed)
#   --build DIR   where Coppice was built (default: build beside tests)
#   --verbose     a line for each job, not only for those that went wrong
#
# A leader of a host dies behind a drawn one of the chunks that it passes on, another rank behind a drawn one of the messages that it
# sends at all. coppice-perf compares every byte at every survivor, and counts what came to a rank in vain.
#
# Nobody is left because it is slow (COPPICE_PAYLOAD_PATIENCE), so that what came in vain came so by a death.
#
# Found are: a survivor that lacks the payload (lost) or has another one (corrupt), a job that does not end (hung), and more than one chunk
# in vain for each of the two ranks that take theirs from the dead one (again).
#
# Exit code: 0 nothing of that was found; 1 something was; 2 the options make no sense.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
build=$here/../../build
seconds=300 every=0 chunk=0 size=64M ranks=8 hosts=4 seed="" verbose=0
patience_s=600 # of a job

usage() { sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "$0"; }
complain() { echo "boundaries.sh: $*" >&2; exit 2; }
number() { [[ ${2-} =~ ^[0-9]+$ ]] || complain "$1 needs a number"; }
while [ $# -gt 0 ]; do
    case $1 in
        --minutes) number "$@"; seconds=$((60 * $2)); shift ;;
        --seconds) number "$@"; seconds=$2; shift ;;
        --every) number "$@"; every=$2; shift ;;
        --chunk) number "$@"; chunk=$2; shift ;;
        -s) [[ ${2-} =~ ^[0-9]+[KM]$ ]] || complain "-s needs a size in K or M"; size=$2; shift ;;
        -n) number "$@"; ranks=$2; shift ;;
        --hosts) number "$@"; hosts=$2; shift ;;
        --seed) number "$@"; seed=$2; shift ;;
        --build) [ $# -ge 2 ] || complain "--build needs a directory"; build=$2; shift ;;
        --verbose) verbose=1 ;;
        -h | --help) usage; exit 0 ;;
        *) complain "unknown option $1 (see --help)" ;;
    esac
    shift
done
[ "$seconds" -gt 0 ] || complain "there is nothing to do in no time"
[ "$ranks" -ge 3 ] || complain "-n $ranks: there must be a root, a rank that dies and one that is left"
[ "$hosts" -ge 2 ] || complain "--hosts $hosts: on one host no chunk is sent"
seed=${seed:-$(date +%s)}
launcher=$build/tools/coppice-run perf=$build/bench/coppice-perf
for file in "$launcher" "$perf"; do
    [ -x "$file" ] || complain "$file is missing: build first, or name the build directory with --build"
done
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

state=$seed
draw() {
    state=$(((state * 6364136223846793005 + 1442695040888963407) & 0x7fffffffffffffff))
    drawn=$(((state >> 24) % $1))
}
drawn=0
unit=${size: -1} kibibytes=${size%[KM]}
if [ "$unit" = M ]; then kibibytes=$((kibibytes * 1024)); fi
# As COPPICE_PAYLOAD_CHUNK=auto has it.
if [ "$chunk" -eq 0 ]; then
    chunk=64
    # shellcheck disable=SC2017 # a power of two
    while [ "$chunk" -gt 32 ] && [ $((chunk / 2 * 8)) -ge "$kibibytes" ]; do chunk=$((chunk / 2)); done
fi
chunks=$(((kibibytes + chunk - 1) / chunk))
[ "$chunks" -gt 1 ] || complain "-s $size: it goes in one message"

echo "seed $seed: $ranks ranks on $hosts hosts, $size in $chunks chunks of $chunk KiB"
end=$(($(date +%s) + seconds)) jobs=0 deaths=0 found=0 again=0
while [ "$every" -gt 0 ] || [ "$(date +%s)" -lt "$end" ]; do
    victim=$((jobs % (ranks - 1) + 1))
    if [ "$every" -gt 0 ]; then
        # shellcheck disable=SC2017 # in whole steps
        drawn=$((jobs / (ranks - 1) * every))
        [ "$drawn" -lt $((chunks + 4)) ] || break
    else
        draw $((chunks + 4))
    fi
    fault=kill-after:$((drawn + 1))@$victim
    status=0
    echo '{}' >"$scratch/figures.json"
    COPPICE_FAULTS=$fault COPPICE_PAYLOAD_CHUNK=${chunk}K COPPICE_PAYLOAD_PATIENCE=10m timeout -k 10 "$patience_s" "$launcher" -n "$ranks" --hosts "$hosts" \
        "$perf" broadcast -s "$size" -n 1 -w 0 --verify --count --out_json "$scratch/figures.json" \
        >"$scratch/output" 2>&1 || status=$?
    jobs=$((jobs + 1))
    finding=""
    if [ "$status" -eq 124 ]; then finding=hung; fi # a job of which a rank was killed ends with that rank's signal
    if ! grep -q '^lost 0 corrupt 0 duplicate 0$' "$scratch/output"; then finding=${finding:-lost}; fi
    if grep -q "^1 of $ranks ranks died" "$scratch/output"; then deaths=$((deaths + 1)); fi
    vain=$(grep -o '"chunks_again": *[0-9]*' "$scratch/figures.json" | awk -F: '{ sum += $2 } END { print sum + 0 }')
    again=$((again + vain))
    if [ "$vain" -gt 2 ]; then finding=${finding:-again}; fi
    if [ -n "$finding" ]; then
        found=$((found + 1))
        echo "$finding: COPPICE_FAULTS=$fault, $vain chunks in vain"
        tail -20 "$scratch/output"
    elif [ "$verbose" -eq 1 ]; then
        echo "$fault: $vain chunks in vain"
    fi
done
echo "$jobs jobs, $deaths deaths, $again chunks in vain, $found found"
[ "$found" -eq 0 ]
