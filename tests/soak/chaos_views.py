"""Compares what the processes of a job that grows have logged: view by view, and what each view has made of the one before."""

import collections
import re

import chaos_check
from chaos_check import NO_QUORUM, OK, PEER_FAILED

NOBODY_LEFT = "no member of the group is left"
REMEDY = "COPPICE_QUORUM=any"


def process_of(number, incarnation):
    return 1000 * incarnation + number  # as chaos_team.hpp has it


def number_of(process):
    return process % 1000


def name(process):
    return f"{number_of(process)}.{process // 1000}"


def names(processes):
    return ", ".join(map(name, sorted(processes)))


class Job:
    """All that is known of a job's processes."""

    def __init__(self, outcome, directory, plan):
        self.outcome, self.plan = outcome, plan
        self.processes = {}
        for log in directory.glob("log-*"):
            number, incarnation = map(int, log.name[4:].split("."))
            process = process_of(number, incarnation)
            self.processes[process] = chaos_check.Rank(process, log.read_text(errors="replace"))
        self.killed = set()
        self.teams = {}  # members
        self.epochs = {}
        self.heritages = {}  # of teams
        for rank in self.processes.values():
            self.teams |= rank.teams
            self.epochs |= {team: epoch for team, (epoch, _) in rank.views.items()}
            self.heritages |= {team: heritage for team, (_, heritage) in rank.views.items()}
        # Both sides of a cut may go on, and a newcomer is of the one that speaks first, wherever its host is.
        self.may_split = plan.quorum == "any" and plan.is_parted()
        # Those that live may be taken for dead.
        self.is_suspicious = self.may_split or "COPPICE_DETECTION_BOUND" in plan.environment

    def note(self, kind, text):
        self.outcome.note(kind, text)

    def side(self, process):
        return self.plan.side_of(number_of(process))

    def are_parted(self, one, other):
        return self.side(one) != self.side(other)

    def went_early(self, process):
        """It has ended where the others may have gone on."""
        rank = self.processes.get(process)
        return rank is None or process in self.killed or rank.fenced or rank.untaken or rank.quorumless or rank.uncreated


def judge(outcome, directory, plan, code):
    job = Job(outcome, directory, plan)
    ends(job, code)
    outcome.operations = sum(len(rank.broadcasts) + len(rank.agreements) + len(rank.teams) for rank in job.processes.values())
    outcome.deaths = len(job.killed)
    outcome.newcomers = sum(bool(rank.teams) and is_late(process, plan) for process, rank in job.processes.items())
    if outcome.found["hung"] or any(rank.uncreated for rank in job.processes.values()):
        return  # what they did not come to is missing everywhere
    for side in {job.side(process) for process in job.processes}:
        compare(job, [rank for process, rank in job.processes.items() if job.side(process) == side])
    suspicions(job)
    one_group_an_epoch(job)
    incarnations_rise(job)
    renewals(job)
    quorums(job)
    refusals(job)


def is_late(process, plan):
    return process >= 1000 or process >= plan.ranks


def ends(job, code):
    """How each process ended."""
    output = job.outcome.output
    kills = re.findall(r"^coppice-run: killed rank (\d+) \(pid (\d+)\)", output, re.M)
    by_launcher = {pid for _, pid in kills}
    signals = dict(re.findall(r"^coppice-run: rank \d+ \(pid (\d+)\).* was killed by signal (\d+)", output, re.M))
    stranded = "of hosts that are cut off" in output
    for process, rank in job.processes.items():
        for kind, text in rank.wrong:
            job.note(kind if kind in chaos_check.KINDS else "lost", f"process {name(process)}: {text}")
        signal = signals.get(rank.pid)
        if signal and not (signal == "9" and rank.armed):
            job.note("lost", f"process {name(process)} was ended by signal {signal}")
        elif rank.ended or rank.fenced or rank.uncreated or rank.untaken or rank.quorumless or rank.wrong:
            continue
        elif rank.pid in by_launcher or rank.pid is None or rank.armed or (stranded and job.plan.is_parted()):
            job.killed.add(process)
        elif not job.outcome.found["hung"]:
            job.note("lost", f"process {name(process)} did not come to its end (the launcher's exit code: {code})")
    without_trace(job, kills)
    excused = {0} | ({137} if any(rank.armed for rank in job.processes.values()) else set())
    if code not in excused and "no process has ended well" not in output and not job.outcome.found:
        job.note("lost", f"the launcher's exit code is {code}")


