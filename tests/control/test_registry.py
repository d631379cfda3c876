#!/usr/bin/python3
"""The registry of tpu-collectord as hosts and people see it, over both of its stores: joining, missing,
ready, conflicts, leases, runs, its own end
and return."""

import http.client
import json
import os
import signal
import subprocess
import sys
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "collector"))
import otlp  # noqa: E402  the collector's, before etcd_site finds the agent's
import etcd_site  # noqa: E402
from collector_case import AGENT, BUILD, Case  # noqa: E402
from registry_hosts import Host, until  # noqa: E402


class Sqlite(Case):
    site = None

    def setUp(self):
        super().setUp()
        self.hosts = []
        self.start_with_lease()

    def start_with_lease(self, *options):
        path = os.path.join(self.dir.name, "collectord.conf")
        with open(path, "w", encoding="ascii") as f:
            f.write("[Control]\nLease=5s\n")
            if self.site:
                f.write(f"Store=etcd\nEtcd={self.site.urls}\nAgentsUrl=http://127.0.0.1:1\n"
                        f"PeopleUrl=http://127.0.0.1:2\n")
        self.start("--config", path, *options)
        until(lambda: self.sync("")[0] == 400, "it leads")
        return self.c

    def kept(self, *keys):
        if self.site:
            all_of_them = self.site.records()
            return {key: all_of_them[key] for key in keys}
        return {key: self.c.sql("SELECT value FROM registry WHERE key = ?", key) for key in keys}

    def tearDown(self):
        for h in self.hosts:
            h.ended.set()
        super().tearDown()

    def host(self, *args, **more):
        self.hosts.append(Host(self.c, *args, **more))
        return self.hosts[-1]

    def slice(self, name, n, **more):
        return [self.host(name, w, n, **more) for w in range(n)]

    def record(self, host, key):
        return host.records.get(key)

    def wait_for(self, host, key, **wanted):
        until(lambda: all((host.records.get(key) or {}).get(k) == v for k, v in wanted.items()),
              lambda: f"{key} {wanted}, is {host.records.get(key)}, error {host.error}")
        return host.records[key]

    def sync(self, body):
        c = http.client.HTTPConnection("127.0.0.1", self.c.otlp, timeout=60)
        c.request("POST", "/registry/v1/sync", body if isinstance(body, (str, bytes)) else json.dumps(body))
        r = c.getresponse()
        text = r.read()
        c.close()
        return r.status, json.loads(text)

    def want(self, name, slices, least, most, **more):
        r = self.c.get("/api/v1/runs", "POST", json.dumps({"name": name, "user": "alice", "argv": ["train"],
                                                           "slices": slices, "min": least,
                                                           "max": most, **more}),
                       {"Content-Type": "application/json"})
        self.assertEqual(r.status, 201, r.text)
        return r.json

    def restart(self, how):
        database, port = self.c.database, self.c.otlp
        self.c.stop(how)
        self.start_with_lease("--listen-otlp", f"127.0.0.1:{port}")
        self.assertEqual(self.c.database, database)
        for h in self.hosts:
            h.collector = self.c

    def test_forms_and_is_ready(self):
        a = self.host("s0", 0, 3)
        s = self.wait_for(a, "slice/s0", state="forming")
        self.assertEqual([(m["worker"], m["why"]) for m in s["missing"]],
                         [(1, "never heard"), (2, "never heard")])
        b, c = self.host("s0", 1, 3), self.host("s0", 2, 3)
        for h in (a, b, c):
            s = self.wait_for(h, "slice/s0", state="ready", generation=1)
        self.assertEqual([(m["worker"], m["host"], m["address"]) for m in s["roster"]],
                         [(w, f"s0-{w}", [f"10.0.0.{w}"]) for w in range(3)])
        self.assertEqual(self.c.get("/api/v1/slices/s0").json["state"], "ready")

    def test_a_word_that_comes_late_is_no_news(self):
        member = {"v": 1, "slice": "s0", "worker": 0, "host": "h0", "id": "m0", "incarnation": "a1",
                  "address": ["10.0.0.1"], "hosts": 1, "state": "ready"}
        same = {"v": 1, "same": "s0/0", "incarnation": "a1", "wait": 0}
        self.sync({"v": 1, "member": {**member, "orders": "cordoned: later"}, "said": 3, "wait": 0})
        self.assertTrue(self.sync({"v": 1, "member": member, "said": 2, "wait": 0})[1]["tell"])
        self.assertFalse(self.sync({**same, "said": 3})[1]["tell"])
        self.assertTrue(self.sync({**same, "said": 4})[1]["tell"])
        self.assertFalse(self.sync(same)[1]["tell"])
        self.assertFalse(self.sync({"v": 1, "member": {**member, "incarnation": "b2"}, "said": 1,
                                    "wait": 0})[1]["tell"])
        self.assertFalse(self.sync({**same, "incarnation": "b2", "said": 1})[1]["tell"])

    def test_silence_is_missed_and_named(self):
        a, b = self.slice("s0", 2)
        self.wait_for(a, "slice/s0", state="ready")
        b.end()
        s = self.wait_for(a, "slice/s0", state="forming", generation=2)
        self.assertEqual([(m["host"], m["address"], m["why"]) for m in s["missing"]],
                         [("s0-1", ["10.0.0.1"], "its lease ended")])
        self.hosts.append(Host(self.c, "s0", 1, 2))
        self.wait_for(a, "slice/s0", state="ready", generation=2)
        told = [(e["name"], e["attributes"]["state"])
                for e in self.c.get("/api/v1/events?slice=s0").json["events"]]
        self.assertEqual(told, [("tpu.slice.changed", state) for state in ("ready", "forming", "ready")])

    def test_two_claim_one_id(self):
        a, b = self.slice("s0", 2)
        self.wait_for(a, "slice/s0", state="ready")
        other = self.host("s0", 1, 2, host="thief", id="another")
        until(lambda: other.conflict, "the second is told")
        self.assertEqual((other.conflict["holder"], other.conflict["id"]), ("s0-1", "id-s0-1"))
        self.assertTrue(other.conflict["address"])
        until(lambda: a.records["slice/s0"]["conflicts"], "the conflict is shown")
        self.assertEqual([(c["host"], c["holder"]) for c in a.records["slice/s0"]["conflicts"]],
                         [("thief", "s0-1")])
        self.assertEqual((a.records["slice/s0"]["state"], a.records["slice/s0"]["generation"]), ("ready", 1))
        self.assertEqual(self.c.get("/api/v1/slices/s0/slots/1", "DELETE").status, 409)
        b.end()
        self.wait_for(a, "slice/s0", state="forming")
        self.assertTrue(other.conflict)  # never by silence
        self.assertEqual(self.c.get("/api/v1/slices/s0/slots/1", "DELETE").status, 204)
        self.assertEqual(self.wait_for(a, "slice/s0", state="ready")["roster"][1]["host"], "thief")

    def test_why_follows_lost_connections(self):
        """All ends are effects, closer together than clocks tell: two lines name h3, by address and task."""
        hosts = self.slice("s0", 4)
        self.wait_for(hosts[0], "slice/s0", state="ready")
        self.want("train", ["s0"], 1, 1)
        self.wait_for(hosts[0], "run/train", state="running")
        now = time.time()
        ends = (("peer-lost", "10.0.0.3"), ("stopped", ""), ("peer-lost", "task 3"), ("stopped", ""))
        for i, (cause, lost) in enumerate(ends):
            body = {"run": "train", "unit": "tpu-run-train.service", "cause": cause, "code": "exited",
                    "status": "1", "killed_by": "", "why": "", "lost_peer": lost, "remedy": "",
                    "generation": 1, "started": int((now - 9) * 1e6),
                    "ended": int((now - 1 + i / 100) * 1e6)}
            self.assertEqual(self.c.post("/v1/logs", otlp.request(
                {**AGENT, "host.name": f"s0-{i}", "tpu.slice.name": "s0", "tpu.worker.id": i},
                [otlp.log("tpu.run.exited", body, 13, now)])).status, 200)
        why = self.c.get("/api/v1/runs/train/why").json
        self.assertEqual((why["host"], why["cause"]), ("s0-3", "stopped"), why)
        self.assertNotIn("lost_peer", why["events"][0])

    def test_two_slices_and_a_run(self):
        a, b = self.slice("s0", 2), self.slice("s1", 2)
        self.wait_for(a[0], "slice/s0", state="ready")
        self.wait_for(b[0], "slice/s1", state="ready")
        made = self.want("train", ["s0", "s1"], 1, 2, restarts=3)
        self.assertEqual(len(made["serial"]), 16)
        run = self.wait_for(b[1], "run/train", state="running", generation=1)
        self.assertEqual(run["coordinator"], {"host": "s0-0", "address": "10.0.0.0", "port": 8476})
        for h in a + b:
            until(lambda h=h: h.parts["train"]["state"] == "running", "each host runs it")
        a[1].part("train", state="exited", cause="exit-code", code="exited", status="1", step=7)
        run = self.wait_for(a[0], "run/train", state="running", generation=2)
        self.assertEqual((run["blame"], run["restarts"]), ("", 1))
        self.assertIn("s0-1 (10.0.0.1) ended it: exit-code 1", run["why"])
        b[0].say(notice="preemption")
        until(lambda: not b[0].changed, "it is on its way")
        answers = b[0].answers
        until(lambda: b[0].answers > answers, "it was said")
        b[0].end()  # preempted: it shrinks at once when its lease is over
        run = self.wait_for(a[0], "run/train", state="running", generation=3)
        self.assertEqual([s["slice"] for s in run["slices"]], ["s0"])
        for h in a:
            until(lambda h=h: h.parts["train"].get("generation") == 3
                  and h.parts["train"]["state"] == "running", "each host runs it")
            h.part("train", state="exited", cause="success", code="exited", status="0")
        self.wait_for(a[0], "run/train", state="ended", outcome="success")
        bodies = [e["body"]
                  for e in self.c.get("/api/v1/events?name=tpu.run.changed&limit=1000").json["events"]]
        self.assertTrue(any("generation 2: preparing" in x for x in bodies), bodies)
        self.assertIn("run train, generation 3: ended, success", bodies[-1])

    def test_refusal_is_named_and_stopped(self):
        a, b = self.slice("s0", 2)
        b.refuses = "the chips are held by pid 7\nkill 7"
        self.wait_for(a, "slice/s0", state="ready")
        self.want("train", [], 1, 1)
        until(lambda: any("s0-1 (10.0.0.1): the chips are held by pid 7" in w
                          for w in (a.records.get("run/train") or {}).get("waits_for", [])),
              lambda: a.records.get("run/train"))
        b.refuses = None
        self.wait_for(a, "run/train", state="running")
        self.assertEqual(self.c.get("/api/v1/runs", "POST",
                                    json.dumps({"name": "train", "user": "alice", "argv": ["x"]}),
                                    {"Content-Type": "application/json"}).status, 409)
        self.assertEqual(self.c.get("/api/v1/runs/train", "DELETE").status, 202)
        self.wait_for(a, "run/train", state="ended", outcome="stopped")
        bodies = [e["body"]
                  for e in self.c.get("/api/v1/events?name=tpu.run.changed&limit=1000").json["events"]]
        # a remedy, and no line feed
        self.assertTrue(any("held by pid 7; kill 7" in x for x in bodies), bodies)
        self.assertFalse([x for x in bodies if "\n" in x])

    def test_a_suspect_is_taken_last(self):
        """And never refused: the second run gets its slice."""
        a, b = self.slice("s0", 1), self.slice("s1", 1)
        self.wait_for(a[0], "slice/s0", state="ready")
        self.wait_for(b[0], "slice/s1", state="ready")
        for run in ("x", "y"):
            lost = otlp.log("tpu.run.exited", {"run": run, "cause": "device-lost"}, 13, time.time())
            self.ok(self.c.post("/v1/logs", otlp.request({"host.name": "s0-0", "service.name": "tpu-hostd"},
                                                         [lost])))
        self.assertEqual([s["host"] for s in self.c.get("/api/v1/suspects").json["suspects"]], ["s0-0"])
        time.sleep(5.1)  # what the planner knows of them is 5 s old at most
        has = "slice s0 has the suspect host s0-0 (2 failed runs in 1 day): "
        for host, name, note in ((b[0], "one", "others were taken"), (a[0], "two", "it was taken last")):
            self.want(name, [], 1, 1)
            run = self.wait_for(host, "run/" + name, state="running")
            self.assertEqual([s["slice"] for s in run["slices"]], [host.member["slice"]])
            self.assertEqual(run["notes"], [has + note])

    def restarted(self, how):
        hosts = self.slice("s0", 2) + self.slice("s1", 2)
        self.want("train", [], 2, 2)
        before = self.wait_for(hosts[3], "run/train", state="running")
        until(lambda: all(h.parts.get("train", {}).get("state") == "running" and not h.changed
                          for h in hosts), "all run it")
        keys = ("slice/s0", "slice/s1", "slot/s0/1", "intent/train")
        kept = self.kept(*keys)
        answers = [h.whole for h in hosts]
        self.restart(how)
        until(lambda: all(h.whole > n for h, n in zip(hosts, answers)), "all are back")
        for h in hosts:
            self.assertEqual(h.records["run/train"], before)
            self.assertEqual(h.parts["train"]["state"], "running")
        self.assertEqual(self.kept(*keys), kept)

    def test_killed_collector(self):
        self.restarted(signal.SIGKILL)

    def test_stopped_collector(self):
        self.restarted(signal.SIGTERM)

    def test_who_does_not_return_is_missed_after_a_lease(self):
        a, b = self.slice("s0", 2)
        self.wait_for(a, "slice/s0", state="ready")
        b.end()
        self.restart(signal.SIGKILL)
        s = self.wait_for(a, "slice/s0", state="forming")
        self.assertEqual([(m["host"], m["why"]) for m in s["missing"]],
                         [("s0-1", "not heard since the registry was started again")])

    def test_leaves(self):
        a, b = self.slice("s0", 2)
        self.wait_for(a, "slice/s0", state="ready")
        b.end()
        self.assertEqual(self.sync({"v": 1, "same": "s0/1", "incarnation": b.member["incarnation"],
                                    "leave": True})[0], 200)
        s = self.wait_for(a, "slice/s0", state="forming")
        self.assertEqual(s["missing"][0]["why"], "it was shut down")

    def test_orders_reach_their_host_alone(self):
        a, b = self.slice("s0", 2)
        self.wait_for(a, "slice/s0", state="ready")
        r = self.c.get("/api/v1/hosts/s0-1/cordon?reason=bad%20cable", "PUT")
        self.assertEqual(r.status, 200, r.text)
        until(lambda: b.records.get("order/s0-1"), "it is told")
        self.assertEqual(b.records["order/s0-1"]["cordon"]["reason"], "bad cable")
        self.want("train", ["s0"], 1, 1)
        until(lambda: any("cordoned" in w for w in (a.records.get("run/train") or {}).get("waits_for", [])),
              lambda: a.records)
        self.assertFalse([k for k in a.records if k.startswith("order/")])
        self.assertEqual(self.c.get("/api/v1/hosts/s0-1/cordon", "DELETE").status, 204)
        self.wait_for(a, "run/train", state="running")
        self.assertEqual(self.c.get("/api/v1/mode?reason=enough", "PUT").status, 200)
        for h in (a, b):
            until(lambda h=h: (h.records.get("site/mode") or {}).get("mode") == "observe", "all are told")
        self.assertEqual(self.c.get("/api/v1/mode", "DELETE").status, 204)
        until(lambda: "site/mode" not in a.records, "all are told")
        # The collector's own events are of no host of the fleet.
        self.assertNotIn("tpu-collectord", [h["name"] for h in self.c.get("/api/v1/hosts").json["hosts"]])
        names = [e["name"] for e in self.c.get("/api/v1/events?name=tpu.api.acted").json["events"]]
        self.assertEqual(len(names), 5)

    def ctl(self, *words, code=0):
        p = subprocess.run([os.path.join(BUILD, "agent/ctl/tpuctl"), "fleet", *words, "--collector",
                            f"http://127.0.0.1:{self.c.api}"],
                           capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(p.returncode, code, p.stdout + p.stderr)
        return p.stdout + p.stderr

    def test_people_at_the_command_line(self):
        a = self.host("s0", 0, 2)
        self.wait_for(a, "slice/s0", state="forming")
        said = self.ctl("slices")
        self.assertRegex(said, r"s0 +forming +1 of 2")
        self.assertIn("missing: worker 1, since 20", said)
        self.assertEqual(json.loads(self.ctl("slices", "--json"))["slices"][0]["gang"]["present"], 1)
        self.ctl("cordon", "s0-0", "bad", "cable", "--until", "2h")
        until(lambda: (a.records.get("order/s0-0") or {}).get("cordon", {}).get("reason") == "bad cable",
              "it is told")
        self.assertGreater(a.records["order/s0-0"]["cordon"]["until"], 0)
        self.ctl("uncordon", "s0-0")
        until(lambda: "order/s0-0" not in a.records, "it is told")
        self.assertIn("nothing is ordered", self.ctl("observe", "enough", code=1))
        self.assertNotIn("site/mode", a.records)
        self.ctl("observe", "enough", "--yes")
        until(lambda: "site/mode" in a.records, "it is told")
        self.ctl("repair")
        self.ctl("observe", "--host", "s0-0", code=64)
        self.ctl("observe", "--host", "s0-0", "noise")
        until(lambda: "mode" in (a.records.get("order/s0-0") or {}), "it is told")
        self.assertIn("stop its agent first", self.ctl("release", "s0", "0", "gone", "--yes", code=1))
        for words in (("cordon", "s0-00", "x"), ("drain", "s0-00", "x", "--yes"), ("uncordon", "s0-00"),
                      ("observe", "--host", "s0-00", "x"), ("repair", "--host", "s0-00")):
            self.assertIn("the registry has no host 's0-00'; did you mean 's0-0'? known: s0-0\n",
                          self.ctl(*words, code=1))
        self.assertIn("there is no slice 's1'; did you mean 's0'? known: s0\nto do:  tpuctl fleet slices\n",
                      self.ctl("release", "s1", "0", "gone", "--yes", code=1))
        self.assertIn("there is no slice 's1'", self.ctl("--slice", "s1", code=1))
        self.assertIn("state=broken is not known; known: ready, ", self.ctl("--state", "broken", code=1))
        self.assertEqual(self.ctl("--slice", "s0", "--state", "silent"), "no host of slice s0 is silent\n")
        acted = [e["body"] for e in self.c.get("/api/v1/events?name=tpu.api.acted").json["events"]]
        self.assertTrue(any("s0-00/cordon: 404, refused: no such host" in e for e in acted), acted)
        for words in (("cordon", "s0-0"), ("release", "s0"), ("release", "s0", "x"),
                      ("cordon", "../x", "why"), ("observe", "--host", "a/b", "why")):
            self.ctl(*words, code=64)

    def test_what_it_does_not_take(self):
        for body in ("", "{", "[]", "{}", '{"v":1}', '{"v":0,"same":"s0/0","incarnation":"a"}',
                     '{"v":1,"same":"s0","incarnation":"a"}',
                     '{"v":1,"same":"s0/99999","incarnation":"a"}', '{"v":1,"same":"s0/1"}',
                     '{"v":1,"member":7}', '{"v":1,"member":{}}',
                     '{"v":1,"member":{"v":1,"slice":"../x","worker":0,"host":"h","id":"i","incarnation":"a","address":[]}}',
                     '{"v":1,"same":"s0/1","incarnation":"a","wait":"5"}', b"\xff\xfe", "[" * 10000):
            status, answer = self.sync(body)
            self.assertEqual((status, sorted(answer)), (400, ["error", "remedy"]), body)
        self.assertEqual(self.sync("x" * 300000)[0], 413)
        self.assertEqual(self.sync({"v": 1, "same": "s0/1", "incarnation": "a"})[1]["tell"], True)

    def test_of_another_tenant(self):
        """It gets no seat, in neither form of a sync, and hears both names."""
        a = self.host("s0", 0, 1)
        self.wait_for(a, "slice/s0", state="ready")
        member = {**a.member, "worker": 0, "host": "stranger", "id": "stranger", "incarnation": "x"}
        for body in ({"v": 1, "tenant": "b", "member": member},
                     {"v": 1, "tenant": "b", "same": "s0/0", "incarnation": a.member["incarnation"]}):
            status, answer = self.sync(body)
            self.assertEqual((status, answer["error"]),
                             (404, 'this collector serves the tenant "default", and the host is of "b"'))
        self.assertEqual([h["name"] for h in self.c.get("/api/v1/hosts").json["hosts"]], [a.member["host"]])
        self.assertEqual(self.sync({"v": 1, "tenant": "default", "same": "s0/0",
                                    "incarnation": a.member["incarnation"]})[0], 200)


@unittest.skipIf(etcd_site.missing(), etcd_site.missing())
class Etcd(Sqlite):
    def setUp(self):
        self.site = etcd_site.Site()
        self.addCleanup(self.site.close)
        super().setUp()


if __name__ == "__main__":
    unittest.main()
