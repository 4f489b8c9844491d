#!/usr/bin/env bash
# Runs MPI programs that nobody has changed, as Debian has them, with and without Coppice by turns: compares what they have worked out, and
# how long they took.
#   mpi_programs.sh [--rounds N] [--quick] [--ranks N] [--limit S] [--mpi openmpi|mpich] [--build DIR] [PROGRAM…]
# Programs: examl xdlu xdqr hpcc lammps nwchem (2 processes) mpi4py, all by default; xdlu and xdqr for MPICH. Others only when they are named:
# each of ScaLAPACK's testers, or `testers` for all of them. One that is not installed is left out, and said so; so is one whose first run takes
# longer than --limit seconds (300 by default), or fails without Coppice: it has to fail with it, too, with the same exit code.
# Packages: examl scalapack-mpi-test hpcc lammps nwchem-openmpi python3-mpi4py. --rounds 11 by default, --quick is 3; 4 processes, 2 for MPICH,
# whose processes spin.
# Prints for each program the medians in seconds with their quartiles, the median of the ratios of both runs of a round with quartiles, and
# what of it went through Coppice; of several programs also the geometric mean of their ratios and the greatest. Exit code 1 when a result
# differs, or a run with Coppice fails; 2 for options that are none, or nothing to run.
# shellcheck disable=SC2317 # functions are called by the names of programs
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
build=$here/../build mpi=openmpi rounds=11 ranks=""
most_seconds=300  # for the first run; ten times as much for others, as a busy machine may hold one up
programs=()

complain() { echo "mpi_programs.sh: $*" >&2; exit 2; }
value() { [ $# -ge 2 ] || complain "$1 needs a value"; }
while [ $# -gt 0 ]; do
    case $1 in
        --quick) rounds=3; shift ;;
        --rounds) value "$@"; [[ $2 =~ ^[1-9][0-9]*$ ]] || complain "--rounds $2: a number is wanted"; rounds=$2; shift 2 ;;
        --ranks) value "$@"; [[ $2 =~ ^[1-9][0-9]*$ ]] || complain "--ranks $2: a number is wanted"; ranks=$2; shift 2 ;;
        --limit) value "$@"; [[ $2 =~ ^[1-9][0-9]*$ ]] || complain "--limit $2: a number of seconds is wanted"; most_seconds=$2; shift 2 ;;
        --mpi) value "$@"; [[ $2 =~ ^(openmpi|mpich)$ ]] || complain "--mpi $2: openmpi or mpich"; mpi=$2; shift 2 ;;
        --build) value "$@"; build=$2; shift 2 ;;
        -h | --help) sed -n '2,/^# shellcheck/{/shellcheck/d;s/^# \{0,1\}//p}' "$0"; exit 0 ;;
        examl | hpcc | lammps | nwchem | mpi4py | testers | x[a-zA-Z]*) programs+=("$1"); shift ;;
        *) complain "unknown option or program '$1' (see --help)" ;;
    esac