def without_trace(job, kills):
    """Those that were started and have logged nothing have been killed."""
    output, plan = job.outcome.output, job.plan
    known = {rank.pid for rank in job.processes.values()}
    unknown = collections.Counter(int(number) for number, pid in kills if pid not in known)
    started = collections.Counter(int(number) for number in re.findall(r"^coppice-run: started rank (\d+) again", output, re.M))
    for number in range(plan.processes()):
        first = 0 if number < plan.ranks + plan.spares or process_of(number, 0) in job.processes else 1  # it may not have been started
        expected = {process_of(number, incarnation) for incarnation in range(first, 1 + started[number])}
        missing = expected - set(job.processes)
        job.killed |= missing
        if len(missing) > unknown[number]:
            job.note("lost", f"processes {names(missing)} were started and have left no trace")


def compare(job, ranks):
    """Broadcasts and agreements, among those that nothing parts for good."""
    survivors = [rank for rank in ranks if rank.ended]
    gone = {process for rank in ranks for members in rank.teams.values() for process in members
            if job.went_early(process) or job.are_parted(process, rank.number)}
    chaos_check.broadcasts(job.outcome, survivors, job.plan, gone)
    chaos_check.agreements(job.outcome, [rank for rank in ranks if not rank.fenced])


def left_in_peace(job, process, team):
    """It was in no later one."""
    rank = job.processes.get(process)
    return rank is not None and rank.ended and team in rank.left and \
        all(job.epochs[other] <= job.epochs[team] for other in rank.teams if other in job.epochs)


def suspicions(job):
    if job.is_suspicious:
        return
    for process, rank in job.processes.items():
        if rank.fenced and not job.plan.is_parted():
            job.note("lost", f"process {name(process)} was taken for dead")
        for (team, number), (status, _, failed) in rank.agreements.items():
            if status not in (OK, PEER_FAILED) or failed == "-" or team not in rank.teams:
                continue
            for member in (rank.teams[team][int(place)] for place in failed.split(",")):
                alive = not job.went_early(member) and not job.are_parted(member, process)
                if alive and not left_in_peace(job, member, team):
                    job.note("lost", f"agreement {number} of team {team}: process {name(member)} lives and was taken for dead")


def one_group_an_epoch(job):
    by_epoch = collections.defaultdict(dict)
    for process, rank in job.processes.items():
        for team, (epoch, _) in rank.views.items():
            by_epoch[epoch].setdefault(team, process)
    for epoch, teams in sorted(by_epoch.items()):
        if len(teams) > 1 and not job.may_split:
            job.note("diverged", f"epoch {epoch} has several groups: " + "; ".join(
                f"team {team} of {names(job.teams[team])}, as process {name(process)} has it" for team, process in teams.items()))
    heritages = {}
    for process, rank in job.processes.items():
        for team, (epoch, heritage) in rank.views.items():
            witness, expected = heritages.setdefault(team, (process, (epoch, heritage)))
            if (epoch, heritage) != expected:
                job.note("diverged", f"team {team}: process {name(witness)}: {expected}, process {name(process)}: {(epoch, heritage)}")


def incarnations_rise(job):
    """Who is new in a group has not been in one before, nor has a later process of its number."""
    if job.may_split:
        return
    latest = {}
    for team in sorted(job.heritages, key=job.epochs.get):
        for process, origin in zip(job.teams[team], job.heritages[team].split(",")):
            number = number_of(process)
            if origin.startswith("-") and process <= latest.get(number, -1):
                job.note("diverged", f"{name(process)} is new in team {team} of epoch {job.epochs[team]}, and {name(latest[number])} was there before")
            latest[number] = max(process, latest.get(number, -1))


