#!/usr/bin/env bash
# Runs programs one after the other, in one guest: all_of.sh PROGRAM [ARGUMENT…] [-- PROGRAM [ARGUMENT…]]…
# Each is run, whichever fails. The exit code is that of the last one that failed.
set -uo pipefail
code=0
while [ $# -gt 0 ]; do
  command=()
  while [ $# -gt 0 ] && [ "$1" != -- ]; do
    command+=("$1")
    shift
  done
  shift $(($# > 0 ? 1 : 0))
  "${command[@]}" || { code=$?; echo "${command[0]##*/} ended with $code"; }
done
exit "$code"
