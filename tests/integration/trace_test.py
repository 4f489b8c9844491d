#!/usr/bin/env python3
"""Traces of jobs (COPPICE_TRACE), joined by coppice-trace, and the probes at the same points.

Usage: trace_test.py COPPICE_TRACE_TOOL COPPICE_RUN HANGING COPPICE_PERF LIBCOPPICE PROBES"""

import collections
import glob
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

TRACE, RUN, HANGING, PERF, LIBRARY = (os.path.abspath(path) for path in sys.argv[1:6])
HAS_PROBES = sys.argv[6] == "true"
PATIENCE = 60 * int(os.environ.get("COPPICE_TEST_PATIENCE", "1"))
TIME_OUT = 4 * PATIENCE


def clean_environment(**more):
    kept = {name: value for name, value in os.environ.items()
            if not name.startswith(("COPPICE_", "OMPI_", "PMIX_", "PMI_", "SLURM_"))}
    return kept | more


def until(what, condition):
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        given = condition()
        if given:
            return given
        time.sleep(0.02)
    raise AssertionError(f"waited {PATIENCE} s in vain: {what}")


def text_of(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def records_of(path):
    """What a reader of the format gets of a file, whose array may have no end: and whether it has one."""
    text = text_of(path)
    has_end = text.rstrip().endswith("]")
    return json.loads(text if has_end else text + "]"), has_end


def operation(record):
    args = record["args"]
    return args["of"], args["group"], args["number"]


class Traced(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="coppice-trace-")
        self.addCleanup(shutil.rmtree, self.folder)
        self.file = os.path.join(self.folder, "t")

    def run_job(self, ranks, *command, **variables):
        done = subprocess.run([RUN, "-n", str(ranks), *command], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              check=False, timeout=TIME_OUT, env=clean_environment(COPPICE_TRACE=self.file, **variables))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return self.files()

    def files(self):
        return sorted(glob.glob(self.file + ".*"))

    def join(self, *files):
        """The records of a joined trace, and what the tool has said."""
        out = os.path.join(self.folder, "joined.json")
        done = subprocess.run([TRACE, "-o", out, *files], capture_output=True, text=True, check=False, timeout=PATIENCE)
        self.assertEqual(done.returncode, 0, done.stderr)
        records, has_end = records_of(out)
        self.assertTrue(has_end)
        return records, done.stderr

    def check_format(self, records):
        """As "Trace Event Format" has it: https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU"""
        depth = collections.Counter()
        requests = set()
        for record in records:
            phase = record["ph"]
            self.assertIn(phase, "MBEXibe")
            self.assertIsInstance(record["pid"], int)
            if phase == "M":
                self.assertIsInstance(record["args"], dict)
                continue
            self.assertIsInstance(record["ts"], (int, float))
            self.assertGreaterEqual(record["ts"], 0)
            self.assertIsInstance(record["tid"], int)
            if phase != "E":
                self.assertIsInstance(record["name"], str)
            thread = record["pid"], record["tid"]
            if phase == "B":
                depth[thread] += 1
            elif phase == "E":
                depth[thread] -= 1
                self.assertGreaterEqual(depth[thread], 0, record)
            elif phase == "X":
                self.assertGreaterEqual(record["dur"], 0)
                int(record["bind_id"], 16)
            elif phase == "i":
                self.assertIn(record["s"], "gpt")
            else:
                name = record["pid"], record["cat"], record["id2"]["local"]
                self.assertEqual(name in requests, phase == "e", record)
                (requests.add if phase == "b" else requests.discard)(name)
        return depth, requests

    def check_causes(self, records):
        """No payload is anywhere before it was given, and nobody is through a barrier before all have entered."""
        given = {record["bind_id"]: record["ts"] for record in records if record.get("flow_out")}
        here = [record for record in records if record.get("flow_in")]
        for record in here:
            self.assertIn(record["bind_id"], given)
            self.assertGreaterEqual(record["ts"], given[record["bind_id"]] - 0.001, record)
        entered, left = collections.defaultdict(list), collections.defaultdict(list)
        begun = collections.defaultdict(list)
        for record in records:
            thread = record["pid"], record.get("tid")
            if record["ph"] == "B":
                begun[thread].append(record["ts"])
            elif record["ph"] == "E":
                since = begun[thread].pop()
                if record["args"]["of"] in ("agreement", "barrier", "creation") and record["args"]["status"] == 0:
                    entered[operation(record)].append(since)
                    left[operation(record)].append(record["ts"])
        for name, times in left.items():
            self.assertGreaterEqual(min(times), max(entered[name]) - 0.001, name)
        return here, left


class OfAJob(Traced):
    CALLS = "*:b0 b1 a w2 B b0"

    def test_each_operation_is_there_once_at_each_rank_and_each_payload_after_it_was_given(self):
        files = self.run_job(3, HANGING, self.CALLS)
        self.assertEqual(len(files), 3)
        for file in files:
            records, has_end = records_of(file)
            self.assertTrue(has_end)
            depth, _ = self.check_format(records)
            self.assertEqual(set(depth.values()), {0})
            names = [record["name"] for record in records if record["ph"] == "B"]
            self.assertEqual(names, ["creation", "broadcast", "broadcast", "agreement", "wait", "barrier", "broadcast", "leaving"])
            ends = [operation(record)[::2] for record in records if record["ph"] == "E"]
            self.assertEqual(ends, [("creation", 0), ("broadcast", 0), ("broadcast", 1), ("agreement", 0), ("broadcast", 2), ("barrier", 1),
                                    ("broadcast", 3), ("leaving", 0)])
            requests = [(record["ph"], operation(record)[2]) for record in records if record["ph"] in "be"]
            self.assertEqual(requests, [("b", 2), ("e", 2)])
        joined, said = self.join(*files)
        self.check_format(joined)
        here, left = self.check_causes(joined)
        self.assertEqual(len(here), 4 * 2)  # of four broadcasts, at two ranks each
        self.assertEqual(sorted(map(len, left.values())), [3, 3, 3])
        self.assertNotIn("clock", said)
        self.assertEqual(sorted(record["args"]["name"].split(" (")[0] for record in joined if record.get("name") == "process_name"),
                         ["rank 0", "rank 1", "rank 2"])

    def test_over_messages_and_for_payloads_in_chunks_too(self):
        for more in ([], ["-s", "100000"]):
            with self.subTest(more=more):
                before = set(self.files())
                files = self.run_job(4, PERF, "broadcast", "-n", "200", "--hierarchy", "flat", "--verify", *more)
                joined, _ = self.join(*(set(files) - before))
                self.check_format(joined)
                here, _ = self.check_causes(joined)
                whole = collections.Counter(operation(record) for record in here)
                self.assertGreaterEqual(len(whole), 200)
                self.assertEqual(set(whole.values()), {3})

    def test_nothing_is_written_where_nobody_asks(self):
        done = subprocess.run([RUN, "-n", "2", HANGING, "*:b0"], check=False, timeout=TIME_OUT, cwd=self.folder,
                              env=clean_environment())
        self.assertEqual(done.returncode, 0)
        self.assertEqual(os.listdir(self.folder), [])


class OfTheDead(Traced):
    def test_the_trace_of_a_killed_rank_has_all_until_then_and_the_call_that_it_was_in(self):
        job = subprocess.Popen([RUN, "-n", "3", HANGING, "*:b0 b1 B", "0:b0 b1 b2 pause", "1:b0 b1 a"], stdin=subprocess.DEVNULL,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=clean_environment(COPPICE_TRACE=self.file))
        self.addCleanup(job.wait)
        self.addCleanup(job.kill)

        def blocked():
            """The file of rank 1 once that is in its agreement."""
            for file in self.files():
                names = re.findall(r'"ph":"B","name":"(\w+)"', text_of(file))
                if names[-1:] == ["agreement"]:
                    return file
            return None
        file = until("rank 1 waits for an agreement", blocked)
        os.kill(int(file.split(".")[-1]), signal.SIGKILL)
        others = [other for other in self.files() if other != file]
        until("the others have learned of the death",
              lambda: all('"what":"failed"' in text_of(other) for other in others))
        records, has_end = records_of(file)
        self.assertFalse(has_end)
        depth, _ = self.check_format(records)
        self.assertEqual(sum(depth.values()), 1)
        self.assertEqual([record["name"] for record in records if record["ph"] == "B"],
                         ["creation", "broadcast", "broadcast", "agreement"])
        # Half a record, as a process leaves it that is killed within one.
        cut = os.path.join(self.folder, "cut")
        with open(cut, "w", encoding="utf-8") as half:
            half.write(text_of(file).rstrip() + ',\n{"ph":"E","pid":' + " " * 4096)
        joined, said = self.join(cut, *others)
        self.assertIn("1 lines left out", said)
        self.assertIn("cut off", json.dumps(joined))
        self.check_format(joined)


class OfSeveralClocks(Traced):
    """Processes of one kernel whose clocks differ, and traces that were given another clock."""

    def shift(self, file, by_us, clock):
        text = re.sub(r'"clock":"[^"]*"', f'"clock":"{clock}"', text_of(file))
        text = re.sub(r'"ts":([0-9.]+)', lambda ts: f'"ts":{float(ts.group(1)) + by_us:.3f}', text)
        with open(file, "w", encoding="utf-8") as now:
            now.write(text)

    def offsets(self, said):
        return [(float(offset), float(width)) for offset, width in
                re.findall(r"clock of \S+: ([+-][0-9.]+) us from that of \S+, ±([0-9.]+) us", said)]

    def check_offset(self, said, expected_us):
        offsets = self.offsets(said)
        self.assertTrue(offsets, said)
        for offset, width in offsets:
            self.assertLessEqual(abs(offset - expected_us), width + 0.01, said)

    def test_clocks_that_differ_are_put_in_order(self):
        files = self.run_job(4, HANGING, "*:b0 b1 B b2 a b3")
        for file in files[2:]:
            self.shift(file, 7e9, "elsewhere")
        joined, said = self.join(*files)
        self.check_format(joined)
        here, _ = self.check_causes(joined)
        self.assertEqual(len(here), 4 * 3)
        self.assertEqual(len(self.offsets(said)), 1, said)
        self.assertLess(max(record["ts"] for record in joined if "ts" in record), 4e9)

    def test_clocks_of_other_time_namespaces_are_put_in_order(self):
        namespaced = ["unshare", "--time", "--monotonic", "5000", "--fork"]
        if subprocess.run([*namespaced, "true"], check=False, capture_output=True).returncode != 0:
            self.skipTest("no time namespaces here, or no rights to make one")
        shell = f'if [ "$COPPICE_RANK" -ge 2 ]; then exec {" ".join(namespaced)} "$@"; fi; exec "$@"'
        files = self.run_job(4, "sh", "-c", shell, "sh", PERF, "broadcast", "-n", "300", "--hierarchy", "flat")
        self.assertEqual(len(files), 4)
        joined, said = self.join(*files)
        self.check_causes(joined)
        self.assertEqual(len(self.offsets(said)), 2, said)  # a namespace for each of two ranks
        self.check_offset(said, -5000e6)

    def test_clocks_of_which_nothing_is_known_go_by_the_time_of_the_world(self):
        first, second = self.run_job(1, HANGING, "*:b0"), None
        second = [file for file in self.run_job(1, HANGING, "*:b0") if file not in first]
        self.shift(second[0], 7e9, "elsewhere")
        _, said = self.join(first[0], second[0])
        self.assertIn("clocks of the world alone", said)


class BadInput(Traced):
    def test_a_file_that_cannot_be_made_is_an_error_that_names_it(self):
        done = subprocess.run([RUN, "-n", "1", HANGING, "*:b0"], capture_output=True, text=True, check=False, timeout=TIME_OUT,
                              env=clean_environment(COPPICE_TRACE=self.folder + "/missing/t"))
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("COPPICE_TRACE: " + self.folder + "/missing/t", done.stdout + done.stderr)

    def test_a_limit_of_file_sizes_ends_the_trace_and_not_the_process(self):
        shell = f"ulimit -f 16384; exec {RUN} -n 2 {PERF} broadcast -n 40000"
        done = subprocess.run(["bash", "-c", shell], capture_output=True, text=True, check=False, timeout=TIME_OUT,
                              env=clean_environment(COPPICE_TRACE=self.file))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("ends here: ", done.stdout + done.stderr)
        for file in self.files():
            self.assertEqual(os.path.getsize(file), 16 << 20)
        self.join(*self.files())

    HEADER = ('{"ph":"M","name":"coppice","pid":7,"tid":7,"ts":1,'
              '"args":{"format":1,"host":"node","clock":"a clock","unix_us":1700000000000000}}')
    GOOD = '{"ph":"i","s":"p","name":"rank 2 failed","cat":"member","pid":7,"tid":7,"ts":5,"args":{"what":"failed"}}'

    def joined_of(self, name, *records):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write("[\n" + ",\n".join(records) + "\n]\n")
        return self.join(path)

    def test_the_name_of_a_process_need_not_end_with_a_number(self):
        for name in "rank x", "rank 0 of 99999999999999999999", "", "rank ":
            with self.subTest(name=name):
                rank = f'{{"ph":"M","name":"process_name","pid":7,"ts":2,"args":{{"name":"{name}","rank":3}}}}'
                joined, said = self.joined_of("named", self.HEADER, rank, self.GOOD)
                self.assertIn("rank 3 (node, pid 7), 1 records", said)
                self.assertEqual(joined[-1]["args"], {"what": "failed"})

    def test_records_that_make_no_sense_are_left_out_and_the_others_are_not(self):
        wrong = ['{"ph":"M","name":"process_name","pid":7,"ts":2,"args":{"name":"rank 0 of 1","rank":"x"}}',
                 '{"ph":"B","pid":7,"ts":1e300}', '{"ph":"B","pid":7,"ts":-1}', '{"ph":"B","pid":7,"ts":"5"}',
                 '{"ph":"B","pid":7,"tid":"x","ts":5}', '{"ph":"B","pid":7,"ts":5,"args":[]}', '{"ph":"B","pid":7,"ts":5,"args":{"of":7}}',
                 '{"ph":"b","pid":7,"ts":5,"args":{"number":"x"}}', '{"ph":"b","pid":7,"ts":5,"args":{"number":-1}}',
                 '{"ph":"E","pid":7,"ts":5,"args":{"status":"x"}}', '{"ph":"X","cat":5,"pid":7,"ts":5}', '{"ph":5,"pid":7,"ts":5}',
                 '{"ph":"B","pid":8,"ts":5}', "[]", "7", '{"ph":"B","pid":7,"ts":5,"args":{"a":' + "[" * 100000 + "]" * 100000 + "}}",
                 self.HEADER.replace("node", "another")]
        for record in wrong:
            with self.subTest(record=record[:100]):
                joined, said = self.joined_of("wrong", self.HEADER, record, self.GOOD)
                self.assertIn("node, pid 7, 1 records; 1 lines left out", said)
                self.assertEqual(joined[-1]["args"], {"what": "failed"})

    def test_clocks_that_can_not_be_are_put_in_some_order(self):
        """Causes after their effects, and as far apart as times can be."""
        header = self.HEADER.replace('"clock":"a clock"', '"clock":"another"').replace("1700000000000000", "0").replace("7", "8")
        payload = ('{{"ph":"X","cat":"payload","pid":{},"ts":{},"{}":true,"args":{{"of":"broadcast","group":"g","number":{}}}}}').format
        first = [self.HEADER, payload(7, 576460752303423, "flow_out", 0), payload(7, 0, "flow_in", 1)]
        second = [header, payload(8, 0, "flow_in", 0), payload(8, 576460752303423, "flow_out", 1)]
        paths = []
        for name, records in {"first": first, "second": second}.items():
            paths.append(os.path.join(self.folder, name))
            with open(paths[-1], "w", encoding="utf-8") as file:
                file.write("[\n" + ",\n".join(records) + "\n]\n")
        joined, said = self.join(*paths)
        self.assertIn("clocks have run at different speeds", said)
        times = [record["ts"] for record in joined if "ts" in record]
        self.assertEqual((len(times), times), (4, sorted(times)))

    def test_what_is_no_trace_is_refused(self):
        for name, text in {"empty": "", "text": "no trace\n", "other": '[\n{"ph":"M","name":"x","pid":1}\n]', "half": "[\n",
                           "without-a-beginning": "[\n" + self.GOOD + "\n]\n",
                           "of-another-version": "[\n" + self.HEADER.replace('"format":1', '"format":2') + "\n]\n"}.items():
            path = os.path.join(self.folder, name)
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            done = subprocess.run([TRACE, path], capture_output=True, text=True, check=False, timeout=PATIENCE)
            self.assertEqual((done.returncode, done.stdout), (3, ""), name)
            self.assertIn(path, done.stderr)
        self.assertEqual(subprocess.run([TRACE, self.folder + "/gone"], capture_output=True, check=False).returncode, 3)
        self.assertEqual(subprocess.run([TRACE], capture_output=True, check=False).returncode, 2)


@unittest.skipUnless(HAS_PROBES, "built without sys/sdt.h")
class Probes(Traced):
    KINDS = {"broadcast": 1, "agreement": 2, "barrier": 3, "renewal": 4, "leaving": 5, "creation": 6}
    OF_64_BITS = {"bytes", "number"}
    SIGNED = {"kind", "status"}

    @staticmethod
    def documented():
        """Each probe's arguments, as the document lists them."""
        document = text_of(os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, os.pardir, "docs", "tracing.md"))
        table = document.split("| probe | arguments |", 1)[1].split("\n\n", 1)[0]
        return {name: [word.removesuffix(" of the group") for word in words.split(", ")]
                for name, words in re.findall(r"^\| `(\w+)` \| (.*) \|$", table, re.MULTILINE)}

    def test_the_library_has_the_probes_of_the_document_with_their_arguments(self):
        notes = subprocess.run(["readelf", "-nW", LIBRARY], capture_output=True, text=True, check=True).stdout
        found = re.findall(r"Provider: coppice\s+Name: (\w+)\s+Location: .*\s+Arguments: (.*)", notes)
        documented = self.documented()
        self.assertEqual({name for name, _ in found}, set(documented))
        for name, arguments in found:
            sizes = [int(size) for size in re.findall(r"(-?\d+)@", arguments)]
            self.assertEqual(sizes, [8 if word in self.OF_64_BITS else -4 if word in self.SIGNED else 4 for word in documented[name]],
                             f"{name}: {arguments}")

    def probed(self, *words, traced=False, code=0):
        """What bpftrace sees of a job's processes: of each of them (probe, arguments…), in their order."""
        if shutil.which("bpftrace") is None or os.geteuid() != 0:
            self.skipTest("no bpftrace here, or not root")
        # A copy: other tests use the library, too.
        library = os.path.join(self.folder, os.path.basename(LIBRARY))
        shutil.copy(LIBRARY, library)
        if not os.path.exists(os.path.join(self.folder, "libcoppice.so.0")):
            os.symlink(os.path.basename(LIBRARY), os.path.join(self.folder, "libcoppice.so.0"))
        program = 'BEGIN { printf("attached\\n"); }'
        for name, arguments in self.documented().items():
            values = ", ".join(f"arg{i}" for i in range(len(arguments)))
            program += f' usdt:{library}:coppice:{name} {{ printf("%d {name}{" %ld" * len(arguments)}\\n", pid, {values}); }}'
        tracer = subprocess.Popen(["bpftrace", "-e", program], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.DEVNULL, text=True)
        said = ""
        while "attached" not in said:
            line = tracer.stdout.readline()
            if line == "":
                self.skipTest("bpftrace can't see them here")
            said += line
        more = {"COPPICE_TRACE": self.file} if traced else {}
        done = subprocess.run([RUN, *words], capture_output=True, text=True, check=False, timeout=TIME_OUT,
                              env=clean_environment(LD_LIBRARY_PATH=self.folder, **more))
        tracer.send_signal(signal.SIGINT)
        said, _ = tracer.communicate(timeout=PATIENCE)
        self.assertEqual(done.returncode, code, done.stderr)
        seen = collections.defaultdict(list)
        for pid, name, values in re.findall(r"^(\d+) (\w+) ([-\d ]+)$", said, re.MULTILINE):
            seen[pid].append((name, *map(int, values.split())))
        return list(seen.values())

    def of_trace(self, file):
        """The same of a process's trace, which has written the values down otherwise."""
        seen = []
        for record in records_of(file)[0]:
            args = record.get("args", {})
            token, epoch = (int(args["group"].split(".")[0], 16), int(args["group"].split(".")[1])) if "group" in args else (0, 0)
            kind = self.KINDS.get(args.get("of"))
            if record["ph"] == "B":
                seen.append(("call__begin", kind, token, args.get("root", 0), args.get("bytes", 0)))
            elif record["ph"] == "E":
                seen.append(("call__end", kind, token, args["number"], args["status"]))
            elif record["name"].startswith("payload "):
                seen.append(("payload", token, epoch, args["number"], args["root"], args["bytes"]))
            elif args.get("what") == "failed":
                seen.append(("failed", token, epoch, args["rank"]))
        return seen

    def test_they_tell_what_the_trace_tells(self):
        processes = self.probed("-n", "3", "--kill", "2@1s", HANGING, "*:b0 b1 a B s b1", "2:b0 b1 pause", traced=True)
        traces = [self.of_trace(file) for file in self.files()]
        # Between a probe and what is written down the one that is killed may end.
        traces = [trace for trace in traces if any(name == "failed" for name, *_ in trace)]
        self.assertEqual(len(traces), 2)
        for trace in traces:
            self.assertIn(trace, processes)
        names = collections.Counter(name for trace in traces for name, *_ in trace)
        self.assertEqual(set(names), set(self.documented()))

    def test_they_tell_what_was_called_where_there_is_no_trace(self):
        timed_out = -5
        broadcast = self.KINDS["broadcast"]
        # The root does not call again, and is told of the other one's end.
        processes = self.probed("-n", "2", HANGING, "1:b0 limit b0", "0:b0 a", code=3)
        (waiting,) = (events for events in processes if any(event[0] == "call__end" and event[4] == timed_out for event in events))
        calls = [event for event in waiting if event[:2] in (("call__begin", broadcast), ("call__end", broadcast))]
        token = calls[0][2]
        self.assertNotEqual(token, 0)
        # The first broadcast, number 0, may have taken the shortcut.
        self.assertEqual(calls[-2:], [("call__begin", broadcast, token, 0, 8), ("call__end", broadcast, token, 1, timed_out)])
        (root,) = (events for events in processes if events is not waiting)
        self.assertIn(("failed", token, 0, 1), root)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[7:], verbosity=2)