done
if [ "$mpi" = openmpi ]; then
    launcher=(mpirun.openmpi --oversubscribe --bind-to none)
    [ ${#programs[@]} -gt 0 ] || programs=(examl xdlu xdqr hpcc lammps nwchem mpi4py)
else
    launcher=(mpiexec.hydra)
    [ ${#programs[@]} -gt 0 ] || programs=(xdlu xdqr)
fi
wrapper=$build/tools/coppice-mpirun
[ -x "$wrapper" ] || complain "$wrapper is missing: build first, or name the build directory with --build"
command -v "${launcher[0]}" >/dev/null || complain "${launcher[0]} is missing"
wrapper=$(readlink -f "$wrapper")
if [ "$(id -u)" -eq 0 ]; then export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1; fi
export COPPICE_MPI_REPORT=1

work=$(mktemp -d "${TMPDIR:-/tmp}/coppice-programs.XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work"

# Each program: settle_X sets `command` and, where it is not the usual one, `processes`; result_X prints what has to be the same, from
# the output of the run or from what the program has left in the directory.
scalapack() { echo /usr/lib/*/scalapack/"$mpi"-tests/"$1"; }
settle_examl() {
    local flags program="" data=/usr/share/doc/examl/testData set
    flags=$(grep -m 1 '^flags' /proc/cpuinfo) || flags=""
    for set in avx2 avx sse3; do
        if grep -qw "${set/sse3/pni}" <<<"$flags"; then program=/usr/lib/examl/bin/examl-$set; break; fi
    done
    command=("$program" -t 49.tree -f e -m GAMMA -s 49.binary -n OUT)
    [ -x "$program" ] || return 0
    for file in 49 49.tree; do
        if [ -e "$data/$file.gz" ]; then gunzip -c "$data/$file.gz" >"$file"; else cp "$data/$file" "$file"; fi
    done
    parse-examl -s 49 -m DNA -n 49 >parse.log
}
result_examl() { grep -h '^Likelihood tree' ExaML_info.OUT; }
settle_tester() { command=("$(scalapack "$1")"); cp /usr/share/scalapack/*.dat . 2>/dev/null || true; }
# Most tell at the end how many checks have passed, others at each one.
result_tester() { grep -E 'tests completed|tests skipped|failed residual' "$1" || grep -ioE '\<(passed|failed)\>' "$1" | sort | uniq -c; }
settle_mpi4py() { command=(/usr/bin/python3 "$here/../tests/mpi/pickled.py" 400); }
result_mpi4py() { grep ' 0 wrong' "$1"; }
settle_hpcc() {
    command=(hpcc)
    # A small problem, on a grid of 2 x 2 processes.
    sed -e 's/^1000 .*Ns$/200 Ns/; s/^1  *Ns/200 Ns/; s/^1\(  *Ps\)$/2\1/' /usr/share/doc/hpcc/examples/_hpccinf.txt >hpccinf.txt 2>/dev/null || true
}
result_hpcc() {
    grep -E '^(Success|CommWorldProcs|HPL_N|MPIRandomAccess_ErrorsFraction|HPL_RnormI|HPL_Xnorm1)=|tests completed' hpccoutf.txt &&
        grep -q PASSED hpccoutf.txt && ! grep FAILED hpccoutf.txt
}
settle_lammps() {
    command=(lmp -in melt.in -log none)
    cat >melt.in <<'END'
units lj
atom_style atomic
lattice fcc 0.8442
region box block 0 6 0 6 0 6
create_box 1 box
create_atoms 1 box
mass 1 1.0
velocity all create 1.44 87287 loop geom
pair_style lj/cut 2.5
pair_coeff 1 1 1.0 1.0 2.5
neighbor 0.3 bin
neigh_modify delay 0 every 20 check no
fix 1 all nve
thermo 50
run 400
END
}
result_lammps() { sed -n '/^ *Step/,/^Loop/{/^Loop/d;p}' "$1"; }
settle_nwchem() {
    command=(nwchem.openmpi water.nw) processes=2
    cat >water.nw <<'END'
start water
geometry units angstrom
  O 0 0 0
  H 0 0.757 0.587
  H 0 -0.757 0.587
end
basis
  * library sto-3g
end
task scf energy
END
}
result_nwchem() { grep 'Total SCF energy' "$1"; }

# run WAY NAME: in seconds to $WAY.times, results in $WAY.result; the exit code in `code`
run() {
    local way=$1 name=$2 most=$((most_seconds * 10)) start end
    [ $accept_failure = no ] || most=$most_seconds
    code=0
    local before=("${launcher[@]}")
    [ "$way" = without ] || before=("$wrapper" --launcher "${launcher[@]}")
    rm -f ExaML_* hpccoutf.txt water.db water.movecs
    start=$(date +%s%N)
    timeout -k 10 "$most" "${before[@]}" -n "$processes" "${command[@]}" >"$way.out" 2>"$way.err" </dev/null || code=$?
    end=$(date +%s%N)
    if [ $code -ne 0 ]; then
        [ $accept_failure = no ] || return 1
        echo "$name $way Coppice: exit code $code"
        tail -n 5 "$way.out" "$way.err"
        return 1
    fi
    "result_$kind" "$way.out" >"$way.result" || { echo "$name $way Coppice: there is no result in its output"; tail -n 5 "$way.out"; return 1; }
    echo $((end - start)) >>"$way.times"
}
# quartiles FILE: median and quartiles of its lines, of nanoseconds or (with an argument) of plain numbers
quartiles() {
    sort -n "$1" | awk -v by="${2:-1e9}" '{ v[NR] = $1 / by } function at(q) { return v[int((NR - 1) * q + 0.5) + 1] }
        END { printf "%7.3f (%.3f–%.3f)", at(0.5), at(0.25), at(0.75) }'
}

if [[ " ${programs[*]} " == *" testers "* ]]; then
    all=("$(dirname "$(scalapack xdlu)")"/x*)
    mapfile -t programs < <(for name in "${programs[@]}"; do [ "$name" != testers ] || name=${all[*]##*/}; echo "${name// /$'\n'}"; done)
fi
bad=0 done=0
echo "$mpi, $rounds rounds; seconds: median (quartiles)"
printf "%-8s %2s  %-24s %-24s %-24s %s\n" program P "without Coppice" "with Coppice" "with : without" "by Coppice, passed on; groups"
for name in "${programs[@]}"; do
    processes=${ranks:-$([ "$mpi" = openmpi ] && echo 4 || echo 2)}
    case $name in x*) kind=tester ;; *) kind=$name ;; esac
    "settle_$kind" "$name"
    if ! command -v "${command[0]}" >/dev/null; then echo "$name: left out, it is not installed"; continue; fi
    rm -f ./*.times
    # Does it run by itself, and in that time?
    accept_failure=yes
    if ! run without "$name"; then
        first=$code
        if [ $first -eq 124 ] || [ $first -eq 137 ]; then echo "$name: left out, it takes longer than $most_seconds s"; continue; fi
        run with "$name" || true
        if [ $code -eq $first ]; then echo "$name: left out, it fails without Coppice and with it, exit code $code"; continue; fi
        echo "$name: exit code $first without Coppice, $code with it"
        bad=1
        continue
    fi
    accept_failure=no
    rm -f ./*.times
    for ((round = 0; round < rounds; ++round)); do
        ways=(without with)
        if ((round % 2)); then ways=(with without); fi
        for way in "${ways[@]}"; do run "$way" "$name" || { bad=1; break 2; }; done
        if ! cmp -s without.result with.result; then
            echo "$name: results differ"
            diff without.result with.result || true
            bad=1
            break
        fi
    done
    if ! [ -s with.times ] || ! [ -s without.times ]; then continue; fi
    done=1
    paste with.times without.times | awk 'NF == 2 { print $1 / $2 }' >ratios
    sort -n ratios | awk -v name="$name" '{ v[NR] = $1 } END { print v[int((NR - 1) / 2 + 0.5) + 1], name }' >>medians
    counts=$(awk '/by Coppice/ { gsub(/[:,]/, ""); ours += $3; passed += $6 } /groups$/ { groups = $(NF - 1) }
                  END { printf "%d, %d; %d", ours, passed, groups }' with.err)
    printf "%-8s %2s  %-24s %-24s %-24s %s\n" "$name" "$processes" "$(quartiles without.times)" "$(quartiles with.times)" "$(quartiles ratios 1)" "$counts"
done
if [ -e medians ] && [ "$(wc -l <medians)" -gt 1 ]; then
    sort -n medians | awk '{ v[NR] = $1; sum += log($1); worst = $2 } function at(q) { return v[int((NR - 1) * q + 0.5) + 1] }
        END { printf "%d programs: geometric mean of the ratios %.3f; quartiles of them %.3f, %.3f, %.3f; from %.3f to %.3f (%s)\n", NR, exp(sum / NR),
              at(0.25), at(0.5), at(0.75), v[1], v[NR], worst }'
fi
[ $done = 1 ] || [ $bad = 1 ] || complain "none of the programs is installed: packages examl scalapack-mpi-test hpcc lammps nwchem-openmpi"
exit $bad
