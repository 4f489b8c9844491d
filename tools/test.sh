#!/usr/bin/env bash
# Sets up, builds everything and runs every test.
#   tools/test.sh [arguments for meson test…]      e.g. tools/test.sh --suite unit
# Environment: BUILD_DIR (default build) and MESON_OPTIONS, e.g. MESON_OPTIONS="-Db_sanitize=address,undefined".
# COPPICE_TEST_PATIENCE=N makes every deadline of the tests N times as long (default 10: a test that hangs is told of late, but machines that
# are busy, or stand still for minutes, as virtual ones do, fail none).
# With CI=true warnings are errors. The exit code is the tests'.
set -euo pipefail
cd "$(dirname "$0")/.."

case ${1:-} in
  -h | --help) sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "$0"; exit 0 ;;
esac

build=${BUILD_DIR:-build}
options=()
[ "${CI:-false}" = true ] && options+=(-Dwerror=true)
read -ra more <<<"${MESON_OPTIONS:-}"
options+=("${more[@]}")

tools/setup.sh --test
echo "== configuring $build"
tools/configure.sh "$build" "${options[@]}"
echo "== building"
meson compile -C "$build"
echo "== testing"
export COPPICE_TEST_PATIENCE=${COPPICE_TEST_PATIENCE:-10}
code=0
meson test -C "$build" --no-rebuild --print-errorlogs --timeout-multiplier "$COPPICE_TEST_PATIENCE" "$@" || code=$?
echo "== logs: $build/meson-logs/testlog.txt"
exit "$code"
