#!/usr/bin/env bash
# A Meson project that has Coppice as a subproject finds the library and nothing else, shared and static.
#   subproject.sh SOURCE_DIR [COPPICE_RUN]    with COPPICE_RUN everything is compiled, too, which takes a minute, and its programs run
set -euo pipefail
source_dir=$1
stage=$(mktemp -d "${TMPDIR:-/tmp}/coppice-subproject.XXXXXX")
trap 'rm -rf "$stage"' EXIT
fail() { echo "FAILED: $*"; exit 1; }

mkdir -p "$stage/project/subprojects/coppice"
for part in meson.build meson_options.txt include src; do ln -s "$source_dir/$part" "$stage/project/subprojects/coppice/$part"; done
awk '$0 == "```c" { inside = 1; next } inside && /^```/ { exit } inside' "$source_dir/README.md" >"$stage/project/hello.c"
cat >"$stage/project/meson.build" <<'END'
project('hello', 'c', default_options: ['c_std=gnu11'])
executable('hello-shared', 'hello.c', dependencies: dependency('coppice', version: '>= 0.1'))
executable('hello-static', 'hello.c', dependencies: dependency('coppice', static: true))
END
quietly() { "$@" >"$stage/log" 2>&1 || { cat "$stage/log"; fail "$1"; }; }

# Unoptimized: what is tested is the build.
quietly meson setup "$stage/build" "$stage/project" --wrap-mode=nodownload --force-fallback-for=coppice -Doptimization=0
targets=$(ninja -C "$stage/build" -t targets all)
links_with() { grep -qE "coppice/src/api/$2" <<<"$(ninja -C "$stage/build" -t query "$1")" || fail "$1 is not linked with $2"; }
links_with hello-shared 'libcoppice\.so'
links_with hello-static 'libcoppice\.a'
if grep -E 'gtest|coppice-(run|perf|sim)|simulation' <<<"$targets"; then fail "more than the library is built"; fi
# The headers are found.
quietly ninja -C "$stage/build" hello-shared.p/hello.c.o hello-static.p/hello.c.o
echo "configured, with $(grep -c cpp_COMPILER <<<"$targets") files of the library"
[ $# -gt 1 ] || exit 0

quietly ninja -C "$stage/build" hello-shared hello-static
for program in hello-shared hello-static; do
  output=$("$2" -n 4 --timeout 120 "$stage/build/$program") || fail "$program: $output"
  if [ "$(wc -l <<<"$output")" -ne 4 ] || [ "$(sort -u <<<"$output" | wc -l)" -ne 1 ]; then fail "$program printed: $output"; fi
  echo "$program: $(head -n 1 <<<"$output")"
done
