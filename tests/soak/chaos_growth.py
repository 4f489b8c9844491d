"""Jobs of the chaos soak whose group grows: members die, leave and are cut off, others are started late and join, and all renew their group.

They are drawn from numbers of their own, so the other jobs of a seed are what they would be without them."""

import random

import chaos_plan

SHARE = 1 / 3
MOST_PROCESSES = 24  # agreements name each by a bit


def draw(seed, number, abilities, large=False):
    """The job of that number, of either kind."""
    if random.Random(f"{seed}/{number}/kind").random() < SHARE:
        return Growth(seed, number, abilities, large)
    return chaos_plan.Plan(seed, number, abilities, large)


class Growth(chaos_plan.Plan):
    STREAM = "/grows"
    grows = True

    def draw_all(self, abilities):
        draw = self.draw
        self.respawns = None  # how often each at most; 0: as often as it dies
        self.spares, self.most = 0, 0
        self.joins, self.leaves = [], []
        self.side = set()  # hosts that are cut off from the others
        self.words.append("grows")
        self.shape()
        self.network(abilities)
        self.protocol()
        self.progress(abilities)
        self.quorum = draw.choice(["", "", "", "majority", "any"])
        self.set("COPPICE_QUORUM", self.quorum)
        self.quorum = self.quorum or "certain"
        self.length = draw.choice([0.2, 0.5, 1, 1, 2])
        self.steps = draw.randint(3, 40)
        self.newcomers()
        self.faults()
        if self.hosts > 1 and self.chance(0.4):
            self.part()
        self.finish()

    def shape(self):
        draw = self.draw
        self.ranks = draw.choice([2, 3, 3, 4, 4, 5, 6, 7, 8, 8, 10, 12])
        self.hosts = 1 if self.chance(0.35) else draw.randint(2, min(6, self.ranks))
        self.words += [f"{self.ranks} ranks", f"{self.hosts} hosts"]

    def progress(self, abilities):
        """Without threads that have groups of their own: processes that come late join one."""
        draw = self.draw
        kind = draw.choice(["", "", "", "1", "0"]) if abilities.automatic else draw.choice(["1", "1", "0"])
        self.set("COPPICE_PROGRESS_THREAD", kind)
        if kind == "0":
            self.options.append("--poller" if self.chance(0.5) else "--polls")
        elif self.chance(0.2):
            self.options.append("--multiple")

    def newcomers(self):
        draw = self.draw
        if self.chance(0.65):
            self.respawns = draw.choice([0, 0, 0, 1, 2])
            self.words.append("respawns")
        if self.chance(0.3):
            self.spares = draw.randint(1, 3)
            self.words.append("spares")
        if self.chance(0.4) or (self.respawns is None and self.spares == 0):
            for _ in range(draw.choice([1, 1, 2])):
                self.joins.append((draw.randint(1, 2), f"joined+{self.moment(self.length)}us"))
            self.words.append("joins")
        if self.spares > 0 and self.chance(0.5):
            self.most = self.ranks + sum(count for count, _ in self.joins)

    def processes(self):
        """Numbers of the launcher's."""
        return self.ranks + self.spares + sum(count for count, _ in self.joins)

    def host_of(self, rank):
        return super().host_of(rank) if rank < self.ranks else (rank - self.ranks) % self.hosts

    def faults(self):
        draw = self.draw
        numbers = list(range(self.processes()))
        draw.shuffle(numbers)
        # Mostly somebody lives whatever happens: a job of which nobody is left shows little.
        if self.chance(0.85):
            numbers.remove(draw.choice([number for number in numbers if number < self.ranks]))
        deaths = draw.choice([0, 1, 1, 2, 3, 4, 6, 10])
        if self.respawns is None:
            deaths = min(deaths, len(numbers))
        for i in range(deaths):
            victim = numbers[i] if self.respawns is None else draw.choice(numbers)
            if self.chance(0.35):
                self.deaths.append(self.draw_death(victim))
            else:
                origin = "start+" if self.chance(0.2) else "joined+"
                self.kills.append((victim, f"{origin}{self.moment(self.length)}us"))
        for victim in draw.sample(range(self.processes()), draw.choice([1, 1, 2])) if self.chance(0.35) else []:
            self.leaves.append((victim, 0, draw.randint(1, self.steps + 1)))
        if self.chance(0.15):
            self.stops.append((draw.randrange(self.processes()), f"joined+{self.moment(self.length)}us", draw.choice([5, 50, 300, 1000])))
        for word in ("kills", "leaves", "stops"):
            if getattr(self, word) or (word == "kills" and self.deaths):
                self.words.append(word)

    def draw_death(self, victim):
        draw = self.draw
        incarnation = draw.choice([0, 0, 0, 1]) if self.respawns is not None else 0
        point = draw.choice(["create", "step", "renew", "renew"])
        count = 0 if point == "create" else draw.randint(1, self.steps if point == "step" else 6)
        return f"{victim}.{incarnation}", point, count, self.moment(0.02)

    def part(self):
        """The hosts are cut in two sides."""
        draw = self.draw
        self.side = set(draw.sample(range(self.hosts), draw.randint(1, self.hosts - 1)))
        long = self.chance(0.4)
        self.cuts.append((self.side, f"joined+{self.moment(self.length)}us", None if long else draw.choice([1, 20, 200, 1000])))
        self.words.append("cuts")
        if not self.finds_cuts:
            self.options.append("--may-not-create")  # UCX takes no interface without a carrier
        if not long:
            return
        self.words.append("long")
        self.options.append("--may-be-fenced")
        self.stops = []
        if not self.finds_cuts:
            self.set("COPPICE_DETECTION_BOUND", f"{chaos_plan.BOUND}s")

    def finish(self):
        self.options.append("--grows")
        if self.most:
            self.options += ["--most", self.most]
        comes_again = self.respawns == 0 or (self.respawns is None and not self.deaths and not self.kills)
        dies_outside = any(point == "create" for _, point, *_ in self.deaths)
        if comes_again and not dies_outside and not self.leaves and not self.cuts:
            self.options += ["--expect", self.most or self.processes()]
        for number, incarnation, step in self.leaves:
            self.options += ["--leave", f"{number}.{incarnation}:{step}"]

    def is_parted(self):
        return any(duration is None for *_, duration in self.cuts)

    def side_of(self, rank):
        """Of those that are cut in two for good."""
        return int(self.is_parted() and self.host_of(rank) in self.side)

    def victims(self):
        return {rank for rank, _ in self.kills} | {int(name.split(".")[0]) for name, *_ in self.deaths}

    def launcher_options(self):
        options = super().launcher_options()
        if self.respawns is not None:
            options.append(f"--respawn={self.respawns}" if self.respawns else "--respawn")
        if self.spares:
            options += ["--spares", self.spares]
        for count, moment in self.joins:
            options += ["--join", f"{count}@{moment}"]
        return options

    def target_of(self, cut):
        near, far = (",".join(str(host) for host in range(self.hosts) if (host in cut) == there) for there in (True, False))
        return f"{near}/{far}"
