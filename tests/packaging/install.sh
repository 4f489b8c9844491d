#!/usr/bin/env bash
# What `meson install` installs is enough for a stranger: pkg-config finds it, the README's examples compile against it
# without a warning, with the shared and with the static library, and run under the installed coppice-run.
#   install.sh SOURCE_DIR BUILD_DIR VERSION
set -euo pipefail
source_dir=$1
build_dir=$2
version=$3
. "$source_dir/tests/packaging/stage.sh" "$build_dir"

[ "$(pkg-config --modversion coppice)" = "$version" ] || fail "coppice.pc has version $(pkg-config --modversion coppice)"

for file in "$prefix/include/coppice/coppice.h" "$prefix/include/coppice/coppice.hpp" "$libdir/libcoppice.a" \
  "$libdir/libcoppice.so" "$libdir/libcoppice.so.0" "$libdir/libcoppice.so.$version" \
  "$bindir/coppice-run" "$bindir/coppice-perf" "$bindir/coppice-info" "$bindir/coppice-sim" "$bindir/coppice-status" "$bindir/coppice-trace" \
  "$prefix/share/man/man1/coppice-info.1" "$prefix/share/man/man1/coppice-sim.1" "$prefix/share/man/man1/coppice-status.1" "$prefix/share/man/man1/coppice-trace.1" \
  "$bindir/coppice-cluster" "$prefix/share/coppice/cluster/box.py" "$prefix/share/man/man1/coppice-cluster.1" \
  "$bindir/rxe-guest" "$prefix/share/coppice/rxe-guest/guest.sh" "$prefix/share/man/man1/rxe-guest.1" \
  "$prefix/share/man/man7/coppice.7" "$prefix/share/man/man1/coppice-run.1" "$prefix/share/man/man1/coppice-perf.1" \
  "$prefix/share/doc/coppice/examples/cg/main.cpp"; do
  [ -e "$file" ] || fail "${file#"$stage"} is not installed"
done
for header in "$source_dir"/include/coppice/*; do
  [ -e "$prefix/include/coppice/${header##*/}" ] || fail "${header##*/} is not installed"
done

example c >"$stage/hello.c"
example cpp >"$stage/hello.cpp"
if [ ! -s "$stage/hello.c" ] || [ ! -s "$stage/hello.cpp" ]; then fail "README.md has no example"; fi

warnings=(-Wall -Wextra -Wpedantic -Werror)
# A library that was built with a sanitizer needs the sanitizer's runtime in its users too.
sanitize=()
[ "${4:-none}" = none ] || sanitize=("-fsanitize=$4")
read -ra cflags <<<"$(pkg-config --cflags coppice)"
read -ra shared <<<"$(pkg-config --libs coppice)"
read -ra static <<<"$(pkg-config --static --libs coppice)"
static=("${static[@]/#-lcoppice/-l:libcoppice.a}")
cc=${CC:-cc}
cxx=${CXX:-c++}
$cc -std=c11 -D_POSIX_C_SOURCE=200809L "${warnings[@]}" "${sanitize[@]}" "$stage/hello.c" -o "$stage/c-shared" "${cflags[@]}" "${shared[@]}"
$cc -std=c11 -D_POSIX_C_SOURCE=200809L "${warnings[@]}" "${sanitize[@]}" "$stage/hello.c" -o "$stage/c-static" "${cflags[@]}" "${static[@]}"
$cxx -std=c++20 "${warnings[@]}" "${sanitize[@]}" "$stage/hello.cpp" -o "$stage/cpp-shared" "${cflags[@]}" "${shared[@]}"
$cxx -std=c++20 "${warnings[@]}" "${sanitize[@]}" "$stage/hello.cpp" -o "$stage/cpp-static" "${cflags[@]}" "${static[@]}"
for program in c-static cpp-static; do
  if grep -q libcoppice <<<"$(ldd "$stage/$program")"; then fail "$program needs libcoppice.so"; fi
  if grep -E 'libuc[pstm]|libibverbs|librdmacm' <<<"$(ldd "$stage/$program")"; then fail "$program loads these before they are used"; fi
done

# What is preloaded into MPI programs finds the library that was installed with it.
for mpi in openmpi:mpirun.openmpi mpich:mpiexec.hydra; do
  program=$build_dir/tests/mpi/operations-${mpi%%:*}
  if [ ! -e "$libdir/coppice/libcoppice-${mpi%%:*}.so" ] || [ ! -e "$program" ]; then continue; fi
  report=$(env -u LD_LIBRARY_PATH OMPI_MCA_rmaps_base_oversubscribe=1 COPPICE_MPI_REPORT=1 COPPICE_MPI_AFTER=0 "$bindir/coppice-mpirun" --launcher "${mpi##*:}" -n 2 "$program" late 2>&1) ||
    fail "an MPI program: $report"
  if ! grep -q 'MPI_Bcast: 2 by Coppice' <<<"$report"; then fail "an MPI program goes without Coppice: $report"; fi
done

export LD_LIBRARY_PATH=$libdir${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
for program in c-shared c-static cpp-shared cpp-static; do
  run_four "$stage/$program"
done
"$bindir/coppice-info" >/dev/null || fail "coppice-info"
