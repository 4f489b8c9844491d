#!/usr/bin/env python3
"""The example whose group grows again, with real processes: those that are killed are replaced, others join, and all end
with the state that they would have had without.

Usage: example_growing_test.py COPPICE_RUN GROWING"""

import os
import re
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "support"))
import jobs  # noqa: E402

RUN, GROWING = (os.path.abspath(path) for path in sys.argv[1:3])
DEADLINE = 240


def ranks_of(launcher):
    """The processes of a job that run its program, by rank. A rank may have a keeper below it, which runs the same program."""
    found, parents = {}, [launcher.pid]
    while parents:
        listed = subprocess.run(["pgrep", "-P", str(parents.pop())], capture_output=True, text=True, check=False).stdout
        for child in map(int, listed.split()):
            try:
                with open(f"/proc/{child}/environ", "rb") as file:
                    rank = re.search(rb"(?:^|\0)COPPICE_RANK=(\d+)", file.read())
                if rank and os.readlink(f"/proc/{child}/exe") == GROWING:
                    found[int(rank[1])] = child
                else:
                    parents.append(child)
            except OSError:  # it has ended meanwhile
                pass
    return found


class Growing(unittest.TestCase):
    HOSTS = None
    FOLDER = None

    def command(self, *arguments):
        hosts = [] if self.HOSTS is None or "--devices" in arguments else ["--hosts", str(min(self.HOSTS, int(arguments[1])))]
        return [RUN, *hosts, *arguments]

    def settings(self, settings):
        return {k: v for k, v in os.environ.items() if not k.startswith("COPPICE_")} | settings

    def run_it(self, *arguments, user=(), **settings):
        return jobs.run([*user, *self.command(*arguments)], DEADLINE, settings, self.FOLDER)

    def started(self, *arguments, stdout=subprocess.DEVNULL, **settings):
        return subprocess.Popen(self.command(*arguments), stdin=subprocess.DEVNULL, stdout=stdout, stderr=subprocess.PIPE,
                                text=True, env=self.settings(settings), cwd=self.FOLDER)

    def grows_to(self, size, newcomers, *arguments, **settings):
        done = self.run_it(*arguments, **settings)
        said = done.stdout + done.stderr
        self.assertEqual(done.returncode, 0, said)
        ended = re.findall(r"^growing: rank (\d+) of (\d+): (\d+) newcomers, state (\w+)$", done.stdout, re.M)
        self.assertEqual(sorted(ended), sorted((str(rank), str(size), str(newcomers), "right") for rank in range(size)), said)
        return done

    def test_a_killed_rank_comes_back(self):
        done = self.grows_to(4, 1, "-n", "4", "--respawn", "--kill", "2@100ms", GROWING, "--newcomers", "1")
        self.assertRegex(done.stderr, r"started rank 2 again \(pid \d+\)\n")

    def test_any_rank_may_be_replaced(self):
        for settings in ({}, {"COPPICE_TRANSPORT": "tcp"}, {"COPPICE_HIERARCHY": "flat"}, {"COPPICE_QUORUM": "any"},
                         {"COPPICE_PROGRESS_THREAD": "0"}):
            for rank in (0, 1, 2):
                with self.subTest(rank=rank, **settings):
                    self.grows_to(3, 1, "-n", "3", "--respawn", "--kill", f"{rank}@100ms", GROWING, "--newcomers", "1", **settings)

    def test_all_are_replaced_one_after_the_other(self):
        # Each as soon as the one before it has been replaced: they all are of later processes in the end.
        victims, said, errors = [2, 2, 0, 1], "", []
        with self.started("-n", "3", "--respawn", GROWING, "--newcomers", "4", "--rounds", "1", stdout=subprocess.PIPE) as job:
            ender = threading.Timer(DEADLINE, job.terminate)
            ender.start()
            reader = threading.Thread(target=lambda: errors.append(job.stderr.read()))
            reader.start()
            for line in job.stdout:
                said += line
                if "newcomers so far" in line and victims:
                    os.kill(ranks_of(job)[victims.pop(0)], signal.SIGKILL)
            reader.join()
            ender.cancel()
        said += "".join(errors)
        self.assertEqual(job.returncode, 0, said)
        self.assertEqual(said.count(" again (pid "), 4, said)
        self.assertEqual(len(re.findall(" of 3: 4 newcomers, state right$", said, re.M)), 3, said)

    def test_a_rank_that_dies_too_often_is_not_started_again(self):
        # It dies each time it has been taken in: after so many messages. The others work until that was said.
        with self.started("-n", "3", "--respawn=2", GROWING, "--newcomers", "1000000", COPPICE_FAULTS="kill-before:150@2",
                          COPPICE_HIERARCHY="flat") as job:
            ender = threading.Timer(DEADLINE, job.terminate)
            ender.start()
            said = ""
            for line in job.stderr:
                said += line
                if "not started again" in line:
                    break
            ender.cancel()
            job.terminate()
            said += job.stderr.read()
        self.assertEqual(said.count("started rank 2 again"), 2, said)
        self.assertIn("rank 2 is not started again: it has been 2 times already, as often as --respawn allows", said)
        self.assertNotEqual(job.returncode, 0, said)

    def test_one_that_dies_before_it_is_taken_in_is_not_started_again(self):
        dies = 'test -z "$COPPICE_INCARNATION" || kill -SEGV $$; exec "$@"'
        with self.started("-n", "3", "--respawn", "--kill", "2@100ms", "sh", "-c", dies, "sh", GROWING, "--newcomers", "1") as job:
            ender = threading.Timer(DEADLINE, job.terminate)
            ender.start()
            said = ""
            for line in job.stderr:
                said += line
                if "was killed by signal 11" in line:
                    break
            ender.cancel()
            job.terminate()
            said += job.stderr.read()
        self.assertEqual(said.count("started rank 2 again"), 1, said)
        self.assertRegex(said, r"rank 2 \(pid \d+\), which no group had taken in, was killed by signal 11")

    def test_nobody_is_invited_where_the_launcher_starts_those_that_join(self):
        for option in ("--respawn", "--spares=1", "--join=1@1s"):
            with tempfile.TemporaryDirectory() as folder:
                done = self.run_it("-n", "1", option, GROWING, "--newcomers", "1", "--ticket", os.path.join(folder, "ticket"))
            self.assertNotEqual(done.returncode, 0, done.stderr)
            self.assertIn("the launcher starts those that join this group", done.stderr)

    def test_others_join(self):
        self.grows_to(8, 4, "-n", "4", "--join", "4@100ms", GROWING, "--newcomers", "4")

    def test_one_rank_is_joined(self):
        self.grows_to(3, 2, "-n", "1", "--join", "1@50ms", "--join", "1@150ms", GROWING, "--newcomers", "2")

    def test_spares_take_the_places_of_the_dead(self):
        self.grows_to(4, 2, "-n", "4", "--spares", "2", "--kill", "1@100ms", "--kill", "3@100ms", GROWING, "--newcomers", "2",
                      "--most", "4")

    def test_a_member_that_is_taken_for_dead_and_lives_holds_up_no_newcomer(self):
        # It is stopped until all others have ended, the newcomer among them.
        done = self.run_it("-n", "4", "--stop", "1@2s", "--join", "1@2100ms", GROWING, "--newcomers", "1",
                           COPPICE_DETECTION_BOUND="3s")
        said = done.stdout + done.stderr
        self.assertEqual(len(re.findall("of 4: 1 newcomers, state right$", done.stdout, re.M)), 4, said)
        self.assertRegex(done.stderr, "rank 1 .*as all others have ended")

    def test_a_spare_that_nobody_needs_is_no_failure(self):
        done = self.grows_to(2, 0, "-n", "2", "--spares", "1", GROWING, "--newcomers", "0", "--most", "2", "--rounds", "200000")
        self.assertRegex(done.stderr, r"rank 2 \(pid \d+\), which no group had taken in, exited with code 1")
        self.assertRegex(done.stderr, r"no member of the group is left that could take it in")

    def test_a_job_of_which_nobody_is_left_fails(self):
        done = self.run_it("-n", "2", "--respawn", "--kill", "0@50ms", "--kill", "1@50ms", GROWING, "--newcomers", "9")
        self.assertNotEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_a_newcomer_with_other_settings_is_told_and_holds_nobody_up(self):
        # Which of the ranks is asked for by its number: the shell gives the late one another window.
        script = 'if [ -n "$COPPICE_INCARNATION" ] && [ "$COPPICE_RANK" = 2 ]; then export COPPICE_WINDOW=64; fi; exec "$0" "$@"'
        done = self.grows_to(3, 1, "-n", "2", "--join", "2@50ms", "sh", "-c", script, GROWING, "--newcomers", "1")
        self.assertRegex(done.stderr, "give all ranks the same options|no member of the group is left")
        self.assertRegex(done.stderr, r"rank 2 \(pid \d+\), which no group had taken in, exited with code 1")

    def joined_by_strangers(self, size, strangers, *arguments, after="", **settings):
        """The ranks of a job, and as many processes that nobody has started but this test, with the first rank's ticket; once the
        launcher has said `after`."""
        settings = {"COPPICE_JOIN": "any", "COPPICE_CAPACITY": "8", "COPPICE_TRANSPORT": "shm,tcp"} | settings
        with tempfile.TemporaryDirectory() as folder:
            ticket = os.path.join(folder, "ticket")
            options = ["--newcomers", str(strangers)]
            with self.started(*arguments, GROWING, *options, "--ticket", ticket, stdout=subprocess.PIPE, **settings) as job:
                ender = threading.Timer(DEADLINE, job.terminate)
                ender.start()
                said = ""
                while after and not re.search(after, said):
                    line = job.stderr.readline()
                    self.assertTrue(line, said)
                    said += line
                others = [subprocess.Popen([GROWING, *options, "--join", ticket], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                           stderr=subprocess.STDOUT, text=True, env=self.settings(settings))
                          for _ in range(strangers)]
                said += "".join(other.communicate(timeout=DEADLINE)[0] for other in others) + "".join(job.communicate())
                ender.cancel()
            self.assertEqual(job.returncode, 0, said)
            self.assertEqual([other.returncode for other in others], [0] * strangers, said)
            self.assertEqual(stat.S_IMODE(os.stat(ticket).st_mode), 0o600)
            ended = re.findall(rf"^growing: rank (\d+) of {size}: {strangers} newcomers, state right$", said, re.M)
            self.assertEqual(sorted(map(int, ended)), list(range(size)), said)

    def test_a_stranger_joins_with_a_ticket(self):
        for settings in ({}, {"COPPICE_JOIN": "host"}, {"COPPICE_TRANSPORT": "tcp"}):
            with self.subTest(**settings):
                self.joined_by_strangers(4, 1, "-n", "3", **settings)

    def test_strangers_join_where_ranks_have_died(self):
        self.joined_by_strangers(4, 2, "-n", "3", "--kill", "1@100ms", after="killed rank 1 ")

    def test_it_is_said_what_is_not_there_yet(self):
        for option in ("--respawn", "--spares=1", "--join=1@1s"):
            done = self.run_it("-n", "2", "--devices", "rxe0,rxe1", option, GROWING)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn("not with --devices", done.stderr)


