#!/usr/bin/python3
"""libtpu's metrics service asked over real gRPC: a stand-in in all its moods, through the client alone
and through tpu-hostd."""

import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import unittest
from pathlib import Path

try:
    import grpc  # noqa: F401
    import h2  # noqa: F401
    from prometheus_client.parser import text_string_to_metric_families
except ImportError as e:
    if __name__ == "__main__":
        print(f"skipped: {e}; run tools/deps test")
        sys.exit(77)
    raise unittest.SkipTest(str(e))

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "hostd")]
import documented  # noqa: E402
import libtpu_stand_in  # noqa: E402
from around import Hostd, Receiver, free_port, wait_until  # noqa: E402
from libtpu_stand_in import StandIn, requested  # noqa: E402
from rough_server import RoughServer  # noqa: E402

DRIVER = Path(os.environ["BUILD_DIR"]) / "tests/libtpu/libtpu-driver"


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="libtpu-test-"))
        self.addCleanup(shutil.rmtree, self.folder)
        self.state = self.folder / "state.json"

    def say(self, **state):
        new = self.folder / "new"
        new.write_text(json.dumps(state))
        new.rename(self.state)

    def stand_in(self, chips=4, ports=1):
        s = StandIn([free_port() for _ in range(ports)], self.state, chips)
        self.addCleanup(s.stop)
        return s

    def drive(self, *ports, rounds=1, step=1, **environment):
        """The lines of libtpu-driver, the last but for a status being the traffic."""
        r = subprocess.run([DRIVER, str(rounds), str(step), *map(str, ports)], capture_output=True,
                           text=True, timeout=120,
                           env={**os.environ, **environment})
        self.assertEqual((r.returncode, r.stderr), (0, ""))
        return [json.loads(line) for line in r.stdout.splitlines()]

    @staticmethod
    def of(lines, event):
        return [x for x in lines if x["event"] == event]

    def points(self, lines, name):
        return {tuple(x["labels"].values()): x["value"] for x in self.of(lines, "point")
                if x["name"] == name}


