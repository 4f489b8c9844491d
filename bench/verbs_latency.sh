#!/usr/bin/env bash
# The verbs transport's ping-pongs beside perftest's, in one run, alternating, so that both see the same machine.
#
#   bench/verbs_latency.sh [BUILD_DIR]        two RDMA devices: DEVICES="rxe0 rxe1", as in tools/rxe-guest
#
# Prints, for writes and for sends, the median over all rounds of each program's typical latency (half a round trip) and
# their ratio, and the same of the least: under emulation on a busy machine a round may consist of the guest's scheduler
# ticks (4 ms), for either program. Environment: ROUNDS (default 7), ITERATIONS per round (300), SIZE (8), GID_INDEX of
# perftest's (1). Under software emulation only the ratio means something. perftest is Debian's package of that name.
set -euo pipefail

build=${1:-$(cd "$(dirname "$0")/.." && pwd)/build}
read -ra devices <<<"${DEVICES:-rxe0 rxe1}"
rounds=${ROUNDS:-7} iterations=${ITERATIONS:-300} size=${SIZE:-8}
# shellcheck source=bench/devices.sh
. "$(dirname "$0")/devices.sh"
# shellcheck disable=SC2034 # perftest's
server_core=0 client_core=1
launcher=$build/tools/coppice-run
perf=$build/bench/coppice-perf

for program in ib_write_lat ib_send_lat; do
    command -v "$program" >/dev/null || { echo "verbs_latency.sh: $program is missing (Debian package: perftest)" >&2; exit 2; }
done
[ ${#devices[@]} -ge 2 ] || { echo "verbs_latency.sh: DEVICES must name two devices" >&2; exit 2; }
for file in "$launcher" "$perf"; do
    [ -x "$file" ] || { echo "verbs_latency.sh: $file is missing: build first, or name the build directory" >&2; exit 2; }
done

# The typical latency of perftest's program: fifth column of its one line of figures.
theirs() { perftest "${devices[0]}" "${devices[1]}" "$(any_port)" "$size" "$1" -n "$iterations" | awk '{ print $5 }'; }

ours() {
    "$launcher" -n 2 --devices "${devices[0]},${devices[1]}" "$perf" "$1" -s "$size" -n "$iterations" |
        awk -v s="$size" '$1 == s && NF >= 5 { print $5 }'
}

median() { sort -n | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }

for pair in put_lat:ib_write_lat send_lat:ib_send_lat; do
    our=${pair%:*} their=${pair#*:}
    a=() b=()
    for ((round = 0; round < rounds; ++round)); do
        a+=("$(ours "$our")")
        b+=("$(theirs "$their")")
    done
    least_x=$(printf '%s\n' "${a[@]}" | sort -n | sed -n 1p)
    least_y=$(printf '%s\n' "${b[@]}" | sort -n | sed -n 1p)
    x=$(printf '%s\n' "${a[@]}" | median)
    y=$(printf '%s\n' "${b[@]}" | median)
    echo "# $our: ${a[*]}"
    echo "# $their: ${b[*]}"
    awk -v our="$our" -v their="$their" -v x="$x" -v y="$y" -v s="$size" \
        -v lx="$least_x" -v ly="$least_y" \
        'BEGIN { printf "%s %.2f us, %s %.2f us at %d bytes: ratio %.2f; least %.2f and %.2f: ratio %.2f\n", our, x, their, y, s, x / y, lx, ly, lx / ly }'
done
