#!/usr/bin/env bash
# A soak of large broadcasts in which a rank dies at a chunk: 64 MiB to 8 ranks on four hosts, each rank but the root in turn.
#
#   tests/soak/boundaries.sh [--minutes M | --seconds S | --every N | --at N] [--from N] [--to N] [-s SIZE] [--chunk K] [-n RANKS] [--hosts H]
#                            [--seed N] [--build DIR] [--verbose]
#
#   --minutes M   how long (default 5), a chunk being drawn for each death; --seconds S the same for short runs
#   --every N     in place of a time: each rank but the root dies at the first chunk, at every N-th one behind it, and at the last one;
#                 1: at all
#   --at N        each rank but the root dies at the N-th chunk, and that is all
#   --from N, --to N
#                 with --every: the first and the last chunk at which they die, in place of the first and the last that there is. A run
#                 of all 1,024 of 64 MiB takes hours, and so can be cut into pieces
#   --chunk K     kibibytes of a chunk (default: as COPPICE_PAYLOAD_CHUNK=auto has it)
#   -s SIZE       of each broadcast, as coppice-perf has it (default 64M)
#   -n RANKS      of each job (default 8)
#   --hosts H     of each job, simulated (default 4)
#   --seed N      of the chunks at which ranks die (default: from the clock; it is printed)
#   --build DIR   where Coppice was built (default: build beside tests)
#   --verbose     a line for each job, not only for those that went wrong
#
# A rank dies once it has so many chunks, whether they came in messages or are read where another rank of its host shows them (several at
# once, perhaps: then with those). It has not passed the last one on. coppice-perf compares every byte at every survivor, and counts what
# came to a rank in vain.
#
# Nobody is left because it is slow (COPPICE_PAYLOAD_PATIENCE), so that what came in vain came so by a death.
#
# Found are: a survivor that lacks the payload (lost) or has another one (corrupt), a job that does not end (hung), more than one chunk in
# vain for each rank that takes its chunks from the dead one (again), and a job whose rank did not die, so that it shows nothing (not killed).
# Behind every hundredth job, and at the end, there is a line with the sums of all: what survivors lacked or had wrong, what came again, and
# the most that came again by one death.
#
# Exit code: 0 nothing of that was found; 1 something was; 2 the options make no sense.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
build=$here/../../build
seconds=300 every=0 at=0 from=1 to=0 chunk=0 size=64M ranks=8 hosts=4 seed="" verbose=0
patience_s=600 # of a job

usage() { sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "$0"; }
complain() { echo "boundaries.sh: $*" >&2; exit 2; }
number() { [[ ${2-} =~ ^[0-9]+$ ]] || complain "$1 needs a number"; }
while [ $# -gt 0 ]; do
    case $1 in
        --minutes) number "$@"; seconds=$((60 * $2)); shift ;;
        --seconds) number "$@"; seconds=$2; shift ;;
        --every) number "$@"; every=$2; shift ;;
        --at) number "$@"; at=$2; shift ;;
        --from) number "$@"; from=$2; shift ;;
        --to) number "$@"; to=$2; shift ;;
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
last=$chunks
if [ "$to" -gt 0 ] || [ "$from" -ne 1 ]; then
    [ "$every" -gt 0 ] || complain "--from and --to go with --every"
    if [ "$to" -gt 0 ] && [ "$to" -lt "$chunks" ]; then last=$to; fi
    if [ "$from" -lt 1 ] || [ "$from" -gt "$last" ]; then complain "--from $from: there are chunks 1 to $last"; fi
fi

# The lowest of each host but the root's takes its chunks from the host before, and the other ranks of its host, and the host behind it, take
# theirs from it. Ranks lie in blocks (coppice-run --hosts).
if [ "$hosts" -gt "$ranks" ]; then hosts=$ranks; fi
orphans_of() {
    local host first=0 size
    for ((host = 0; host < hosts; ++host, first += size)); do
        size=$((ranks / hosts + (host < ranks % hosts ? 1 : 0)))
        if [ "$1" -eq "$first" ]; then
            orphans=$((size - 1 + (host + 1 < hosts ? 1 : 0)))
            return
        fi
    done
    orphans=0
}

