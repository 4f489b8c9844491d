#!/usr/bin/env bash
# Figures of thousands of broadcasts a point, brought nearer to the papers' scale: goes on from the broadcasts that are kept, for as long
# as it is given, and keeps what there is by then.
#
#   bench/full_figures.sh [--minutes M] [--build DIR] [--out DIR] [NAME...]
#
# NAME is fig8 (fig9 and fig10 are drawn of its broadcasts), gossip-fig3, gossip-fig5 or gossip-fig9; all of them without. Each gets M
# minutes (10). NAME.csv, NAME.svg and NAME.runs.jsonl.xz in DIR (docs/figures) are replaced; what still lacks is said. Claims may get another
# verdict: docs/reproduction.md tells of how many broadcasts each rests on.
#
# Exit code 0 when every figure was drawn.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
build=$here/../build out=$here/../docs/figures minutes=10 names=""

usage() { sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "$0"; }
complain() { echo "full_figures.sh: $*" >&2; exit 2; }
while [ $# -gt 0 ]; do
    case $1 in
        --minutes | --build | --out)
            [ $# -ge 2 ] || complain "$1 needs a value"
            case $1 in --minutes) minutes=$2 ;; --build) build=$2 ;; *) out=$2 ;; esac
            shift 2 ;;
        -h | --help) usage; exit 0 ;;
        fig8 | gossip-fig3 | gossip-fig5 | gossip-fig9) names="$names $1"; shift ;;
        *) complain "$1 is no figure of this kind (see --help)" ;;
    esac
done
simulator=$build/tools/coppice-sim
[ -x "$simulator" ] || complain "$simulator is missing: build first, or name the build directory with --build"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# draw RUNS-OF NAME MINUTES
draw() {
    local folder=$scratch/$1
    mkdir -p "$folder"
    [ -s "$folder/runs.jsonl" ] || [ ! -f "$out/$1.runs.jsonl.xz" ] || xz -dc "$out/$1.runs.jsonl.xz" >"$folder/runs.jsonl"
    "$simulator" reproduce "$2" --full --minutes "$3" --out "$folder"
    cp "$folder/$2.csv" "$folder/$2.svg" "$out/"
}
for name in ${names:-fig8 gossip-fig3 gossip-fig5 gossip-fig9}; do
    draw "$name" "$name" "$minutes"
    xz -9 -c "$scratch/$name/$name.runs.jsonl" >"$scratch/kept.xz"
    if [ "$name" = fig8 ]; then
        draw fig8 fig9 0
        draw fig8 fig10 0
    fi
    mv "$scratch/kept.xz" "$out/$name.runs.jsonl.xz"
done
