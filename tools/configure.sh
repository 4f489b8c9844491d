#!/usr/bin/env bash
# tools/configure.sh DIR [-Doption=value…]: makes DIR a build directory, or sets the options of one that is there.
set -euo pipefail
cd "$(dirname "$0")/.."
build=$1
shift
if [ ! -f "$build/build.ninja" ]; then
  mkdir -p "$build"
  again=()
  [ -f "$build/meson-private/coredata.dat" ] && again=(--reconfigure)  # it was interrupted before
  if ! meson setup "${again[@]}" "$build" "$@" >"$build/configure.log" 2>&1; then
    cat "$build/configure.log" >&2
    exit 1
  fi
elif [ $# -gt 0 ]; then
  meson configure "$build" "$@"
fi
