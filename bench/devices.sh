# What the comparisons with perftest share; sourced by them, not to be run.
# shellcheck shell=bash

gid=${GID_INDEX:-1} # perftest's

# The address of a device, from its GID table.
address_of() {
    local raw
    raw=$(cat "/sys/class/infiniband/$1/ports/1/gids/$gid")
    raw=${raw##*:ffff:}
    printf '%d.%d.%d.%d' "0x${raw:0:2}" "0x${raw:2:2}" "0x${raw:5:2}" "0x${raw:7:2}"
}

# perftest SERVER CLIENT PORT BYTES PROGRAM OPTIONS…: the line of figures of perftest's program between these two devices, as the client has it. On the
# cores `server_core` and `client_core`, where these are set.
perftest() {
    local server=$1 client=$2 port=$3 bytes=$4 program=$5 line=
    local options=(-x "$gid" -s "$bytes" -p "$port" -F "${@:6}")
    ${server_core:+taskset -c "$server_core"} "$program" -d "$server" "${options[@]}" >/dev/null 2>&1 &
    local job=$!
    for _ in $(seq 50); do
        line=$(${client_core:+taskset -c "$client_core"} "$program" -d "$client" "${options[@]}" "$(address_of "$server")" 2>/dev/null |
            awk -v s="$bytes" '$1 == s && NF >= 4') || line=
        [ -n "$line" ] && break
        sleep 0.2 # the server may not listen yet
    done
    wait "$job" || true
    echo "$line"
}

any_port() { echo $((20000 + RANDOM % 10000)); }
