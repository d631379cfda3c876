#!/usr/bin/python3
"""docs/openapi-agent.yaml and the running tpu-hostd say the same: every call, every status, every field,
both ways."""

import ctypes
import json
import os
import re
import sys
import threading
import time
import unittest
import urllib.parse
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1])]
from around import (CAPTURE_REPLY, ERROR, Hostd, Launchd, Receiver, TOP, capture_wire,  # noqa: E402
                    captured, message, wait_until)
from certificates import Authority  # noqa: E402
from openapi import METHODS, OpenApi  # noqa: E402

FILE = TOP / "docs/openapi-agent.yaml"
NOBODY = 65534
SETRESUID = 117  # of x86-64
libc = ctypes.CDLL(None, use_errno=True)
RUN = {1: "train", 2: "tpu-run-train.service", 3: "running", 7: "jax", 8: "tcmalloc", 9: "alice",
       10: "python3 train.py", 13: 4242, 14: 2}


class Agent(unittest.TestCase):
    def setUp(self):
        self.file = OpenApi(FILE)

    def hostd(self, endpoint="", **settings):
        h = Hostd(endpoint, **settings)
        self.addCleanup(h.close)
        h.start()
        h.api.chmod(0o666)
        return h

    def call(self, h, method, path, status=200, uid=0, headers=None, body=None, **arguments):
        """Makes a call of the file; path may hold {name}. Returns what came, which is as the file says."""
        url = path.replace("{name}", urllib.parse.quote(arguments.pop("name", "train")))
        if arguments:
            url += "?" + urllib.parse.urlencode(arguments)
        result = []

        def run():
            if uid:
                libc.syscall(SETRESUID, uid, uid, uid)
            result.append(h.call(url, method, headers=headers, timeout=60, body=body))

        t = threading.Thread(target=run)
        t.start()
        t.join()
        got, kind, body = result[0]
        self.assertEqual(got, status, (method, url, body))
        h.notified("STATUS")
        return self.file.take(method, path, got, kind, body)

    def reads(self, h):
        for method, path in self.file.operations:
            if method == "GET" and path not in ("/v1/path", "/v1/pairs", "/v1/sched", "/v1/io"):
                self.call(h, "GET", path)
        self.call(h, "GET", "/v1/path", 404)
        self.call(h, "GET", "/v1/pairs", 409, number=1)
        self.call(h, "GET", "/v1/pairs", 400, round=15)
        for path in ("/v1/sched", "/v1/io"):
            self.call(h, "GET", path, 404, run="none")
            self.call(h, "GET", path, 400, watch="31")
        self.call(h, "POST", "/v1/path", 503)
        self.call(h, "POST", "/v1/path", 400, peer="!!")
        self.call(h, "POST", "/v1/path", 403, uid=NOBODY, peer="10.0.0.1")

    def wrong_arguments(self, h):
        """Each call knows the arguments that the file gives it, and no other."""
        for (method, path), parameters in self.file.parameters.items():
            answer = self.call(h, method, path, 400, nonsense="1")
            takes = re.fullmatch(r"nonsense= is not known; this call takes (.*)", answer["error"])[1]
            wanted = ", ".join(p["name"] + "=" for p in parameters if p["in"] == "query") or "none"
            self.assertEqual(sorted(takes.split(", ")), sorted(wanted.split(", ")), (method, path))

    def orders(self, h):
        ahead = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 3600))
        checks = self.call(h, "GET", "/v1/checks")["checks"]
        for path in ("/v1/cordon", "/v1/drain", "/v1/observe", "/v1/silence"):
            about = {"check": checks[0]["check"],
                     "subject": checks[0]["subject"]} if path == "/v1/silence" else {}
            self.call(h, "DELETE", path, 404, **about)
            self.call(h, "PUT", path, 403, uid=NOBODY, **about, reason="r", until=ahead)
            self.call(h, "PUT", path, **about, reason="r", until=ahead)
            self.call(h, "DELETE", path, 403, uid=NOBODY, **about)
        self.call(h, "GET", "/v1/status")
        self.call(h, "PUT", "/v1/silence", 404, check="no.such", reason="r", until=ahead)
        names = {(c["check"], c["subject"]) for c in checks} | {(c["check"], "")
                                                                for c in checks} | {(c["check"].split(".")[0], "") for c in checks}
        more = [{"check": c, **({"subject": s} if s else {})} for c,
                s in sorted(names - {(checks[0]["check"], checks[0]["subject"])})]
        self.assertGreater(len(more), 60)
        for about in more[:60]:  # and the four of above
            self.call(h, "PUT", "/v1/silence", **about, reason="r", until=ahead)
        self.call(h, "PUT", "/v1/silence", 409, **more[60], reason="r", until=ahead)

    def runs(self, h, launchd):
        self.call(h, "POST", "/v1/captures", 400, run="?")
        self.call(h, "POST", "/v1/captures", 403, uid=NOBODY)
        self.call(h, "GET", "/v1/captures", 403, uid=NOBODY)
        self.assertEqual(len(capture_wire.captures(self.call(h, "POST", "/v1/captures"))), 1)
        self.assertEqual(len(capture_wire.captures(self.call(h, "GET", "/v1/captures"))), 1)
        self.call(h, "POST", "/v1/runs/{name}/capture", 404, name="?")
        launchd.runs = [{**RUN, 11: time.time_ns() // 1000},
                        {**RUN, 1: "gang", 16: 3, 17: "00112233445566aa", 11: 5, 20: 1, 21: 2, 22: "why",
                         23: "do"},
                        {**RUN, 1: "old", 3: "exited", 4: "signal", 5: "killed", 6: "KILL",
                         11: time.time_ns() // 1000, 12: time.time_ns() // 1000}]
        wait_until(lambda: self.call(h, "GET", "/v1/status")["live_runs"] == 2, 10, "the runs to be known")
        self.assertEqual([(r["name"], r["state"], r["part"])
                          for r in self.call(h, "GET", "/v1/status")["runs"]],
                         [("gang", "unknown", "running")])
        self.assertEqual(len(self.call(h, "GET", "/v1/runs")["runs"]), 3)
        self.call(h, "POST", "/v1/runs/{name}/capture", 403, uid=NOBODY)
        launchd.capture = lambda name: (ERROR,
                                        message({1: 2, 2: f"there is no run {name}", 3: "tpuctl runs"}))
        self.call(h, "POST", "/v1/runs/{name}/capture", 404)
        launchd.capture = lambda name: (CAPTURE_REPLY, b"\xff\xff\xff")
        self.call(h, "POST", "/v1/runs/{name}/capture", 502)
        launchd.capture = lambda name: None
        self.call(h, "POST", "/v1/runs/{name}/capture", 504)
        launchd.capture = lambda name: captured(name, taken=time.time_ns() // 1000)
        self.call(h, "POST", "/v1/runs/{name}/capture")

    def starts_and_stops(self, h, launchd):
        asked = []

        def answer(kind, payload, error=None):
            def tell(came):
                asked.append(came)
                return (ERROR, message(error)) if error else (kind, payload)
            return tell

        def post(status=201, uid=0, **body):
            return self.call(h, "POST", "/v1/runs", status, uid=uid,
                             body=json.dumps({"name": "new", "user": "alice", "argv": ["train", "-x"],
                                              **body}))

        self.call(h, "POST", "/v1/runs", 400)
        self.assertIn("'colour' is no key of a run", post(400, colour="red")["error"])
        self.assertIn("tpuctl run", post(403, uid=NOBODY)["remedy"])
        self.assertIn("not by a host", post(409, slices=[], min=1, max=2)["error"])
        launchd.other = {20: answer(0, b"", {1: 13, 2: "requests that come through tpu-hostd may not start "
                                                       "runs of user alice", 3: "[Remote], Start=alice"}),
                         24: answer(0, b"", {1: 2, 2: "there is no run new", 3: "tpuctl runs"})}
        refused = post(403)
        self.assertEqual((refused["error"], refused["remedy"]), ("requests that come through tpu-hostd may "
                                                                 "not start runs of user alice",
                                                                 "[Remote], Start=alice"))
        self.call(h, "DELETE", "/v1/runs/{name}", 404)
        self.call(h, "DELETE", "/v1/runs/{name}", 404, name="?")
        self.call(h, "DELETE", "/v1/runs/{name}", 403, uid=NOBODY)
        launchd.other[24] = answer(0, b"", {1: 13, 2: "requests that come through tpu-hostd may not stop "
                                                      "runs of user root"})
        self.call(h, "DELETE", "/v1/runs/{name}", 403)
        launchd.other[20] = answer(0, b"", {1: 3, 2: "user alice is not known on this host"})
        post(404)
        reply = {1: "new", 2: "tpu-run-new.service", 3: "glibc: as ordered", 6: "running", 7: 2,
                 8: "the devices could not be looked at"}
        launchd.other[20] = answer(21, message(reply))
        launchd.other[24] = answer(25, message({1: "new"}))
        done = post(generation=2, serial="00ff", memlock="infinity", cpus="0-3", env=["A=1"])
        self.assertEqual((done["unit"], done["generation"], done["warnings"]),
                         ("tpu-run-new.service", 2, ["the devices could not be looked at"]))
        came = asked[-1]
        for text in (b"new", b"alice", b"train", b"-x", b"A=1", b"00ff", b"0-3"):
            self.assertIn(text, came)
        self.assertIn(b"6502082742571311568", came)  # what this host knows of itself
        launchd.other[20] = answer(21, message({**reply, 5: 1}))
        self.assertTrue(post(200, generation=2, serial="00ff")["already"])
        self.call(h, "DELETE", "/v1/runs/{name}")
        acted = [e["body"] for e in h.events("tpu.api.acted") if "/v1/runs" in e["body"]["call"]
                 and "capture" not in e["body"]["call"]]
        self.assertIn(("POST /v1/runs new", "done"), [(e["call"], e["result"]) for e in acted])
        self.assertIn(("DELETE /v1/runs/train", "done"), [(e["call"], e["result"]) for e in acted])
        # ten refusals a minute are events
        self.assertIn(("POST /v1/runs", "'colour' is no key of a run"),
                      [(e["call"], e["result"]) for e in acted])
        self.call(h, "PUT", "/v1/cordon", reason="bad cable")
        self.assertIn("this host is cordoned: bad cable", post(409)["error"])
        self.call(h, "DELETE", "/v1/cordon")

    def test_a_whole_host(self):
        """All that one agent has to say: reasons, orders, runs, a certificate, an endpoint that took some
        and then refuses."""
        receiver = Receiver().start()
        self.addCleanup(receiver.stop)
        h = Hostd(f"http://127.0.0.1:{receiver.port}")
        self.addCleanup(h.close)
        certificate, key = Authority(h.folder / "ca").issue("host")[:2]
        with open(h.config, "a") as f:
            f.write(f"[Uplink]\nCertFile={certificate}\nKeyFile={key}\n[Registry]\nKind=static\n")
        (h.root / "etc/tpu-hostd/identity.conf.d/60-slice.conf").write_text(
            "[Identity]\nSliceName=s0\nWorkerId=0\nWorkerAddresses=10.0.0.1,10.0.0.2,10.0.0.3,10.0.0.4\n"
            "IciResiliency=true\n"
            "Slices=2\nSliceId=0\nCoordinator=10.0.0.1:8080\nInstanceId=6502082742571311568\n"
            "Preemptible=false\n")
        h.rmem("4096\t131072\t6291456")
        (h.folder / "spool.other-machine").mkdir()
        receiver.status = 503  # until it was seen that a spool waits
        h.start()
        h.api.chmod(0o666)
        self.assertIsNone(self.call(h, "GET", "/v1/status")["uplink"]["aside"]["kept"])
        receiver.status = 200
        self.assertIsNone(self.call(h, "GET", "/v1/runs")["runs"])
        self.call(h, "POST", "/v1/runs", 503, body='{"user": "alice", "argv": ["true"]}')
        self.call(h, "DELETE", "/v1/runs/{name}", 503)
        self.call(h, "POST", "/v1/runs/{name}/capture", 503)
        launchd = Launchd(h.folder / "launchd.sock")
        self.addCleanup(launchd.stop)
        wait_until(lambda: self.call(h, "GET", "/v1/status")["live_runs"] == 0, 10, "launchd to be found")
        wait_until(lambda: self.call(h, "GET", "/v1/status")["uplink"]["last_ok"], 10, "the first push")
        receiver.status = 503
        self.reads(h)
        self.wrong_arguments(h)
        self.runs(h, launchd)
        self.starts_and_stops(h, launchd)
        self.orders(h)
        self.ends(h)
        h.rmem("4096\t41943040\t314572800")
        wait_until(lambda: all(c["last_good"] for c in self.call(h, "GET", "/v1/checks")["checks"]
                               if c["check"].startswith("sysctl")), 10, "healing")
        h.rmem("4096\t131072\t6291456")
        wait_until(lambda: any(r["last_good"] for r in self.call(h, "GET", "/v1/status")["reasons"]), 10,
                   "a reason that was good once")
        wait_until(lambda: self.call(h, "GET", "/v1/status")["uplink"]["classes"]["events"]["oldest"], 20,
                   "what waits to be looked at")
        wait_until(lambda: self.call(h, "GET", "/v1/status")["uplink"]["endpoints"][0]["metrics"]["until"],
                   20, "the endpoint to be waited for")
        self.assertEqual(self.file.never_came(), [])

    def ends(self, h):
        for o in self.call(h, "GET", "/v1/status")["silences"]:
            self.call(h, "DELETE", "/v1/silence", check=o["check"],
                      **({"subject": o["subject"]} if o["subject"] else {}))
        for path in ("/v1/cordon", "/v1/drain", "/v1/observe"):
            self.call(h, "DELETE", path)

    def test_no_other_path_and_method(self):
        h = self.hostd()
        code, kind, body = h.call("/v1/nothing")
        listed = {tuple(c.split(" "))
                  for c in json.loads(body)["remedy"].removeprefix("there are ").split(", ")}
        self.assertEqual((code, kind), (404, "application/json"))
        self.assertEqual({(m, p.replace("NAME", "{name}")) for m, p in listed}, set(self.file.operations))
        for path in {p for _, p in self.file.operations}:
            has = {m for m, p in self.file.operations if p == path}
            has |= {"HEAD"} if "GET" in has else set()
            for method in METHODS:
                if method.upper() in has:
                    continue
                status, told, body = h.exchange(path.replace("{name}", "train"), method.upper())
                self.assertEqual((status, set(told["Allow"].split(", "))), (405, has), (method, path))
                self.assertTrue(method == "head" or set(json.loads(body)) == {"error", "remedy"}, body)
        for path in has_get(self.file):
            status, kind, body = h.call(path, "HEAD")
            self.assertEqual((status, kind, body), (*h.call(path)[:2], b""), path)


class TheCheckItself(unittest.TestCase):
    """What differs from the file is found."""

    def test_answers(self):
        file = OpenApi(FILE)
        good = {"events": [{"seq": 1, "time": "2026-11-21T05:00:00.123Z", "name": "n", "severity": "INFO",
                            "body": {"a": 1}}], "next": 2, "missed": 0}

        def take(change, status=200, kind="application/json"):
            value = json.loads(json.dumps(good))
            change(value)
            return file.take("GET", "/v1/events", status, kind, json.dumps(value))

        take(lambda v: None)
        for change in (lambda v: v.pop("missed"), lambda v: v.update(more=1), lambda v: v.update(next="2"),
                       lambda v: v.update(next=None),
                       lambda v: v["events"][0].pop("body"),
                       lambda v: v["events"][0].update(severity="LOUD"),
                       lambda v: v["events"][0].update(time="yesterday"),
                       lambda v: v["events"][0]["body"].update(a=[])):
            with self.assertRaises(AssertionError):
                take(change)
        for status, kind in ((202, "application/json"), (200, "text/plain"), (400, "application/json")):
            with self.assertRaises(AssertionError):
                take(lambda v: None, status, kind)
        left = file.never_came()
        self.assertNotIn(("GET", "/v1/events", 200), left)
        self.assertIn(("GET", "/v1/events", 400), left)
        self.assertNotIn(("Event", "body"), left)
        self.assertIn(("Error", "remedy"), left)


def has_get(file):
    return [p for m, p in file.operations if m == "GET"]


if __name__ == "__main__":
    if os.geteuid() != 0:
        print("needs root: only root may order")
        sys.exit(77)
    unittest.main()