class Client(Case):
    def test_every_metric(self):
        s = self.stand_in()
        self.say(error={"error_type": "HANG_DETECTED", "host_name": "w3"},
                 metrics={"slice.error.detected.gauge": [{"attributes": {"type": "test",
                                                                         "error_message": "lost"},
                                                          "int": 1}]})
        lines = self.drive(s.ports[0])
        seen = {x["name"] for x in self.of(lines, "point")}
        self.assertEqual(seen, documented.of_the_tpu_runtime())
        self.assertEqual(self.points(lines, "tpu.hbm.usage"), {(str(c),): 17179869184 + c for c in range(4)})
        self.assertEqual(self.points(lines, "tpu.hlo.queue.size"),
                         {(str(c), "TensorCore"): 2 for c in range(4)})
        self.assertEqual(self.points(lines, "tpu.megascale.error"), {("HANG_DETECTED",): 1})
        self.assertEqual(set(self.points(lines, "tpu.dcn.transfer.duration")),
                         {("512B+", "grpc"), ("1MB+", "grpc")})
        self.assertEqual(set(self.points(lines, "tpu.megascale.tcp.transfer.duration")), {("512",)})
        h = self.points(lines, "tpu.dcn.transfer.duration")["1MB+", "grpc"]
        self.assertEqual((len(h["bounds"]), len(h["counts"]), sum(h["counts"])), (31, 32, h["count"]))
        self.assertAlmostEqual(h["bounds"][10], 1024e-6)
        self.assertAlmostEqual(h["sum"], 200e-6 * h["count"])
        end, = self.of(lines, "end")
        self.assertEqual((end["connections"], end["left_out"]), (1, 0))
        r, = self.of(lines, "round")
        self.assertEqual((r["processes"], r["queued"], r["error"], r["error_type"]),
                         (1, 8, True, "HANG_DETECTED"))

    def test_both_encodings_are_the_same(self):
        s = self.stand_in()
        got = []
        for encoding in ("new", "int", "old"):
            self.say(encoding=encoding)
            lines = self.drive(s.ports[0])
            got.append([self.points(lines, n)
                        for n in ("tpu.duty_cycle", "tpu.hbm.limit", "tpu.tensorcore.idle_time")])
            queue = self.points(lines, "tpu.hlo.queue.size")
            self.assertEqual({k[0] for k in queue}, {"0", "1", "2", "3"})
        self.assertEqual(got[0], got[1])
        self.assertEqual(got[0], got[2])
        self.assertEqual(set(got[0][0]), {("0",), ("1",), ("2",), ("3",)})

    def test_distributions(self):
        name = "megascale.grpc_tcp_read_size.cumulative.distribution"
        kinds = [{"distribution": {"count": 6, "mean": 2.0, "linear": [2, 5.0, 0.0], "counts": [1, 2, 3]}},
                 {"distribution": {"count": 6, "mean": 2.0, "explicit": [1.0, 4.0], "counts": [1, 2, 3]}}]
        bounds = [[0, 5, 10], [1, 4]]
        counts = [[1, 2, 3, 0], [1, 2, 3]]
        s = self.stand_in()
        for kind, b, n in zip(kinds, bounds, counts):
            self.say(metrics={name: [{"attributes": {}, **kind}]})
            got = self.points(self.drive(s.ports[0]), "tpu.megascale.tcp.read.size")[()]
            self.assertEqual((got["bounds"], got["counts"], got["count"]), (b, n, sum(n)))
        for kind in ({"distribution": {"count": 6, "mean": 2.0, "regular": [2, [(5.0, 0.0)]],
                                       "counts": [1, 2, 3]}},
                     {"summary": {"count": 100, "sum": 500.0, "quantiles": [(0.5, 4.0), (0.99, 9.0)]}}):
            self.say(metrics={name: [{"attributes": {}, **kind}]})
            # forms that are not taken
            self.assertNotIn((), self.points(self.drive(s.ports[0]), "tpu.megascale.tcp.read.size"))

    def test_gauges_each_round_the_rest_each_minute(self):
        s = self.stand_in()
        lines = self.drive(s.ports[0], rounds=7)
        names = [x["name"] for x in self.of(lines, "point") if x["labels"].get("tpu.chip", "0") == "0"]
        self.assertEqual(names.count("tpu.duty_cycle"), 7)
        self.assertEqual(names.count("tpu.megascale.tcp.min_rtt"), 2)
        self.assertEqual(s.count("ListSupportedMetrics"), 2)
        end, = self.of(lines, "end")
        self.assertEqual(end["connections"], 1)  # kept
        self.assertEqual(s.count("GetTpuRuntimeStatus"), 0)  # nobody suspects anything

    def test_no_workload(self):
        lines = self.drive(free_port(), free_port(), rounds=3)
        self.assertEqual({x["event"] for x in lines}, {"round", "end"})
        self.assertEqual(self.of(lines, "round")[0],
                         {"event": "round", "processes": 0, "duty": -1.0, "idle": -1.0, "queued": -1,
                                                     "error": False, "error_type": "", "known": False})

    def test_a_port_where_nobody_listens_is_asked_seldom(self):
        def refused(rounds, *ports, **environment):
            return self.of(self.drive(*ports, rounds=rounds, **environment), "end")[0]["refused"]

        self.assertEqual(refused(12, free_port()), 12)  # a run is here
        self.assertEqual(refused(18, free_port(), UNEXPECTED="1"), 6 + 4)  # rounds 9, 12, 15, 18
        s = self.stand_in()
        # who answers is asked on
        self.assertEqual(self.of(self.drive(s.ports[0], rounds=12, UNEXPECTED="1"),
                                 "round")[-1]["processes"], 1)

    def test_one_port_for_each_process(self):
        a, b = self.stand_in(chips=1), self.stand_in(chips=1)
        lines = self.drive(a.ports[0], free_port(), b.ports[0], rounds=2)
        self.assertEqual({x["port"] for x in self.of(lines, "point")}, {0, 2})
        self.assertEqual(self.of(lines, "round")[-1]["processes"], 2)
        # each is asked about itself alone as soon as there are two
        self.assertTrue(requested(b.calls[-1][1])[1])

    def test_a_process_that_ends(self):
        s = self.stand_in()
        p = subprocess.Popen([DRIVER, "1000", "20", str(s.ports[0])], stdout=subprocess.PIPE, text=True)
        self.addCleanup(p.stdout.close)
        self.addCleanup(p.wait)
        self.addCleanup(p.kill)
        gone = []
        threading.Thread(target=lambda: gone.extend(json.loads(x) for x in p.stdout
                                                    if x.startswith('{"event":"gone"')
                                                    and x.endswith("}\n")),
                         daemon=True).start()
        wait_until(lambda: s.count("GetRuntimeMetric") > 20, 60, "metrics are asked for")
        s.stop()
        wait_until(lambda: gone, 60, "it is told")
        self.assertEqual(gone[0], {"event": "gone", "port": 0, "why": None})
        again = StandIn([s.ports[0]], self.state)  # as the next run: at once, over a new connection
        self.addCleanup(again.stop)
        wait_until(lambda: again.count("GetRuntimeMetric") > 20, 60, "it is asked again")

    def test_moods(self):
        """Nothing that it does holds us up, grows us or passes for an answer."""
        s = self.stand_in()
        for mode in ("denied", "garbage", "huge", "unimplemented"):
            with self.subTest(mode):
                self.say(mode=mode)
                lines = self.drive(s.ports[0])
                self.assertEqual(self.of(lines, "point"), [])
                gone, = self.of(lines, "gone")
                self.assertTrue(gone["why"])
                self.assertFalse(self.of(lines, "round")[0]["known"])
        self.say(mode="deep")
        self.assertEqual(self.of(self.drive(s.ports[0], STATUS="1"), "point"), [])
        self.say(mode="silent")
        lines = self.drive(s.ports[0], STATUS="1")
        # ours, or the server's own word
        late = ("no answer in time", "DEADLINE_EXCEEDED: Deadline Exceeded")
        self.assertIn(self.of(lines, "gone")[0]["why"], late)
        # the driver asks in the very moment in which the round's end is told, which may be the connection's
        self.assertIn(self.of(lines, "status")[0]["why"], (*late, "the connection to libtpu has just ended"))
        self.say(delay=0.3)
        self.assertEqual(len(self.points(self.drive(s.ports[0]), "tpu.duty_cycle")), 4)
        # some metrics that make no sense leave the others alone
        self.say(metrics={"tpu.runtime.hbm.memory.usage.bytes": [{"device": 0, "text": "lots"},
                                                                 {"device": 1, "int": 5}],
                          "megascale.grpc_tcp_min_rtt."
                          + libtpu_stand_in.US: [{"distribution": {"count": 3, "mean": 1.0,
                                                                   "counts": [1]}}]})
        lines = self.drive(s.ports[0])
        self.assertEqual(self.points(lines, "tpu.hbm.usage"), {("1",): 5})
        self.assertEqual(self.points(lines, "tpu.megascale.tcp.min_rtt"), {})
        self.assertEqual(self.of(lines, "end")[0]["left_out"], 2)

    def test_one_that_does_not_answer_is_asked_more_seldom(self):
        s = self.stand_in()
        self.say(mode="unimplemented")
        self.drive(s.ports[0], rounds=60)  # ten minutes on the driver's clock
        self.assertLess(s.count("ListSupportedMetrics"), 10)

    def test_no_grpc_at_all(self):
        """Servers that break HTTP/2 or gRPC, asked by libtpu's methods."""
        for method in ("truncated", "two", "no_message", "no_trailers", "bad_flag", "odd_status", "reset",
                       "hang_up", "huge_head", "flood",
                       "packed", "packed_untold", "bomb", "page", "not_found", "gateway", "words",
                       "denied_late", "goaway", "goaway_unseen", "other_protocol",
                       "never", "half"):
            with self.subTest(method):
                server = RoughServer()
                try:
                    server.ListSupportedMetrics = getattr(server, method)
                    lines = self.drive(int(server.url.rsplit(":", 1)[1]))
                finally:
                    server.close()
                self.assertEqual(self.of(lines, "point"), [])
                self.assertEqual(self.of(lines, "round")[0]["processes"], 0)

    def test_cores(self):
        s = self.stand_in()
        self.say(core={"2": {"pc": 0, "location": "", "queued": 0}},
                 all_cores={"launch": 12, "run": 5, "pc": 0x77})
        status, = self.of(self.drive(s.ports[0], STATUS="1"), "status")
        self.assertEqual(len(status["cores"]), 4)
        self.assertEqual(status["cores"][0],
                         {"core": 0, "chip": 0, "pc": 0x77, "tag": 3, "launch": 12, "run": 5, "queued": 2,
                                              "fingerprint": "a1" * 16,
                                              "location": "fusion.42 [model.py:88]", "error": ""})
        self.assertEqual((status["cores"][2]["pc"], status["cores"][2]["location"],
                          status["cores"][2]["queued"]), (0, "", 0))
        status, = self.of(self.drive(free_port(), STATUS="1"), "status")
        self.assertEqual((status["cores"], status["why"]),
                         ([], "no process of this host offers libtpu's metrics"))

    def test_a_status_is_answered_when_the_client_ends(self):
        """Whoever waits for it holds a capture: ports that change must not leave him waiting."""
        s = self.stand_in()
        self.say()
        status, = self.of(self.drive(s.ports[0], STATUS="1", LEAVE="1"), "status")
        self.assertEqual(status["cores"], [])

    def test_cost(self):
        """Printed, not judged; but one connection carries all, one exchange a round."""
        s = self.stand_in()

        def cpu(rounds):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            end = self.of(self.drive(s.ports[0], rounds=rounds, QUIET="1"), "end")[0]
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, end
        rounds = 241 if os.environ.get("FULL") else 61
        (least, _), (most, end) = cpu(1), cpu(rounds)
        self.assertEqual(end["connections"], 1)
        self.assertEqual(end["exchanges"], rounds + 1)  # what it offers is asked before all else
        print(f"a round of 10 s: {1000 * (most - least) / (rounds - 1):.2f} ms CPU, "
              f"{end['calls'] / rounds:.1f} calls, "
              f"{end['sent'] / rounds:.0f} bytes sent, {end['received'] / rounds:.0f} received",
              file=sys.stderr)


