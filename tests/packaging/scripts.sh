#!/usr/bin/env bash
# Every script parses, can be executed, and shellcheck (where it is) finds nothing. scripts.sh SOURCE_DIR
set -euo pipefail
cd "$1"
mapfile -t scripts < <(find tools bench tests -name '*.sh'; echo .ci/run; echo tools/rxe-guest; echo tools/cluster.d/agent; echo tools/cluster.d/rank; echo tools/coppice-mpirun.in)
for script in "${scripts[@]}"; do
  bash -n "$script"
  [ -x "$script" ] || { echo "$script cannot be executed"; exit 1; }
done
echo "${#scripts[@]} scripts parse"
# A reader that ends at its first match ends the writer by SIGPIPE; with pipefail the match then counts as none, now and then.
# shellcheck disable=SC2046  # names of ours have no spaces
if grep -nE '(^|[^|])\|[[:space:]]*(head\b|grep -[[:alpha:]]*q|awk .*\bexit\b|sed .*\bq\b)' $(grep -l pipefail "${scripts[@]}"); then
  echo "the end of such a pipe is closed before its writer is done: use <<<\"\$(command)\" or read to the end"
  exit 1
fi
if command -v shellcheck >/dev/null; then
  shellcheck "${scripts[@]}"
  echo "shellcheck finds nothing"
fi
