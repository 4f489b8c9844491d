"""The driver of the chaos soak: draws jobs from a seed, runs them, and compares what their ranks say."""

import argparse
import collections
import os
import pathlib
import shlex
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

import chaos_check
import chaos_growth
import chaos_plan
import chaos_views

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "support"))
import jobs  # noqa: E402
from jobs import read  # noqa: E402

FOUND = chaos_check.KINDS
TELL_EVERY = 60  # seconds after which it is said how far it has come

DESCRIPTION = """\
Programs drawn from a seed, one job after the other: broadcasts, agreements, shrinks and revocations in groups that come and go,
by ranks that are killed, stopped and cut off at drawn moments. In a third of the jobs ("grows" in their description) there is one
group, which its members renew: ranks that were killed are started again, spares wait, others join, some leave, and hosts are cut in
two sides, for a moment or for good, under each COPPICE_QUORUM. In a quarter of the jobs ("large") a third of the broadcasts have 8 KiB
to 1 MiB, so that they go in chunks, out of the program's memory, registered or not, and out of the library's; in some of these jobs there
is little room for them (COPPICE_PAYLOAD_WINDOW), smaller ones go in chunks, too (COPPICE_EAGER), or chunks and waits are small. Each rank
checks what it is given; afterwards what all of them were given is compared, in jobs that grow view by view. Found are
  lost      a live rank did not get what another live rank of a live root got; a call failed with a status that coppice.h does
            not allow there, or crashed; a live rank was taken for dead, or left out of a view; a newcomer was neither taken in nor told
            why; a rank had no quorum that neither a cut nor deaths had cost
  corrupt   a payload or a value was not what its ranks gave
  diverged  two ranks were told different results of one agreement or shrink; one epoch had two groups
  hung      a call did not end within its deadline, or nothing ended at any rank for three times as long; a newcomer that nothing keeps out
            waited for ten times as long, or the job took thirty times; with backtraces of all ranks, where there is gdb. Where this
            process stood still meanwhile, too, the job is run once more: a machine whose processors are taken away does that. A pause
            of more than 10 s is no finding: it is printed, with how long threads ran and how long they waited for a core meanwhile, all
            of them together and the one that waited longest, and that of the kernel's own threads which did: without a core for these
            no packet arrives
  leaked    descriptors, or processes that were left behind
A job whose members all die before any newcomer was taken in has nobody left: that is no finding.
"""


