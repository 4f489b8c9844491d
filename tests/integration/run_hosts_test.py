"""coppice-run --hosts and --cut: ranks on simulated hosts, whose network parts and is mended."""

import glob
import os
import signal
import subprocess
import tempfile

from launcher import DEADLINE, environment, LauncherTest, main, processes_with, RANK, RUN, run, until_cut, wait_for


class Hosts(LauncherTest):
    """--hosts, once as this user and, when this user is root, once as nobody through a user namespace."""

    def users(self):
        users = [[]]
        if os.geteuid() == 0:
            users.append(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"])
        return users

    def run_hosts(self, user, *arguments):
        result = subprocess.run([*user, RUN, *arguments], capture_output=True, text=True, timeout=2 * DEADLINE,
                                stdin=subprocess.DEVNULL, env=environment(), cwd="/", check=False)
        if result.returncode in (126, 127):
            self.skipTest("another user cannot reach the program here")
        if "lets user" in result.stderr:
            self.skipTest(result.stderr.strip())
        return result

    def setUp(self):
        if not any(os.access(f"{path}/ip", os.X_OK) for path in ("/usr/sbin", "/sbin", "/usr/bin", "/bin")):
            self.skipTest("the program ip (iproute2) is not installed")

    def test_ranks_have_interfaces_of_their_own_and_reach_each_other(self):
        for user in self.users():
            with self.subTest(user):
                result = self.run_hosts(user, "-n", "7", "--hosts", "3", RANK, "tcp")
                self.assertEqual(result.returncode, 0, result.stderr)
                lines = sorted(result.stdout.splitlines())
                self.assertEqual([line.rpartition(" ")[0] for line in lines],
                                 ["host0 veth0 10.99.0.1"] * 3 + ["host1 veth1 10.99.0.2"] * 2 +
                                 ["host2 veth2 10.99.0.3"] * 2)
                spaces = {line.split()[0]: line.split()[-1] for line in lines}
                self.assertEqual(len(set(spaces.values())), 3)
                self.assertNotIn(os.readlink("/proc/self/ns/net"), spaces.values())
                self.assertEqual({line.split()[-1] for line in lines}, set(spaces.values()))

    def test_sys_shows_the_interfaces_of_the_rank(self):
        for user in self.users():
            with self.subTest(user):
                result = self.run_hosts(user, "-n", "2", "--hosts", "2", "--tag-output", "ls", "/sys/class/net")
                self.assertEqual(sorted(result.stdout.splitlines()),
                                 ["[0] lo", "[0] veth0", "[1] lo", "[1] veth1"], result.stderr)

    # A mount namespace that ends with a process delays the end of its connections.
    def test_ranks_of_a_host_share_its_mounts_and_stay_in_their_directory(self):
        for user in self.users():
            with self.subTest(user):
                result = self.run_hosts(user, "-n", "5", "--hosts", "2", "sh", "-c",
                                        "echo $COPPICE_HOST $(readlink /proc/self/ns/mnt) $PWD $(/bin/pwd)")
                self.assertEqual(result.returncode, 0, result.stderr)
                lines = sorted(line.split() for line in result.stdout.splitlines())
                self.assertEqual([line[0] for line in lines], ["host0"] * 3 + ["host1"] * 2)
                self.assertEqual([len({line[1] for line in lines if line[0] == host}) for host in ("host0", "host1")],
                                 [1, 1])
                self.assertEqual(len({line[1] for line in lines} | {os.readlink("/proc/self/ns/mnt")}), 3)
                self.assertEqual({(line[2], line[3]) for line in lines}, {("/", "/")})
        with tempfile.TemporaryDirectory() as directory:
            result = subprocess.run([RUN, "-n", "2", "--hosts", "2", "/bin/pwd"], capture_output=True, text=True,
                                    timeout=2 * DEADLINE, stdin=subprocess.DEVNULL, env=environment(), cwd=directory,
                                    check=False)
            self.assertEqual(result.stdout.splitlines(), [os.path.realpath(directory)] * 2, result.stderr)

    def test_standard_streams_may_be_closed(self):
        for closed in ("<&-", "<&- >&-", "<&- >&- 2>&-"):
            with self.subTest(closed):
                closing = ["sh", "-c", f'exec "$@" {closed}', "sh"]
                self.assertEqual(self.run_hosts(closing, "-n", "2", "--hosts", "2", RANK, "exchange").returncode, 0)

    def test_local_ranks_are_counted_per_host(self):
        script = "echo $COPPICE_RANK $COPPICE_HOST $COPPICE_LOCAL_RANK/$COPPICE_LOCAL_SIZE"
        result = self.run_hosts([], "-n", "5", "--hosts", "2", "sh", "-c", script)
        self.assertEqual(sorted(result.stdout.splitlines()),
                         ["0 host0 0/3", "1 host0 1/3", "2 host0 2/3", "3 host1 0/2", "4 host1 1/2"], result.stderr)

    def test_a_cut_cable_is_mended(self):
        for user in self.users():
            with self.subTest(user):
                result = self.run_hosts(user, "-n", "2", "--hosts", "2", "--cut", "1@start+100ms+2s", "sh", "-c",
                                        until_cut() + "until plugged; do sleep 0.01; done")
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assertEqual(result.stderr, "coppice-run: cut host 1 off at 100 ms\n"
                                                "coppice-run: repaired the cable of host 1\n")

    def test_cuts_of_one_host_add_up(self):
        result = self.run_hosts([], "-n", "2", "--hosts", "2", "--cut", "1@start+100ms+400ms", "--cut",
                                "1@start+200ms+10ms", "--cut", "0@start+1ms+1ms", "sh", "-c",
                                until_cut() + "until plugged; do sleep 0.01; done")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stderr.count("cut host 1 off"), 2)
        self.assertEqual(result.stderr.count("repaired the cable of host 1"), 1)
        self.assertEqual(result.stderr.count("repaired the cable of host 0"), 1)

    def run_sides(self, user, hosts, sides, cuts):
        """Ranks want to see a whole second of the cut. Where they are kept from their cores for nearly all of it, a longer one is made."""
        for seconds in (10, 40):
            cut = [word for more, one in enumerate(cuts) for word in ("--cut", f"{one}@joined+1s+{seconds + more}s")]
            result = self.run_hosts(user, "-n", hosts, "--hosts", hosts, "--timeout", f"{60 + seconds}s", *cut, RANK, "sides", sides)
            if result.returncode != 124:
                break
        return result

    def test_hosts_are_cut_in_two_sides(self):
        for user in self.users():
            with self.subTest(user):
                result = self.run_sides(user, "5", "0,1/2,3,4", ["0,1/2,3,4"])
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assertEqual(result.stdout.count("parted\n"), 5)
                self.assertEqual(result.stdout.count("joined again\n"), 5)
                self.assertEqual(result.stderr, "coppice-run: cut hosts 0,1 off from 2,3,4 at 1 s\n"
                                                "coppice-run: repaired what joins hosts 0,1 and 2,3,4\n")

    def test_cuts_in_two_sides_add_up(self):
        result = self.run_sides([], "4", "0/1/2/3", ["0,1/2,3", "0,2/1,3"])
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stdout.count("joined again\n"), 4)
        for sides in ("0,1 and 2,3", "0,2 and 1,3"):
            self.assertIn(f"repaired what joins hosts {sides}", result.stderr)

    def test_how_the_smaller_side_ends_is_no_failure(self):
        for sides, ignored in (("0/1,2", {0}), ("0,1/2,3", {2, 3})):
            ranks = str(len(sides) // 2 + 1)
            with self.subTest(sides):
                result = self.run_hosts([], "-n", ranks, "--hosts", ranks, "--cut", f"{sides}@joined+500ms", RANK, "sides", sides, "7")
                self.assertEqual(result.returncode, 7, result.stderr)
                for rank in range(int(ranks)):
                    self.assertRegex(result.stderr, rf"rank {rank} \(pid \d+\)"
                                                    f"{', cut off from the others,' if rank in ignored else ''} exited with code 7")

        result = self.run_hosts([], "-n", "2", "--hosts", "2", "--cut", "1@start+50ms", "sh", "-c", until_cut() + "exit 7")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertRegex(result.stderr, r"rank 1 \(pid \d+\), cut off from the others, exited with code 7")
        result = self.run_hosts([], "-n", "2", "--hosts", "2", "--cut", "1@start+50ms", "sh", "-c",
                                until_cut() + "kill -SEGV $$")
        self.assertEqual(result.returncode, 128 + signal.SIGSEGV, result.stderr)

    def test_who_may_have_lost_its_place_may_say_so_when_the_cut_is_mended(self):
        ends = until_cut() + "until plugged; do sleep 0.01; done; exit 7"
        result = self.run_hosts([], "-n", "2", "--hosts", "2", "--cut", "1@start+50ms+2100ms", "sh", "-c", ends)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertRegex(result.stderr, r"rank 1 \(pid \d+\), which has been cut off from the others, exited with code 7")
        with tempfile.TemporaryDirectory() as noted:
            ended = os.path.join(noted, "ended")
            both = ends.replace("|| exit 0;", f"|| {{ until [ -e {ended} ]; do sleep 0.01; done; exit 9; }};", 1).replace("exit 7", f"touch {ended}; exit 7")
            result = self.run_hosts([], "-n", "2", "--hosts", "2", "--cut", "1@start+50ms+2100ms", "sh", "-c", both)
        self.assertIn(result.returncode, (7, 9), result.stderr)  # whoever was seen first
        self.assertIn("no process has ended well", result.stderr)
        result = self.run_hosts([], "-n", "2", "--hosts", "2", "--cut", "1@start+50ms+50ms", "sh", "-c", ends)
        self.assertEqual(result.returncode, 7, result.stderr)
        self.assertNotIn("which has been cut off", result.stderr)

    def test_a_rank_cut_off_for_good_is_not_waited_for_forever(self):
        with tempfile.TemporaryDirectory() as noted:
            # Rank 0 ends when both others have seen that they are cut off.
            running = self.start("-n", "3", "--hosts", "3", "--cut", "1@start+50ms", "--cut", "2@start+50ms", "sh", "-c",
                                 f"if [ $COPPICE_RANK = 0 ]; then until [ -e {noted}/1 ] && [ -e {noted}/2 ]; "
                                 f"do sleep 0.01; done; else while [ $(cat /sys/class/net/veth$COPPICE_RANK/carrier) = 1 ]; "
                                 f"do sleep 0.01; done; "
                                 f": >{noted}/$COPPICE_RANK; exec sleep 1000; fi")
            self.assertEqual(running.wait(), 0, running.stderr)
            self.assertIn("ending 2 ranks of hosts that are cut off, as all others have ended", running.stderr)
            running.assert_nothing_left()

    def test_a_cut_that_comes_too_late_is_warned_of(self):
        result = self.run_hosts([], "-n", "2", "--hosts", "2", "--cut", "1@1h", "true")
        self.assertEqual(result.returncode, 0)
        self.assertIn("warning: all ranks had ended before host 1 could be cut off at 3600 s", result.stderr)

    def test_ids_stay_what_they_are(self):
        for user in self.users():
            with self.subTest(user):
                expected = subprocess.run([*user, "id", "-u"], capture_output=True, text=True, check=True).stdout
                result = self.run_hosts(user, "-n", "1", "--hosts", "1", "id", "-u")
                self.assertEqual((result.returncode, result.stdout), (0, expected), result.stderr)

    def test_namespaces_and_cables_vanish(self):
        with open("/proc/net/dev", encoding="utf-8") as file:
            before = [line.split(":")[0] for line in file]
        for end in ("normal", signal.SIGTERM, signal.SIGKILL):
            with self.subTest(end):
                running = self.start("-n", "4", "--hosts", "2", RANK, "stay")
                wait_for(lambda: running.stdout.count("ready") >= 4 or running.process.poll() is not None, "start")
                if "lets user" in running.stderr:
                    self.skipTest(running.stderr.strip())
                pids = processes_with(running.mark)
                spaces = {os.readlink(f"/proc/{pid}/ns/net") for pid in pids} - {os.readlink("/proc/self/ns/net")}
                self.assertEqual(len(spaces), 3)  # two hosts and the bridge
                if end == "normal":
                    for pid in pids:
                        if os.path.realpath(f"/proc/{pid}/exe") == RANK:
                            os.kill(pid, signal.SIGKILL)
                else:
                    running.process.send_signal(end)
                running.wait()
                running.assert_nothing_left()
                wait_for(lambda: not spaces & self.namespaces_in_use(), "the end of the namespaces")
        with open("/proc/net/dev", encoding="utf-8") as file:
            self.assertEqual([line.split(":")[0] for line in file], before)

    @staticmethod
    def namespaces_in_use():
        found = set()
        for link in glob.glob("/proc/[0-9]*/ns/net") + glob.glob("/proc/[0-9]*/fd/*"):
            try:
                found.add(os.readlink(link))
            except OSError:
                pass
        return found


if __name__ == "__main__":
    main()
