"""coppice-run --leaves: simulated hosts on a bridge for each leaf, leaves that die, and packets over their up-links."""

import os
import re
import subprocess

from launcher import DEADLINE, environment, LauncherTest, main, RANK, run, RUN, until_cut


def counted(result):
    """Packets up, those of them with payload, and packets down, by leaf."""
    lines = re.findall(r"^coppice-run: leaf (\d+): (\d+) packets up \((\d+) with payload\), (\d+) down$", result.stderr, re.M)
    return {int(leaf): (int(up), int(payload), int(down)) for leaf, up, payload, down in lines}


class Leaves(LauncherTest):
    def setUp(self):
        if not any(os.access(f"{path}/ip", os.X_OK) for path in ("/usr/sbin", "/sbin", "/usr/bin", "/bin")):
            self.skipTest("the program ip (iproute2) is not installed")

    def run_leaves(self, *arguments, user=()):
        result = subprocess.run([*user, RUN, *arguments], capture_output=True, text=True, timeout=2 * DEADLINE,
                                stdin=subprocess.DEVNULL, env=environment(), cwd="/", check=False)
        if "lets user" in result.stderr or (user and result.returncode in (126, 127)):
            self.skipTest(result.stderr.strip())
        return result

    def test_ranks_know_their_leaves_and_reach_each_other(self):
        users = [[]]
        if os.geteuid() == 0:
            users.append(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"])
        for user in users:
            with self.subTest(user):
                result = self.run_leaves("-n", "8", "--hosts", "4", "--leaves", "2", RANK, "tcp", user=user)
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assertEqual(len(result.stdout.splitlines()), 8)
        script = "echo $COPPICE_RANK $COPPICE_HOST $COPPICE_SWITCHES"
        result = self.run_leaves("-n", "4", "--hosts", "4", "--leaves", "2", "sh", "-c", script)
        self.assertEqual(sorted(result.stdout.splitlines()),
                         ["0 host0 leaf0", "1 host1 leaf0", "2 host2 leaf1", "3 host3 leaf1"])

    def test_without_leaves_no_rank_is_told_of_any(self):
        result = self.run_leaves("-n", "2", "--hosts", "2", "sh", "-c", "echo ${COPPICE_SWITCHES-none}")
        self.assertEqual(result.stdout.split(), ["none"] * 2)

    # Every rank connects to every other: what goes up at one leaf comes down at another.
    def test_packets_between_leaves_are_counted_and_those_within_are_not(self):
        result = self.run_leaves("-n", "16", "--hosts", "4", "--leaves", "2", "--count-links=4", RANK, "tcp")
        self.assertEqual(result.returncode, 0, result.stderr)
        packets = counted(result)
        self.assertEqual(set(packets), {0, 1})
        # A connection takes three packets at least in one direction, and each leaf's ranks open 64 and are called by 64. Each side
        # opens and ends it without payload, and one of them says something.
        for up, payload, down in packets.values():
            self.assertGreater(up, 300)
            self.assertGreater(down, 300)
            self.assertGreaterEqual(payload, 64)
            self.assertLess(payload, up - 100)
        total = re.search(r"all leaves: (\d+) packets up \((\d+) with payload\), (\d+) down; ([0-9.]+) up for each of 4 "
                          r"operations, ([0-9.]+) with payload$", result.stderr, re.M)
        self.assertEqual([int(total[1]), int(total[2]), int(total[3])], [sum(column) for column in zip(*packets.values())])
        self.assertAlmostEqual(float(total[4]), int(total[1]) / 4, places=2)
        self.assertAlmostEqual(float(total[5]), int(total[2]) / 4, places=2)
        # What the kernels of hosts send to all goes up, too: some tens of packets, more of them the longer it takes.
        alone = counted(self.run_leaves("-n", "16", "--hosts", "4", "--leaves", "1", "--count-links", RANK, "tcp"))
        self.assertLess(2 * alone[0][0], packets[0][0])

    def test_a_leaf_dies_with_all_its_ranks(self):
        result = self.run_leaves("-n", "8", "--hosts", "4", "--leaves", "2", "--kill-leaf", "1@start+100ms", "sh", "-c",
                                 "[ $COPPICE_SWITCHES = leaf0 ] || exec sleep 600")
        self.assertEqual(result.returncode, 0, result.stderr)
        killed = re.findall(r"killed rank (\d+)", result.stderr)
        self.assertEqual(sorted(map(int, killed)), [4, 5, 6, 7])

    def test_a_host_of_a_leaf_can_be_cut_off(self):
        result = self.run_leaves("-n", "2", "--hosts", "2", "--leaves", "2", "--cut", "1@start+100ms+2s", "sh", "-c",
                                 until_cut() + "until plugged; do sleep 0.01; done")
        self.assertEqual(result.returncode, 0, result.stderr)


class BadOptions(LauncherTest):
    def test_what_makes_no_sense_is_refused_in_words(self):
        hosts = ["-n", "8", "--hosts", "8"]
        leaves = [*hosts, "--leaves", "4"]
        for options, reason in [
                (["-n", "4", "--leaves", "2"], "--leaves 2: there are no hosts to put on them without --hosts"),
                ([*hosts, "--leaves", "3"], "--leaves 3: 8 hosts do not divide into 3 leaves"),
                ([*hosts, "--leaves", "16"], "--leaves 16: 8 hosts do not divide into 16 leaves"),
                ([*hosts, "--leaves", "0"], "--leaves"),
                ([*hosts, "--count-links"], "--count-links: there are no links without --leaves"),
                ([*leaves, "--count-links=many"], "--count-links=many: expected a number of operations"),
                ([*leaves, "--count-links=0"], "--count-links=0: expected a number of operations"),
                ([*hosts, "--kill-leaf", "0@1s"], "--kill-leaf 0@1s: there are no leaves without --leaves"),
                ([*leaves, "--kill-leaf", "4@1s"], "--kill-leaf: leaf 4 is outside of 0…3"),
                ([*leaves, "--kill-leaf", "x"], "--kill-leaf x: expected LEAF@TIME, as in --kill-leaf 2@500ms"),
                ([*leaves, "--cut", "0,1,2,3/4,5,6,7@1s"], "--cut: hosts on several leaves (--leaves) can't be cut"),
                (["-n", "2", "--devices", "a,b", "--leaves", "2"], "--leaves: hosts that are RDMA devices have no bridges")]:
            with self.subTest(options):
                result = run(*options, "true")
                self.assertEqual(result.returncode, 2, result.stderr)
                self.assertIn(reason, result.stderr)


if __name__ == "__main__":
    main()
