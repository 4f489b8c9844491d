#!/usr/bin/env bash
# To be sourced by tests that use what `meson install` installs: stage.sh BUILD_DIR. It is below $stage, which is removed at the end, with
# $prefix, $libdir and $bindir as the files that are installed call them.
# shellcheck disable=SC2034,SC2154 # those that source it use them, and set source_dir
stage=$(mktemp -d "${TMPDIR:-/tmp}/coppice-install.XXXXXX")
trap 'rm -rf "$stage"' EXIT
fail() { echo "FAILED: $*"; exit 1; }

DESTDIR=$stage meson install -C "$1" --no-rebuild --quiet >"$stage/install.log" 2>&1 || {
  cat "$stage/install.log"
  fail "meson install"
}
pc=$(find "$stage" -name coppice.pc)
[ -n "$pc" ] || fail "coppice.pc is not installed"
configured=$(sed -n 's/^prefix=//p' "$pc")
prefix=$stage$configured
libdir=$(dirname "$(dirname "$pc")")
bindir=$prefix/bin

# The installed file speaks of the final place; here everything stands below the stage.
mkdir "$stage/pkgconfig"
sed "s|^prefix=.*|prefix=$prefix|" "$pc" >"$stage/pkgconfig/coppice.pc"
export PKG_CONFIG_PATH=$stage/pkgconfig

# The first block of README.md in the given language.
example() { awk -v fence="\`\`\`$1" '$0 == fence { inside = 1; next } inside && /^```/ { exit } inside' "$source_dir/README.md"; }

# The program prints the same line at all four ranks: what the root sent.
run_four() {
  output=$("$bindir/coppice-run" -n 4 --timeout 120 "$1") || fail "$1: $output"
  if [ "$(wc -l <<<"$output")" -ne 4 ] || [ "$(sort -u <<<"$output" | wc -l)" -ne 1 ]; then fail "$1 printed: $output"; fi
  echo "$(basename "$1"): $(head -n 1 <<<"$output")"
}
