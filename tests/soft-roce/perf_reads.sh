#!/usr/bin/env bash
# coppice-perf's large broadcasts over shared memory and verbs: perf_reads.sh COPPICE_RUN COPPICE_PERF. In the guest.
# Every byte comes, and the host without the root reads chunks: all, unless the guest is so slow that a rank is left as silent.
set -euo pipefail
figures=$(mktemp)
trap 'rm -f "$figures"' EXIT
count=50 # of 1 MiB, beside the warm-up
COPPICE_TRANSPORT=shm,verbs "$1" -n 4 --hosts 2 "$2" broadcast -s 1M -n "$count" -w 2 --verify --count --out_json "$figures" | tee "$figures.printed"
grep -q '^lost 0 corrupt 0 duplicate 0$' "$figures.printed"
rm -f "$figures.printed"
sum_of() { grep -o "\"$1\": *[0-9]*" "$figures" | awk -F: '{ sum += $2 } END { print sum + 0 }'; }
read_chunks=$(sum_of chunks_read) sent=$(sum_of chunks_sent) damaged=$(sum_of chunks_damaged)
echo "$read_chunks chunks read, $sent sent, $damaged damaged"
[ "$read_chunks" -ge $((8 * count)) ] && [ "$damaged" -eq 0 ] # of 16 chunks each
