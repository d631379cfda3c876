"""tpu-hostd as systemd, a collector, tpu-launchd and its callers see it: the real program, driven from
outside."""

import errno
import grp
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import documented  # noqa: E402
from around import (BINARY, CAPTURE_REPLY, CAPTURE_REQUEST, ERROR, Hostd, Launchd, Receiver,  # noqa: E402
                    capture_wire, captured, message, wait_until)

JOURNAL_WRITER = os.environ.get("JOURNAL_WRITER", "/lib/systemd/systemd-journal-remote")
WRONG = "4096\t131072\t6291456"
TRAIN = {1: "train", 2: "tpu-run-train.service", 3: "running", 7: "jax", 8: "tcmalloc", 9: "alice",
         10: "python3 train.py", 13: 4242, 14: 2}


class Case(unittest.TestCase):
    def hostd(self, *a, **k):
        h = Hostd(*a, **k)
        self.addCleanup(lambda: h.close(failed=self.has_failed()))
        return h

    def has_failed(self):
        # private to unittest; what a daemon said is shown for a failure only
        return not self._outcome.success

    def receiver(self):
        r = Receiver().start()
        self.addCleanup(r.stop)
        return r

    def launchd(self, h):
        daemon = Launchd(h.folder / "launchd.sock")
        self.addCleanup(daemon.stop)
        return daemon


