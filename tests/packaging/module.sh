#!/usr/bin/env bash
# `module load coppice` is enough to compile, link and start the README's example.   module.sh SOURCE_DIR BUILD_DIR VERSION SANITIZER
set -euo pipefail
source_dir=$1
version=$3
. "$source_dir/tests/packaging/stage.sh" "$2"
unset PKG_CONFIG_PATH
init=/usr/share/modules/init/bash
if [ ! -e "$init" ]; then
  echo "SKIP: there are no environment modules here (tools/setup.sh --test installs them)"
  exit 77
fi
set +eu
# shellcheck source=/dev/null
. "$init"
set -eu

modules=$prefix/share/coppice/modulefiles
[ -e "$modules/coppice/$version" ] || fail "the module file is not installed"
# It speaks of the final place; here everything stands below the stage.
sed -i "s|$configured|$prefix|" "$modules/coppice/$version"
module use "$modules"
module load "coppice/$version"
example c >"$stage/hello.c"
sanitize=()
[ "${4:-none}" = none ] || sanitize=("-fsanitize=$4")
cc -D_POSIX_C_SOURCE=200809L "${sanitize[@]}" "$stage/hello.c" -o "$stage/hello" -lcoppice
[ "$(command -v coppice-run)" = "$bindir/coppice-run" ] || fail "coppice-run is not the module's"
run_four "$stage/hello"
module unload coppice
if grep -qF "$prefix" <<<"$(command -v coppice-run)"; then fail "it stays in PATH"; fi
