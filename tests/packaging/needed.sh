#!/usr/bin/env bash
# A program that is linked with the library does not load those of networks when it starts: the transports load them when they are used.
#   needed.sh LIBRARY
set -euo pipefail
needed=$(objdump -p "$1" | awk '/NEEDED/ { print $2 }')
grep -q '^libc\.so' <<<"$needed" || { echo "found no needed libraries in $1: $needed"; exit 1; }
if grep -E '^lib(uc[pstm]|ibverbs|rdmacm|nl-|numa)' <<<"$needed"; then
  echo "these are loaded with every program that is linked with Coppice"
  exit 1
fi
undefined=$(nm -D --undefined-only "$1" | awk '{ print $NF }')
grep -q '^dlopen' <<<"$undefined" || { echo "found no undefined symbols in $1"; exit 1; }
if grep -E '^_*(uc[pstm]|ibv|rdma|verbs|nl|numa)_' <<<"$undefined"; then
  echo "these are called by name: call them by the table of their transport (src/transport/*/library.hpp)"
  exit 1
fi
echo "needed: ${needed//$'\n'/ }"
