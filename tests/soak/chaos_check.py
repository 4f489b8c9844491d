"""Compares what the ranks of a job have logged (chaos_rank.cpp, chaos_team.hpp: what the lines are). Of jobs that grow: chaos_views.py."""

import collections
import re

KINDS = ("lost", "corrupt", "diverged", "hung", "leaked")
OK, TRUNCATED, ROOT_FAILED, PEER_FAILED, REVOKED, NO_QUORUM = 0, -4, -6, -7, -9, -19


class Rank:
    def __init__(self, number, text):
        self.number = number
        self.teams = {}       # members, as processes
        self.broadcasts = {}  # (team, number): (root, status)
        self.agreements = {}  # (team, number): (status, contributors, failed)
        self.left = set()     # teams
        self.ended = self.fenced = self.armed = self.uncreated = False
        self.quorumless = None  # (team, why)
        self.wrong = []       # (kind, text)
        # Of jobs that grow:
        self.pid = None
        self.views = {}       # team: (epoch, heritage)
        self.renewals = []    # (team, status, next team or "-")
        self.asked = set()    # teams that it wants to leave
        self.away = False     # it has left
        self.untaken = None   # (microseconds, why)
        self.leaves_at = None  # microseconds
        for line in text.split("\n")[:-1]:  # what was cut short by a death does not count
            self.read(line)

    def read(self, line):
        kind, *words = line.split(" ")
        if kind == "g":
            self.teams[words[0]] = tuple(map(int, words[2].split(",")))
        elif kind == "b":
            self.broadcasts[words[0], int(words[1])] = int(words[2]), int(words[3])
        elif kind == "a":
            self.agreements[words[0], int(words[1])] = int(words[2]), words[3], words[4]
        elif kind == "d":
            self.left.add(words[0])
        elif kind == "x":
            self.wrong.append((words[0], " ".join(words[1:])))
        elif kind == "p":
            self.pid = words[0]
        elif kind == "v":
            self.views[words[0]] = int(words[1]), words[4]
        elif kind == "n":
            self.renewals.append((words[0], int(words[2]), words[3]))
        elif kind == "l":
            self.asked.add(words[0])
        elif kind == "w":
            self.untaken = int(words[0]), " ".join(words[1:])
        elif kind == "q":
            self.quorumless = words[0], " ".join(words[1:])
        elif kind == "z":
            self.leaves_at = int(words[0])
        elif kind == "o":
            self.away = self.ended = True  # as well as those that stayed
        elif kind in "efkc":
            self.uncreated |= kind == "c"
            self.ended |= kind == "e"
            self.fenced |= kind == "f"
            self.armed |= kind == "k"


def judge(outcome, directory, plan, code):
    ranks = []
    for number in range(plan.ranks):
        log = directory / f"log-{number}"
        ranks.append(Rank(number, log.read_text(errors="replace") if log.exists() else ""))
    outcome.operations = sum(len(rank.broadcasts) + len(rank.agreements) + len(rank.teams) for rank in ranks)
    killed = ends(outcome, ranks, plan, code)
    outcome.deaths = len(killed)
    doomed = plan.doomed()
    bound = "COPPICE_DETECTION_BOUND" in plan.environment
    suspected = {member for rank in ranks if rank.ended and rank.number not in doomed for member in failed_of(rank)}
    for number in sorted(suspected):
        rank = ranks[number]
        if rank.ended and number not in doomed and not bound:
            outcome.note("lost", f"rank {number} lives and was taken for dead")
    survivors = [rank for rank in ranks if rank.ended and rank.number not in doomed and rank.number not in suspected]
    if outcome.found["hung"] or any(rank.uncreated for rank in ranks):
        return  # what they did not come to is missing everywhere
    broadcasts(outcome, survivors, plan, killed | doomed | {rank.number for rank in ranks if rank.fenced})
    agreements(outcome, [rank for rank in ranks if rank.number not in doomed and not rank.fenced
                         and not (bound and rank.number in suspected)])


def failed_of(rank):
    found = set()
    for (team, _), (status, _, failed) in rank.agreements.items():
        if status in (OK, PEER_FAILED) and failed != "-":
            found |= {rank.teams[team][place] for place in map(int, failed.split(","))}
    return found