class Service(Case):
    """READY, watchdog, signals, options."""

    def test_ready_watchdog_and_stop(self):
        h = self.hostd().start(watchdog_usec=400_000)
        self.assertEqual(h.notified("READY=1"), 1)
        wait_until(lambda: h.notified("WATCHDOG=1") >= 5, 3, "watchdog pings")
        wait_until(lambda: any(t.startswith("STATUS=ready") for t in h.told), 3, "the state in STATUS=")
        self.assertEqual(h.call("/healthz")[::2], (200, b"ok\n"))
        self.assertEqual(h.stop(), 0)
        self.assertEqual(h.notified("STOPPING=1"), 1)
        self.assertIn("tpu-hostd is stopping", h.output.read_text())

    def test_contests_are_events(self):
        h = self.hostd().start()
        boot = (h.root / "proc/sys/kernel/random/boot_id").read_text().strip()
        (h.root / "run/tpu-hostd/told").mkdir(parents=True)
        file = h.root / "run/tpu-netcfg/contested"
        file.parent.mkdir(parents=True, exist_ok=True)

        def say(since):
            file.with_suffix(".new").write_text(
                f"tpu-contested 1\nboot {boot}\nsysctl\tnet.ipv4.tcp_rmem\tnet.ipv4.tcp_rmem\t4096 1 2\t"
                f"4096 3 4\t3\t{since}\t0\t-\t-\n")
            file.with_suffix(".new").rename(file)

        say(5000000)
        wait_until(lambda: h.events("tpu.netcfg.contested"), 60, "the event")
        fields = h.events("tpu.netcfg.contested")[0]
        self.assertIn("net.ipv4.tcp_rmem", json.dumps(fields))
        self.assertIn("writer not seen (no BPF programs are loaded)", json.dumps(fields))
        self.assertEqual((h.root / "run/tpu-hostd/told/contested").stat().st_mode & 0o777, 0o644)
        self.assertIn("no BPF programs are loaded", (h.root / "run/tpu-hostd/told/contested").read_text())
        self.assertIn("sudo tpu-netcfg --once", json.dumps(fields))
        say(6000000)  # another contest over the same setting
        wait_until(lambda: len(h.events("tpu.netcfg.contested")) == 2, 60, "the second")
        self.assertEqual(len(h.events("tpu.netcfg.uncontested")), 1)
        file.unlink()
        wait_until(lambda: len(h.events("tpu.netcfg.uncontested")) == 2, 60, "its end")
        wait_until(lambda: not (h.root / "run/tpu-hostd/told/contested").exists(), 60, "the end of our file")

    def test_stopped_loop_pings_no_more(self):
        """The ping comes from the loop: a process that does not turn is found out."""
        h = self.hostd().start(watchdog_usec=200_000)
        wait_until(lambda: h.notified("WATCHDOG=1") >= 2, 3, "watchdog pings")
        h.process.send_signal(signal.SIGSTOP)
        h.notified("WATCHDOG=1")
        h.told.clear()
        time.sleep(0.5)
        self.assertEqual(h.notified("WATCHDOG=1"), 0)
        h.process.send_signal(signal.SIGCONT)

    def test_reload(self):
        h = self.hostd().start()
        self.assertEqual(h.get("/v1/identity")["slice-name"]["value"], "v6e-a")
        site = h.root / "etc/tpu-hostd/identity.conf.d/10-site.conf"
        site.write_text(site.read_text().replace("SliceName=v6e-a", "SliceName=v6e-b"))
        h.config.write_text(h.config.read_text().replace("ApiSocket=", "ApiSocket=/elsewhere"))
        h.process.send_signal(signal.SIGHUP)
        wait_until(lambda: h.notified("RELOADING=1") and h.notified("READY=1") == 2, 5,
                   "RELOADING=1 and READY=1 again")
        self.assertEqual(h.get("/v1/status")["identity"]["slice"], "v6e-b")
        self.assertIn("ApiSocket= changed: restart", h.output.read_text())

    def test_reload_of_the_probe_interval(self):
        """It holds at once, not behind a whole interval of the previous length."""
        h = self.hostd(ProbeInterval="10min").start()
        h.config.write_text(h.config.read_text().replace("ProbeInterval=10min", "ProbeInterval=100ms"))
        h.process.send_signal(signal.SIGHUP)
        wait_until(lambda: h.notified("READY=1") == 2, 5, "READY=1 again")
        h.rmem(WRONG)
        wait_until(lambda: h.get("/v1/status")["state"] != "ready", 20, "three looks at the drift")

    def test_options(self):
        h = self.hostd()

        def run(*a):
            return subprocess.run([BINARY, *a], capture_output=True, text=True, timeout=60)

        self.assertEqual(run("--config", h.config, "--root", h.root, "--check-config").returncode, 0)
        h.config.write_text("[Hostd]\nMetricsInterval=soon\n")
        bad = run("--config", h.config, "--root", h.root, "--check-config")
        self.assertEqual(bad.returncode, 1)
        self.assertRegex(bad.stderr, r"hostd\.conf:2: MetricsInterval=soon")
        shown = run("--config", h.config, "--root", h.root, "--show-config")
        self.assertRegex(shown.stdout, r"# from default\nMetricsInterval = 10s")
        self.assertEqual(run("--nonsense").returncode, 64)
        self.assertEqual(run("word").returncode, 64)
        self.assertIn("--show-config", run("--help").stdout)
        missing = run("--config", "/nonexistent/x.conf")
        self.assertEqual(missing.returncode, 1)
        self.assertIn("/nonexistent/x.conf", missing.stderr)

    def test_second_one_on_the_same_spool_is_refused(self):
        h = self.hostd().start()
        other = h.folder / "other.conf"
        other.write_text(h.config.read_text().replace("api.sock", "api2.sock"))
        r = subprocess.run([BINARY, "--root", h.root, "--config", other], capture_output=True, text=True,
                           timeout=60)
        self.assertEqual(r.returncode, 1)
        self.assertIn(str(h.folder / "spool"), r.stderr)


class Memory(Case):
    def private_dirty(self, h):
        rollup = Path(f"/proc/{h.process.pid}/smaps_rollup").read_text()
        return int(re.search(r"Private_Dirty:\s+(\d+)", rollup)[1])

    def test_recovery_leaves_no_memory_behind(self):
        """A start that reads segments of a spool ends with what a start without any has."""
        if b"__asan_init" in BINARY.read_bytes():
            self.skipTest("the sanitizers keep memory of their own")
        r = self.receiver()
        h = self.hostd(endpoint=f"http://127.0.0.1:{r.port}").start()
        wait_until(lambda: r.points() and r.events(), 5, "records of both classes")
        before = self.private_dirty(h)
        h.stop()
        h.start()
        sent = len(r.records())
        wait_until(lambda: len(r.records()) > sent + 2, 5, "records after the restart")
        self.assertGreater(sum(f.stat().st_size for f in (h.folder / "spool").glob("*/*.seg")), 4 << 20)
        self.assertLess(self.private_dirty(h), before + 1024)


