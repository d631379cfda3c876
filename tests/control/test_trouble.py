#!/usr/bin/python3
"""What goes wrong around a collector with etcd: cut off from it, from hosts, from others; etcd full;
certificates; runs over many hosts."""

import http.client
import json
import signal
import socket
import threading
import time
import unittest

import control_case
from control_case import LEASE, Control, etcd_site, member, until

NEEDS = etcd_site.missing()


class Wire:
    """A TCP connection to elsewhere that can be cut: what comes then is not answered, as behind a
    firewall."""

    def __init__(self, port):
        self.port, self.cut, self.pairs = port, False, []
        self.server = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.server.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                a = self.server.accept()[0]
                b = socket.create_connection(("127.0.0.1", self.port))
            except OSError:
                return
            self.pairs.append((a, b))
            for x, y in ((a, b), (b, a)):
                threading.Thread(target=self._carry, args=(x, y), daemon=True).start()

    def _carry(self, x, y):
        try:
            while data := x.recv(65536):
                while self.cut:
                    time.sleep(0.05)
                y.sendall(data)
        except OSError:
            pass
        for s in (x, y):
            try:
                s.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def close(self):
        self.cut = False
        self.server.close()
        for pair in self.pairs:
            for s in pair:
                s.close()


@unittest.skipIf(NEEDS, NEEDS)
class Cut(Control):
    COLLECTORS = 2

    def etcd_settings(self):
        self.wires = getattr(self, "wires", [])
        self.wires.append(Wire(self.site.clients[0]))
        self.addCleanup(self.wires[-1].close)
        return ["Store=etcd", f"Etcd={self.wires[-1].url}"]

    def running(self):
        hosts = self.slice("s0", 2)
        self.wait_for(hosts[0], "slice/s0", state="ready")
        self.want("train", ["s0"], 1, 1)
        run = self.wait_for(hosts[1], "run/train", state="running")
        until(lambda: all(h.parts.get("train", {}).get("state") == "running" for h in hosts), "all run it")
        return hosts, run

    def test_from_etcd(self):
        hosts, run = self.running()
        old = self.leader()
        term = self.site.term()
        wire = self.wires[self.collectors.index(old)]
        wire.cut = True
        until(lambda: not self.leads(old), "it knows by its own clock")
        self.assertIn(self.sync(member(slice="s8"), old)[0], (421, 503))
        until(lambda: self.leader(but=old), "another leads")
        before = [h.whole for h in hosts]
        until(lambda: all(min(h.terms.values()) > term for h in hosts), lambda: [h.error for h in hosts])
        wire.cut = False  # and now all arrives that it once sent
        time.sleep(LEASE)
        self.assertFalse(self.leads(old))
        self.assertEqual([(h.records["run/train"]["generation"], h.parts["train"]["state"], h.refused_terms)
                          for h in hosts], [(run["generation"], "running", 0)] * 2)
        self.assertEqual(len(before), 2)

    def test_answer_of_a_change_waits_for_etcd(self):
        hosts, _ = self.running()
        old = self.leader()
        self.wires[self.collectors.index(old)].cut = True
        answer = {}

        def order():
            c = http.client.HTTPConnection("127.0.0.1", old.api, timeout=60)
            c.request("PUT", "/api/v1/hosts/s0-0/cordon?reason=cable")
            r = c.getresponse()
            answer["status"], answer["text"] = r.status, r.read()
        t = threading.Thread(target=order, daemon=True)
        t.start()
        t.join(60)
        self.assertEqual(answer["status"], 503, answer)  # nobody is told that it is done
        until(lambda: self.leader(but=old), "another leads")
        self.assertNotIn("order/s0-0", self.site.records())
        self.assertFalse([h for h in hosts if "order/s0-0" in h.records])

    def test_from_hosts(self):
        hosts, run = self.running()
        leader = self.leader()
        for h in hosts:
            h.barred.add(leader)
        time.sleep(LEASE * 2)  # it misses them all, and begins nothing
        self.assertEqual(leader.get("/api/v1/slices/s0").json["state"], "forming")
        for h in hosts:
            h.barred.clear()
        self.wait_for(hosts[0], "slice/s0", state="ready")
        time.sleep(LEASE)
        self.assertEqual([(h.records["run/train"]["generation"], h.parts["train"]["state"]) for h in hosts],
                         [(run["generation"], "running")] * 2)


