#!/usr/bin/env bash
# Fuzzes the decoders of bytes from outside, with libFuzzer, AddressSanitizer and UndefinedBehaviorSanitizer.
#   tests/fuzz/fuzz.sh                          each fuzzer for one minute, one after the other
#   tests/fuzz/fuzz.sh --minutes 60 NAME…       these fuzzers (greeting, engine_wire, …), that long each
#   tests/fuzz/fuzz.sh --list                   the names
#   tests/fuzz/fuzz.sh --build DIR              where they are built (build-fuzz)
#   tests/fuzz/fuzz.sh --merge NAME…            only makes the corpus small again, with what was found meanwhile
#
# Starts from tests/fuzz/corpus/NAME, and puts into it what reaches code that nothing in it reached, a file for each. An
# input that breaks something is kept in tests/fuzz/corpus/NAME/found-…, which fails in CI until it is fixed, and is a
# test from then on. Prints a line for each fuzzer: how long, how many inputs, findings. Exit code 1 if anything was
# found.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
usage() { sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "$0"; }

minutes=1
build=$root/build-fuzz
merge_only=false
names=()
while [ $# -gt 0 ]; do
  case $1 in
    --minutes) minutes=${2:?--minutes needs a number}; shift ;;
    --build) build=${2:?--build needs a directory}; shift ;;
    --merge) merge_only=true ;;
    --list) (cd "$here" && for file in *.cpp; do [ "$file" = replay.cpp ] || echo "${file%.cpp}"; done); exit 0 ;;
    -h | --help) usage; exit 0 ;;
    -*) echo "fuzz.sh: unknown option '$1'" >&2; usage >&2; exit 2 ;;
    *) names+=("$1") ;;
  esac
  shift
done
[ ${#names[@]} -gt 0 ] || mapfile -t names < <("$0" --list)
for name in "${names[@]}"; do
  [ -f "$here/$name.cpp" ] || { echo "fuzz.sh: there is no fuzzer '$name'; --list names them" >&2; exit 2; }
done

if ! command -v clang++ >/dev/null; then
  echo "fuzz.sh: clang++ is missing: tools/setup.sh --develop installs it" >&2
  exit 1
fi
if [ ! -f "$build/build.ninja" ]; then
  CC=clang CXX=clang++ meson setup "$build" "$root" -Dfuzzers=true -Db_sanitize=address,undefined -Db_lundef=false \
    -Dbuildtype=debugoptimized "-Dcpp_args=['-fsanitize=fuzzer-no-link','-fno-sanitize-recover=undefined']" \
    -Ddefault_library=static >"$build.log" 2>&1 || { cat "$build.log" >&2; exit 1; }
fi
ninja -C "$build" "${names[@]/#/tests/fuzz/fuzz_}" >"$build.log" 2>&1 || { cat "$build.log" >&2; exit 1; }


export ASAN_OPTIONS=${ASAN_OPTIONS:-detect_leaks=1:allocator_may_return_null=1}
export UBSAN_OPTIONS=${UBSAN_OPTIONS:-print_stacktrace=1}
work=$(mktemp -d "${TMPDIR:-/tmp}/coppice-fuzz.XXXXXX")
trap 'rm -rf "$work"' EXIT

# The smallest inputs that reach the same code.
minimise() {
  local name=$1 corpus=$here/corpus/$1
  mkdir -p "$corpus" "$work/$name" "$work/$name.small"
  find "$corpus" -name 'found-*' -exec cp {} "$work/$name.small/" \;
  "$build/tests/fuzz/fuzz_$name" -merge=1 -use_counters=0 "$work/$name.small" "$corpus" "$work/$name" >"$work/$name.log" 2>&1 ||
    { cat "$work/$name.log" >&2; return 1; }
  rm -rf "$corpus"
  cp -r "$work/$name.small" "$corpus"
}

findings=0
for name in "${names[@]}"; do
  corpus=$here/corpus/$name
  mkdir -p "$corpus" "$work/$name"
  if ! $merge_only; then
    status=0
    "$build/tests/fuzz/fuzz_$name" -max_total_time=$((minutes * 60)) -timeout=60 -report_slow_units=60 -rss_limit_mb=2048 -max_len=65536 \
      -print_final_stats=1 -artifact_prefix="$corpus/found-" "$work/$name" "$corpus" >"$work/$name.log" 2>&1 || status=$?
    inputs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$work/$name.log")
    echo "$name: $minutes min, ${inputs:-?} inputs, $([ $status -eq 0 ] && echo no finding || echo "A FINDING, see tests/fuzz/corpus/$name")"
    if [ $status -ne 0 ]; then
      findings=1
      tail -60 "$work/$name.log" >&2
      continue
    fi
  fi
  minimise "$name"
done
exit $findings