class Health(Case):
    def test_everything_is_ready(self):
        h = self.hostd().start()
        status = h.get("/v1/status")
        self.assertEqual((status["state"], status["reasons"], status["host"]),
                         ("ready", [], "t1v-n-0a1b2c3d-w-0"))
        self.assertEqual(status["identity"],
                         {"slice": "v6e-a", "worker_id": "0", "accelerator_type": "v6e-16"})
        self.assertEqual(status["boot_id"], "5e0f3a52-52a7-4d2b-9b1c-6a1f0e4d7c3b")
        self.assertTrue(status["uplink"]["durable"])
        checks = h.get("/v1/checks")["checks"]
        self.assertTrue({"nic", "sysctl", "tpu", "memory"} <= {c["check"].split(".")[0] for c in checks},
                        checks)
        self.assertEqual({c["settled"] for c in checks}, {"OK"})

    def test_the_first_samples_know_the_state(self):
        h = self.hostd(MetricsInterval="60s").start()  # the first tick comes a second behind the start
        text = h.call("/metrics")[2].decode()
        self.assertRegex(text, r'tpu_host_state\{[^}]*"ready"\} 1\b')

    def test_one_drift_is_one_event(self):
        h = self.hostd().start()
        h.rmem(WRONG)
        wait_until(lambda: h.get("/v1/status")["state"] != "ready", 10, "the drift to count")
        time.sleep(0.6)  # six more probes see it still
        changed = h.events("tpu.check.changed")
        self.assertEqual(len(changed), 1, changed)
        body = changed[0]["body"]
        self.assertEqual((body["check"].split(".")[0], body["from"], body["found"]),
                         ("sysctl", "OK", "4096 131072 6291456"))
        status = h.get("/v1/status")
        self.assertEqual(len(status["reasons"]), 1)
        self.assertIn("4096 131072 6291456", status["reasons"][0]["reason"])
        self.assertTrue(status["reasons"][0]["remedy"])
        h.rmem("4096\t41943040\t314572800")
        wait_until(lambda: h.get("/v1/status")["state"] == "ready", 10, "the host to heal")
        self.assertEqual([e["body"]["to"] for e in h.events("tpu.host.state_changed")][-1], "ready")
        self.assertEqual(len(h.events("tpu.check.changed")), 2)

    def test_a_blink_is_no_event(self):
        h = self.hostd(ProbeInterval="300ms").start()
        before = h.events()
        h.rmem(WRONG)
        wait_until(lambda: any(c["verdict"] != c["settled"] for c in h.get("/v1/checks")["checks"]), 5,
                   "one look at it")
        h.rmem("4096\t41943040\t314572800")
        time.sleep(1)
        self.assertEqual(h.events(), before)

    def test_unreadable_is_unknown_not_failed(self):
        h = self.hostd()
        (h.root / "proc/sys/net/ipv4/tcp_rmem").unlink()
        h.start()
        self.assertEqual(h.get("/v1/status")["state"], "unknown")

    def test_a_removed_nic_is_forgotten(self):
        h = self.hostd().start()
        shutil.copy(h.root / "netlink/links.drift", h.root / "netlink/links")
        wait_until(lambda: any(r["subject"] == "eth1" for r in h.get("/v1/status")["reasons"]), 10,
                   "eth1's MTU to count")
        dump = (h.root / "netlink/links").read_bytes()
        at = dump.index(b"eth1\0")
        (h.root / "netlink/links").write_bytes(dump[:at] + b"eth7\0" + dump[at + 5:])
        wait_until(lambda: not any(c["subject"] == "eth1" for c in h.get("/v1/checks")["checks"]), 10,
                   "eth1 to be forgotten")
        self.assertIn(("eth1", "absent"),
                      {(e["body"]["subject"], e["body"]["to"]) for e in h.events("tpu.check.changed")})