def ends(outcome, ranks, plan, code):
    """How each rank ended; those that were killed."""
    by_launcher = set(map(int, re.findall(r"^coppice-run: killed rank (\d+) ", outcome.output, re.M)))
    signals = dict(re.findall(r"^coppice-run: rank (\d+) \(pid \d+\) was killed by signal (\d+)", outcome.output, re.M))
    killed = set()
    gone = []  # without a quorum
    for rank in ranks:
        for kind, text in rank.wrong:
            outcome.note(kind if kind in KINDS else "lost", f"rank {rank.number}: {text}")
        signal = signals.get(str(rank.number))
        if signal and not (signal == "9" and rank.armed):
            outcome.note("lost", f"rank {rank.number} was ended by signal {signal}")
        elif rank.quorumless:
            gone.append(rank)
        elif rank.ended or rank.fenced or rank.uncreated or rank.wrong:
            continue
        elif rank.number in by_launcher or (signal == "9" and rank.armed):
            killed.add(rank.number)
        elif rank.number in plan.doomed() and "of hosts that are cut off" in outcome.output:
            killed.add(rank.number)
        elif not outcome.found["hung"]:
            outcome.note("lost", f"rank {rank.number} did not come to its end (the launcher's exit code: {code})")
    ended = killed | {rank.number for rank in gone}
    for rank in gone:
        team, why = rank.quorumless
        if not may_lack_quorum(plan, rank, rank.teams[team], ended - {rank.number}):
            outcome.note("lost", f"rank {rank.number} has no quorum in team {team} of {rank.teams[team]}, and should have: {why}")
    return ended


def may_lack_quorum(plan, rank, members, ended):
    """Under COPPICE_QUORUM=certain. Deaths cost none, as the launcher is their witness; being cut off does."""
    doomed = plan.doomed()
    remaining = [other for other in members if other not in ended or other in doomed]
    missing = [other for other in remaining if other in doomed]
    return rank.number in doomed or 2 * len(missing) > len(remaining) or (2 * len(missing) == len(remaining) and remaining[0] in missing)


def broadcasts(outcome, survivors, plan, dead):
    results = collections.defaultdict(dict)
    for rank in survivors:
        for key, (root, status) in rank.broadcasts.items():
            results[key][rank.number] = root, status
    revoked = {team for rank in survivors for calls in (rank.broadcasts, rank.agreements)
               for (team, _), result in calls.items() if {REVOKED, NO_QUORUM} & set(result[:2])}
    may_miss = "--may-miss" in plan.options
    for (team, number), by_rank in results.items():
        what = f"broadcast {number} of team {team}"
        # A rank without the room knows the size of what goes in chunks, and maybe nothing more.
        statuses = {status for _, status in by_rank.values()} - {TRUNCATED}
        root = next(iter(by_rank.values()))[0]
        if ROOT_FAILED in statuses and root not in dead:
            outcome.note("lost", f"{what}: root {root} lives, and is said to have failed")
        if team in revoked or may_miss:
            continue
        missing = [rank.number for rank in survivors if team in rank.teams and rank.number not in by_rank]
        if missing:
            outcome.note("lost", f"{what}: not called at {missing}, but at {sorted(by_rank)}")
        if len(statuses) > 1:
            outcome.note("lost", f"{what}, root {root}: "
                         f"{', '.join(f'rank {n}: {s}' for n, (_, s) in sorted(by_rank.items()))}")


def agreements(outcome, ranks):
    """All that live were told the same. So were the killed, but where one dies with all that were told what it was told: the others may agree
    on something else then (SC'15, §2, note 1), and it is in no later agreement with them."""
    expected = {}  # what those that live were told; where none of them was, the killed
    for rank in sorted(ranks, key=lambda rank: not rank.ended):
        told = {key: result for key, result in rank.agreements.items() if result[0] in (OK, PEER_FAILED)}
        for key, result in told.items():
            expected.setdefault(key, (rank.number, result))
        shared = {key for key, result in told.items() if expected[key][0] != rank.number and expected[key][1] == result}
        for (team, number), result in told.items():
            witness, other = expected[team, number]
            went_on = rank.ended or any(of == team and later > number for of, later in shared)
            if result != other and went_on:
                outcome.note("diverged", f"agreement {number} of team {team}: rank {witness}: {other}, rank {rank.number}: {result}")
    made = {}
    for rank in ranks:
        for team, members in rank.teams.items():
            witness, expected = made.setdefault(team, (rank.number, members))
            if members != expected:
                outcome.note("diverged", f"team {team}: rank {witness}: {expected}, rank {rank.number}: {members}")
