#!/usr/bin/env bash
# Builds Debian's packages from the sources as they are committed, asks lintian, installs them in a root that has nothing but Debian's base,
# compiles and runs the README's example there, looks into it with coppice-status and coppice-trace, starts it on the hosts of coppice-cluster, and
# a program of Open MPI's with what coppice-mpirun preloads. Takes minutes, the network and root: run by hand.
#   debian.sh [WORK]    WORK is kept, and packages that are there are not built again (default: a temporary directory, which is removed)
# Needs debhelper, lintian, mmdebstrap (tools/setup.sh --package).
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

if ! compgen -G "$work/*.changes" >/dev/null; then
  mkdir -p "$work/coppice"
  git -C "$source_dir" archive HEAD | tar -x -C "$work/coppice"
  (cd "$work/coppice" && dpkg-buildpackage -us -uc -b) >"$work/build.log" 2>&1 || { tail -n 50 "$work/build.log"; fail "dpkg-buildpackage"; }
fi
if grep -E '^dpkg-gensymbols: (warning|error)' "$work/build.log"; then fail "debian/libcoppice0.symbols is not of these sources"; fi
lintian --allow-root --fail-on error "$work"/*.changes || fail "lintian"

packages=("$work"/libcoppice0_*.deb "$work"/libcoppice-dev_*.deb "$work"/coppice-tools_*.deb "$work"/coppice-mpi_*.deb)
root=$work/root
rm -rf "$root"
mmdebstrap --variant=apt --include=gcc,libc6-dev,pkg-config "$(sed -n "s/^VERSION_CODENAME=//p" /etc/os-release)" "$root" >"$work/root.log" 2>&1 ||
  { tail -n 20 "$work/root.log"; fail "mmdebstrap"; }
cp "${packages[@]}" "$root/tmp/"
cp "$source_dir/tests/mpi/pickled.py" "$root/root/"
[ -e "$root/etc/hosts" ] || echo "127.0.0.1 localhost" >"$root/etc/hosts"  # as every machine has one
awk '$0 == "```c" { inside = 1; next } inside && /^```/ { exit } inside' "$source_dir/README.md" >"$root/root/hello.c"
cat >"$root/tmp/try" <<'END'
set -e
apt-get update -q >/tmp/apt.log 2>&1 || { tail /tmp/apt.log; exit 1; }
apt-get install -y -q --no-install-recommends /tmp/*.deb >/tmp/apt.log 2>&1 || { tail /tmp/apt.log; exit 1; }
cd /root  # the hosts of coppice-cluster have a /tmp of their own
gcc -D_POSIX_C_SOURCE=200809L hello.c -o hello $(pkg-config --cflags --libs coppice)
COPPICE_TRACE=/tmp/trace coppice-run -n 4 ./hello
coppice-trace -o all.json /tmp/trace.*
python3 -c 'import json; assert sum(one.get("name") == "broadcast" for one in json.load(open("all.json"))) >= 4'
coppice-perf --help >help
coppice-sim --help >help
coppice-info >facts
coppice-mpirun --help >help

timeout 60 coppice-run -n 4 coppice-perf broadcast -n 10000000 >perf 2>&1 &
until coppice-status $! 2>/dev/null | grep ' 3/4 '; do kill -0 $! || { cat perf; exit 1; }; sleep 0.2; done
kill $!
wait $! || true

# What coppice-tools and coppice-mpi recommend.
apt-get install -y -q --no-install-recommends iproute2 openmpi-bin python3-mpi4py >/tmp/apt.log 2>&1 || { tail /tmp/apt.log; exit 1; }
coppice-cluster run --hosts 2 -- sh -c 'coppice-run -n 2 ./hello && coppice-cluster exec 1 hostname' >hosts
grep 'rank 0 is process' hosts
grep -x n1 hosts
COPPICE_MPI_REPORT=1 coppice-mpirun --oversubscribe --mca plm isolated -np 2 python3 pickled.py >mpi 2>&1 || { cat mpi; exit 1; }
grep ': 0 wrong' mpi
grep 'MPI_Bcast: [1-9][0-9]* by Coppice' mpi

apt-get purge -y -q coppice-mpi coppice-tools libcoppice-dev libcoppice0 >/tmp/apt.log 2>&1
! find /usr /etc -iname '*coppice*' | grep .
END
# With what a machine has there; a mount namespace, so that nothing stays mounted. The root is a mount of its own, which coppice-cluster's hosts make
# private.
# shellcheck disable=SC2016 # the inner shell expands it
unshare --mount --pid --fork --kill-child sh -c 'mount --bind "$1" "$1" && mount -t proc proc "$1/proc" && mount -t sysfs sys "$1/sys" && mount -t tmpfs shm "$1/dev/shm" &&
  exec chroot "$1" sh /tmp/try' \
  sh "$root" || fail "in the clean root"
echo "installed, tried and removed: ${packages[*]##*/}"