def renewals(job):
    told = set()  # once each
    for process, rank in job.processes.items():
        failed = known_to_have_failed(rank)
        for team, status, following in rank.renewals:
            if status != OK or following == "-" or team not in job.teams or following not in job.teams:
                continue
            before, after = set(job.teams[team]), set(job.teams[following])
            if failed[team] & after:
                told.add(("lost", f"team {following} has {names(failed[team] & after)}, whose failure process {name(process)} knew of"))
            for other in before - after:
                rank_of = job.processes.get(other)
                wanted = rank_of is not None and team in rank_of.asked
                excused = wanted or job.went_early(other) or job.are_parted(other, process) or job.is_suspicious
                if not excused and not left_in_peace(job, other, team):
                    told.add(("lost", f"process {name(other)} lives, and team {following} is without it"))
            for other in before & after:
                # One that dies, or is cut off, may not have come to say so.
                if not job.went_early(other) and team in job.processes[other].asked and not job.are_parted(other, process):
                    told.add(("lost", f"process {name(other)} wanted to leave, and is in team {following}"))
            for other in after - before:
                if not is_late(other, job.plan):
                    told.add(("diverged", f"process {name(other)}, which was there from the start, is new in team {following}"))
    for kind, text in sorted(told):
        job.note(kind, text)


def known_to_have_failed(rank):
    failed = collections.defaultdict(set)
    for (team, _), (status, _, places) in rank.agreements.items():
        if status in (OK, PEER_FAILED) and places != "-" and team in rank.teams:
            failed[team] |= {rank.teams[team][int(place)] for place in places.split(",")}
    return failed


def quorums(job):
    for process, rank in job.processes.items():
        if rank.quorumless and REMEDY not in rank.quorumless[1]:
            job.note("lost", f"process {name(process)} is not told what to do without a quorum: {rank.quorumless[1]}")
        told = {team for (team, _), (_, status) in rank.broadcasts.items() if status == NO_QUORUM}
        told |= {team for (team, _), (status, *_) in rank.agreements.items() if status == NO_QUORUM}
        told |= {team for team, status, _ in rank.renewals if status == NO_QUORUM}
        for team in sorted(told):
            if not may_lack_quorum(job, process, team):
                job.note("lost", f"process {name(process)} has no quorum in team {team} of {names(job.teams[team])}, and should have")


def may_lack_quorum(job, process, team):
    """Whether the deaths and the cut may cost the process the quorum; `certain`: deaths do not, as the launcher is their witness."""
    if job.plan.quorum == "any":
        return False
    if job.is_suspicious:
        return True
    members = job.teams[team]
    here = {member for member in members if not job.are_parted(member, process)}
    alive = here - job.killed
    others = len(members) - len(alive)
    if job.plan.quorum == "certain" and len(here) == len(members):
        return False
    return len(alive) < others or (len(alive) == others and members[0] not in alive)


def refusals(job):
    """A process that no group takes in is told that there is none any more; where something is in its way, what."""
    last = [(rank.leaves_at, process) for process, rank in job.processes.items() if rank.leaves_at]
    for process, rank in job.processes.items():
        if not rank.untaken:
            continue
        when, why = rank.untaken
        if NOBODY_LEFT not in why and not job.plan.is_parted() and "--may-not-create" not in job.plan.options:
            job.note("lost", f"process {name(process)} was not taken in: {why or 'it is not told why'}")
        elif not why:
            job.note("lost", f"process {name(process)} is not told why it was not taken in")
        elif NOBODY_LEFT in why and last and max(last)[0] > when and not job.plan.is_parted():
            job.note("lost", f"process {name(process)} was told that nobody is left while process {name(max(last)[1])} was there")
