#!/usr/bin/env bash
# Where a library of RDMA networks is not installed, its transport is not there: who asks for it is told what to install, and all others go on
# without it.
#   missing.sh COPPICE_RUN COPPICE_INFO MAPPED
set -euo pipefail
run=$1
info=$2
mapped=$3
hidden=$(mktemp -d "${TMPDIR:-/tmp}/coppice-missing.XXXXXX")
trap 'rm -rf "$hidden"' EXIT
fail() { echo "FAILED: $*"; exit 1; }

# Two ranks; with `hosts` each takes itself for one on a host of its own.
ranks() { LD_LIBRARY_PATH=$hidden COPPICE_TRANSPORT=$1 "$run" -n 2 --timeout 600 "${@:2}" "$mapped" 2>&1; }
# shellcheck disable=SC2016 # the ranks' shells expand it
hosts=(sh -c 'COPPICE_HOST=host$COPPICE_RANK exec "$0"')

# Instead of the library $1, of the package $2, there is an empty file: transport $3 can't be had.
without() {
  rm -f "$hidden"/*
  : >"$hidden/$1"
  if output=$(ranks "$3"); then fail "$3 works without $1: $output"; fi
  for part in "$3: $1 can't be loaded: .*$1: file too short" "install it (Debian: $2), or set LD_LIBRARY_PATH"; do
    grep -q "$part" <<<"$output" || fail "$3 without $1 does not say '$part': $output"
  done
  said=$(LD_LIBRARY_PATH=$hidden "$info" --json | python3 -c '
import json, sys
print([one["why"] for one in json.load(sys.stdin)["transports"] if one["name"] == sys.argv[1] and not one["usable"]][0])' "$3")
  grep -q "^$3: $1 can't be loaded: .*(Debian: $2)" <<<"$said" || fail "coppice-info says of $3 without $1: $said"
  output=$(ranks "$3,tcp") || fail "$3,tcp without $1: $output"
  [ "$(grep -c '^tcp' <<<"$output")" -eq 2 ] || fail "$3,tcp without $1: $output"
  output=$(ranks auto) || fail "auto without $1: $output"
  output=$(ranks auto "${hosts[@]}") || fail "auto between hosts without $1: $output"
  echo "$said"
}
without libucp.so.0 libucx0 ucx
without libucs.so.0 libucx0 ucx
without libibverbs.so.1 libibverbs1 verbs
without librdmacm.so.1 librdmacm1 verbs

# Hosts that have RDMA devices, as far as `auto` sees. In a namespace where this user may mount something.
# shellcheck disable=SC2016 # the inner shell expands it
devices=(unshare --mount --map-root-user sh -c 'mount -t tmpfs none /sys/class && mkdir -p /sys/class/infiniband/rxe0 && exec "$0" "$@"')
if ! "${devices[@]}" true 2>/dev/null; then
  echo "left out: hosts with devices, as nothing can be mounted here"
  exit 0
fi
rm -f "$hidden"/*
: >"$hidden/libucp.so.0"
output=$(LD_LIBRARY_PATH=$hidden COPPICE_TRANSPORT=auto "${devices[@]}" "$run" -n 2 --timeout 600 "${hosts[@]}" "$mapped" 2>&1) ||
  fail "auto between hosts with devices and without UCX: $output"
[ "$(grep -c '^tcp' <<<"$output")" -eq 2 ] || fail "auto between hosts with devices and without UCX: $output"
echo "between hosts with devices: ${output%%$'\n'*}"
