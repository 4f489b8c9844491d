#!/usr/bin/env bash
# Eight processes on two hosts (network namespaces of this machine) broadcast while three of them are killed with
# SIGKILL, once with checked and once with opportunistic correction. Sets everything up first and builds what it needs.
# Exit code 0 exactly when nothing was lost, corrupt or delivered twice. Environment: BUILD_DIR (default build).
set -euo pipefail
cd "$(dirname "$0")/.."

case ${1:-} in
  "") ;;
  -h | --help) sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "$0"; exit 0 ;;
  *) echo "demo.sh: unknown argument '$1'" >&2; exit 2 ;;
esac

build=${BUILD_DIR:-build}
run=$build/tools/coppice-run
perf=$build/bench/coppice-perf
scratch=$(mktemp -d "${TMPDIR:-/tmp}/coppice-demo.XXXXXX")
trap 'rm -rf "$scratch"' EXIT

tools/setup.sh
echo "Building in $build …"
tools/configure.sh "$build"
if ! ninja -C "$build" tools/coppice-run bench/coppice-perf >"$scratch/build.log" 2>&1; then
  cat "$scratch/build.log" >&2
  echo "demo.sh: the build failed" >&2
  exit 1
fi

hosts=2
if ! "$run" -n 2 --hosts 2 --timeout 60 "$perf" broadcast -n 10 -w 0 >"$scratch/hosts.log" 2>&1; then
  echo "Two hosts cannot be simulated on this machine, so all ranks run on one. The reason:"
  sed 's/^/  /' "$scratch/hosts.log"
  hosts=1
fi
on_hosts=()
[ "$hosts" -eq 1 ] || on_hosts=(--hosts "$hosts")

# Rank 4 is the leader of the second host; 2 and 6 are one of each host. Rank 0, the root, lives.
kills=(4@300ms 2@400ms 6@500ms)
kill_options=()
for kill in "${kills[@]}"; do kill_options+=(--kill "$kill"); done

# demonstrate CORRECTION: one run. Where a machine is so fast that the broadcasts are over before the last kill, the run
# proves nothing and is repeated with four times as many.
demonstrate() {
  local correction=$1 iterations=50000 code
  echo
  echo "Correction $correction: 8 ranks on $hosts host(s), kills ${kills[*]} …"
  while true; do
    code=0
    "$run" -n 8 "${on_hosts[@]}" "${kill_options[@]}" --timeout 150 "$perf" broadcast -s 64 -n "$iterations" \
      --correction "$correction" --verify --out_json "$scratch/$correction.json" >"$scratch/$correction.log" 2>&1 ||
      code=$?
    if [ $code -ne 0 ]; then
      sed 's/^/  /' "$scratch/$correction.log" >&2
      echo "demo.sh: the run with correction $correction failed, exit code $code" >&2
      return 1
    fi
    code=0
    python3 tools/demo_summary.py "$scratch/$correction.json" "${kills[@]}" || code=$?
    [ $code -eq 3 ] || return $code
    iterations=$((iterations * 4))
    if [ $iterations -gt 4000000 ]; then
      echo "demo.sh: the kills always came too late" >&2
      return 1
    fi
  done
}

result=0
for correction in checked opportunistic:1; do demonstrate "$correction" || result=1; done
echo
if [ $result -eq 0 ]; then
  echo "Nothing was lost, and nobody is left waiting."
else
  echo "Something went wrong, see above."
fi
exit $result
