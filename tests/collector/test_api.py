#!/usr/bin/python3
"""The fleet API of tpu-collectord: hosts, slices, events, series, its own metrics."""

import re
import threading
import time
import unittest

import otlp
from collector_case import AGENT, Case, metrics


class Api(Case):
    def test_events_filters(self):
        c = self.start()
        for host in ("h1", "h2"):
            res = {**AGENT, "host.name": host, "tpu.slice.name": "s-" + host}
            self.ok(c.post("/v1/logs", otlp.request(res, [otlp.log(f"n{i % 2}", i) for i in range(10)])))

        def ids(query):
            a = c.get("/api/v1/events?" + query).json
            return [e["id"] for e in a["events"]], a["next"]
        self.assertEqual(ids("host=h2&since=0&limit=3"), ([11, 12, 13], 13))
        self.assertEqual(ids("host=h2&since=18"), ([19, 20], 20))
        self.assertEqual(ids("limit=2"), ([19, 20], 20))
        self.assertEqual(ids("slice=s-h1&name=n1&since=4"), ([6, 8, 10], 10))
        self.assertEqual(ids("name=n0&limit=1"), ([19], 19))
        self.assertEqual(ids("host=h1&since=10"), ([], 10))
        for bad, word in (("limit=0", "1 to 1000"), ("limit=1001", "1 to 1000"), ("since=-1", "since"),
                          ("since=x", "since"), ("sort=up", "sort"),
                          ("limit=1&limit=2", "twice"), ("since=", "since")):
            r = c.get("/api/v1/events?" + bad)
            self.assertEqual(r.status, 400)
            self.assertIn(word, r.json["error"])
            self.assertTrue(r.json["remedy"])

    def test_names_that_are_not_there(self):
        """A mistyped name is no empty answer: it is said, with what there is."""
        c = self.start()

        def refused(path, status, error, remedy, method="GET"):
            r = c.get(path, method)
            self.assertEqual((path, r.status, r.json), (path, status, {"error": error, "remedy": remedy}))

        refused("/api/v1/hosts?slice=s1", 404, "there is no slice 's1'; none is known",
                "tpuctl fleet slices")
        for i in range(40):
            res = {**AGENT, "host.name": f"host-{i:02}", "tpu.slice.name": f"s{i // 8}"}
            self.ok(c.post("/v1/metrics", metrics(res=res)))
            self.ok(c.post("/v1/logs", otlp.request(res, [otlp.log("e", i)])))
        line = otlp.log("tpu.run.line", "text", 9, time.time(),
                        {"tpu.run.name": "train", "tpu.run.invocation": "a", "tpu.run.line": 1})
        self.ok(c.post("/v1/logs", otlp.request({**AGENT, "host.name": "host-00", "tpu.slice.name": "s0"},
                                                [line])))
        hosts = ", ".join(f"host-{i:02}" for i in range(19)) + " and 21 more"
        for path in ("/api/v1/hosts/host-40", "/api/v1/hosts?host=host-40", "/api/v1/events?host=host-40",
                     "/api/v1/series?host=host-40&name=m"):
            refused(path, 404, f"there is no host 'host-40'; did you mean 'host-00'? known: {hosts}",
                    "tpuctl fleet")
        for path in ("/api/v1/hosts?slice=s9", "/api/v1/events?slice=s9", "/api/v1/slices/s9",
                     "/api/v1/slices/s9/diagnosis", "/api/v1/slices/s9/episodes",
                     "/api/v1/slices/s9/captures"):
            refused(path, 404, "there is no slice 's9'; did you mean 's0'? known: s0, s1, s2, s3, s4",
                    "tpuctl fleet slices")
        for path, method in (("/api/v1/runs/trian/logs", "GET"), ("/api/v1/runs/trian", "GET"),
                             ("/api/v1/runs/trian", "DELETE")):
            refused(path, 404, "there is no run 'trian'; did you mean 'train'? known: train",
                    "tpuctl runs --fleet", method)
        refused("/api/v1/hosts/host-00/cordon?reason=x", 404,
                "the registry has no host 'host-00'; none is known", "tpuctl fleet", "PUT")
        refused("/api/v1/slices/s9/slots/1", 404,
                "there is no slice 's9'; did you mean 's0'? known: s0, s1, s2, s3, s4",
                "tpuctl fleet slices", "DELETE")
        r = c.get("/api/v1/hosts?state=broken")
        self.assertEqual((r.status, r.json["error"]),
                         (400, "state=broken is not known; known: ready, degraded, unfit, unknown, silent, "
                               "missing"))
        r = c.get("/api/v1/hosts?state=degarded&slice=s0")
        self.assertIn("; did you mean 'degraded'? known: ready,", r.json["error"])
        # what is there, and empty, stays an empty answer
        self.assertEqual(c.get("/api/v1/hosts?slice=s0&state=unfit").json["hosts"], [])
        self.assertEqual(len(c.get("/api/v1/hosts?slice=s0&state=unknown").json["hosts"]), 8)
        self.assertEqual(c.get("/api/v1/events?slice=s0&name=none").json["events"], [])
        self.assertEqual(c.get("/api/v1/slices/s0/episodes").json["episodes"], [])
        self.assertEqual(c.get("/api/v1/runs/train/logs?since=1").json["lines"], [])
        self.assertEqual(c.get("/api/v1/events?host=tpu-collectord&name=none").json["events"], [])
        # whatever stands in a path, the answer is an answer
        for name in ("%ff%fe", "%0a%1b", "x" * 250, "..", "%E2%80%AE"):
            r = c.get(f"/api/v1/hosts/{name}")
            self.assertEqual((name, r.status, "there is no host '" in r.json["error"]), (name, 404, True))

    def test_hosts_sorted(self):
        c = self.start()
        for name, slice_, worker in (("z", "a", 10), ("y", "a", 9), ("x", None, None), ("w", "b", 0)):
            res = {"host.name": name, "service.name": "tpu-hostd",
                   **({"tpu.slice.name": slice_, "tpu.worker.id": worker} if slice_ else {})}
            self.ok(c.post("/v1/metrics", metrics(res=res)))
        hosts = c.get("/api/v1/hosts").json["hosts"]
        self.assertEqual([h["name"] for h in hosts], ["y", "z", "w", "x"])
        self.assertEqual((hosts[3]["slice"], hosts[3]["worker_id"], hosts[3]["state"]), (None, None, None))

    def test_dead_ends(self):
        c = self.start()
        self.assertEqual(c.get("/healthz").text, "ok\n")
        for path, method, status in (("/", "GET", 404), ("/api/v1/hosts/nobody", "GET", 404),
                                     ("/api/v1/hosts", "POST", 405),
                                     ("/api/v1/hosts?x=1", "GET", 400), ("/api/v1/hosts/%ff", "GET", 404)):
            r = c.get(path, method)
            self.assertEqual((path, r.status), (path, status))
            self.assertEqual(set(r.json), {"error", "remedy"})
        self.assertEqual(c.get("/api/v1/hosts", "HEAD").status, 200)
        self.assertEqual(c.get("/api/v1/hosts", "POST", b"x" * 100).status, 405)

    def test_slices_and_pages(self):
        c = self.start()
        now = time.time()
        for i in range(7):
            res = {**AGENT, "host.name": f"h{i}", "tpu.slice.name": f"s{i // 3}", "tpu.worker.id": i % 3}
            state = ("ready", "unfit", "degraded")[i % 3]
            self.ok(c.post("/v1/metrics",
                           otlp.request(res,
                                        [otlp.gauge("tpu.host.state",
                                                    [otlp.point(1, {"tpu.host.state": state},
                                                                now - 50 * (i == 1))])])))
        slices = c.get("/api/v1/slices").json["slices"]
        self.assertEqual([(s["name"], s["hosts"], s["ready"], s["degraded"], s["unfit"], s["unknown"],
                           s["silent"]) for s in slices],
                         [("s0", 3, 1, 1, 1, 0, 0), ("s1", 3, 1, 1, 1, 0, 0), ("s2", 1, 1, 0, 0, 0, 0)])
        names, offset = [], 0
        while offset is not None:
            a = c.get(f"/api/v1/hosts?limit=3&offset={offset}").json
            names += [h["name"] for h in a["hosts"]]
            offset = a["next"]
        self.assertEqual(names, [f"h{i}" for i in range(7)])
        self.assertEqual([h["name"] for h in c.get("/api/v1/hosts?slice=s1&state=unfit").json["hosts"]],
                         ["h4"])
        hosts = {h["name"]: h for h in c.get("/api/v1/hosts").json["hosts"]}
        self.assertTrue(49 < hosts["h1"]["lag_seconds"] < 60 and hosts["h0"]["lag_seconds"] < 10)
        text = c.get("/metrics").text
        self.assertIn('tpu_collectord_hosts{state="ready"} 3\n', text)

    def test_series(self):
        c = self.start()
        now = int(time.time())
        for i in range(30):
            for host in ("h0", "h1"):
                self.ok(c.post("/v1/metrics", otlp.request({**AGENT, "host.name": host}, [
                    otlp.gauge("load", [otlp.point(i, {"cpu": 0}, now - 300 + i * 10),
                                        otlp.point(0.5, {"cpu": 1}, now - 300 + i * 10)]),
                    otlp.gauge("other", [otlp.point(1)])])))
        a = c.get(f"/api/v1/series?host=h0&name=load&from={now - 250}&until={now - 200}").json
        self.assertEqual([s["attributes"] for s in a["series"]], [{"cpu": 0}, {"cpu": 1}])
        self.assertEqual([p["value"] for p in a["series"][0]["points"]], [5, 6, 7, 8, 9])
        self.assertEqual([p["value"] for p in a["series"][1]["points"]], [0.5] * 5)
        self.assertEqual((len(c.get("/api/v1/series?host=h1&name=load").json["series"][0]["points"]),
                          a["truncated"]), (30, False))
        self.assertTrue(c.get("/api/v1/series?host=h1&name=load&limit=7").json["truncated"])
        self.assertEqual(c.get("/api/v1/series?host=h1&name=nothing").json["series"], [])
        for bad, status, word in (("host=h0", 400, "name"), ("host=no&name=x", 404, "no host"),
                                  ("host=h0&name=x&from=yesterday", 400, "from"),
                                  ("host=h0&name=x&since=1", 400, "since"),
                                  ("host=h0&name=x&limit=20001", 400, "20000")):
            r = c.get("/api/v1/series?" + bad)
            self.assertEqual((bad, r.status), (bad, status))
            self.assertIn(word, r.json["error"])
        self.assertEqual(c.stop(), 0)
        c = self.start()  # the numbers of series are found again, whatever order attributes have
        self.ok(c.post("/v1/metrics",
                       otlp.request(AGENT, [otlp.gauge("load", [otlp.point(99, {"cpu": 0}, now)])])))
        self.assertEqual(c.get("/api/v1/series?host=h0&name=load").json["series"][0]["points"][-1]["value"],
                         99)

    def test_events_since_a_time(self):
        c = self.start()
        for i in range(5):
            self.ok(c.post("/v1/logs", otlp.request(AGENT, [otlp.log(f"e{i}", i)])))
            time.sleep(0.03)
        times = [e["received"] for e in c.get("/api/v1/events").json["events"]]
        a = c.get("/api/v1/events?from=" + times[3]).json
        self.assertEqual([e["name"] for e in a["events"]], ["e3", "e4"])
        self.assertEqual(c.get("/api/v1/events?from=9999999999").json, {"events": [], "next": 5})
        self.assertEqual(len(c.get("/api/v1/events?from=0&limit=2").json["events"]), 2)

    def test_long_poll(self):
        c = self.start()
        self.ok(c.post("/v1/logs", otlp.request(AGENT, [otlp.log("first", 1)])))
        answers = {}

        def ask(key, query):
            start = time.monotonic()
            answers[key] = (c.get("/api/v1/events?" + query).json, time.monotonic() - start)
        polls = [threading.Thread(target=ask, args=a)
                 for a in (("any", "since=1&wait=30"), ("name", "since=1&wait=30&name=third"),
                                                                ("nothing", "since=1&wait=1&host=nobody"),
                                                                ("past", "since=0&wait=30"))]
        for t in polls:
            t.start()
        self.until(lambda: "past" in answers)
        time.sleep(0.4)
        self.assertNotIn("any", answers)
        self.ok(c.post("/v1/logs", otlp.request(AGENT, [otlp.log("second", 1)])))
        self.until(lambda: "any" in answers)
        self.assertNotIn("name", answers)
        self.ok(c.post("/v1/logs", otlp.request(AGENT, [otlp.log("third", 1)])))
        for t in polls:
            t.join(60)
        self.assertEqual({k: [e["name"] for e in a["events"]] for k, (a, _) in answers.items()},
                         {"any": ["second"], "name": ["third"], "nothing": [], "past": ["first"]})
        self.assertEqual(answers["nothing"][0]["next"], 1)
        self.assertTrue(0.9 < answers["nothing"][1] < 30)
        t = threading.Thread(target=ask, args=("end", "since=3&wait=30"))
        t.start()
        time.sleep(0.3)
        self.assertEqual(c.stop(), 0)  # answers who waits, and does not wait for him
        t.join(60)

    def test_metrics(self):
        c = self.start()
        self.ok(c.post("/v1/metrics", metrics()))
        r = c.get("/metrics")
        self.assertTrue(r.getheader("Content-Type").startswith("text/plain; version=0.0.4"))
        self.assertIn("# TYPE tpu_collectord_points_total counter\ntpu_collectord_points_total 1\n", r.text)
        families = re.findall(r"^# TYPE (\S+)", r.text, re.M)  # each family once
        self.assertEqual(len(families), len(set(families)))
        self.assertNotIn("\n\n", r.text)

    def test_large_events_come_in_parts(self):
        c = self.start()
        for _ in range(5):
            self.ok(c.post("/v1/logs", otlp.request(AGENT, [otlp.log("stack", "x" * 3000000)])))
        seen, since = [], 0
        while len(seen) < 5:
            a = c.get(f"/api/v1/events?since={since}").json
            self.assertTrue(0 < len(a["events"]) <= 2)
            seen += [e["id"] for e in a["events"]]
            since = a["next"]
        self.assertEqual(seen, [1, 2, 3, 4, 5])

    def test_own_metrics(self):
        c = self.start()
        self.ok(c.post("/v1/metrics", metrics()))
        c.post("/v1/metrics", b"\xff")
        text = c.get("/metrics").text
        for line in ('tpu_collectord_requests_total{path="/v1/metrics",code="200"} 1',
                     'tpu_collectord_requests_total{path="/v1/metrics",code="400"} 1',
                     "tpu_collectord_points_total 1", "tpu_collectord_commits_total 1"):
            self.assertIn(line + "\n", text)


if __name__ == "__main__":
    unittest.main()
