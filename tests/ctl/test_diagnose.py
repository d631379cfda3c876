#!/usr/bin/python3
"""tpuctl diagnose on saved captures: scripted slices, damaged files, and real processes read by
tpu-stack. BUILD_DIR names the build."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import capture_wire  # noqa: E402

BUILD = pathlib.Path(os.environ["BUILD_DIR"])
TPUCTL, TPU_STACK = BUILD / "agent/ctl/tpuctl", BUILD / "probes/stack/tpu-stack"
FIXTURES = pathlib.Path(__file__).resolve().parents[1] / "fixtures/captures"
C10D = "/usr/lib/python3/dist-packages/torch/distributed/distributed_c10d.py"
MAIN = [{"file": "train.py", "line": 80, "function": "step"},
        {"file": "train.py", "line": 120, "function": "main"}]
WAITS = {"state": "S", "wait": "futex_wait_queue",
         "frames": [{"file": C10D, "line": 2050, "function": "all_reduce"}] + MAIN}
READS = {"state": "S", "wait": "pipe_read",
         "frames": [{"file": "dataset.py", "line": 88, "function": "next_batch"}] + MAIN}
SENTENCE = ("slice 1, worker 5 (10.10.0.15) holds the run up: its main thread is in `read` under "
            "`dataset.py:88 next_batch`, "
            "the 63 others wait in all-reduce")
# What a training is to this test: ranks that meet in all_reduce(), one of which reads from a pipe that
# nobody writes to.
TRAINING = """
import os, sys, threading
def all_reduce():
    threading.Event().wait()
def next_batch():
    os.read(os.pipe()[0], 1)
def main():
    print("ready", flush=True)
    next_batch() if sys.argv[1] == "stuck" else all_reduce()