def parse():
    parser = argparse.ArgumentParser("chaos.sh", description=DESCRIPTION,
                                     epilog="Exit code: 0 nothing was found, 1 something was, 2 the options make no sense.",
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--minutes", type=float, help="how long (default 5)")
    length.add_argument("--seconds", type=float, help="the same for short runs")
    length.add_argument("--jobs", type=int, help="so many jobs instead")
    length.add_argument("--job", metavar="JOB", help="this one alone, as it was, with its output")
    parser.add_argument("--seed", type=int, help="of everything that is drawn (default: from the clock; it is printed)")
    parser.add_argument("--build", type=pathlib.Path, default=HERE.parent.parent / "build", help="where Coppice was built")
    parser.add_argument("--patience", type=float, default=60 * float(os.environ.get("COPPICE_TEST_PATIENCE", "1")),
                        help="seconds after which a call counts as hung (default 60, COPPICE_TEST_PATIENCE times)")
    parser.add_argument("--keep", type=pathlib.Path,
                        help="where logs, output and backtraces of jobs that went wrong are kept (default: a new directory)")
    parser.add_argument("--only", default="", help="jobs with these words in their description alone, as \"cut ucx\" or \"grows\"")
    parser.add_argument("--large", action="store_true",
                        help="large payloads in every job, not in one in four; the rest of a job stays as it is")
    parser.add_argument("--verbose", action="store_true", help="a line for each job, not only for those that went wrong")
    options = parser.parse_args()
    if options.job and ":" in options.job:
        seed, options.job = options.job.split(":", 1)
        options.seed = int(seed)
    if options.job and not options.job.isdigit():
        parser.error(f"--job {options.job}: a number, or SEED:NUMBER, is wanted")
    if options.job and options.seed is None:
        parser.error("--job: of which --seed?")
    options.seconds = options.seconds or 60 * (options.minutes or 5)
    if options.seed is None:
        options.seed = int(time.time())
    options.launcher = options.build / "tools/coppice-run"
    options.rank = options.build / "tests/soak/chaos_rank"
    for file in (options.launcher, options.rank):
        if not os.access(file, os.X_OK):
            parser.error(f"{file} is missing: build first, or name the build directory with --build")
    return options


def processes_of(directory):
    """Living ranks of that job, and what they have started."""
    return jobs.processes_with(f"CHAOS_DIRECTORY={directory}")


def look_at(directory):
    """What the ranks of a job that hangs do."""
    return jobs.look_at([pid for pid in processes_of(directory) if is_rank(pid)])


def wait_for(condition, seconds):
    until = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > until:
            return False
        time.sleep(0.02)
    return True


def has_hung(directory):
    return any(" hung " in line for log in directory.glob("log-*") for line in log.read_text(errors="replace").splitlines()
               if line.startswith("x "))


class Watch:
    """How long a job has paused: no rank of it has logged anything. And how long this process stood still, though it wanted to look: a
    machine whose processors are taken away does that to all of them, and its clock goes on."""

    LOOKS_LIKE_ONE = 2  # seconds
    WORTH_TELLING = 10

    def __init__(self, directory):
        self.directory = directory
        self.logged, self.since = -1, time.monotonic()
        self.looked = self.since
        self.stood_still = 0
        self.before = None  # what threads had done by the time it looked like a pause
        self.pauses = []  # texts

    def seconds(self):
        logged = sum(log.stat().st_size for log in self.directory.glob("log-*"))
        now = time.monotonic()
        self.stood_still = max(self.stood_still, now - self.looked)
        self.looked = now
        quiet = now - self.since
        if logged != self.logged:
            self.end(quiet)
            self.logged, self.since = logged, now
        elif quiet > self.LOOKS_LIKE_ONE and self.before is None:
            self.before = scheduled(self.directory)
        return now - self.since

    def end(self, quiet):
        if quiet > self.WORTH_TELLING and self.before is not None:
            self.pauses.append(f"{quiet:.0f} s, {what_threads_did(self.before, scheduled(self.directory))}")
        self.before = None


# Packets between hosts arrive, and a system call that waits for all cores ends, only when these threads of the kernel get a core.
KERNEL_THREADS = ("ksoftirqd/", "rcu_preempt", "rcu_sched")


def scheduled(directory):
    """Of each thread of the job, and of KERNEL_THREADS, the time of the look, whose it is, and nanoseconds on a core and in wait
    for one."""
    found = {}
    for pid in processes_of(directory):
        process = pathlib.Path(f"/proc/{pid}")
        rank = next((v.removeprefix("COPPICE_RANK=") for v in read(process / "environ").split("\0") if v.startswith("COPPICE_RANK=")),
                    "")
        for task in (process / "task").glob("*"):
            note_scheduled(found, task, f"rank {rank}" if rank else "the launcher")
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        name = read(process / "comm").strip()
        if name.startswith(KERNEL_THREADS):
            note_scheduled(found, process, name)
    return found


def note_scheduled(found, task, whose):
    words = read(task / "schedstat").split()
    if len(words) == 3:
        found[task] = time.monotonic(), whose, int(words[0]), int(words[1])


def what_threads_did(before, after):
    """A wait that has not ended yet counts in none of these figures: the kernel adds it when the thread gets its core."""
    both = [(now[3] - then[3], now[2] - then[2], now[0] - then[0], now[1]) for then, now in
            ((before[task], after[task]) for task in before if task in after)]
    kernel = [each for each in both if each[3].startswith(KERNEL_THREADS)]
    both = [each for each in both if each not in kernel]
    text = f"the load is {os.getloadavg()[0]:.0f}"
    if kernel:
        text = f"of the kernel's own {max(kernel)[3]}, {max(kernel)[0] / 1e9:.2f} s; {text}"
    if not both:
        return text
    waited, ran, passed, whose = max(both)
    return (f"{len(both)} threads ran {sum(each[1] for each in both) / 1e9:.2f} s and waited for a core for "
            f"{sum(each[0] for each in both) / 1e9:.2f} s; longest one of {whose}, {waited / 1e9:.2f} of {passed:.0f} s, "
            f"and ran {ran / 1e9:.2f} s; {text}")


class Newcomers:
    """How long the one that has waited longest has waited to be taken in: it lives, and its first line is all that it has logged. It has no
    deadline of its own, and the members may go on without it, and renew their group for it again and again."""

    FIRST_LINE = 20  # bytes at most

    def __init__(self, directory, plan, lives):
        self.directory, self.lives = directory, lives
        # Others may wait as long as the job takes: until there is room among the members, or for a side that they cannot reach.
        self.are_bound = plan.grows and not plan.most and not plan.is_parted()
        self.since = {}  # of those that wait, by their logs

    def seconds(self, now):
        waiting = [log for log in self.directory.glob("log-*") if self.are_bound and self.waits(log)]
        self.since = {log: self.since.get(log, now) for log in waiting}
        return now - min(self.since.values(), default=now)

    def waits(self, log):
        if log.stat().st_size > self.FIRST_LINE:
            return False
        lines = read(log).splitlines()
        return len(lines) == 1 and lines[0].startswith("p ") and self.lives(lines[0][2:])


def is_rank(pid):
    return read(pathlib.Path(f"/proc/{pid}/comm")) == "chaos_rank\n"


# How many times a call's patience: nothing ends at any rank; a newcomer waits; the job takes. The last is for what the others do not see:
# ranks that renew their group for ever, though nobody waits. A job of some seconds that has come to that has not just been slow.
PATIENCE_OF_RANKS, PATIENCE_OF_NEWCOMERS, PATIENCE_OF_JOBS = 3, 10, 30


class Outcome:
    def __init__(self, plan):
        self.plan = plan
        self.found = collections.Counter()
        self.notes = []
        self.operations = 0
        self.deaths = 0
        self.newcomers = 0  # that a group has taken in
        self.pauses = []
        self.stood_still = 0  # seconds, at most at a time
        self.output = ""
        self.backtraces = ""
        self.kept = None
        self.load = os.getloadavg()[0]

    def note(self, kind, text):
        self.found[kind] += 1
        self.notes.append(f"{kind}: {text}")


def run(plan, options, show=False):
    """Runs one job and judges it."""
    outcome = Outcome(plan)
    directory = pathlib.Path(tempfile.mkdtemp(prefix="coppice-chaos-"))
    try:
        command = plan.command(options.launcher, options.rank, directory, options.patience)
        environment = {k: v for k, v in os.environ.items() if not k.startswith("COPPICE_")}
        environment |= plan.environment | {"CHAOS_DIRECTORY": str(directory)}
        with open(directory / "output", "w", encoding="utf-8") as output:
            job = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=environment,
                                   start_new_session=True)  # an interrupt of the soak is none of the job
            # Every call of a member has a deadline of its own. How long all of them take is the machine's matter, up to a point.
            watch = Watch(directory)
            newcomers = Newcomers(directory, plan, is_rank)
            until = time.monotonic() + PATIENCE_OF_JOBS * options.patience
            looked = False
            pause = 0.01
            while job.poll() is None:
                forgotten = newcomers.seconds(time.monotonic()) > PATIENCE_OF_NEWCOMERS * options.patience
                late = watch.seconds() > PATIENCE_OF_RANKS * options.patience or forgotten or time.monotonic() > until
                if (late or (pause > 0.1 and has_hung(directory))) and not looked:
                    outcome.backtraces = look_at(directory)
                    (directory / "looked").touch()
                    looked = True
                    watch.looked = time.monotonic()
                if late:
                    outcome.note("hung", f"the job did not end by itself{', and a newcomer was not taken in' if forgotten else ''}")
                    job.terminate()
                    watch.since = time.monotonic()
                    newcomers.since.clear()
                    until = watch.since + options.patience
                time.sleep(pause)
                pause = min(0.25, pause * 1.2)
            outcome.pauses = watch.pauses
            outcome.stood_still = watch.stood_still
        outcome.output = (directory / "output").read_text(errors="replace")
        if not wait_for(lambda: not processes_of(directory), 15):
            outcome.note("leaked", f"processes {processes_of(directory)} are left")
        (chaos_views if plan.grows else chaos_check).judge(outcome, directory, plan, job.returncode)
        if outcome.found:
            options.keep = options.keep or pathlib.Path(tempfile.mkdtemp(prefix="coppice-chaos-found-"))
            kept = outcome.kept = options.keep / f"{plan.seed}-{plan.number}"
            shutil.rmtree(kept, ignore_errors=True)
            shutil.copytree(directory, kept)
            (kept / "backtraces").write_text(outcome.backtraces)
            (kept / "found").write_text("\n".join(outcome.notes) + "\n" + plan.describe() + "\n")
        if show:
            for log in sorted(directory.glob("log-*"), key=lambda path: [int(word) for word in path.name[4:].split(".")]):
                print(f"==== {log.name}\n{log.read_text(errors='replace')}", end="")
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    return outcome


