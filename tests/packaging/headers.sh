#!/usr/bin/env bash
# The public headers compile on their own, without a warning: coppice.h as C11, C17 and C++, coppice.hpp as C++20, and each part
# of them, with every compiler that is here. headers.sh SOURCE_DIR
set -euo pipefail
include=$1/include
here=$1/tests/packaging
warnings=(-Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror -fsyntax-only -I "$include")
compile() {
  echo "$*"
  "$@" "${warnings[@]}"
}
for cc in gcc clang; do
  command -v "$cc" >/dev/null || continue
  for standard in c11 c17; do
    compile "$cc" "-std=$standard" -Wstrict-prototypes "$here/uses_header.c"
    for header in "$include"/coppice/*.h; do compile "$cc" "-std=$standard" -x c - <<<"#include <coppice/${header##*/}>"; done
  done
done
for cxx in g++ clang++; do
  command -v "$cxx" >/dev/null || continue
  compile "$cxx" -x c++ -std=c++11 "$here/uses_header.c"
  compile "$cxx" -std=c++20 "$here/uses_header.cpp"
  for header in "$include"/coppice/*.hpp; do compile "$cxx" -std=c++20 -x c++ - <<<"#include <coppice/${header##*/}>"; done
done
