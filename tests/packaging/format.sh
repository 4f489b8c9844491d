#!/usr/bin/env bash
# Sources are formatted as .clang-format says. format.sh SOURCE_DIR
set -uo pipefail
"$1/tools/format.sh" --check
code=$?
[ $code -ne 77 ] || echo "SKIP: there is no clang-format here"
exit $code
