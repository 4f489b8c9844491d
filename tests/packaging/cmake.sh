#!/usr/bin/env bash
# A CMake project finds what `meson install` has installed, links with the shared and the static library, and its programs run.
#   cmake.sh SOURCE_DIR BUILD_DIR VERSION SANITIZER
set -euo pipefail
source_dir=$1
version=$3
. "$source_dir/tests/packaging/stage.sh" "$2"

project=$stage/project
mkdir "$project"
example c >"$project/hello.c"
cat >"$project/CMakeLists.txt" <<END
cmake_minimum_required(VERSION 3.16)
project(hello C)
find_package(Coppice ${version%.*} REQUIRED COMPONENTS static)
add_executable(cmake-shared hello.c)
target_link_libraries(cmake-shared PRIVATE Coppice::coppice)
add_executable(cmake-static hello.c)
target_link_libraries(cmake-static PRIVATE Coppice::coppice_static)
END
flags=-D_POSIX_C_SOURCE=200809L
# A library that was built with a sanitizer needs the sanitizer's runtime in its users too.
[ "${4:-none}" = none ] || flags+=" -fsanitize=$4"
options=(-DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_C_FLAGS="$flags")
if ! { cmake -S "$project" -B "$stage/built" "${options[@]}" && cmake --build "$stage/built"; } >"$stage/log" 2>&1; then
  cat "$stage/log"
  fail "cmake"
fi
if grep -q libcoppice <<<"$(ldd "$stage/built/cmake-static")"; then fail "cmake-static needs libcoppice.so"; fi
if grep -E 'libuc[pstm]|libibverbs|librdmacm' <<<"$(ldd "$stage/built/cmake-static")"; then fail "cmake-static loads these before they are used"; fi
run_four "$stage/built/cmake-shared"
run_four "$stage/built/cmake-static"

# $1 instead of the version and the component is refused, with $2 in the message.
refused() {
  sed "s/find_package(.*/find_package(Coppice $1)/" "$project/CMakeLists.txt" >"$stage/CMakeLists.txt"
  cp "$stage/CMakeLists.txt" "$project/CMakeLists.txt"
  rm -rf "$stage/other"
  if cmake -S "$project" -B "$stage/other" "${options[@]}" >"$stage/log" 2>&1; then fail "cmake takes $1"; fi
  grep -q "$2" "$stage/log" || { cat "$stage/log"; fail "the refusal of $1 does not say '$2'"; }
  echo "refused: $1"
}
refused "99.0 REQUIRED" "99.0"
refused "0.0 EXACT REQUIRED" "0.0"
refused "REQUIRED COMPONENTS dynamic" "no component dynamic"