class Uplink(Case):
    def test_metrics_and_events_arrive(self):
        began = time.time_ns()
        r = self.receiver()
        h = self.hostd(endpoint=f"http://127.0.0.1:{r.port}").start()
        wait_until(lambda: {"tpu.host.state", "tpu.check.verdict"} <= {p[1] for p in r.points()}, 10,
                   "metrics")
        points = r.points()
        resource = points[0][0]
        self.assertEqual(resource["service.name"], "tpu-hostd")
        self.assertEqual(resource["host.name"], "t1v-n-0a1b2c3d-w-0")
        self.assertEqual((resource["tpu.slice.name"], resource["tpu.worker.id"]), ("v6e-a", "0"))
        state = {p[4]["tpu.host.state"]: p[5] for p in points if p[1] == "tpu.host.state"}
        self.assertEqual(state, {"ready": 1, "degraded": 0, "unfit": 0, "unknown": 0})
        received = [p for p in points if p[1] == "system.network.io"
                    and p[4].get("network.io.direction") == "receive"]
        self.assertEqual({(p[4]["network.interface.name"], p[5], p[2], p[3]) for p in received},
                         {("eth0", 123456789, "By", "sum"), ("eth1", 123456790, "By", "sum")})
        self.assertEqual(documented.undocumented(points), set())
        self.assertTrue(all(began <= p[6] <= time.time_ns() for p in points))
        self.assertTrue(all(0 < p[7] < p[6] for p in points if p[3] == "sum"))
        h.rmem(WRONG)
        # not any change: a check of which a slow machine knows nothing has one, too
        found = "4096 131072 6291456"
        _, _, severity, body, attributes, _, record = wait_until(
            lambda: next((e for e in r.events() if e[1] == "tpu.check.changed" and e[3]["found"] == found),
                         None), 10, "the event")
        self.assertIn(body["to"], [e["body"]["to"] for e in h.events("tpu.check.changed")
                                   if e["body"]["found"] == found])
        self.assertGreaterEqual(severity, 13)
        self.assertEqual(record,
                         f"{attributes['tpu.spool.id']}/"
                         f"{attributes['tpu.spool.class']}/{attributes['tpu.spool.seq']}")

    def test_receiver_away_and_back(self):
        r = self.receiver()
        h = self.hostd(endpoint=f"http://127.0.0.1:{r.port}").start()
        wait_until(lambda: len(r.points()) > 0, 10, "metrics")
        r.stop()

        def drifts():  # on a slow machine other checks may count meanwhile
            return "tcp_rmem" in json.dumps(h.get("/v1/status")["reasons"])

        for _ in range(3):
            h.rmem(WRONG)
            wait_until(drifts, 60, "the drift")
            h.rmem("4096\t41943040\t314572800")
            wait_until(lambda: not drifts(), 60, "healing")
        r.start()
        wait_until(lambda: sum(e[1] == "tpu.check.changed" for e in r.events()) >= 6, 90,
                   "the events of the outage")
        self.all_there_once(r, h)

    def test_kill_keeps_the_spool(self):
        r = Receiver().start()
        port = r.port
        r.stop()
        h = self.hostd(endpoint=f"http://127.0.0.1:{port}").start()
        h.rmem(WRONG)
        wait_until(lambda: h.events("tpu.host.state_changed"), 10, "the drift")
        wait_until(lambda: len(h.events("tpu.check.changed")) == 1, 10, "the event")
        appended = h.get("/v1/status")["uplink"]["classes"]["events"]["appended"]
        spooled = h.folder / "spool/events"
        wait_until(lambda: sum(f.read_bytes().count(b"tpu.spool.seq")
                               for f in spooled.glob("*.seg")) >= appended, 10, "all of them in the file")
        h.process.kill()
        h.process.wait()
        h.start()
        self.assertGreaterEqual(h.get("/v1/status")["uplink"]["classes"]["events"]["kept"], appended)
        self.addCleanup(r.stop)
        r.port = port
        r.start()
        wait_until(lambda: sum(e[1] == "tpu.agent.started" for e in r.events()) == 2, 90, "both starts")
        names = [e[1] for e in r.events()]
        self.assertGreaterEqual(names.count("tpu.check.changed"), 1)
        self.assertEqual(names[0], "tpu.agent.started")
        self.all_there_once(r, h)

    def all_there_once(self, r, h):
        """Every record of the class of events from 1 on, none twice: the agent had no reason to repeat
        any."""
        def appended():
            return h.get("/v1/status")["uplink"]["classes"]["events"]["appended"]

        wait_until(lambda: len([x for x in r.records() if "/events/" in x]) >= appended(), 30, "every event")
        records = [x for x in r.records() if "/events/" in x]
        self.assertEqual(len(records), len(set(records)), records)
        self.assertEqual(len({x.split("/")[0] for x in records}), 1)
        numbers = sorted(int(x.rsplit("/", 1)[1]) for x in records)
        self.assertEqual(numbers, list(range(1, len(numbers) + 1)))

    def test_parked_endpoint_is_a_reason(self):
        r = self.receiver()
        r.status = 401
        h = self.hostd(endpoint=f"http://127.0.0.1:{r.port}").start()
        bad = wait_until(lambda: (s := h.get("/v1/status"))["state"] == "unfit" and s, 10,
                         "the parked endpoint to count")
        self.assertEqual(bad["reasons"][0]["check"], "uplink.delivery")  # the gravest
        self.assertIn("401", bad["reasons"][0]["reason"])
        self.assertTrue(bad["uplink"]["parked"])


