"""What a job of the chaos soak is: drawn from a seed and the job's number, the same whenever it is drawn."""

import os
import random
import subprocess

LONG_CUT = 2  # seconds from which a cut may cost a rank its place; shorter ones must harm nobody
# Silence as evidence; only for networks that do not find a cut cable by themselves.
BOUND = 4
LARGE_SHARE = 1 / 4  # of jobs, some of whose payloads go in chunks
LARGEST = 2 ** 20    # bytes


class Abilities:
    """What this build can do, asked of it."""

    def __init__(self, build):
        self.info = build / "tools/coppice-info"
        self.tcp = self.takes("COPPICE_TRANSPORT", "shm,tcp")
        self.automatic = self.takes("COPPICE_PROGRESS_THREAD", "auto")

    def takes(self, name, value):
        clean = {k: v for k, v in os.environ.items() if not k.startswith("COPPICE_")}
        return subprocess.run([self.info], env=clean | {name: value}, capture_output=True, check=False).returncode == 0


class Plan:
    STREAM = ""  # of random numbers
    grows = False

    def __init__(self, seed, number, abilities, large=False):
        self.seed, self.number = seed, number
        self.environment = {}
        self.words = []
        self.kills, self.deaths, self.stops, self.cuts = [], [], [], []
        self.options = []
        self.draw = random.Random(f"{seed}/{number}{self.STREAM}")
        self.lives = 1
        self.draw_all(abilities)
        self.payloads(random.Random(f"{seed}/{number}{self.STREAM}/payloads"), large)

    def draw_all(self, abilities):
        draw = self.draw
        self.shape()
        self.network(abilities)
        self.protocol()
        self.progress(abilities)
        self.length = draw.choice([0.2, 0.5, 1, 1, 2])  # seconds in which things are done to it
        self.steps = draw.randint(3, 40)
        self.lives = 2 if draw.random() < 0.2 else 1
        self.faults()

    def chance(self, probability):
        return self.draw.random() < probability

    def shape(self):
        draw = self.draw
        self.ranks = draw.choice([2, 3, 4, 5, 6, 7, 8, 8, 10, 12, 16, 24])
        self.hosts = 1 if self.chance(0.4) else draw.randint(2, min(9, self.ranks))
        self.words += [f"{self.ranks} ranks", f"{self.hosts} hosts"]

    def network(self, abilities):
        one = ["", "", "shm", "ucx"]
        several = ["", "", "ucx", "shm,ucx"]
        if abilities.tcp:
            one += ["tcp"]
            several += ["tcp", "shm,tcp"]
        transports = self.draw.choice(one if self.hosts == 1 else several)
        self.set("COPPICE_TRANSPORT", transports)
        if self.chance(0.25):
            self.set("COPPICE_HIERARCHY", "flat")
        self.finds_cuts = abilities.tcp and "ucx" not in transports

    def protocol(self):
        draw = self.draw
        correction = draw.choice(["", "", "", "opportunistic:2", "opportunistic:4", "checked", "optimized:2", "none",
                                  "delayed:100000", "failure-proof:2", "ack"])
        self.set("COPPICE_CORRECTION", correction)
        if correction in ("none", "ack"):
            self.options.append("--may-miss")
        self.set("COPPICE_TREE", draw.choice(["", "", "binomial", "kary:2", "lame:2", "optimal", "chain", "star"]))
        self.set("COPPICE_WINDOW", draw.choice(["", "", "4", "8", "64"]))
        self.set("COPPICE_AGREEMENT_TREE", draw.choice(["", "", "", "binary", "binomial", "star"]))

    def progress(self, abilities):
        draw = self.draw
        kind = draw.choice(["", "", "", "1", "0"]) if abilities.automatic else draw.choice(["1", "1", "0"])
        self.set("COPPICE_PROGRESS_THREAD", kind)
        if self.chance(0.25):
            self.options += ["--threads", str(draw.randint(1, 3))]
            self.words.append("threads")
            if kind == "0":
                self.options.append("--poller")
        elif kind == "0" and self.chance(0.5):
            self.options.append("--poller")
        elif kind == "0":
            self.options += ["--polls"]
        elif self.chance(0.2):
            self.options.append("--multiple")

    def payloads(self, draw, large):
        """Large ones, and in some jobs little room for them. Drawn apart: whatever else a job does, it does without them, too."""
        if draw.random() >= LARGE_SHARE and not large:
            return
        self.words.append("large")
        self.options += ["--large", LARGEST]
        eager = draw.choice([None, None, None, 0, 1024])
        window = draw.choice([None, None, 2 ** 16, 2 ** 18, 2 ** 20])
        for name, option, value in (("COPPICE_EAGER", "--eager", eager), ("COPPICE_PAYLOAD_WINDOW", "--payload-window", window)):
            if value is not None:
                self.set(name, str(value))
                self.options += [option, value]
        self.set("COPPICE_PAYLOAD_CHUNK", draw.choice(["", "", "", "4K", "100000", "1M"]))
        self.set("COPPICE_PAYLOAD_AHEAD", draw.choice(["", "", "", "2", "1024"]))
        self.set("COPPICE_PAYLOAD_PATIENCE", draw.choice(["", "", "1ms", "10ms"]))

    def set(self, name, value):
        if value:
            self.environment[name] = value
            self.words.append(f"{name.removeprefix('COPPICE_').lower()} {value}")

    def host_of(self, rank):
        base, larger = divmod(self.ranks, self.hosts)
        in_larger = larger * (base + 1)
        return rank // (base + 1) if rank < in_larger else larger + (rank - in_larger) // base

    def moment(self, most):
        """Microseconds; every order of magnitude is as likely as the others, down to a few."""
        return int(10 ** self.draw.uniform(0.5, len(str(int(most * 1e6))) - 1)) if self.chance(0.5) else \
            self.draw.randint(0, int(most * 1e6))

    def faults(self):
        draw = self.draw
        victims = list(range(self.ranks))
        draw.shuffle(victims)
        count = draw.choice([0, 0, 1, 1, 2, 3, self.ranks // 2, self.ranks - 1])
        count = min(count, self.ranks - 1)
        for victim in victims[:count]:
            kind = draw.random()
            if kind < 0.4:
                step = draw.choice([0, self.steps + 1, draw.randint(0, self.steps + 1), draw.randint(1, self.steps)])
                self.deaths.append((victim, draw.randrange(self.lives), step, self.moment(0.02)))
            else:
                origin = "start+" if kind < 0.6 else "joined+"
                self.kills.append((victim, f"{origin}{self.moment(self.length)}us"))
        if self.chance(0.25):
            for victim in draw.sample(range(self.ranks), draw.choice([1, 1, 2])):
                self.stops.append((victim, f"joined+{self.moment(self.length)}us", draw.choice([5, 50, 300, 1000])))
        if self.hosts > 1 and self.chance(0.3):
            self.cut()
        if self.deaths or self.kills:
            self.words.append("kills")
        self.words += ["stops"] if self.stops else []
        self.words += ["cuts"] if self.cuts else []

    def cut(self):
        draw = self.draw
        long = self.chance(0.25)
        self.cuts.append((draw.randrange(self.hosts), f"joined+{self.moment(self.length)}us",
                          draw.choice([None, 8000]) if long else draw.choice([1, 20, 200, 1000])))
        if not self.finds_cuts:
            self.options.append("--may-not-create")  # UCX takes no interface without a carrier
        if not long:
            return
        self.words.append("long")
        # Membership is not settled between the two sides: no exchange asks all of them.
        self.options += ["--no-create", "--may-be-fenced"]
        self.lives = 1
        self.steps = max(self.steps, 30)
        self.stops = []
        self.deaths = [death for death in self.deaths if death[1] == 0]
        if not self.finds_cuts:
            self.set("COPPICE_DETECTION_BOUND", f"{BOUND}s")

    def doomed(self):
        """Ranks of hosts that are cut off for long: nothing is promised of them and the others together."""
        lost = {host for host, _, duration in self.cuts if duration is None or duration >= 1000 * LONG_CUT}
        return {rank for rank in range(self.ranks) if self.host_of(rank) in lost}

    def victims(self):
        return {rank for rank, *_ in self.kills} | {rank for rank, *_ in self.deaths}

    def describe(self):
        return ", ".join(self.words)

    def launcher_options(self):
        options = []
        if self.hosts > 1:
            options += ["--hosts", self.hosts]
        for victim, moment in self.kills:
            options += ["--kill", f"{victim}@{moment}"]
        for victim, moment, milliseconds in self.stops:
            options += ["--stop", f"{victim}@{moment}+{milliseconds}ms"]
        for what, moment, milliseconds in self.cuts:
            options += ["--cut", f"{self.target_of(what)}@{moment}" + (f"+{milliseconds}ms" if milliseconds else "")]
        return options

    def target_of(self, cut):
        return cut

    def command(self, launcher, rank, directory, patience):
        command = [launcher, "-n", self.ranks, "--tag-output", "--timeout", f"{60 * patience}s", *self.launcher_options(), rank, "--directory", directory,
                   "--seed", self.seed * 1000003 + self.number, "--steps", self.steps, "--lives", self.lives, "--patience", patience, *self.options]
        for death in self.deaths:
            command += ["--die", ":".join(map(str, death))]
        return [str(word) for word in command]
