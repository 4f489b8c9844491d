#!/usr/bin/env bash
# Runs a test in a guest with RoCE devices in software: in_guest.sh BUILD_DIR DEVICES COMMAND [ARGUMENT…]
# Exit code 77, with the reason, where QEMU or the kernel can't be had; any other failure of the guest is one of the test.
set -uo pipefail
guest=$(dirname "$0")/../../tools/rxe-guest
export BUILD_DIR=$1
devices=$2
shift 2

reason=$("$guest" --fetch 2>&1)
code=$?
if [ "$code" -eq 69 ]; then
  echo "SKIP: ${reason//rxe-guest: /}"
  exit 77
elif [ "$code" -ne 0 ]; then
  echo "$reason"
  exit "$code"
fi
# Emulated, and perhaps among other tests: whatever is waited for may take long. (A victim of the conformance suite has
# a gigabyte of memory.)
export COPPICE_TEST_PATIENCE=20
exec "$guest" --devices "$devices" --memory 4096 "$@"
