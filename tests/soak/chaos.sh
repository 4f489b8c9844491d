#!/usr/bin/env bash
# A soak of everything: programs drawn from a seed, whose ranks are killed and stopped, and whose cables are cut. See
# --help.
exec python3 "$(dirname "$0")/chaos.py" "$@"
