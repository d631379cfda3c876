#!/usr/bin/python3
"""tpuctl fleet and events, of a collector that stands in."""
import fcntl
import json
import os
import pty
import re
import socket
import struct
import subprocess
import termios
import unittest

from ctl_case import TPUCTL, Ctl, ago
from stand_ins import capture_wire, field


class Fleet(Ctl):
    def test_stalls(self):
        server, url = self.collector()
        path = ("GET", "/api/v1/episodes")
        server.answers[path] = (200, {"episodes": []})
        self.expect(["fleet", "stalls", "--collector", url], 0, stdout="no stacks were asked for yet\n", stderr="")
        episodes = [dict(episode="e3", run="train", at="2026-11-21T10:20:00.000Z", outcome=None, summary=None, confirmed=None,
                         recovered=None),
                    dict(episode="e2", run="train", at="2026-11-21T10:10:00.000Z", outcome="named", summary="worker 2: it reads",
                         confirmed="2026-11-21T10:10:09.000Z", recovered=None),
                    dict(episode="e1", run="train", at="2026-11-21T10:00:00.000Z", outcome="named", summary="worker 1: it reads",
                         confirmed="2026-11-21T10:00:09.000Z", recovered="2026-11-21T10:05:00.000Z")]
        server.answers[path] = (200, {"episodes": episodes})
        rows = self.expect(["fleet", "stalls", "--collector", url], 0, stderr="").stdout.splitlines()
        for row, words in zip(rows[1:], ("asked", "stands", "went on")):
            self.assertIn(f" {words} ", row)
        self.assertIn("worker 2: it reads", rows[2])

    def test_suspects(self):
        server, url = self.collector()
        path = ("GET", "/api/v1/suspects")
        server.answers[path] = (200, {"suspects": [], "cut": False})
        words = ["fleet", "suspects", "--collector", url]
        self.expect(words, 0, stdout="no host fails again and again\n", stderr="")
        reports = [dict(name="tpu.run.stall_confirmed", count=2, last=ago(7300),
                        sentence="run b stalls: h2 waits"),
                   dict(name="tpu.net.link_bad", count=1, last=ago(190), sentence="NIC eth1\33[0m")]
        server.answers[path] = (200, {"cut": True, "suspects": [
            dict(host="h2", slice="s0", worker_id=2, score=2.37, runs=2, reports=reports),
            dict(host="h9", slice=None, worker_id=None, score=1.5, runs=0, reports=[])]})
        self.expect(words, 0, stderr="", stdout="""\
h2 (slice s0, worker 2): score 2.37, in 2 runs
  2x tpu.run.stall_confirmed, the last 2 h ago: run b stalls: h2 waits
  1x tpu.net.link_bad, the last 3 min ago: NIC eth1?[0m
h9: score 1.5
to do: tpuctl fleet cordon HOST 'fails again and again' # HOST: one of them
there are more, or the collector has not read all events yet
""")

    def test_hosts(self):
        server, url = self.collector()
        hosts = [dict(name="h0", slice="v6e-a", worker_id="0", state="ready", reasons="", age_seconds=4.2,
                      lag_seconds=0.1, run="train", step=12),
                 dict(name="h1", slice="v6e-a", worker_id="1", state="unfit", reasons="nic.mtu eth1",
                      age_seconds=9, lag_seconds=600, run="train", step=12),
                 dict(name="h2", slice="v6e-a", worker_id="2", state="ready", reasons="", age_seconds=7300,
                      run=None, step=None),
                 dict(name="h3", slice="v6e-a", worker_id="3", state="ready", reasons="", registry="missing",
                      missing="its lease ended", age_seconds=3),
                 dict(name="h4", slice="v6e-a", worker_id="4", state="degraded", reasons="disk",
                      orders="cordoned: fan", registry="member", age_seconds=3),
                 dict(name="h5", state="ready", reasons="x", registry="none", age_seconds=3)]
        server.answers[("GET", "/api/v1/hosts")] = (200, {"hosts": hosts})
        screen = """\
SLICE  WORKER  HOST  STATE     RUN    STEP  AGE  LAG     REASON
v6e-a  0       h0    ready     train  12    4 s  0 s     -
v6e-a  1       h1    unfit     train  12    9 s  10 min  nic.mtu eth1
v6e-a  2       h2    SILENT    -      -     2 h  -       nothing heard for 2 h; was ready then
v6e-a  3       h3    MISSING   -      -     3 s  -       its lease ended
v6e-a  4       h4    degraded  -      -     3 s  -       cordoned: fan; disk
-      -       h5    ready     -      -     3 s  -       in no registry; x
6 hosts: 2 silent, 2 ready, 1 degraded, 1 unfit
"""
        self.expect(["fleet", "--collector", url + "/"], 0, stdout=screen, stderr="")
        (self.root / "etc/tpu-hostd/tpuctl.conf.d").mkdir()
        (self.root / "etc/tpu-hostd/tpuctl.conf.d/10-site.conf").write_text(f"[Ctl]\nCollector={url}\n")
        self.expect(["fleet"], 0, stdout=screen, stderr="")
        self.assertEqual(json.loads(self.expect(["fleet", "--json"], 0).stdout), {"hosts": hosts})
        self.expect(["fleet", "--slice", "a b", "--state", "unfit"], 0)
        self.assertEqual(server.seen[-1][1], "/api/v1/hosts?slice=a%20b&state=unfit")

    def test_pages(self):
        server, url = self.collector()
        pages = iter([{"hosts": [dict(name="h0", state="ready")], "next": 1},
                      {"hosts": [dict(name="h1", state="unfit")], "next": None}])
        server.answers[("GET", "/api/v1/hosts")] = (200, lambda: next(pages))
        self.assertEqual(json.loads(self.expect(["fleet", "--json", "--collector", url], 0).stdout),
                         {"hosts": [dict(name="h0", state="ready"), dict(name="h1", state="unfit")]})
        self.assertEqual([p for _, p in server.seen], ["/api/v1/hosts", "/api/v1/hosts?offset=1"])

    def test_no_collector(self):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            url = f"http://127.0.0.1:{s.getsockname()[1]}"
            done = self.expect(["fleet", "--collector", url], 3, stdout="")
        self.assertIn(f"no answer from {url}/api/v1/hosts: Connection refused", done.stderr)
        self.assertIn("to do:", done.stderr)

    def test_telemetry_is_elsewhere(self):
        server, url = self.collector()
        where = {"error": "telemetry is not kept here: it goes to http://v:8428", "remedy": "ask there",
                 "telemetry": "http://v:8428"}
        said = ("tpuctl: telemetry goes to http://v:8428: this collector keeps no events, lines and series\n"
                "to do:  ask there\n")
        for path, words in (("/api/v1/events", ["events"]), ("/api/v1/events", ["events", "--follow"]),
                            ("/api/v1/runs/train/logs", ["logs", "train", "--fleet"])):
            server.answers[("GET", path)] = (404, where)
            self.expect([*words, "--collector", url], 3, stdout="", stderr=said)
        server.answers[("GET", "/api/v1/events")] = (404, {**where, "error": "telemetry is not kept here",
                                                           "telemetry": ""})
        self.expect(["events", "--collector", url], 3, stdout="",
                    stderr="tpuctl: telemetry is not kept here\nto do:  ask there\n")

    def test_verdict_without_captures(self):
        """Of an episode that another collector judged."""
        server, url = self.collector()
        report = {"outcome": "named", "summary": "slice s0, worker 2 (h2) holds the run up",
                  "suspects": [{"sentence": "x", "details": ["both captures show it: stuck"]}]}
        server.answers[("GET", "/api/v1/slices/s0/diagnosis")] = (200, dict(
            episode="e", run="train", at="2026-11-21T05:00:00Z", by="h0", why="no step", hosts=4, answered=4,
            outcome="named", confirmed=None, recovered=None, diagnosis=report))
        server.answers[("GET", "/api/v1/slices/s0/captures")] = (
            200, field(1, field(1, capture_wire.host({"slice": "s0", "worker": 2, "host": "h2"}))),
            ("Content-Type", "application/x-protobuf"))
        self.expect(["diagnose", "s0", "--collector", url], 2, stderr="", stdout="""\
slice s0, worker 2 (h2) holds the run up
  both captures show it: stuck

the captures are not kept any more: this is what was found out from them

episode e: run train, asked for at 2026-11-21T05:00:00Z by h0 (no step); 4 of 4 hosts answered
""")
        self.assertEqual(json.loads(self.expect(["diagnose", "s0", "--collector", url, "--json"], 2).stdout),
                         report)
        report.update(outcome="goes_on", suspects=[])
        self.expect(["diagnose", "s0", "--collector", url], 0)

    def test_slice_that_is_not_there(self):
        server, url = self.collector()
        no_slice = (404, {"error": "there is no slice 's9'; did you mean 's0'? known: s0",
                          "remedy": "tpuctl fleet slices"})
        for what in ("diagnosis", "episodes"):
            server.answers[("GET", f"/api/v1/slices/s9/{what}")] = no_slice
        server.answers[("POST", "/api/v1/slices/s9/capture")] = no_slice
        for words in (["s9"], ["s9", "--episode", "e"], ["s9", "--capture"]):
            self.expect(["diagnose", *words, "--collector", url], 1, stdout="",
                        stderr="tpuctl: there is no slice 's9'; did you mean 's0'? known: s0\n"
                               "to do:  tpuctl fleet slices\n")
        # of a slice that is there, nothing being known is no mistake
        server.answers[("GET", "/api/v1/slices/s9/episodes")] = (200, {"slice": "s9", "episodes": []})
        self.expect(["diagnose", "s9", "--collector", url], 3, stdout="")

    def test_leader(self):
        """A collector that does not lead names the one that does: it is asked, once."""
        follower, url = self.collector()
        leader, leads = self.collector()
        hosts = {"hosts": [dict(name="h0", state="ready")]}

        def moved(to):
            return 307, {"error": "another collector leads", "remedy": ""}, ("Location", to)

        follower.answers[("GET", "/api/v1/hosts")] = moved(f"{leads}/api/v1/hosts?state=ready")
        leader.answers[("GET", "/api/v1/hosts")] = (200, hosts)
        self.assertEqual(json.loads(self.expect(["fleet", "--json", "--state", "ready", "--collector", url],
                                                0).stdout), hosts)
        self.assertEqual([p for _, p in follower.seen + leader.seen], ["/api/v1/hosts?state=ready"] * 2)
        follower.answers[("PUT",
                          "/api/v1/hosts/h0/cordon")] = moved(f"{leads}/api/v1/hosts/h0/cordon?reason=disk")
        leader.answers[("PUT", "/api/v1/hosts/h0/cordon")] = (204, b"")
        self.expect(["fleet", "cordon", "h0", "disk", "--collector", url], 0)
        self.assertEqual(leader.seen[-1], ("PUT", "/api/v1/hosts/h0/cordon?reason=disk"))
        leader.answers[("GET", "/api/v1/hosts")] = moved(f"{url}/api/v1/hosts")
        self.expect(["fleet", "--collector", url], 1, stdout="", stderr="tpuctl: another collector leads\n")
        follower.answers[("GET", "/api/v1/hosts")] = moved("file:///etc/passwd")
        self.expect(["fleet", "--collector", url], 1, stdout="", stderr="tpuctl: another collector leads\n")
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            gone = f"http://127.0.0.1:{s.getsockname()[1]}/api/v1/hosts"
            follower.answers[("GET", "/api/v1/hosts")] = moved(gone)
            self.assertIn(f"no answer from {gone}",
                          self.expect(["fleet", "--collector", url], 3, stdout="").stderr)

    def test_several_collectors(self):
        """The next one is asked where one does not answer, or knows of no leader; what changes something
        is not said twice."""
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            gone = f"http://127.0.0.1:{s.getsockname()[1]}"
            there, url = self.collector()
            waits, without = self.collector()
            there.answers[("GET", "/api/v1/hosts")] = (200, {"hosts": [dict(name="h0", state="ready")]})
            there.answers[("PUT", "/api/v1/hosts/h0/cordon")] = (204, b"")
            waits.answers[("GET", "/api/v1/hosts")] = waits.answers[("PUT",
                                                                     "/api/v1/hosts/h0/cordon")] = (
                                                                             503, {"error": "no collector leads", "remedy": "try again"})
            for urls in (f"{gone} {url}/", f"{without} {gone} {url}", f"  {url} {gone}"):
                self.assertIn("h0", self.expect(["fleet", "--collector", urls], 0).stdout)
                self.expect(["fleet", "cordon", "h0", "disk", "--collector", urls], 0)
            self.assertIn(f"no answer from {gone}",
                          self.expect(["fleet", "--collector", f"{without} {gone}"], 3, stdout="").stderr)
        for urls in (" ", f"{url} ftp://x", " ".join([url] * 5)):
            self.assertIn("--collector", self.expect(["fleet", "--collector", urls], 64, stdout="").stderr)

    def test_what_may_have_arrived_is_not_said_again(self):
        """The first takes the request and goes without an answer: a question goes to the next one, an
        order does not."""
        gone, first = self.collector()
        there, url = self.collector()
        taken, asked = [], []

        class Going(gone.RequestHandlerClass):
            def do_GET(self):
                taken.append(self.command)
                self.close_connection = True
            do_PUT = do_POST = do_DELETE = do_GET

        class Counting(there.RequestHandlerClass):
            def do_PUT(self):
                asked.append(self.path)
                self.answer()

        gone.RequestHandlerClass, there.RequestHandlerClass = Going, Counting
        there.answers[("GET", "/api/v1/hosts")] = (200, {"hosts": [dict(name="h0", state="ready")]})
        there.answers[("PUT", "/api/v1/hosts/h0/cordon")] = (204, b"")
        self.assertIn("h0", self.expect(["fleet", "--collector", f"{first} {url}"], 0).stdout)
        done = self.run_ctl("fleet", "cordon", "h0", "disk", "--collector", f"{first} {url}")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn(f"no answer from {first}", done.stderr)
        self.assertEqual((taken, asked), (["GET", "PUT"], []))
        self.expect(["fleet", "cordon", "h0", "disk", "--collector", f"{url} {first}"], 0)
        self.assertEqual(len(asked), 1)

    def test_telemetry_elsewhere(self):
        server, url = self.collector()
        server.answers[("GET", "/api/v1/events")] = (404,
                                                     {"error": "no telemetry here", "remedy": "ask there",
                                                      "telemetry": "https://tsdb.example"})
        self.expect(["events", "--collector", url], 3, stdout="",
                    stderr="tpuctl: telemetry goes to https://tsdb.example: this collector keeps no events, "
                           "lines and series\nto do:  ask there\n")

    def on_terminal(self, columns, *args, **env):
        """What it prints on a terminal so wide."""
        main, other = pty.openpty()
        fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        done = subprocess.run([TPUCTL, "--root", self.root, *args], stdin=subprocess.DEVNULL, stdout=other,
                              stderr=subprocess.PIPE, timeout=60,
                              env={"PATH": "/usr/bin:/bin", **env}, check=False)
        os.close(other)
        text = b""
        try:
            while part := os.read(main, 65536):
                text += part
        except OSError:  # EIO: nobody writes any more
            pass
        os.close(main)
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        return text.decode().replace("\r\n", "\n")

    def test_terminal(self):
        server, url = self.collector()
        hosts = [dict(name="h0", slice="v6e-a", worker_id="0", state="ready", age_seconds=4.2, run="train",
                      reasons=""),
                 dict(name="h1", slice="v6e-a", worker_id="1", state="unfit", age_seconds=4.2, run="train",
                      reasons="déjà vu " * 12)]
        server.answers[("GET", "/api/v1/hosts")] = (200, {"hosts": hosts})
        wide = self.on_terminal(300, "fleet", "--collector", url, NO_COLOR="1")
        self.assertEqual(wide, self.expect(["fleet", "--collector", url], 0).stdout)
        narrow = self.on_terminal(80, "fleet", "--collector", url, NO_COLOR="1").splitlines()
        self.assertEqual(narrow[:2], wide.splitlines()[:2])
        self.assertEqual((len(narrow[2]), narrow[2][-1]), (80, "…"))
        self.assertTrue(wide.splitlines()[2].startswith(narrow[2][:-1]))
        coloured = self.on_terminal(300, "fleet", "--collector", url)
        self.assertIn("\033[32mready\033[0m", coloured)
        self.assertEqual(re.sub("\033\\[[0-9;]*m", "", coloured), wide)

    def test_events(self):
        server, url = self.collector()
        server.answers[("GET", "/api/v1/events")] = (200, {"next": 0, "events": [
            dict(id=1, host="h0", time="2026-11-21T05:00:00.123Z", name="tpu.run.exited", severity="ERROR",
                 body={"run": "train", "cause": "signal"}),
            dict(id=2, host="h0", time="2026-11-21T05:00:09.000Z", name="tpu.stack", severity="INFO",
                 body={"text": "a\nb\n", "threads": 3})]})
        self.expect(["events", "--collector", url, "--host", "h 0&x"], 0, stderr="", stdout="""\
TIME                  SEVERITY  HOST  EVENT           BODY
2026-11-21T05:00:00Z  ERROR     h0    tpu.run.exited  run=train  cause=signal
2026-11-21T05:00:09Z  INFO      h0    tpu.stack       text=(4 bytes of text, see --json)  threads=3
""")
        self.assertEqual(server.seen[0][1], "/api/v1/events?limit=200&host=h%200%26x")

    def event(self, i):
        return dict(id=i, host="h0", time="2026-11-21T05:00:00.123Z", name=f"e{i}", severity="INFO",
                    body="text")

    def test_events_since(self):
        server, url = self.collector()
        answers = iter([{"next": 1, "events": [self.event(1)]}, {"next": 2, "events": [self.event(2)]},
                        {"next": 2, "events": []}])
        server.answers[("GET", "/api/v1/events")] = (200, lambda: next(answers))
        got = json.loads(self.expect(["events", "--collector", url, "--since", "2026-11-21T05:00:00Z",
                                      "--slice", "s", "--name", "n", "--json"], 0).stdout)
        self.assertEqual(([e["id"] for e in got["events"]], got["next"]), ([1, 2], 2))
        self.assertEqual([p for _, p in server.seen],
                         [f"/api/v1/events?limit=200&slice=s&name=n&{w}" for w in
                                                       ("from=2026-11-21T05%3A00%3A00Z", "since=1",
                                                        "since=2")])
        server.seen.clear()
        answers = iter([{"next": 0, "events": []}])
        self.expect(["events", "--collector", url, "--since", "10min"], 0, stdout="no events\n")
        self.assertRegex(server.seen[0][1], r"from=20\d\d-\d\d-\d\dT\d\d%3A")
        self.expect(["events", "--collector", url, "--since", "noon"], 64)

    def test_events_follow(self):
        """Goes on over an answer without events and over a collector that is away; ends at a refusal."""
        server, url = self.collector()
        answers = iter([{"next": 1, "events": [self.event(1)]}, {"next": 1, "events": []},
                        {"next": 2, "events": [self.event(2)]}])

        def answer():
            a = next(answers, None)
            if a is None:
                server.answers[("GET", "/api/v1/events")] = (403, {"error": "enough", "remedy": ""})
                return b"cut off"
            return a
        server.answers[("GET", "/api/v1/events")] = (200, answer)
        done = self.expect(["events", "--collector", url, "--follow"], 1,
                           stdout="2026-11-21T05:00:00Z  INFO  h0  e1  text\n2026-11-21T05:00:00Z  INFO  h0 "
                                  " e2  text\n")
        self.assertEqual([p.split("&", 1)[1] if "&" in p else "" for _, p in server.seen],
                         ["", "since=1&wait=25", "since=1&wait=25", "since=2&wait=25"])
        self.assertIn("no JSON", done.stderr)


if __name__ == "__main__":
    unittest.main()