def tell(outcome, options):
    plan = outcome.plan
    print(f"job {plan.number}, {plan.describe()}: {outcome.operations} operations, {outcome.deaths} killed"
          f"{f', {outcome.newcomers} newcomers' if plan.grows else ''}: "
          f"{', '.join(sorted(outcome.found)) or 'all well'}")
    for pause in outcome.pauses:
        print(f"  paused: {pause}")
    if not outcome.found:
        return
    for note in outcome.notes[:12]:
        print(f"  {note}")
    for line in outcome.output.splitlines()[-20:]:
        print(f"  | {line}")
    print(f"  logs, output{' and backtraces' if outcome.backtraces else ''}: {outcome.kept}")
    settings = " ".join(f"{name}={shlex.quote(value)}" for name, value in sorted(plan.environment.items()))
    print(f"  {settings} {shlex.join(map(str, plan.command(options.launcher, options.rank, 'DIRECTORY', options.patience)))}")
    print(f"  again: tests/soak/chaos.sh --seed {plan.seed} --job {plan.number}{' --large' if options.large else ''}", flush=True)


def main():
    options = parse()
    abilities = chaos_plan.Abilities(options.build)
    print(f"chaos.sh: seed {options.seed}, {options.jobs or options.job or f'{options.seconds:.0f} s'}", flush=True)
    ended = []  # by whoever watches: the job under way goes on to its end, and the totals are told
    for end in (signal.SIGINT, signal.SIGTERM):
        signal.signal(end, lambda number, frame: ended.append(number))
    if options.job:
        plan = chaos_growth.draw(options.seed, int(options.job), abilities, options.large)
        outcome = run(plan, options, show=True)
        print(outcome.output, end="")
        tell(outcome, options)
        outcomes = [outcome]
    else:
        outcomes = soak(options, abilities, ended)
    total = collections.Counter()
    for outcome in outcomes:
        total += outcome.found
    loads = sorted(o.load for o in outcomes)
    print(f"{len(outcomes)} jobs: {sum(o.operations for o in outcomes)} operations, {sum(o.deaths for o in outcomes)} ranks killed, "
          f"{sum(len(o.plan.stops) for o in outcomes)} stopped, {sum(len(o.plan.cuts) for o in outcomes)} cables cut; "
          f"{sum(o.plan.grows for o in outcomes)} jobs grew, by {sum(o.newcomers for o in outcomes)} newcomers; "
          f"load {statistics.median(loads):.0f} ({loads[0]:.0f} to {loads[-1]:.0f})")
    print(" ".join(f"{kind} {total[kind]}" for kind in FOUND))
    return 1 if any(total.values()) else 0