main()
"""


def capture(worker, thread, round_=0):
    return {"version": 1, "slice": "1", "worker": worker, "host": f"h{worker}",
            "address": f"10.10.0.{10 + worker}", "round": round_,
            "processes": [{"pid": 4700, "command": "python3 train.py",
                           "threads": [thread | {"tid": 4700, "name": "python3"}]}]}


class Diagnose(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="tpu-diagnose-test-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def diagnose(self, *words, code):
        done = subprocess.run([TPUCTL, "diagnose", *map(str, words)], capture_output=True, text=True,
                              timeout=60, check=False)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout if code != 64 and done.stdout else done.stderr

    def file(self, name, *captures):
        path = self.folder / name
        path.write_bytes(b"".join(capture_wire.packed(c) for c in captures))
        return path

    def recorded(self, case):
        path = self.folder / f"gloo-{case}.capture"
        path.write_bytes(capture_wire.packed_all((FIXTURES / f"gloo-{case}.json").read_text()))
        return path

    def slice(self):
        for worker in range(64):
            self.file(f"h{worker}.capture",
                      *[capture(worker, READS if worker == 5 else WAITS, k) for k in (0, 1)])
        return self.folder

    def test_sentence(self):
        text = self.diagnose("1", "--from", self.slice(), "--hosts", "64", code=2)
        self.assertTrue(text.startswith(SENTENCE + " (score 0.9"), text)
        self.assertIn("both captures show it at the same place: stuck", text)
        self.assertIn("63 [0-4,6-63]", text)
        self.assertIn("1 [5]  next_batch (dataset.py:88)", text)

    def test_json_is_the_same(self):
        answer = json.loads(self.diagnose("1", "--json", "--from", self.slice(), code=2))
        self.assertEqual((answer["version"], answer["outcome"], answer["summary"]), (1, "named", SENTENCE))
        self.assertEqual((answer["hosts"], answer["silent"], answer["ranks"], answer["waiting"]),
                         (64, 0, 64, 63))
        self.assertEqual([(s["slice"], s["worker"], s["kind"]) for s in answer["suspects"]],
                         [("1", 5, "pipe")])
        self.assertEqual([(c["kind"], c["in"], c["hosts"]) for c in answer["classes"]],
                         [("lock", "all-reduce", "[0-4,6-63]"), ("pipe", "read", "[5]")])
        first = answer["tree"]["children"][0]
        self.assertEqual([f["function"] for f in first["frames"]], ["main", "step"])
        self.assertEqual([(c["set"], c["hosts"]) for c in first["children"]],
                         [("[0-4,6-63]", 63), ("[5]", 1)])

    def test_ways_to_give_captures(self):
        captures = [capture(worker, READS if worker == 2 else WAITS) for worker in range(4)]
        files = [self.file(f"a{k}.capture", c) for k, c in enumerate(captures)]
        expected = self.diagnose("1", "--from", *files[:1], *files[1:], code=2)
        self.assertIn("worker 2", expected)
        self.assertEqual(self.diagnose("1", "--from", self.file("whole.capture", *captures), code=2),
                         expected)
        plain = self.folder / "plain.capture"  # also when it is not packed
        plain.write_bytes(b"".join(capture_wire.wire(c) for c in captures))
        self.assertEqual(self.diagnose("1", "--from", plain, code=2), expected)
        self.assertEqual(self.diagnose("all", "--from", *reversed(files), code=2), expected)
        self.diagnose("other", "--from", *files, code=3)

    def test_native_frames(self):
        """What the collective is called is said by who called it, not by the C++ that waits for it."""
        native = [{"kind": "kernel", "function": "futex_do_wait", "offset": 70},
                  {"kind": "native", "function": "pthread_cond_wait", "module": "/lib/libc.so.6",
                   "address": 1},
                  {"kind": "native", "function": "c10d::Work::wait", "module": "/lib/libtorch_cpu.so",
                   "address": 2},
                  {"kind": "native", "function": "_PyObject_MakeTpCall", "module": "/usr/bin/python3.11",
                   "address": 3}]
        waits = WAITS | {"frames": native + WAITS["frames"]
                         + [{"kind": "native", "function": "_start", "module": "/usr/bin/python3.11",
                             "address": 4}],
                         "native": {"merged": True}, "syscall": "futex"}
        text = self.diagnose("1", "--from", self.file("x.capture", *[capture(k, READS if k == 2 else waits)
                                                                     for k in range(4)]), code=2)
        self.assertIn("slice 1, worker 2 (10.10.0.12) holds the run up", text)
        self.assertIn("the 3 others wait in all-reduce", text)
        self.assertIn("c10d::Work::wait [libtorch_cpu.so]", text)

    def test_missing_host(self):
        text = self.diagnose("1", "--hosts", "4", "--from",
                             self.file("x.capture", *[capture(k, WAITS) for k in (0, 1, 3)]), code=2)
        self.assertIn("slice 1, worker 2: it did not answer, the 3 others wait in all-reduce", text)
        self.assertIn("no answer from 1 of 4 hosts: [2]", text)

    def test_no_stall(self):
        path = self.file("x.capture",
                         *[capture(k, WAITS | {"state": "T" if k == 1 else "S"}) for k in range(4)])
        text = self.diagnose("1", "--from", path, code=2)
        self.assertIn("is stopped (state T)", text)
        self.assertIn("\n  kill -CONT 4700 on that host lets it go on\n", text)
        self.assertIn("no stall, although 1 of 4 processes is stopped",
                      self.diagnose("1", "--run", "running", "--from", path, code=0))

    def test_damaged(self):
        whole, plain = capture_wire.packed(capture(0, WAITS)), capture_wire.wire(capture(0, WAITS))
        for name, text, says in (("cut", whole[:100], "capture 1: gzip: damaged, or cut off"),
                                 ("empty", b"", "it is empty"),
                                 ("stacks.txt", b"process 1 x (CPython 3.11.2)\n", "tpu-stack --capture"),
                                 ("api.json", b'{"text": "process 1 x"}', "no protobuf"),
                                 ("second", whole + b"\x0a\x02\x08\x02",
                                  "capture 2: part 1, version: later"),
                                 ("behind", whole + b"{}", "capture 1 of h0: part 2: cut off"),
                                 ("half", plain[:-3], "capture 1: part 1: cut off"),
                                 ("number",
                                  capture_wire.part(b"\x08\x01") + capture_wire.part(b"\x1a\x02\x18\x09"),
                                  "part 2, frames: a number that is none"),
                                 ("later", b"\x0a\x02\x08\x02", "later than what this program knows"),
                                 ("noise", b"\x0a\x02\x08\x01\xff\xff", "capture 1: part 1")):
            path = self.folder / name
            path.write_bytes(text)
            complaint = self.diagnose("1", "--from", path, code=3)
            self.assertIn(str(path), complaint)
            self.assertIn(says, complaint)
        self.assertIn("No such file", self.diagnose("1", "--from", self.folder / "nothing", code=3))
        os.mkfifo(self.folder / "fifo")
        self.assertIn("neither a file nor a folder",
                      self.diagnose("1", "--from", self.folder / "fifo", code=3))

    def test_usage(self):
        self.assertIn("no answer from http://127.0.0.1:9",
                      self.diagnose("1", "--collector", "http://127.0.0.1:9", code=3))
        self.assertIn("files come with --from FILE", self.diagnose("1", "x", code=64))
        self.assertIn("about one slice", self.diagnose("all", code=64))
        self.assertIn("not of files", self.diagnose("1", "--from", "x", "--episode", "y", code=64))
        self.assertIn("--hosts is a number", self.diagnose("1", "--from", "x", "--hosts", "0", code=64))
        self.assertIn("--run is", self.diagnose("1", "--from", "x", "--run", "maybe", code=64))

    def test_waits_in_several_collectives(self):
        """DistributedDataParallel's second step, one rank stopped: who has sent its part of the broadcast
        before it waits in the all-reduce behind
        it. Recorded as test_recorded's; with native frames, and as where there are none."""
        for case in ("second-step", "second-step-native"):
            with self.subTest(case):
                path = self.recorded(case)
                text = self.diagnose("1", "--hosts", "4", "--from", path, code=2)
                self.assertEqual(text.split(" (score ")[0], "slice 1, worker 3 (h3) holds the run up: "
                                                            "its process 4703 is stopped (state T) under "
                                 "`train.py:33 Loader.next_batch`, the 3 others wait in DDP's broadcast (2) "
                                 "and the gradients' all-reduce (1)")
                answer = json.loads(self.diagnose("1", "--hosts", "4", "--json", "--from", path, code=2))
                self.assertEqual([s["worker"] for s in answer["suspects"] if s["score"] >= 0.25], [3])

    def test_recorded(self):
        """What tpu-stack read of four ranks of torch 1.13 (DistributedDataParallel, gloo) on CPython
        3.11, one of which was held up."""
        for case, says in (("read", "main thread is in `read` under `train.py:7 next_batch`"),
                           ("spin", "main thread runs in `train.py:9 next_batch`"),
                           ("lock", "main thread waits for a lock under `train.py:11"),
                           ("sleep", "main thread sleeps under `train.py:12"),
                           ("queue", "main thread waits for a queue under `train.py:14"),
                           ("stop", "is stopped (state T) under `train.py:13")):
            with self.subTest(case):
                text = self.diagnose("1", "--hosts", "4", "--from", self.recorded(case), code=2)
                self.assertTrue(text.startswith("slice 1, worker 2 (h2) holds the run up: its "), text)
                self.assertIn(says, text)
                self.assertIn(", the 3 others wait in the gradients' all-reduce (score", text)

    def test_recorded_on_hosts(self):
        """The same of four booted hosts that the stall matrix (tests/lab/stalls.py) has struck."""
        for case, says in (
                ("eth1", "worker 2 (10.10.0.12) holds the run up: packets between its address "
                         "10.10.1.12 and 2 others are lost, the 3 others wait"),
                ("eth0", "worker 1: it did not answer, the 3 others wait in the gradients' all-reduce"),
                ("exit", "worker 1 (10.10.0.11): its process has left the run (exit code 0) first, 2.2 s "
                         "before the next"),
                ("mount", "worker 0 (10.10.0.10) holds the run up: its main thread is in `read` under "
                          "`dataset.py:53 Dataset.next_batch`"),
                ("deadlock", "worker 0 (10.10.0.10) holds the run up: its main thread waits for a queue "
                             "under `loader.py:20 Loader.next_batch`"),
                ("pause",
                 "worker 0 (10.10.0.10) holds the run up: its main thread runs in `train.py:80 tidy`")):
            with self.subTest(case):
                text = self.diagnose("1", "--hosts", "4", "--from", self.recorded(case), code=2)
                self.assertTrue(text.startswith("slice 1, " + says), text)
        text = self.diagnose("1", "--from", self.recorded("deadlock"), code=2)
        self.assertIn("waits for a lock under `cache.py:18 Cache.trim`, as on no other host", text)

    def start(self, role):
        script = self.folder / "training.py"
        script.write_text(TRAINING)
        process = subprocess.Popen([sys.executable, script, role], stdout=subprocess.PIPE, text=True)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.assertEqual(process.stdout.readline(), "ready\n")
        return process.pid

    def waits(self, pid):
        """Until it sleeps in the call that it is about to make."""
        end = time.monotonic() + 60
        while pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "S":
            self.assertLess(time.monotonic(), end)
            time.sleep(0.05)

    def test_real_processes(self):
        for words in (["--capture"], ["--native", "--capture"]):
            files = []
            for k in range(4):
                pid = self.start("stuck" if k == 3 else "waits")
                self.waits(pid)
                done = subprocess.run([TPU_STACK, *words, str(pid)], capture_output=True, timeout=60,
                                      check=False)
                files.append(self.folder / f"real{k}.capture")
                files[-1].write_bytes(done.stdout)
                shown = subprocess.run([TPUCTL, "stack", "--from", files[-1]], capture_output=True,
                                       text=True, timeout=60, check=False)
                if "CPython" not in shown.stdout:
                    self.skipTest(shown.stdout + shown.stderr + done.stderr.decode())
                self.assertIn("line 6, in next_batch\n" if k == 3 else "in all_reduce\n", shown.stdout)
                self.assertEqual(shown.returncode, 0)
                answer = json.loads(subprocess.check_output([TPUCTL, "stack", "--json", "--from", files[-1]],
                                                            timeout=60))
                self.assertEqual([p["pid"] for p in answer["processes"]], [pid])
            text = self.diagnose("all", "--from", *files, code=2)
            self.assertRegex(text, r"^host real3 holds the run up: its main thread waits for data in "
                                   r"pipe:\[\d+\] under `training.py:6 next_batch`, whose other end "
                                   r"nobody has, the 3 others wait in all-reduce")
            if "--native" in words:  # one stack: what C ran is on both sides of what Python ran
                def chains(node, above=()):
                    functions = (*above, *(f["function"] for f in node.get("frames", ())))
                    below = node.get("children", ())
                    return [c for child in below for c in chains(child, functions)] if below else [functions]
                tree = json.loads(self.diagnose("all", "--json", "--from", *files, code=2))["tree"]
                through = [c for c in chains(tree) if "next_batch" in c]
                self.assertTrue(all(c.index("<module>") > 0 for c in through), through)
                self.assertTrue(any("read" in c[c.index("next_batch"):] for c in through), through)


if __name__ == "__main__":
    unittest.main()