class OnSeveralHosts(Growing):
    """Simulated ones; once as this user and, when this user is root, once as nobody, where the launcher has given up its rights over
    the hosts before it starts anybody late."""

    HOSTS = 2
    FOLDER = "/"  # which every user can enter
    USERS = [[]] + ([["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]] if os.geteuid() == 0 else [])

    # Strangers are on none of them.
    test_a_stranger_joins_with_a_ticket = test_strangers_join_where_ranks_have_died = None

    def setUp(self):
        done = subprocess.run([RUN, "-n", "2", "--hosts", "2", "true"], capture_output=True, text=True, check=False)
        if "--hosts:" in done.stderr:
            self.skipTest(done.stderr.strip())

    def test_a_host_comes_back(self):
        for user in self.USERS:
            for host in (0, 1):
                with self.subTest(user=user, host=host):
                    done = self.run_it("-n", "4", "--respawn", "--kill-host", f"{host}@100ms", GROWING, "--newcomers", "2",
                                       user=user)
                    if done.returncode in (126, 127) or "lets user" in done.stderr:
                        self.skipTest("another user can't reach the program here, or make a network")
                    said = done.stdout + done.stderr
                    self.assertEqual(done.returncode, 0, said)
                    self.assertEqual(len(re.findall(" of 4: 2 newcomers, state right$", done.stdout, re.M)), 4, said)

    def test_spares_are_dealt_out_over_the_hosts(self):
        for user in self.USERS:
            with self.subTest(user=user):
                done = self.run_it("-n", "2", "--tag-output", "--spares", "2", "sh", "-c", "echo on $COPPICE_HOST",
                                   user=user)
                if done.returncode in (126, 127) or "lets user" in done.stderr:
                    self.skipTest("another user can't reach the program here, or make a network")
                self.assertEqual(sorted(done.stdout.splitlines()),
                                 ["[0] on host0", "[1] on host1", "[2] on host0", "[3] on host1"], done.stderr)

    def test_a_group_that_only_one_host_could_join_is_not_made(self):
        done = self.run_it("-n", "3", GROWING, "--newcomers", "1", COPPICE_JOIN="host", COPPICE_CAPACITY="5")
        self.assertNotEqual(done.returncode, 0, done.stdout)
        self.assertEqual(done.stderr.count("ranks 0 and 2 are on different hosts: start all ranks with COPPICE_JOIN=any"), 3, done.stderr)

    def test_newcomers_over_ucx(self):
        self.grows_to(4, 2, "-n", "4", "--respawn", "--kill-host", "1@100ms", GROWING, "--newcomers", "2",
                      COPPICE_TRANSPORT="shm,ucx")

    def test_newcomers_over_ucx_to_a_rank_that_is_alone_on_its_host(self):
        self.grows_to(4, 2, "-n", "2", "--join", "2@50ms", GROWING, "--newcomers", "2", COPPICE_TRANSPORT="ucx")

    def test_one_rank_is_joined(self):
        self.grows_to(4, 2, "-n", "2", "--join", "1@50ms", "--join", "1@150ms", GROWING, "--newcomers", "2")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
