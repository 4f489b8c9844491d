#!/usr/bin/env bash
# Formats the C and C++ sources by .clang-format.
#   tools/format.sh           rewrites them
#   tools/format.sh --check   only tells which differ; exit code 1 if any does
# Exit code 77 when there is no clang-format.
set -euo pipefail
cd "$(dirname "$0")/.."

arguments=(-i)
case ${1:-} in
  "") ;;
  --check) arguments=(--dry-run -Werror) ;;
  *) echo "format.sh: unknown argument '$1'" >&2; exit 2 ;;
esac
if ! command -v clang-format >/dev/null; then
  echo "format.sh: there is no clang-format; tools/setup.sh --develop installs it" >&2
  exit 77
fi
find src include mpi tests tools bench examples -regextype posix-extended -regex '.*\.(c|h|cpp|hpp)' -print0 |
  xargs -0 clang-format "${arguments[@]}"
