"""rxe-guest as its users meet it: what comes back from the guest, what does not, and that nothing is left behind."""

import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

GUEST, BUILD = sys.argv[1:3]
DEADLINE = 300 * int(os.environ.get("COPPICE_TEST_PATIENCE", "1"))


def guest(*arguments, **options):
    environment = {**os.environ, "BUILD_DIR": BUILD, **options.pop("environment", {})}
    return subprocess.run([GUEST, *arguments], capture_output=True, text=True, timeout=DEADLINE, check=False,
                          stdin=subprocess.DEVNULL, env=environment, **options)


def processes_with(mark):
    """Living processes that have this string in their environment."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and mark.encode() in (entry / "environ").read_bytes():
                found.append((entry / "cmdline").read_text().replace("\0", " "))
        except OSError:
            pass
    return found


class Guest(unittest.TestCase):
    def test_output_exit_code_environment_and_directory_come_back_and_files_do_not(self):
        with tempfile.TemporaryDirectory() as directory:
            kept = pathlib.Path(directory, "kept")
            kept.mkdir()
            pathlib.Path(directory, "words").write_text("from the host")
            script = ('cat words; echo "$TUNE"; echo "$UCX_RC_VERBS_TIMEOUT $COPPICE_VERBS_TIMEOUT"; pwd; echo "to the other stream" >&2; echo "two words" "$1" > gone; '
                      'echo stays > kept/file; ls /sys/class/infiniband; sleep 1000 & exit 7')
            result = guest("--devices", "3", "--writable", kept, "bash", "-c", script, "name", "an  argument",
                           cwd=directory, environment={"TUNE": "a 'tune'\nof two lines", "COPPICE_VERBS_TIMEOUT": "15"})
            self.assertEqual(result.returncode, 7, result.stderr)
            self.assertEqual(result.stdout, f"from the hosta 'tune'\nof two lines\n1s 15\n{os.path.realpath(directory)}\n"
                             "rxe0\nrxe1\nrxe2\n")
            self.assertEqual(result.stderr, "to the other stream\n")
            self.assertFalse(pathlib.Path(directory, "gone").exists())
            self.assertEqual(pathlib.Path(kept, "file").read_text(), "stays\n")

    def test_the_first_example_delivers_every_byte(self):
        result = guest("coppice-run", "-n", "4", "--hosts", "2", "coppice-perf", "broadcast", "-s", "64", "-n", "500",
                       "--verify")
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertIn("4 ranks, 2 positions", result.stdout)
        self.assertIn("lost 0 corrupt 0 duplicate 0", result.stdout)

    def test_large_payloads_are_delivered_with_every_byte(self):
        result = guest("coppice-run", "-n", "4", "--hosts", "2", "coppice-perf", "broadcast", "-s", "1M", "-n", "50", "--verify")
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertRegex(result.stdout, r"(?m)^ 1048576 50 ")
        self.assertIn("\nlost 0 corrupt 0 duplicate 0\n", result.stdout)

    def test_survivors_agree_over_rdma_that_their_root_is_dead(self):
        # Two ranks share a host and its memory; or every rank is by itself, and all of it is RDMA.
        agree = "coppice-run -n 8 --hosts 4 coppice-perf agree -n 30 -w 5 --victims 0 --at 10"
        result = guest("--devices", "4", "bash", "-c", f"COPPICE_TRANSPORT=shm,verbs {agree}; "
                       f"COPPICE_TRANSPORT=verbs COPPICE_HIERARCHY=flat {agree}")
        told = result.stdout + result.stderr
        for positions in (4, 8):
            self.assertIn(f"8 ranks, {positions} positions", told)
        self.assertEqual(told.count("rank 0 (pid"), 2, told)
        self.assertEqual(told.count("(pid"), 2, told)
        self.assertEqual(told.count("1 of 8 ranks died\n35 agreements at 7 survivors"), 2, told)
        self.assertEqual(told.count("disagreed 0 wrong 0 lost 0"), 2, told)

    def test_much_output_arrives_whole_and_in_order(self):
        result = guest("seq", "300000")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stdout.split(), [str(number) for number in range(1, 300001)])

    def test_nothing_is_left_behind_however_it_ends(self):
        for end, code in ((None, 124), (signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGKILL, -9)):
            with self.subTest(end), tempfile.TemporaryDirectory() as directory:
                mark = f"RXE_GUEST_TEST={os.getpid()}-{end}"
                name, value = mark.split("=")
                limit = ["--timeout", "1"] if end is None else []
                with subprocess.Popen([GUEST, *limit, "sleep", "1000"], stdin=subprocess.DEVNULL,
                                      stderr=subprocess.DEVNULL,
                                      env={**os.environ, name: value, "TMPDIR": directory}) as process:
                    self.wait_for(lambda: any("qemu-system" in line for line in processes_with(mark)) or
                                  process.poll() is not None)
                    if end is not None:
                        process.send_signal(end)
                    self.assertEqual(process.wait(DEADLINE), code)
                self.wait_for(lambda: not processes_with(mark))
                if end != signal.SIGKILL:
                    self.assertEqual(os.listdir(directory), [])

    def test_nothing_is_left_behind_by_a_guest_killed_before_its_processes_are_tied_to_it(self):
        mark = f"RXE_GUEST_TEST={os.getpid()}-early"
        name, value = mark.split("=")
        with tempfile.TemporaryDirectory() as directory:
            late = pathlib.Path(directory, "setpriv")  # comes to tie them when there is nobody left to be tied to
            # The sixth word is the launcher's pid; $PPID is another process if the launcher ends before this one has begun.
            late.write_text(f'#!/bin/bash\nwhile [ -e /proc/$6 ]; do sleep 0.02; done\nexec {shutil.which("setpriv")} "$@"\n')
            late.chmod(0o755)
            with subprocess.Popen([GUEST, "sleep", "1000"], stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                  env={**os.environ, name: value, "TMPDIR": directory,
                                       "PATH": f"{directory}:{os.environ['PATH']}"}) as process:
                self.wait_for(lambda: any("qemu-system" in line for line in processes_with(mark)))
                process.kill()
            self.wait_for(lambda: not processes_with(mark))

    def wait_for(self, condition):
        until = time.monotonic() + DEADLINE
        while not condition():
            self.assertLess(time.monotonic(), until, "waited in vain")
            time.sleep(0.02)


class Misuse(unittest.TestCase):
    def test_options_that_make_no_sense_are_refused(self):
        for arguments, complaint in ((["--devices", "0", "true"], "expected a number from 1 to 64"),
                                     (["--memory", "lots", "true"], "expected a number"),
                                     (["--timeout"], "needs a value"), (["--nonesuch"], "unknown option"),
                                     (["--writable", "/nonesuch", "true"], "no such directory"),
                                     (["--shell"], "terminal"), ([], "usage:")):
            result = guest(*arguments)
            self.assertEqual((result.returncode, complaint in result.stderr), (2, True), result.stderr)

    def test_a_program_that_is_not_there_is_named_at_once(self):
        result = guest("coppice-nonesuch")
        self.assertEqual(result.returncode, 127)
        self.assertIn("coppice-nonesuch: no such program", result.stderr)

    def test_without_qemu_the_package_is_named(self):
        with tempfile.TemporaryDirectory() as directory:
            for program in ("bash", "dirname", "readlink", "uname", "nproc", "rm"):
                for place in ("/usr/bin", "/bin"):
                    if os.path.exists(f"{place}/{program}"):
                        os.symlink(f"{place}/{program}", f"{directory}/{program}")
                        break
            result = guest("true", environment={"PATH": directory})
        self.assertEqual(result.returncode, 69, result.stderr)
        self.assertIn("qemu-system-x86", result.stderr)

    def test_without_a_kernel_package_the_way_to_one_is_told(self):
        with tempfile.TemporaryDirectory() as directory:
            result = guest("true", environment={"XDG_CACHE_HOME": directory, "COPPICE_GUEST_PACKAGES": "/nonesuch"})
            self.assertEqual(result.returncode, 69, result.stderr)
            self.assertIn("linux-image-*.deb", result.stderr)
            self.assertEqual(os.listdir(f"{directory}/coppice/rxe-guest"), ["lock"])


if __name__ == "__main__":
    fetched = guest("--fetch")
    if fetched.returncode == 69:
        print("SKIP:", fetched.stderr.replace("rxe-guest: ", "").strip())
        sys.exit(77)
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]], verbosity=2)