class Agent(Case):
    """The same through tpu-hostd."""

    def hostd(self, ports):
        h = Hostd(f"http://127.0.0.1:{self.receiver.port}", MetricsInterval="200ms")
        h.config.write_text(h.config.read_text() + f"[Libtpu]\nPorts={ports}\n")
        self.addCleanup(lambda: h.close(failed=not self._outcome.success))
        return h.start()

    def test_hostd(self):
        self.receiver = Receiver().start()
        self.addCleanup(self.receiver.stop)
        s = self.stand_in()
        self.say(error={"error_type": "HANG_DETECTED", "host_name": "w3"},
                 metrics={"slice.error.detected.gauge": [{"attributes": {"type": "test"}, "int": 1}]})
        h = self.hostd(f"{free_port()},{s.ports[0]}")
        wanted = documented.of_the_tpu_runtime()
        wait_until(lambda: {p[1] for p in self.receiver.points()} >= wanted, 60,
                   lambda: wanted - {p[1] for p in self.receiver.points()})
        self.assertEqual(documented.undocumented(self.receiver.points()), set())
        h_count = [p for p in self.receiver.points() if p[1] == "tpu.dcn.transfer.duration"][0]
        self.assertEqual((h_count[3], h_count[4]["tpu.process"], len(h_count[5][2])), ("histogram", "1", 31))
        self.assertEqual(h_count[0]["tpu.worker.id"], "0")
        event = wait_until(lambda: h.events("tpu.runtime.error"), 60, "the event")
        self.assertEqual({e["body"]["kind"]: (e["body"]["type"], e["body"]["port"]) for e in event},
                         {"megascale": ("HANG_DETECTED", s.ports[0]), "slice": ("test", s.ports[0])})
        answer = json.loads(h.call("/v1/chips")[2])
        self.assertEqual((answer["error"], [c["chip"] for c in answer["chips"]]),
                         ("HANG_DETECTED", ["0", "1", "2", "3"]))
        self.assertEqual({c["port"] for c in answer["chips"]}, {s.ports[0]})
        self.assertEqual([c["hbm_used_bytes"] for c in answer["chips"]], [17179869184 + c for c in range(4)])
        self.assertAlmostEqual(answer["chips"][3]["duty_cycle"], 0.975)
        text = h.call("/metrics")[2].decode()
        families = {f.name: f for f in text_string_to_metric_families(text)}
        self.assertEqual(families["tpu_megascale_tcp_min_rtt_seconds"].type, "histogram")
        self.assertIn('tpu_duty_cycle_ratio{tpu_run_name="",tpu_process="1",tpu_chip="3"} 0.975',
                      text.replace("0.97499999999999998", "0.975"))
        self.assertIn('tpu_dcn_transfer_duration_seconds_bucket{tpu_run_name="",'
                      'tpu_process="1",tpu_buffer_size="1MB+",tpu_transfer_type="grpc",le="+Inf"}', text)
        s.stop()
        wait_until(lambda: "tpu_duty_cycle" not in h.call("/metrics")[2].decode(), 60,
                   "what is gone is not shown any more")
        self.assertEqual(json.loads(h.call("/v1/chips")[2])["chips"], [])


if __name__ == "__main__":
    unittest.main()