@unittest.skipIf(NEEDS, NEEDS)
class Partition(Control):
    """Each collector knows members of its own, and they cannot see each other."""

    MEMBERS, COLLECTORS = 3, 2

    def collector(self, i, ports=None, settings=()):
        self.turn = i
        return super().collector(i, ports, settings)

    def etcd_settings(self):
        return ["Store=etcd",
                f"Etcd={self.site.url(0) if self.turn == 0 else self.site.url(1) + ' ' + self.site.url(2)}"]

    def test_one_side_goes_on(self):
        a, b = self.collectors
        if not self.leads(a):
            b.stop()
            until(lambda: self.leads(a), "the first leads")
            self.again(1)
        host = self.host("s0", 0, 1)
        self.wait_for(host, "slice/s0", state="ready")
        self.site.pause(0)
        until(lambda: not self.leads(a), "it gave up by its own clock")
        until(lambda: self.leads(b), "the other side leads")
        before = host.whole
        until(lambda: host.whole > before, lambda: host.error)
        self.site.pause(0, False)
        until(lambda: self.sync(member(slice="s8"), a)[0] == 421, "it follows")
        self.assertEqual(host.refused_terms, 0)


@unittest.skipIf(NEEDS, NEEDS)
class Full(Control):
    ETCD = ("--quota-backend-bytes", str(4 * 1024 * 1024))

    def test_goes_on_when_there_is_room_again(self):
        a = self.host("s0", 0, 1)
        self.wait_for(a, "slice/s0", state="ready")
        filler = "x" * 500000
        until(lambda: self.site.ctl("put", "/other/filler", check=False, stdin=filler).returncode != 0,
              "it is full")
        r = self.collectors[0].get("/api/v1/mode?reason=enough", "PUT")
        self.assertEqual(r.status, 503, r.text)
        b = self.host("s1", 0, 1)
        until(lambda: b.statuses and b.statuses[-1] == 503, "nobody is told what is not stored")
        self.assertEqual(b.records, {})
        self.assertTrue(self.leads(self.collectors[0]))
        self.assertNotIn("site/mode", a.records)
        self.site.ctl("del", "/other/filler")
        self.site.ctl("compact", str(self.site.revision()))
        self.site.ctl("defrag")
        self.site.ctl("alarm", "disarm")
        self.wait_for(b, "slice/s1", state="ready")
        until(lambda: "site/mode" in a.records, "what was taken is done")


@unittest.skipIf(NEEDS, NEEDS)
class Again(Control):
    def test_is_not_sent_to_itself(self):
        a = self.host("s0", 0, 1)
        self.wait_for(a, "slice/s0", state="ready")
        self.collectors[0].stop(signal.SIGKILL)
        self.again(0)
        seen = set()
        until(lambda: seen.add(self.sync(member(), self.collectors[0])[0]) or self.leads(self.collectors[0]),
              "it leads again")
        self.assertLessEqual(seen, {200, 503})


@unittest.skipIf(NEEDS, NEEDS)
class Certificates(Control):
    TLS, COLLECTORS = True, 0

    def setUp(self):
        self.leader = lambda but=None: True
        super().setUp()
        del self.leader

    def test_new_files_are_taken(self):
        good = [p.read_bytes() for p in self.site.client]
        other = etcd_site.certificates.Authority(self.site.folder / "other").issue("x", subject="/O=others")
        for to, bad in zip(self.site.client, other):
            to.write_bytes(bad.read_bytes())
        self.collectors.append(self.collector(0))
        time.sleep(1)
        self.assertFalse(self.leads(self.collectors[0]))
        self.assertEqual(self.sync(member(), self.collectors[0])[0], 503)
        for to, text in zip(self.site.client, good):
            to.write_bytes(text)
        until(lambda: self.leader(), "it leads with the new files")