class Runs(Case):
    def test_no_launchd(self):
        h = self.hostd().start()
        self.assertEqual(h.get("/v1/runs"), {"runs": None, "registry": "none", "records": []})
        self.assertIsNone(h.get("/v1/status")["live_runs"])
        code, _, body = h.call("/v1/runs/train/capture", "POST")
        self.assertEqual((code, json.loads(body)["remedy"]), (503, "systemctl status tpu-launchd"))

    def test_a_run_starts_and_ends(self):
        h = self.hostd().start()
        launchd = self.launchd(h)
        wait_until(lambda: h.get("/v1/status")["live_runs"] == 0, 10, "launchd to be found")
        launchd.runs = [{**TRAIN, 11: time.time_ns() // 1000}]
        wait_until(lambda: h.events("tpu.run.started"), 10, "the start")
        run = h.get("/v1/runs")["runs"][0]
        self.assertEqual((run["name"], run["user"], run["main_pid"], run["ended"], run["step"]),
                         ("train", "alice", 4242, None, None))
        launchd.runs = [{**launchd.runs[0], 3: "exited", 4: "signal", 5: "killed", 6: "KILL",
                         12: time.time_ns() // 1000}]
        ended = wait_until(lambda: h.events("tpu.run.exited"), 10, "the end")
        self.assertEqual({k: ended[0]["body"][k] for k in ("run", "cause", "code", "status")},
                         {"run": "train", "cause": "signal", "code": "killed", "status": "KILL"})
        time.sleep(0.8)
        self.assertEqual(len(h.events("tpu.run.started") + h.events("tpu.run.exited")), 2)

    def test_stacks(self):
        r = self.receiver()
        h = self.hostd(endpoint=f"http://127.0.0.1:{r.port}").start()
        launchd = self.launchd(h)
        taken = time.time_ns() // 1000
        launchd.capture = lambda name: captured(name, "train.py:9 \x1b" + "x" * 2000, taken)
        code, _, body = h.call("/v1/runs/train/capture", "POST")
        self.assertEqual(code, 200, body)
        answer = json.loads(body)
        self.assertEqual((answer["name"], answer["processes"], answer["threads"]), ("train", 1, 2))
        self.assertEqual(answer["text"], capture_wire.text_shown("train.py:9 ?" + "x" * 2000))
        wait_until(lambda: any(e[1] == "tpu.stack.captured" for e in r.events()), 10, "the record")
        event = next(e for e in r.events() if e[1] == "tpu.stack.captured")
        self.assertEqual({k: event[3][k] for k in ("verb", "node", "slice", "worker", "run", "text")},
                         {"verb": "stacktraceanalyzer", "node": "t1v-n-0a1b2c3d-w-0", "slice": "v6e-a",
                          "worker": "0", "run": "train",
                          "text": answer["text"]})
        self.assertEqual(event[6], "{spool}/{class}/{seq}".format(**answer["record"]))
        audit = h.events("tpu.api.acted")
        self.assertEqual([(e["body"]["call"], e["body"]["uid"]) for e in audit],
                         [("POST /v1/runs/train/capture", os.getuid())])
        self.assertIn("captured", audit[0]["body"]["result"])

    def test_long_stacks_are_cut(self):
        h = self.hostd(CaptureTimeout="60s").start()
        launchd = self.launchd(h)
        launchd.capture = lambda name: captured(name, "x" * 1000000)
        code, _, body = h.call("/v1/runs/train/capture", "POST")
        self.assertEqual(code, 200)
        text = json.loads(body)["text"]
        self.assertLess(len(text), 900 * 1024)
        self.assertIn("(output ends here: more than", text)

    def test_refused(self):
        """Also with words that make no sense; for the moment alone, it says when to ask again."""
        h = self.hostd(CaptureTimeout="60s").start()
        launchd = self.launchd(h)
        launchd.capture = lambda name: (ERROR, message({1: errno.ENOENT, 2: f"there is no run {name}",
                                                        3: "tpuctl runs"}))
        code, _, body = h.call("/v1/runs/train/capture", "POST")
        self.assertEqual((code, json.loads(body)),
                         (404, {"error": "there is no run train", "remedy": "tpuctl runs"}))
        for error, answer in ((errno.EBUSY, (503, "1")), (errno.EAGAIN, (503, "1")),
                              (errno.ESRCH, (404, None)), (errno.EIO, (502, None))):
            launchd.capture = lambda name, error=error: (ERROR,
                                                         message({1: error, 2: "a capture was taken a "
                                                                               "moment ago",
                                                                  3: "ask again in a second"}))
            code, headers, _ = h.exchange("/v1/runs/train/capture", "POST")
            self.assertEqual((code, headers["Retry-After"]), answer)
        launchd.capture = lambda name: (CAPTURE_REPLY, b"\xff\xff\xff")
        self.assertEqual(h.call("/v1/runs/train/capture", "POST")[0], 502)
        launchd.capture = lambda name: (CAPTURE_REPLY,
                                        message({1: name, 6: b"\x0a\x02\x08\x01\x0a\x02\x18\x09"}))
        code, _, body = h.call("/v1/runs/train/capture", "POST")
        self.assertEqual((code, json.loads(body)["error"]),
                         (502,
                          "tpu-launchd sent a capture that cannot be read: part 2: cut off, or no protobuf"))
        nothing = {"processes": [{"pid": 7, "command": "bash",
                                  "error": "no CPython interpreter in its memory map"}]}
        launchd.capture = lambda name: (CAPTURE_REPLY, message({1: name, 6: capture_wire.packed(nothing)}))
        code, _, body = h.call("/v1/runs/train/capture", "POST")
        self.assertEqual((code, json.loads(body)["error"]),
                         (404, "run train: no Python process in it: process 7: no CPython interpreter in "
                               "its memory map"))
        self.assertEqual(len(h.events("tpu.api.acted")), 8)
        self.assertEqual(h.get("/v1/status")["state"], "ready")

    def test_silent(self):
        h = self.hostd().start()
        self.launchd(h).capture = lambda name: None
        start = time.monotonic()
        code, _, body = h.call("/v1/runs/train/capture", "POST")
        self.assertEqual(code, 504, body)
        self.assertGreater(time.monotonic() - start, 1.5)
        self.assertEqual(len(h.events("tpu.api.acted")), 1)

    def test_client_goes_while_waiting(self):
        """The others are served meanwhile; the one that went leaves nothing behind, and too many at once
        are told so."""
        h = self.hostd(CaptureTimeout="60s").start()
        launchd = self.launchd(h)
        go_on = threading.Event()
        launchd.capture = lambda name: go_on.wait(60) and captured(name)

        def ask():
            s = socket.socket(socket.AF_UNIX)
            s.connect(str(h.api))
            s.sendall(b"POST /v1/runs/train/capture HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n")
            return s
        waiting = [ask() for _ in range(4)]
        wait_until(lambda: launchd.asked.count(CAPTURE_REQUEST) == 4, 60, "four captures")
        code, _, body = h.call("/v1/runs/train/capture", "POST")
        self.assertEqual(code, 503)
        self.assertIn("in progress", json.loads(body)["error"])
        for s in waiting:
            s.close()
        go_on.set()
        wait_until(lambda: h.call("/v1/runs/train/capture", "POST")[0] == 200, 60, "a capture after theirs")
        launchd.capture = lambda name: None
        asked = launchd.asked.count(CAPTURE_REQUEST)
        with ask():  # and one that waits while the agent ends
            wait_until(lambda: launchd.asked.count(CAPTURE_REQUEST) == asked + 1, 60, "the last capture")
            self.assertEqual(h.stop(), 0)

    @unittest.skipUnless(os.getuid() == 0, "needs root to become another user")
    def test_who_may_act(self):
        h = self.hostd().start()
        launchd = self.launchd(h)
        launchd.capture = lambda name: captured(name)
        launchd.runs = [{**TRAIN, 11: 1}]

        def as_nobody(path, method, groups="--clear-groups"):
            return subprocess.run(["setpriv", "--reuid=65534", "--regid=65534", groups, "curl", "-s", "-o",
                                   "/dev/null", "-w",
                                   "%{http_code}", "-X", method, "--unix-socket", h.api, f"http://h{path}"],
                                  capture_output=True, text=True, timeout=60).stdout

        wait_until(lambda: h.get("/v1/status")["live_runs"] == 1, 10, "the run to be known")
        self.assertEqual(as_nobody("/v1/status", "GET"), "200")
        self.assertEqual(as_nobody("/v1/captures", "GET"), "403")
        self.assertEqual(h.call("/v1/captures")[0], 200)
        self.assertEqual(as_nobody("/v1/runs/train/capture", "POST"), "403")
        self.assertEqual(launchd.asked.count(CAPTURE_REQUEST), 0)
        audit = h.events("tpu.api.acted")[-1]["body"]
        self.assertEqual(audit["uid"], 65534)
        self.assertIn("refused", audit["result"])
        # Who may start runs may not look into those of others: tpu-launchd, asked by the user, says no as
        # well.
        for number, group in enumerate(grp.getgrall()[:30]):
            self.assertEqual(as_nobody("/v1/runs/train/capture", "POST", f"--groups={group.gr_gid}"), "403",
                             (number, group.gr_name))
        # Nobody floods the spool with what he may not do: ten refusals a minute are told one by one, the
        # others counted.
        refused = [e["body"]["result"] for e in h.events("tpu.api.acted")]
        self.assertEqual(len(refused), 10)
        owned = h.root / "proc/4242"  # the run's main process is that user's
        owned.mkdir()
        os.chown(owned, 65534, 65534)
        self.assertEqual(as_nobody("/v1/runs/train/capture", "POST"), "200")
        wait_until(lambda: len(h.events("tpu.api.acted")) == 11, 5, "the audit of what was done")


@unittest.skipUnless(os.path.exists(JOURNAL_WRITER), "systemd-journal-remote is not installed")
class Journal(Case):
    def test_steps(self):
        """Only what the journal itself says is a run's counts, from the start of the agent on, however
        much comes at once."""
        h = self.hostd(Journal="/tmp")
        folder = h.folder / "journal"
        folder.mkdir()
        h.config.write_text(h.config.read_text().replace("Journal=/tmp", f"Journal={folder}"))
        writer = subprocess.Popen([JOURNAL_WRITER, "-o", folder / "system.journal", "-"],
                                  stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.addCleanup(lambda: (writer.stdin.close(), writer.wait(60)))

        def entry(unit, line, identifier="tpu-run"):
            writer.stdin.write((f"__REALTIME_TIMESTAMP={time.time_ns() // 1000}\n"
                                f"__MONOTONIC_TIMESTAMP={time.monotonic_ns() // 1000}\n"
                                f"_BOOT_ID={'5e0f3a5252a74d2b9b1c6a1f0e4d7c3b'}\n"
                                f"SYSLOG_IDENTIFIER={identifier}\n"
                                f"_SYSTEMD_UNIT={unit}\nMESSAGE={line}\n\n").encode())
            writer.stdin.flush()

        def step(n):
            return (f"completed step: {n}, seconds: 0.5, TFLOP/s/device: 1.0, Tokens/s/device: 11.5, "
                    f"total_weights: 2, loss: 1.5")

        entry("tpu-run-train.service", step(7777))
        wait_until(lambda: list(folder.glob("*.journal")), 5, "the journal file")
        time.sleep(0.5)  # the writer tells nobody when its entry is in the file
        h.start()
        launchd = self.launchd(h)
        launchd.runs = [TRAIN]
        wait_until(lambda: h.get("/v1/status")["live_runs"] == 1, 10, "the run to be known")
        self.assertIsNone(h.get("/v1/runs")["runs"][0]["step"])
        for n in range(1, 400):
            entry("tpu-run-train.service", step(n))
        entry("ssh.service", step(8888))
        entry("tpu-run-train.service", step(9999), identifier="liar")
        entry("tpu-run-train.service", "completed step: nan, seconds: 1")
        wait_until(lambda: h.get("/v1/runs")["runs"][0]["step"] == 399, 10, "step 399")
        wait_until(lambda: 'tpu_run_step_number{tpu_run_name="train"} 399' in h.call("/metrics")[2].decode(),
                   5, "the metric")
        launchd.runs = [{**TRAIN, 3: "exited"}]
        wait_until(lambda: "tpu_run_step" not in h.call("/metrics")[2].decode(), 5,
                   "the ended run's metrics to go")
        self.assertNotIn("8888", h.output.read_text())


class Api(Case):
    def test_errors(self):
        h = self.hostd().start()
        self.assertEqual(h.call("/nope")[0], 404)
        self.assertEqual(h.call("/v1/status", "DELETE")[0], 405)
        self.assertEqual(h.call("/v1/runs/train/capture", "GET")[0], 405)
        self.assertEqual(h.call("/v1/runs/..%2fx/capture", "POST")[0], 404)
        self.assertEqual(h.call("/v1/runs/" + "a" * 60 + "/stack", "POST")[0], 404)
        for since in ("x", "-1", "1x", "99999999999999999999999", ""):
            self.assertEqual(h.call(f"/v1/events?since={since}")[0], 400, since)
        newest = h.get("/v1/events")
        self.assertEqual(h.get(f"/v1/events?since={newest['next']}")["events"], [])
        self.assertEqual(len(h.get(f"/v1/events?since={newest['next'] - 1}")["events"]), 1)

    def test_bad_http(self):
        h = self.hostd().start()
        for data in (b"\x00\xff\xfe" * 100, b"GET / HTTP/9.9\r\n\r\n",
                     b"GET /" + b"a" * 100000 + b" HTTP/1.1\r\n\r\n",
                     b"POST /v1/status HTTP/1.1\r\nHost: h\r\nContent-Length: 99999999\r\n\r\n"
                     + b"b" * 200000, b"GET /v1/status HT"):
            s = socket.socket(socket.AF_UNIX)
            s.settimeout(2)
            s.connect(str(h.api))
            try:
                s.sendall(data)
                s.recv(100)
            except OSError:
                pass
            s.close()
        self.assertEqual(h.get("/v1/status")["state"], "ready")


if __name__ == "__main__":
    unittest.main()
