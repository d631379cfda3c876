#!/usr/bin/python3
"""tpuctl waits by itself where it is refused for a moment: a capture that somebody else has just taken, a
collector whose database is locked."""
import http.server
import json
import unittest

from ctl_case import Ctl
from stand_ins import Handler, Launchd, LaunchdHandler, UnixHttp, field, capture_wire

STACK = ("POST", "/v1/runs/train/capture")
BUSY = {"error": "run train: a capture is in progress, or was taken a moment ago",
        "remedy": "ask again in a second"}
TAKEN = {"name": "train", "taken": "2026-11-21T05:00:00.000Z", "processes": 1, "threads": 1,
         "text": "Thread 1\n", "record": {"spool": "ab", "class": "events", "seq": 9}}
SHOWN = "run train: 1 process, 1 thread, taken 2026-11-21T05:00:00.000Z\nrecord ab/events/9 is durable and goes to the collector\n\nThread 1\n"
EBUSY = 16


class Scripted(Handler):
    """server.script: {(method, path): [(status, Retry-After or None, body), …]}; the last one stays."""

    def answer(self):
        asked = (self.command, self.path.split("?")[0])
        self.server.seen.append(asked)
        left = self.server.script[asked]
        status, after, body = left.pop(0) if len(left) > 1 else left[0]
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        if isinstance(body, bytes):
            self.send_header("Content-Type", "application/x-protobuf")
        if after is not None:
            self.send_header("Retry-After", str(after))
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_POST = do_PUT = do_DELETE = answer


class BusyLaunchd(LaunchdHandler):
    """Refuses as often as server.busy says."""

    def handle(self):
        kind = 26
        self.server.answers[kind] = (27, field(1, "train") + field(3, 1763701200000000)
                                     + field(6, capture_wire.packed(capture_wire.of_text("Thread 1"))))
        if self.server.busy > 0:
            self.server.busy -= 1
            self.server.answers[kind] = (1, field(1, EBUSY) + field(2, BUSY["error"])
                                         + field(3, BUSY["remedy"]))
        super().handle()


class Again(Ctl):
    def scripted(self, script):
        path = self.root / "run/tpu-hostd/api.sock"
        path.parent.mkdir(parents=True)
        server = self.serve(UnixHttp(str(path), Scripted))
        server.script = script
        return server

    def test_a_second_is_waited_without_a_word(self):
        hostd = self.scripted({STACK: [(503, 1, BUSY), (200, None, TAKEN)]})
        self.expect(["stack", "train"], 0, stdout=SHOWN, stderr="")
        self.assertEqual(hostd.seen, [STACK] * 2)

    def test_more_is_said(self):
        hostd = self.scripted({STACK: [(503, 1, BUSY), (503, 1, BUSY), (503, 1, BUSY), (200, None, TAKEN)]})
        self.expect(["stack", "train"], 0, stdout=SHOWN,
                    stderr=f"tpuctl stack: {BUSY['error']}: asking again, for 10 s at most\n")
        self.assertEqual(hostd.seen, [STACK] * 4)

    def test_it_ends(self):
        """What would take longer than 10 s together is not waited for; tpu-launchd, which is as busy, is
        not asked instead."""
        launchd = self.launchd()
        hostd = self.scripted({STACK: [(503, 6, BUSY)]})
        refused = f"tpuctl: {BUSY['error']}\nto do:  {BUSY['remedy']}\n"
        self.expect(["stack", "train"], 3, stdout="",
                    stderr=f"tpuctl stack: {BUSY['error']}: asking again, for 10 s at most\n{refused}")
        self.assertEqual(hostd.seen, [STACK] * 2)
        for after in (11, 4000000000):
            hostd.seen.clear()
            hostd.script = {STACK: [(503, after, BUSY)]}
            self.expect(["stack", "train"], 3, stdout="", stderr=refused)
            self.assertEqual(hostd.seen, [STACK])
        self.assertEqual(launchd.seen, [])

    def test_only_who_says_when(self):
        """A 503 without Retry-After is no busy moment, and a refusal with one is none either."""
        hostd = self.scripted({STACK: [(503, None, {"error": "the spool does not take them",
                                                    "remedy": "tpuctl status"})]})
        self.expect(["stack", "train"], 3, stdout="")
        self.assertEqual(hostd.seen, [STACK])
        hostd.seen.clear()
        hostd.script = {STACK: [(404, 1, {"error": "there is no run 'train'", "remedy": "tpuctl runs"})]}
        self.expect(["stack", "train"], 1, stdout="",
                    stderr="tpuctl: there is no run 'train'\nto do:  tpuctl runs\n")
        self.assertEqual(hostd.seen, [STACK])

    def test_launchd_alone(self):
        path = self.root / "run/tpu-launchd/launchd.sock"
        path.parent.mkdir(parents=True)
        launchd = self.serve(Launchd(str(path), BusyLaunchd))
        launchd.busy = 1
        done = self.expect(["stack", "train"], 0, stdout="run train: 1 process, 0 threads, taken "
                                                         "2025-11-21T05:00:00.000Z\n\nprocess 1 Thread 1 "
                                                         "(CPython 3.11.2)\n")
        self.assertIn("NOT sent", done.stderr)
        self.assertNotIn("asking again", done.stderr)
        self.assertEqual(len(launchd.seen), 2)

    def test_collector(self):
        """Asked for new captures and for its verdict while its database is locked."""
        server = self.serve(http.server.ThreadingHTTPServer(("127.0.0.1", 0), Scripted))
        server.daemon_threads = True
        locked = {"error": "the database cannot be read now", "remedy": "try again"}
        ask, verdict = ("POST", "/api/v1/slices/s0/capture"), ("GET", "/api/v1/slices/s0/diagnosis")
        episodes = ("GET", "/api/v1/slices/s0/episodes")
        server.script = {ask: [(503, 1, locked), (200, None, {"episode": "e-1"})],
                         verdict: [(503, 1, locked),
                                   (404, None, {"error": "there is no episode e-1", "remedy": ""})],
                         episodes: [(200, None, {"slice": "s0", "episodes": []})]}
        done = self.expect(["diagnose", "s0", "--capture", "--collector",
                            f"http://127.0.0.1:{server.server_port}"], 3, stdout="")
        self.assertEqual(done.stderr, "tpuctl diagnose: the hosts are asked for their stacks (episode e-1)\n"
                                      "tpuctl: there is no episode e-1\n")
        self.assertEqual(server.seen, [ask] * 2 + [verdict] * 2 + [episodes])

    def test_agents(self):
        """An agent whose captures are all in progress is asked again, by itself."""
        status, capture = ("GET", "/v1/status"), ("POST", "/v1/captures")
        roster = [{"host": "h0", "worker": 0, "address": ["127.0.0.1"]}]
        hostd = self.scripted({status: [(200, None, {"host": "h0", "slice": {"slice": "s0", "roster": roster,
                                                                             "missing": []}})],
                               capture: [(503, 1, {"error": "captures are in progress already",
                                                  "remedy": ""}),
                                         (200, None, b"")]})
        done = self.expect(["diagnose", "s0", "--from", "agents"], 3, stdout="")
        self.assertIn("no agent of the slice gives a capture", done.stderr)
        self.assertNotIn("gives no capture", done.stderr)
        self.assertEqual([s for s in hostd.seen if s == capture], [capture] * 2)


if __name__ == "__main__":
    unittest.main()
