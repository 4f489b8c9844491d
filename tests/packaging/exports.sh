#!/usr/bin/env bash
# The shared library offers exactly what coppice.h declares. exports.sh LIBRARY HEADER
set -euo pipefail
library=$1
header=$2
exported=$(nm -D --defined-only "$library" | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' | sort -u)
declared=$(tr '\n' ' ' <"$header" | grep -oE 'COPPICE_API [^;(]*\(' | grep -oE 'coppice_[a-z_]+\($' | tr -d '(' | sort -u)
[ -n "$declared" ] || { echo "found no declarations in $header"; exit 1; }
if ! diff <(echo "$declared") <(echo "$exported"); then
  echo "'<' is declared but not exported, '>' is exported but not declared"
  exit 1
fi
soname=$(objdump -p "$library" | awk '/SONAME/ { print $2 }')
[ "$soname" = libcoppice.so.0 ] || { echo "the soname is '$soname'"; exit 1; }
echo "$(wc -l <<<"$exported") functions, $soname"
