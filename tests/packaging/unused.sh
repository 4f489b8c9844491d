#!/usr/bin/env bash
# Ranks that broadcast on one host, or over tcp, have no library of RDMA networks in their processes; those that use UCX have it.
#   unused.sh COPPICE_RUN MAPPED
set -euo pipefail
# There `auto` has to know whether UCX can be used, and looks.
if [ -n "$(ls -A /sys/class/infiniband 2>/dev/null)" ]; then
  echo "SKIP: this machine has RDMA devices"
  exit 77
fi
# With $1 as COPPICE_TRANSPORT each of three ranks says what fits $2.
expect() {
  output=$(COPPICE_TRANSPORT=$1 "$run" -n 3 --timeout 600 "$mapped" 2>&1) || { echo "$1: $output"; exit 1; }
  [ "$(grep -cE "$2" <<<"$output")" -eq 3 ] || { echo "$1: expected three times '$2', not: $output"; exit 1; }
  echo "$1: ${output%%$'\n'*}"
}
run=$1
mapped=$2
for transport in auto shm tcp; do expect "$transport" '; mapped: nothing$'; done
expect ucx '^ucx.*; mapped: libucp\.so libucs\.so '