# The victim, and no other rank, by the launcher's word, which ends with its signal, and by that of the others.
is_killed() {
    [ "$status" -eq 137 ] && grep -q "^1 of $ranks ranks died$" "$scratch/output" && grep -q "^rank $victim: noticed by " "$scratch/output"
}

# The chunk at which the next rank dies. Ends the loop when all have died at all.
next_chunk() {
    local round=$((jobs / (ranks - 1)))
    if [ "$at" -gt 0 ]; then
        chunk_number=$at
        [ "$round" -eq 0 ]
    elif [ "$every" -gt 0 ]; then
        chunk_number=$((round * every + from))
        if [ "$chunk_number" -lt "$last" ]; then return; fi
        [ "$round" -eq 0 ] || [ $(((round - 1) * every + from)) -lt "$last" ] || return 1
        chunk_number=$last
    else
        draw "$chunks"
        chunk_number=$((drawn + 1))
        [ "$(date +%s)" -lt "$end" ]
    fi
}

# A job that did not say what its survivors have counts as one that lost it.
count_deliveries() {
    local sums
    sums=$(awk '$1 == "lost" && $3 == "corrupt" { print $2, $4; told = 1; exit } END { if (!told) print 1, 0 }' "$scratch/output")
    lost=$((lost + ${sums% *})) corrupt=$((corrupt + ${sums#* }))
}

totals() {
    echo "$jobs jobs, $deaths deaths, lost $lost corrupt $corrupt, $again chunks of $chunk KiB again ($((again * chunk * 1024)) bytes), at most $most by one death, $found found"
}

echo "seed $seed: $ranks ranks on $hosts hosts, $size in $chunks chunks of $chunk KiB"
end=$(($(date +%s) + seconds)) jobs=0 deaths=0 lost=0 corrupt=0 found=0 again=0 most=0
while next_chunk; do
    victim=$((jobs % (ranks - 1) + 1))
    orphans_of "$victim"
    fault=kill-at-chunk:$chunk_number@$victim
    status=0
    echo '{}' >"$scratch/figures.json"
    COPPICE_FAULTS=$fault COPPICE_PAYLOAD_CHUNK=${chunk}K COPPICE_PAYLOAD_PATIENCE=10m timeout -k 10 "$patience_s" "$launcher" -n "$ranks" --hosts "$hosts" \
        "$perf" broadcast -s "$size" -n 1 -w 0 --verify --count --out_json "$scratch/figures.json" \
        >"$scratch/output" 2>&1 || status=$?
    jobs=$((jobs + 1))
    finding=""
    if [ "$status" -eq 124 ]; then finding=hung; fi # a job of which a rank was killed ends with that rank's signal
    if ! grep -q '^lost 0 corrupt 0 duplicate 0$' "$scratch/output"; then finding=${finding:-lost}; fi
    if is_killed; then deaths=$((deaths + 1)); else finding=${finding:-not killed}; fi
    vain=$(grep -o '"chunks_again": *[0-9]*' "$scratch/figures.json" | awk -F: '{ sum += $2 } END { print sum + 0 }')
    again=$((again + vain))
    if [ "$vain" -gt "$most" ]; then most=$vain; fi
    count_deliveries
    if [ "$vain" -gt "$orphans" ]; then finding=${finding:-again}; fi
    if [ -n "$finding" ]; then
        found=$((found + 1))
        echo "$finding: COPPICE_FAULTS=$fault, $vain chunks in vain"
        tail -20 "$scratch/output"
    elif [ "$verbose" -eq 1 ]; then
        echo "$fault: $vain chunks in vain"
    fi
    if [ $((jobs % 100)) -eq 0 ]; then echo "chunk $chunk_number: $(totals)"; fi
done
totals
[ "$found" -eq 0 ]