@unittest.skipIf(NEEDS, NEEDS)
class Large(Control):
    COLLECTORS, SLICES, HOSTS = 2, 8, 260

    def say(self, s):
        """All hosts of a slice say what they are, by one connection. What was answered last."""
        c, answer = http.client.HTTPConnection("127.0.0.1", self.leader().otlp, timeout=60), None
        for w in range(self.HOSTS):
            q = member(slice=f"s{s}", worker=w,
                       host=f"gke-the-name-of-a-cluster-pool-of-v6e-hosts-0123abcd-{s}-{w}",
                       id=f"id-{s}-{w}", hosts=self.HOSTS,
                       address=[f"fd00:{n}:{s}::{w}" for n in range(4)])
            c.request("POST", "/registry/v1/sync", json.dumps(q))
            r = c.getresponse()
            answer = r.status, r.read()
        c.close()
        return answer

    def ready(self, s):
        leader = self.leader()
        return leader and leader.get(f"/api/v1/slices/s{s}").json.get("state") == "ready"

    def enroll(self, s):
        """They say it until the slice is ready, as agents do: on a slow machine the first lease may end
        before the last host has spoken, or another collector may lead."""
        for _ in range(4):
            answer = self.say(s)
            try:
                return until(lambda: self.ready(s), "ready")
            except AssertionError:
                self.unready[s] = answer
        return None

    def test_run_over_many_hosts(self):
        control_case.LEASE, lease = 120, LEASE
        self.addCleanup(setattr, control_case, "LEASE", lease)
        for i in (0, 1):
            self.collectors[i].stop()
            self.again(i)
        until(lambda: self.leader(), "a leader")
        self.unready = {}
        threads = [threading.Thread(target=self.enroll, args=(s,)) for s in range(self.SLICES)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual([self.unready.get(s) for s in range(self.SLICES) if not self.ready(s)], [])
        old = self.leader()
        self.want("train", [f"s{s}" for s in range(self.SLICES)], self.SLICES, self.SLICES)
        run = until(lambda: (r := old.get("/api/v1/runs/train").json)["state"] == "preparing" and r,
                    "it is chosen")
        self.assertGreater(len(json.dumps(run)), 256 * 1024)
        value = self.site.values(prefix="run/train")["run/train"]
        self.assertEqual(value[:2], b"\x1f\x8b")
        self.assertLess(len(value), len(json.dumps(run)) / 4)
        self.assertEqual(self.site.records()["run/train"]["slices"], run["slices"])
        self.assertEqual(old.stop(signal.SIGTERM), 0)
        until(lambda: self.leader(), "another leads")
        again = self.leader().get("/api/v1/runs/train").json
        self.assertEqual((again["generation"], again["slices"]), (run["generation"], run["slices"]))
        self.assertEqual(self.leader().get("/api/v1/runs/train", "DELETE").status, 202)
        until(lambda: self.site.records()["run/train"]["state"] in ("stopping", "ended"),
              "the other has written it, too")


class Alone(Control):
    """No etcd: what the settings say is kept here, and what is not."""

    STORE, COLLECTORS = "sqlite", 1

    def test_without_telemetry(self):
        c = self.collector(1, settings=["[Telemetry]", "Enabled=no", "Elsewhere=https://metrics.example/"])
        self.collectors.append(c)
        for path in ("/api/v1/events", "/api/v1/series?host=a&name=b", "/api/v1/runs/train/logs"):
            r = c.get(path)
            self.assertEqual((r.status, r.json["error"], r.json["telemetry"]),
                             (404, "telemetry is not kept here: it goes to https://metrics.example/",
                              "https://metrics.example/"))
        self.assertEqual(c.post("/v1/metrics", b"").status, 404)
        self.assertEqual(c.get("/api/v1/runs").status, 200)
        self.assertEqual(self.sync(member(), c)[1]["term"], 0)

    def test_without_control(self):
        c = self.collector(1, settings=["Enabled=no"])
        self.collectors.append(c)
        self.assertEqual(self.sync(member(), c)[0], 404)
        self.assertEqual(c.get("/api/v1/runs").status, 404)
        self.assertEqual(c.get("/api/v1/events").status, 200)
        self.assertEqual(c.get("/api/v1/hosts").status, 200)
        self.assertNotIn("registry_leads", c.get("/metrics").text)

    def test_figures(self):
        figures = [{"run": "train", "generation": 1, "at": 1, "step": 5, "step_time": 1000000}]
        self.assertEqual(self.sync({**member(), "figures": figures})[0], 200)
        self.assertEqual(self.sync({"v": 1, "same": "s0/0", "incarnation": "a1", "wait": 0,
                                    "figures": figures})[0], 200)
        self.assertEqual(self.sync({**member(), "figures": {}})[0], 400)


if __name__ == "__main__":
    unittest.main()
