#!/usr/bin/env bash
# A program that loads and unloads the library again and again works, and is told nothing. reload.sh PROGRAM LIBRARY TRANSPORT…
set -euo pipefail
output=$("$@" 2>&1) || { echo "$output"; exit 1; }
[ -z "$output" ] || { echo "it prints: $output"; exit 1; }
