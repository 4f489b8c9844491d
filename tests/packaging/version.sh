#!/usr/bin/env bash
# The version stands in the top meson.build and, as a heading, in CHANGELOG.md; nowhere else, but for Debian's files, whose
# first entry is of it. version.sh SOURCE_DIR VERSION
set -euo pipefail
cd "$1"
version=$2
grep -qF "## [$version]" CHANGELOG.md || { echo "CHANGELOG.md has no section for $version"; exit 1; }
[[ $(head -n 1 debian/changelog) == "coppice ($version-"* ]] || { echo "debian/changelog does not begin with $version"; exit 1; }
if grep -rnP "(?<![\d.])${version//./\\.}(?![\d.])" README.md include src tools bench docs tests packaging --include='*.[hc]' --include='*.[hc]pp' \
  --include='meson.build' --include='*.md' --include='*.sh' --include='*.py' --include='*.[1-9]'; then
  echo "these lines repeat the version"
  exit 1
fi
