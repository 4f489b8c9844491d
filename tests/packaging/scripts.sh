#!/usr/bin/env bash
# Every script parses, can be executed, and shellcheck (where it is) finds nothing. scripts.sh SOURCE_DIR
set -euo pipefail
cd "$1"
mapfile -t scripts < <(find tools bench tests -name '*.sh'; echo .ci/run; echo tools/rxe-guest; echo tools/cluster.d/rank; echo tools/coppice-mpirun.in)
for script in "${scripts[@]}"; do
  bash -n "$script"
  [ -x "$script" ] || { echo "$script cannot be executed"; exit 1; }
done
echo "${#scripts[@]} scripts parse"
if command -v shellcheck >/dev/null; then
  shellcheck "${scripts[@]}"
  echo "shellcheck finds nothing"
fi