def soak(options, abilities, ended):
    outcomes = []
    began = told = time.monotonic()
    number = 0
    while len(outcomes) < options.jobs if options.jobs else time.monotonic() - began < options.seconds or not outcomes:
        if ended:
            print(f"chaos.sh: ended by {signal.Signals(ended[0]).name} after {len(outcomes)} jobs", flush=True)
            break
        number += 1
        plan = chaos_growth.draw(options.seed, number, abilities, options.large)
        if not all(word in plan.describe() for word in options.only.split()):
            continue
        outcome = run(plan, options)
        if set(outcome.found) == {"hung"} and outcome.stood_still > Watch.WORTH_TELLING:
            print(f"job {number}: calls hung, but the machine stood still for {outcome.stood_still:.0f} s: once more", flush=True)
            outcome = run(plan, options)
        outcomes.append(outcome)
        if outcome.found or outcome.pauses or options.verbose:
            tell(outcome, options)
            sys.stdout.flush()
        if time.monotonic() - told >= TELL_EVERY:
            told = time.monotonic()
            wrong = sum(bool(one.found) for one in outcomes)
            print(f"{len(outcomes)} jobs so far, {wrong} went wrong; the load is {outcome.load:.0f}", flush=True)
    return outcomes


if __name__ == "__main__":
    sys.exit(main())
