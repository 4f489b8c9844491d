#!/usr/bin/env bash
# How fast a large broadcast goes down a chain of four RDMA devices, beside what perftest reads between them.
#
#   bench/relay.sh [--size 16M] [--json FILE] [--build DIR] [--rounds N] [--quick]
#                                       four RDMA devices: DEVICES="rxe0 rxe1 rxe2 rxe3", as in tools/rxe-guest --devices 4
#
#   one pair         ib_read_bw from the second device out of the first one's memory, 1 MiB at a time
#   three pairs      the same between each device and the one before it, all at once: what a chain of four does; the slowest pair
#   verbs            a broadcast of SIZE from the first of four ranks, one on each device, in a chain: bytes of the payload by the time
#                    until the last rank has it
#   ucx, reads       the same over UCX, whose gets are RDMA reads (COPPICE_UCX_PUT=on)
#   ucx, messages    the same over UCX as it is by default
#
# Rounds of all candidates alternate; MB/s (10^6 bytes), medians with the least and the greatest, and the ratios to one pair and to three. Devices
# in software share the processors: one pair then has for itself what three have to share. The aim is 0.9 of ib_read_bw. perftest is Debian's package of that name.
# Exit code 0 when everything ran.
set -euo pipefail

# shellcheck source=bench/comparison.sh
. "$(dirname "$0")/comparison.sh"
# shellcheck source=bench/devices.sh
. "$here/devices.sh"
size=16M
read -ra devices <<<"${DEVICES:-rxe0 rxe1 rxe2 rxe3}"

usage() { sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//p}' "$0"; }
while [ $# -gt 0 ]; do
    case $1 in
        --size) value "$@"; [[ $2 =~ ^[0-9]+[KMG]?$ ]] || complain "--size $2: a size such as 16M is wanted"; size=$2 taken=2 ;;
        *) common_option "$@" ;;
    esac
    shift "$taken"
done
rounds=${rounds:-$((quick == 1 ? 3 : 9))}
bytes=$(numfmt --from=iec "$size")
command -v ib_read_bw >/dev/null || complain "ib_read_bw is missing (Debian package: perftest)"
[ ${#devices[@]} -eq 4 ] || complain "DEVICES must name four devices"
# shellcheck disable=SC2119
prepare

# pair FROM TO PORT: MB/s that the device TO reads out of FROM's memory.
pair() { perftest "$1" "$2" "$3" 1048576 ib_read_bw -n 100 --report_gbits | awk '{ print $4 * 125 }'; }

three_pairs() {
    local i port
    port=$(any_port)
    for i in 1 2 3; do pair "${devices[i - 1]}" "${devices[i]}" $((port + i)) >"$scratch/pair$i" & done
    wait
    cat "$scratch"/pair[123] | sort -g | sed -n 1p
}

# chain CANDIDATE NAME=VALUE…: a broadcast's bytes by its time.
chain() {
    local candidate=$1 list
    shift
    list=$(IFS=,; echo "${devices[*]}")
    measure "$candidate" 4 "$bytes" env "$@" "$launcher" -n 4 --devices "$list" "$perf" broadcast -s "$size" -n 8 -w 1 --metric "done"
}

for ((round = 1; round <= rounds; ++round)); do
    note pair 4 "$bytes" "$(pair "${devices[0]}" "${devices[1]}" "$(any_port)")"
    note pairs 4 "$bytes" "$(three_pairs)"
    : >"$scratch/times"
    raw=$scratch/times
    chain verbs COPPICE_TRANSPORT=verbs
    chain ucx-reads COPPICE_TRANSPORT=ucx COPPICE_UCX_PUT=on COPPICE_UCX_TLS=rc,ud
    chain ucx-messages COPPICE_TRANSPORT=ucx COPPICE_UCX_TLS=rc,ud
    raw=$scratch/raw
    # From µs to MB/s: a byte in a µs is one MB/s.
    awk '{ print $1, $2, $3, $3 / $4 }' "$scratch/times" >>"$raw"
    [ -t 2 ] && echo "round $round of $rounds" >&2
done

medians >"$scratch/medians"
[ -z "$json" ] || write_json relay "$json" "$scratch/medians" MB/s
awk -v size="$size" '
    { median[$1] = $4; least[$1] = $5; most[$1] = $6; rounds[$1] = $7 }
    END {
        printf "a broadcast of %s down a chain of four devices; MB/s, medians of rounds\n", size
        printf "%-14s %9s %19s %7s %10s %14s\n", "", "median", "min..max", "rounds", "/one pair", "/three pairs"
        n = split("pair one pair|pairs three pairs|verbs verbs|ucx-reads ucx, reads|ucx-messages ucx, messages", C, "|")
        for (i = 1; i <= n; ++i) {
            key = C[i]; sub(/ .*/, "", key); name = C[i]; sub(/^[^ ]* /, "", name)
            if (!(key in median)) continue
            printf "%-14s %9.1f %9.1f..%-8.1f %7d", name, median[key], least[key], most[key], rounds[key]
            if ("pair" in median) printf " %10.2f", median[key] / median["pair"]
            if ("pairs" in median) printf " %14.2f", median[key] / median["pairs"]
            printf "\n"
        }
    }' "$scratch/medians"
