#!/usr/bin/env bash
# The shared library offers exactly what coppice.h and its parts declare, and still everything that a release has offered.
#   exports.sh LIBRARY HEADERS SYMBOLS FORKED    HEADERS: the folder of coppice.h and its parts; FORKED: the test that tries each of
#                                                them in a child that was forked
set -euo pipefail
library=$1
headers=$2
symbols=$3
forked=$4
exported=$(nm -D --defined-only "$library" | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' | sort -u)
declared=$(cat "$headers"/*.h | tr '\n' ' ' | grep -oE 'COPPICE_API [^;(]*\(' | grep -oE 'coppice_[a-z_]+\($' | tr -d '(' | sort -u)
[ -n "$declared" ] || { echo "found no declarations in $headers"; exit 1; }
if ! diff <(echo "$declared") <(echo "$exported"); then
  echo "'<' is declared but not exported, '>' is exported but not declared"
  exit 1
fi
# A child that was forked is refused each of them.
untried=$(grep -vxF -e coppice_version -e coppice_status_string -e coppice_last_error <<<"$declared" |
  while read -r function; do grep -q "$function(" "$forked" || echo "$function"; done)
[ -z "$untried" ] || { echo "$forked does not try:"; echo "$untried"; exit 1; }
soname=$(objdump -p "$library" | awk '/SONAME/ { print $2 }')
[ "$soname" = libcoppice.so.0 ] || { echo "the soname is '$soname'"; exit 1; }

# Of programs that are linked with it, and of the package that they depend on.
versioned=$(nm -D --defined-only --with-symbol-versions "$library" | awk '{ sub(/@@/, "@", $3); print $3 }')
listed=$(awk '/^ / { print $1 }' "$symbols")
[ -n "$listed" ] || { echo "found no symbols in $symbols"; exit 1; }
gone=$(while read -r symbol; do grep -qxF -e "$symbol" -e "${symbol%@*}" <<<"$versioned" || echo "$symbol"; done <<<"$listed")
[ -z "$gone" ] || { echo "programs that are linked with $soname may need what is gone:"; echo "$gone"; exit 1; }
echo "$(wc -l <<<"$exported") functions, $soname; $(wc -l <<<"$listed") symbols of old are there"
