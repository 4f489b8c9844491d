#!/usr/bin/env bash
# Installs what Coppice needs on Debian 12 and is not there yet. Says nothing when nothing is missing.
#   tools/setup.sh            what building and running need
#   tools/setup.sh --test     also what the tests need: a guest with RoCE devices in software, and an MPI beside us, Slurm, promtool
#   tools/setup.sh --develop  also what contributors need: formatter, linters, valgrind
#   tools/setup.sh --package  also what tests/packaging/debian.sh needs, which builds Debian packages and tries them
#   tools/setup.sh --check    only tells what is missing; exit code 1 if anything is
set -euo pipefail

# The one list of packages. docs/dependencies.md says why each is there.
build=(g++ meson ninja-build pkg-config libucx-dev libibverbs-dev librdmacm-dev libhwloc-dev libfmt-dev libsodium-dev
  libcli11-dev nlohmann-json3-dev libexpected-dev libgtest-dev libgmock-dev libbenchmark-dev)
run=(iproute2 python3)
test=(qemu-system-x86 ibverbs-providers procps libopenmpi-dev openmpi-bin libmpich-dev mpich python3-mpi4py scalapack-mpi-test systemtap-sdt-dev bpftrace cmake environment-modules
  ibsim-utils libumad2sim0 opensm infiniband-diags munge slurmctld slurmd slurm-client slurm-wlm-basic-plugins)
develop=(clang libclang-rt-dev clang-format clang-tidy shellcheck valgrind perftest ccache python3-matplotlib)
package=(debhelper dpkg-dev lintian mmdebstrap libmpich-dev libopenmpi-dev systemtap-sdt-dev)

usage() { sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "$0"; }

# Prometheus' judge of metrics. Its package brings a daemon and a user for it, so this one program of it goes to /usr/local/bin.
wants_promtool=false

check_only=false
wanted=("${build[@]}" "${run[@]}")
for argument in "$@"; do
  case $argument in
    --check) check_only=true ;;
    --test) wanted+=("${test[@]}"); wants_promtool=true ;;
    --develop) wanted+=("${test[@]}" "${develop[@]}"); wants_promtool=true ;;
    --package) wanted+=("${package[@]}") ;;
    -h | --help) usage; exit 0 ;;
    *) echo "setup.sh: unknown argument '$argument'" >&2; usage >&2; exit 2 ;;
  esac
done

if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
  echo "setup.sh: this is no Debian. Install what corresponds to these packages of Debian 12, then build:" >&2
  echo "  ${wanted[*]}" >&2
  exit 1
fi

missing=()
for package in "${wanted[@]}"; do
  # shellcheck disable=SC2016 # the format is dpkg's, not the shell's
  states=$(dpkg-query -W -f '${db:Status-Status} ' "$package" 2>/dev/null || true)
  [[ " $states" == *" installed "* ]] || missing+=("$package")
done
if $wants_promtool && command -v promtool >/dev/null; then wants_promtool=false; fi
[ ${#missing[@]} -gt 0 ] || $wants_promtool || exit 0

if $check_only; then
  [ ${#missing[@]} -eq 0 ] || echo "Missing packages: ${missing[*]}"
  ! $wants_promtool || echo "Missing program: promtool, of the package prometheus"
  exit 1
fi

no_promtool() { echo "setup.sh: promtool could not be had: $1; going on, the test that needs it will be skipped" >&2; }

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  if ! command -v sudo >/dev/null; then
    if [ ${#missing[@]} -eq 0 ]; then
      no_promtool "there is no sudo to put it into /usr/local/bin with"
      exit 0
    fi
    echo "setup.sh: there is no sudo to install what is missing with; run this as root, or" >&2
    echo "  apt-get install ${missing[*]}" >&2
    ! $wants_promtool || echo "  put promtool, of the package prometheus, into /usr/local/bin" >&2
    exit 1
  fi
  as_root=(sudo)
fi

scratch=$(mktemp -d "${TMPDIR:-/tmp}/coppice-setup.XXXXXX")
log=$scratch/log
trap 'rm -rf "$scratch"' EXIT
apt() {
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o Acquire::Retries=3 \
    -o DPkg::Lock::Timeout=300 "$@" >"$log" 2>&1
}
if ! apt update; then
  # Old lists, or a single broken source among good ones, may still do.
  echo "setup.sh: apt-get update failed; going on with the package lists that are here" >&2
fi
if [ ${#missing[@]} -gt 0 ]; then
  echo "Installing ${#missing[@]} packages with apt-get${as_root[0]:+ through sudo}: ${missing[*]}"
  if ! apt install --no-install-recommends "${missing[@]}"; then
    cat "$log" >&2
    echo "setup.sh: apt-get install failed, see above" >&2
    exit 1
  fi
fi
# Without the package's user and service. apt-get checks its signature as it does when it installs.
install_promtool() {
  cd "$scratch"
  apt-get -q -o Acquire::Retries=3 download prometheus && dpkg -x prometheus_*.deb unpacked &&
    "${as_root[@]}" install -D -m 755 unpacked/usr/bin/promtool /usr/local/bin/promtool
}
if $wants_promtool; then
  echo "Installing promtool, of the package prometheus, in /usr/local/bin"
  if ! (install_promtool) >"$log" 2>&1; then
    cat "$log" >&2
    no_promtool "see above"
    [ ${#missing[@]} -gt 0 ] || exit 0
  fi
fi
echo "Installed."
