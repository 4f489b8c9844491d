#!/usr/bin/env python3
"""The commands that documents and help texts give, as a user types them: they work, whichever rank dies in them.

Usage: commands_test.py COPPICE_RUN COPPICE_PERF CG COPPICE_SIM ROOT_LEAVES"""

import concurrent.futures
import contextlib
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "support"))
import jobs  # noqa: E402

RUN, PERF, CG, SIM, ROOT_LEAVES = (os.path.abspath(path) for path in sys.argv[1:6])
DEADLINE = 300


def run(command, **environment):
    return jobs.run(command, DEADLINE, environment)


class Commands(unittest.TestCase):
    def agree(self, launcher, rounds):
        done = run([RUN, *launcher.split(), PERF, "agree", "-n", str(rounds)])
        if "--hosts:" in done.stderr:
            self.skipTest(done.stderr.strip())
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("disagreed 0 wrong 0 lost 0", done.stdout, done.stderr)

    def test_agreement(self):
        self.agree("-n 8", 20000)

    def test_a_death_while_ranks_prepare_to_measure(self):
        # Wherever in it, the others go on.
        for milliseconds in (0, 1, 2, 3, 5, 8):
            self.agree(f"-n 5 --kill 0@joined+{milliseconds}ms", 5000)

    def test_agreement_whose_root_and_next_root_die(self):
        self.agree("-n 8 --kill 0@300ms --kill 1@301ms", 20000)

    def test_agreement_that_loses_a_host(self):
        self.agree("-n 16 --hosts 4 --kill-host 2@500ms", 5000)

    def renew(self, command, counts, *launcher, at_least=200, **settings):
        done = run([RUN, *launcher, PERF, command, "-n", str(at_least)], **settings)
        if "--hosts:" in done.stderr:
            self.skipTest(done.stderr.strip())
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertRegex(done.stdout, f"# {command} of {counts}")
        self.assertIn("\ndivergent 0 lost 0 hung 0 leaked 0\n", done.stdout)
        rounds = int(re.search(r" ranks: (\d+) rounds, ", done.stdout)[1])
        self.assertGreaterEqual(rounds, at_least)
        return rounds, done.stderr

    def test_at_least_as_many_rounds_as_were_asked_for(self):
        # Nothing else is waited for, or only what has happened long before.
        for command in ("stabilize", "join"):
            for rounds in (1, 200, 20000):
                self.renew(command, r"4 ranks: \d+ rounds, 0 renewals, 0 left out, 0 newcomers", "-n", "4", at_least=rounds)
        self.renew("stabilize", r"3 ranks: \d+ rounds, 1 renewals, 1 left out, 0 newcomers", "-n", "4", "--kill", "2@joined+0ms", at_least=200000)

    def test_rounds_go_on_until_all_that_was_asked_for_has_happened(self):
        # One round would do. Of each kind the last thing to happen comes long after it, and changes nothing for which ranks would wait anyway.
        for command, counts, launcher, last in (
                ("stabilize", "4 ranks: .*, 1 left out, 1 newcomers", "-n 4 --respawn --kill 2@joined+1500ms", "killed rank 2"),
                ("join", "2 ranks: .*, 1 left out, 1 newcomers", "-n 2 --kill 0@joined+1200ms --join 1@joined+1500ms", "starting 1 process at 1.5 s"),
                ("stabilize", "3 ranks: .*, 0 left out, 0 newcomers", "-n 3 --hosts 3 --cut 0/1,2@joined+1500ms+10ms", "repaired what joins hosts")):
            with self.subTest(launcher=launcher):
                _, errors = self.renew(command, counts, *launcher.split(), at_least=1)
                self.assertIn(last, errors)

    def test_ranks_that_are_killed_and_come_back(self):
        self.renew("stabilize", r"8 ranks: \d+ rounds, \d+ renewals, 2 left out, 2 newcomers",
                   "-n", "8", "--respawn", "--kill", "3@500ms", "--kill", "0@900ms")

    def test_ranks_that_join(self):
        self.renew("join", r"8 ranks: \d+ rounds, \d+ renewals, 0 left out, 4 newcomers", "-n", "4", "--join", "4@500ms")

    def test_a_host_that_is_lost_and_comes_back(self):
        self.renew("stabilize", r"8 ranks: \d+ rounds, \d+ renewals, 2 left out, 2 newcomers",
                   "-n", "8", "--hosts", "4", "--respawn", "--kill-host", "1@500ms")

    def test_leaders_that_die_one_after_the_other(self):
        # Ranks lead their host, and so need its connections, that did not when the group began.
        kills = [word for rank, ms in ((3, 500), (0, 900), (5, 1300), (6, 1600), (2, 2000)) for word in ("--kill", f"{rank}@{ms}ms")]
        for transport in ("shm,ucx", "shm,tcp"):
            self.renew("stabilize", r"8 ranks: \d+ rounds, \d+ renewals, 5 left out, 5 newcomers", "-n", "8", "--hosts", "2", "--respawn",
                       *kills, COPPICE_TRANSPORT=transport)

    def test_ranks_that_join_on_several_hosts(self):
        self.renew("join", r"8 ranks: \d+ rounds, \d+ renewals, 0 left out, 4 newcomers",
                   "-n", "4", "--hosts", "2", "--join", "4@500ms")

    def test_spares_in_the_places_of_ranks_that_die(self):
        self.renew("stabilize", r"6 ranks: \d+ rounds, \d+ renewals, 2 left out, 2 newcomers",
                   "-n", "6", "--spares", "2", "--kill", "2@500ms", "--kill", "4@800ms")

    def test_a_spare_has_the_core_of_the_dead(self):
        # Both cores have two of the four ranks, and the spare begins on the first one. Ranks 1 and 3 are on the second.
        cores = sorted(os.sched_getaffinity(0))[:2]
        program = f"{PERF} stabilize -n 200 && grep Cpus_allowed_list /proc/self/status"
        done = run(["taskset", "--cpu-list", ",".join(map(str, cores)), RUN, "-n", "4", "--spares", "1", "--kill", "3@500ms",
                    "sh", "-c", program])
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertRegex(done.stdout, r"# stabilize of 4 ranks: \d+ rounds, \d+ renewals, 1 left out, 1 newcomers")
        pinned = sorted(map(int, re.findall(r"^Cpus_allowed_list:\s(\d+)$", done.stdout, re.M)))
        self.assertEqual(pinned, sorted(2 * cores if len(cores) == 2 else 4 * cores), done.stdout)

    def go_on_after_a_cut(self, quorum, **settings):
        # Each makes and ends namespaces, for which the cuts of the others have to wait.
        command = [RUN, "-n", "5", "--hosts", "5", "--cut", "0,1/2,3,4@500ms", PERF, "stabilize", "-n", "200"]
        with concurrent.futures.ThreadPoolExecutor() as pool:
            jobs_at_once = [pool.submit(run, command, **settings) for _ in range(4)]
        for job in jobs_at_once:
            done = job.result()
            if "--hosts:" in done.stderr:
                self.skipTest(done.stderr.strip())
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertRegex(done.stdout, r"^# stabilize of 3 ranks: \d+ rounds, \d+ renewals, 2 left out, 0 newcomers\n")
            self.assertEqual(done.stdout.count("divergent"), 1, done.stdout)
            self.assertIn("\ndivergent 0 lost 0 hung 0 leaked 0\n", done.stdout)
            for rank in (0, 1):
                said = re.search(rf"rank {rank}: .*: too few ranks can be reached .* (\d) of 5 members are left, .*COPPICE_QUORUM={quorum}: "
                                 r"ranks ((?:\d, )*\d) can't be reached, .*COPPICE_QUORUM=any", done.stderr)
                self.assertTrue(said, done.stderr)
                named = set(map(int, said[2].split(", ")))
                self.assertEqual(len(named), 5 - int(said[1]), done.stderr)
                # Where the other one of its side has ended first, two of those beyond the cut are too many.
                beyond = named - {1 - rank}
                self.assertLessEqual(beyond, {2, 3, 4}, done.stderr)
                self.assertGreaterEqual(len(beyond), 2 if 1 - rank in named else 3, done.stderr)

    def test_a_cut_after_which_the_majority_goes_on(self):
        self.go_on_after_a_cut("majority", COPPICE_QUORUM="majority")

    def test_a_cut_after_which_the_majority_of_those_not_certainly_dead_goes_on(self):
        self.go_on_after_a_cut("certain")

    def end_well_after_a_cut(self, members, *launcher):
        done = run([RUN, "-n", "5", "--hosts", "5", *launcher, PERF, "stabilize", "-n", "200"])
        if "--hosts:" in done.stderr:
            self.skipTest(done.stderr.strip())
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertRegex(done.stdout, rf"^# stabilize of {members} ranks: ")
        self.assertIn("\ndivergent 0 lost 0 hung 0 leaked 0\n", done.stdout)
        return done

    # They may have been taken in by then.
    def test_spares_and_a_cut(self):
        self.end_well_after_a_cut("[34]", "--spares", "2", "--cut", "0,1/2,3,4@500ms")

    def test_the_dead_are_on_no_side_of_a_cut(self):
        self.end_well_after_a_cut(2, "--kill", "2@300ms", "--kill", "3@300ms", "--cut", "0,1/2,3,4@1s")

    def test_a_cut_that_costs_ranks_their_place_and_is_mended(self):
        done = self.end_well_after_a_cut(3, "--respawn", "--cut", "0,1/2,3,4@500ms+8s")
        self.assertIn("repaired what joins hosts", done.stderr)

    def test_a_rank_that_is_killed_more_often_than_it_is_started_again(self):
        done = run([RUN, "-n", "4", "--respawn=1", "--kill", "2@300ms", "--kill", "2@1500ms", PERF, "stabilize", "-n", "200"])
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("rank 2 is not started again", done.stderr)
        self.assertRegex(done.stdout, "^# stabilize of 3 ranks: ")
        self.assertIn("\ndivergent 0 lost 0 hung 0 leaked 0\n", done.stdout)

    def test_each_kill_has_a_process_of_its_own(self):
        # Both are due at once, as where the launcher was held up. The second one is for the process that is started again.
        done = run([RUN, "-n", "4", "--respawn=1", "--kill", "2@300ms", "--kill", "2@300ms", PERF, "stabilize", "-n", "200"])
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        killed = re.findall(r"killed rank 2 \(pid (\d+)\)", done.stderr)
        self.assertEqual(len(set(killed)), 2, done.stderr)
        self.assertIn("rank 2 is not started again", done.stderr)

    def test_a_launcher_that_is_held_up(self):
        # However late the kill is, the ranks wait for it. Where they have not begun by then, it is an ordinary kill.
        with subprocess.Popen([RUN, "-n", "4", "--spares", "1", "--kill", "2@1500ms", PERF, "stabilize", "-n", "200"],
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              env={k: v for k, v in os.environ.items() if not k.startswith("COPPICE_")}) as launcher:
            time.sleep(1)
            # Of its processes one watches over the other.
            found = subprocess.run(["pgrep", "-x", "-P", str(launcher.pid), "coppice-run"], capture_output=True,
                                   text=True, check=False)
            both = [launcher.pid, *map(int, found.stdout.split())]
            for sent, seconds in ((signal.SIGSTOP, 1.5), (signal.SIGCONT, 0)):
                for process in both:
                    with contextlib.suppress(ProcessLookupError):  # one that was about to become a rank
                        os.kill(process, sent)
                time.sleep(seconds)
            told, errors = launcher.communicate(timeout=DEADLINE)
        self.assertEqual(launcher.returncode, 0, told + errors)
        self.assertRegex(told, r"# stabilize of 4 ranks: \d+ rounds, \d+ renewals, 1 left out, 1 newcomers", errors)

    def test_root_that_computes_after_each_broadcast(self):
        with tempfile.TemporaryDirectory() as folder:
            done = run([RUN, "-n", "4", "--hosts", "4", ROOT_LEAVES, "20", folder])
        if "--hosts:" in done.stderr:
            self.skipTest(done.stderr.strip())
        self.assertEqual((done.returncode, done.stdout), (0, "broadcasts that nobody had to wait for: 20\n"), done.stderr)

    def test_how_long_others_wait_for_a_root_that_computes(self):
        # Others that have to wait until the root calls again wait for all of 300 ms, in every try. One in which the machine keeps ranks
        # from their cores tells nothing.
        longest = []
        while not longest or (min(longest) >= 50 and len(longest) < 10):
            done = run([RUN, "-n", "4", "--hosts", "4", ROOT_LEAVES, "20", "300"])
            if "--hosts:" in done.stderr:
                self.skipTest(done.stderr.strip())
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertRegex(done.stdout, r"^longest wait of any other rank: \d+\.\d{3} ms\n$")
            longest.append(float(done.stdout.split()[-2]))
        self.assertLess(min(longest), 50, longest)

    def broadcast_on_leaves(self, *words, count=1000, launcher=(), known=True):
        """Two hosts a leaf, two ranks a host. What was counted on the leaves' up-links is for each of `count` broadcasts."""
        program = [PERF, "broadcast", "-s", "64", "-n", str(count), "--verify", *words]
        if not known:
            program = ["sh", "-c", 'unset COPPICE_SWITCHES; exec "$0" "$@"', *program]
        done = run([RUN, "-n", "16", "--hosts", "8", "--leaves", "4", *launcher, *program])
        if "--hosts:" in done.stderr:
            self.skipTest(done.stderr.strip())
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("lost 0 corrupt 0 duplicate 0", done.stdout, done.stderr)
        return done

    def packets_up(self, *words, known=True):
        done = self.broadcast_on_leaves(*words, launcher=["--count-links=1000"], known=known)
        return float(re.search(r"operations, ([0-9.]+) with payload$", done.stderr, re.M)[1])

    def test_broadcasts_over_up_links(self):
        # Three for the tree, and two a leaf for the correction, with the ones to warm up and what ends the group.
        self.assertLessEqual(self.packets_up(), 11)
        by_switches = self.packets_up("--tree", "binomial")
        self.assertLessEqual(by_switches, 11)
        self.assertLess(by_switches, self.packets_up("--tree", "binomial", known=False))

    def test_messages_by_the_level_that_they_cross(self):
        def crossed(*words, **more):
            done = self.broadcast_on_leaves(*words, **more)
            line = re.search(r"^# messages per broadcast, by the level that they crossed: host (\S+), leaf (\S+), pod (\S+), network (\S+)$",
                             done.stdout, re.MULTILINE)
            self.assertTrue(line, done.stdout)
            return tuple(map(float, line.groups()))
        # A star in the order of ranks, as without corrections nothing goes by switches: one other host on the root's leaf, six beyond.
        self.assertEqual(crossed("--correction", "none"), (0, 1, 0, 6))
        # By switches three messages enter other leaves and four second hosts; corrections between leaves are two for each at most.
        host, leaf, pod, network = crossed("--correction", "opportunistic:1")
        self.assertEqual((host, pod), (0, 0))
        self.assertGreaterEqual(leaf, 3.9)
        self.assertTrue(2.9 <= network <= 3 + 2 * 4, network)
        # Where no switch is known nothing is known of what lies between hosts.
        self.assertEqual(crossed("--correction", "none", known=False), (0, 0, 0, 7))

    def test_messages_within_a_host_and_of_those_that_are_left(self):
        done = run([RUN, "-n", "4", PERF, "broadcast", "-s", "64", "-n", "200", "--correction", "none"], COPPICE_HIERARCHY="flat")
        self.assertIn("# messages per broadcast, by the level that they crossed: host 3.00, leaf 0.00, pod 0.00, network 0.00\n", done.stdout, done.stderr)
        done = run([RUN, "-n", "4", PERF, "broadcast", "-s", "64", "-n", "200", "--dead", "2"], COPPICE_HIERARCHY="flat")
        self.assertIn("# messages per broadcast, of the ranks that are left, by the level that they crossed: host ", done.stdout, done.stderr)

    def test_a_topology_file_that_one_rank_alone_cannot_use(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "net")
            with open(path, "w", encoding="utf-8") as file:
                file.write("host0 leaf0\nhost0 leaf1\n")
            # It is told by that rank, though refusals of settings are told by rank 0 alone.
            reading = f'[ "$COPPICE_RANK" = 0 ] || export COPPICE_TOPOLOGY={path}; exec "$0" "$@"'
            done = run([RUN, "-n", "2", "sh", "-c", reading, PERF, "broadcast", "-n", "10"])
            self.assertNotEqual(done.returncode, 0)
            self.assertRegex(done.stderr, f"rank 1: COPPICE_TOPOLOGY: {path}:2: ")

    def test_broadcasts_that_lose_a_leaf(self):
        done = self.broadcast_on_leaves("--correction", "opportunistic:1", "--for", "3", count=2000000, launcher=["--kill-leaf", "2@start+100ms"])
        killed = re.findall(r"killed rank (\d+)", done.stderr)
        self.assertEqual(sorted(map(int, killed)), [8, 9, 10, 11])
        self.assertIn("4 of 16 ranks died", done.stdout)

    def agree_through_a_cut(self, hosts, cut, seconds, lost, **settings):
        """What the ranks said on standard error while the network was cut: one rank a host, agreements all the time."""
        done = run([RUN, "-n", hosts, "--hosts", hosts, "--cut", cut, PERF, "agree", "-n", "2000000", "--for", seconds],
                   **settings)
        if "--hosts:" in done.stderr:
            self.skipTest(done.stderr.strip())
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("disagreed 0", done.stdout, done.stderr)
        self.assertIn(f"{lost} lost: cut off", done.stdout, done.stderr)
        return done.stderr

    def seconds_to_notice(self, trace):
        """From a rank's last agreement of all to when it knew of the first one that it can't reach."""
        with open(trace, encoding="utf-8") as file:
            text = file.read()
        before, failed, _ = re.split(r'^.*"name":"rank \d failed".*"ts":([0-9.]+),.*$', text, maxsplit=1, flags=re.MULTILINE)
        agreed = re.findall(r'^.*"ph":"E".*"ts":([0-9.]+),.*"of":"agreement".*"status":0\}', before, re.MULTILINE)
        return (float(failed) - float(agreed[-1])) / 1e6

    def notice_a_cut(self, **settings):
        # The bound is for ranks that get their cores. A try in which the machine keeps them from these tells nothing.
        longest = []
        while not longest or (min(longest) >= 4 and len(longest) < 5):
            with tempfile.TemporaryDirectory() as folder:
                said = self.agree_through_a_cut("3", "2@1s", "15s", lost=1, COPPICE_TRACE=os.path.join(folder, "trace"), **settings)
                traces = [os.path.join(folder, name) for name in os.listdir(folder)]
                self.assertEqual(len(traces), 3)
                longest.append(max(map(self.seconds_to_notice, traces)))
            self.assertRegex(said, "rank 2: .*: too few ranks can be reached .*COPPICE_QUORUM=certain: ranks 0, 1 can't be reached")
        self.assertLess(min(longest), 4, longest)

    def test_network_that_parts(self):
        self.notice_a_cut()

    def test_network_of_ucx_that_parts(self):
        self.notice_a_cut(COPPICE_TRANSPORT="shm,ucx")

    def test_network_that_parts_where_each_side_may_go_on(self):
        said = self.agree_through_a_cut("3", "2@joined+1s", "15s", lost=1, COPPICE_QUORUM="any")
        self.assertIn("rank 2: cut off from rank 0, 1, whose side goes on without this one", said)

    def test_network_in_two_sides_that_are_joined_again(self):
        said = self.agree_through_a_cut("5", "0,1/2,3,4@joined+1s+10s", "20s", lost=2, COPPICE_QUORUM="any")
        for rank in (0, 1):
            self.assertIn(f"rank {rank}: cut off from rank 2, 3, 4, whose side goes on without this one", said)

    def test_solver_that_loses_a_rank(self):
        done = run([RUN, "-n", "8", "--kill", "5@2s", CG, "--grid", "96"])
        self.assertEqual(done.returncode, 0, done.stderr)
        residuals = re.findall(r"^cg: source \d+: residual (\S+) after", done.stdout, re.M)
        self.assertTrue(residuals, done.stdout)
        for residual in residuals:
            self.assertLessEqual(float(residual), 1e-12)
        # A fast rank is done before the kill, and says so.
        if "killed rank 5" in done.stderr:
            self.assertIn("7 of 8 ranks live", done.stdout)

    def test_solver_whose_ranks_are_replaced_by_spares(self):
        residuals = lambda done: re.findall(r"^cg: source \d+: residual (\S+) after", done.stdout, re.M)
        undisturbed = run([RUN, "-n", "6", CG, "--grid", "96"])
        done = run([RUN, "-n", "6", "--spares", "2", "--kill", "2@2s", "--kill", "4@3s", CG, "--grid", "96"])
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("6 of 6 ranks live", done.stdout, done.stderr)
        self.assertEqual(len(residuals(done)), 6, done.stdout)
        self.assertEqual(residuals(done), residuals(undisturbed))

    def test_exploration(self):
        done = run([SIM, "explore", "agreement", "--ranks", "4", "--crashes", "2"])
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertEqual(done.stdout.count("all hold"), 8, done.stdout)

    def test_exploration_prints_the_way_to_a_broken_promise(self):
        done = run([SIM, "explore", "agreement", "--ranks", "4", "--crashes", "2", "--tree", "binary", "--printed",
                    "down-from-parent-only"])
        self.assertEqual(done.returncode, 1)
        self.assertIn("Termination: ", done.stdout)
        self.assertRegex(done.stdout, r"A shortest way there:\n  \d starts agreement 0\n")

    def test_random_schedules(self):
        done = run([SIM, "fuzz", "agreement", "--seeds", "1000", "--ranks", "3..64"])
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
