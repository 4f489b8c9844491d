#!/usr/bin/env bash
# Builds Debian's packages from the sources as they are committed, asks lintian, installs them in a root that has nothing but Debian's base,
# and compiles and runs the README's example there. Takes minutes, the network and root: run by hand.
#   debian.sh [WORK]    WORK is kept (default: a temporary directory, which is removed)
# Needs debhelper, lintian, mmdebstrap.
set -euo pipefail
source_dir=$(cd "$(dirname "$0")/../.." && pwd)
case ${1:-} in
  -h | --help) sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "$0"; exit 0 ;;
esac
if [ $# -gt 0 ]; then
  work=$1
  mkdir -p "$work"
else
  work=$(mktemp -d "${TMPDIR:-/tmp}/coppice-debian.XXXXXX")
  trap 'rm -rf "$work"' EXIT
fi
fail() { echo "FAILED: $*"; exit 1; }

mkdir -p "$work/coppice"
git -C "$source_dir" archive HEAD | tar -x -C "$work/coppice"
(cd "$work/coppice" && dpkg-buildpackage -us -uc -b) >"$work/build.log" 2>&1 || { tail -n 50 "$work/build.log"; fail "dpkg-buildpackage"; }
if grep -E '^dpkg-gensymbols: (warning|error)' "$work/build.log"; then fail "debian/libcoppice0.symbols is not of these sources"; fi
lintian --fail-on error "$work"/*.changes || fail "lintian"

packages=("$work"/libcoppice0_*.deb "$work"/libcoppice-dev_*.deb "$work"/coppice-tools_*.deb "$work"/coppice-mpi_*.deb)
root=$work/root
mmdebstrap --variant=apt --include=gcc,libc6-dev,pkg-config "$(sed -n "s/^VERSION_CODENAME=//p" /etc/os-release)" "$root" >"$work/root.log" 2>&1 ||
  { tail -n 20 "$work/root.log"; fail "mmdebstrap"; }
cp "${packages[@]}" "$root/tmp/"
awk '$0 == "```c" { inside = 1; next } inside && /^```/ { exit } inside' "$source_dir/README.md" >"$root/tmp/hello.c"
cat >"$root/tmp/try" <<'END'
set -e
apt-get update -q >/tmp/apt.log 2>&1 || { tail /tmp/apt.log; exit 1; }
apt-get install -y -q --no-install-recommends /tmp/*.deb >/tmp/apt.log 2>&1 || { tail /tmp/apt.log; exit 1; }
cd /tmp
gcc -D_POSIX_C_SOURCE=200809L hello.c -o hello $(pkg-config --cflags --libs coppice)
coppice-run -n 4 ./hello
coppice-perf --help >help
coppice-sim --help >help
coppice-info >facts
coppice-mpirun --help >help
apt-get purge -y -q coppice-mpi coppice-tools libcoppice-dev libcoppice0 >/tmp/apt.log 2>&1
! find /usr /etc -iname '*coppice*' | grep .
END
# With what a machine has there; a mount namespace, so that nothing stays mounted.
# shellcheck disable=SC2016 # the inner shell expands it
unshare --mount --pid --fork --kill-child sh -c 'mount -t proc proc "$1/proc" && mount -t sysfs sys "$1/sys" && mount -t tmpfs shm "$1/dev/shm" &&
  exec chroot "$1" sh /tmp/try' \
  sh "$root" || fail "in the clean root"
echo "installed, tried and removed: ${packages[*]##*/}"
