#!/usr/bin/env bash
# Runs programs in one guest: all_of.sh PROGRAM [ARGUMENT…] [SEPARATOR PROGRAM [ARGUMENT…]]…
#   --  one after the other
#   ++  beside what is before it, up to the last ==
#   ==  when all before it have ended
# What stands beside something is printed when it has ended. Each is run, whichever fails; the exit code is that of one that failed.
set -uo pipefail
printed=$(mktemp -d) || exit
trap 'rm -rf "$printed"' EXIT

one_after_the_other() {
  local code=0 ended
  while [ $# -gt 0 ]; do
    local command=()
    while [ $# -gt 0 ] && [ "$1" != -- ]; do
      command+=("$1")
      shift
    done
    shift $(($# > 0 ? 1 : 0))
    "${command[@]}" < /dev/null && ended=0 || ended=$?
    [ "$ended" -eq 0 ] || { code=$ended; echo "${command[0]##*/} ended with $ended"; }
  done
  return "$code"
}

code=0 lanes=() programs=()
await_all() {
  local lane
  for lane in "${!lanes[@]}"; do
    wait "${lanes[lane]}" || code=$?
    cat "$printed/$lane"
  done
  lanes=()
}
start() {
  one_after_the_other "${programs[@]}" > "$printed/${#lanes[@]}" 2>&1 &
  lanes+=($!)
  programs=()
}

for word in "$@"; do
  case $word in
    ++) start ;;
    ==) start; await_all ;;
    *) programs+=("$word") ;;
  esac
done
start
await_all
exit "$code"
