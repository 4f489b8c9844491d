#!/usr/bin/env bash
# How long a rank waits that unnoticed deaths have cut off from a broadcast: from the deaths to the payload, over some
# jobs.
#   bench/unnoticed.sh [BUILD [JOBS [RANKS VICTIM,VICTIM,…]]]
# By default 20 jobs of 8 ranks on 8 simulated hosts, binomial tree, opportunistic:1, in which 1, 4 and 6 die and 5
# waits. COPPICE_TREE, COPPICE_CORRECTION, COPPICE_TRANSPORT and others are passed on.
set -euo pipefail
build=${1:-build} jobs=${2:-20} ranks=${3:-8} victims=${4:-1,4,6}
export COPPICE_TREE=${COPPICE_TREE:-binomial} COPPICE_CORRECTION=${COPPICE_CORRECTION:-opportunistic:1}

echo "# $ranks ranks on $ranks hosts, $COPPICE_TREE $COPPICE_CORRECTION, $victims killed: from the kill to the payload, ms"
for ((job = 0; job < jobs; ++job)); do
  # It reports the killed ranks as failures: they are not its own doing.
  { "$build/tools/coppice-run" -n "$ranks" --hosts "$ranks" --timeout 120 "$build/bench/unnoticed" "$victims" 2>/dev/null || true; } |
    awk '$1 == "killed" { killed = $3 } $1 == "rank" { at[$2] = $3 }
         END { for (rank in at) if (at[rank] > killed) { waited = 1; print rank, (at[rank] - killed) / 1000 }
               if (!waited) print "-", 0 }'
done | awk '{ rank[$1]++; if ($1 != "-") waits[++n] = $2 }
  END { for (r in rank) printf "rank %s waited in %d\n", r, rank[r]
        for (i = 2; i <= n; i++) for (j = i; j > 1 && waits[j] < waits[j - 1]; j--) { t = waits[j]; waits[j] = waits[j - 1]; waits[j - 1] = t }
        if (n) printf "least %.2f  median %.2f  most %.2f ms over %d waits\n", waits[1], waits[int((n + 1) / 2)], waits[n], n
        else print "nobody waited" }'
