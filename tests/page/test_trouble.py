#!/usr/bin/python3
"""The page with a collector that is slow, fails or lies; with 12,800 hosts; and with texts that would like to
be markup. It stays open for 10 s, with FULL=1 for 30 minutes, or for MINUTES=. BUILD_DIR: the build."""

import json
import os
import pathlib
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import fake  # noqa: E402
import world  # noqa: E402
import otlp  # noqa: E402 (whose folder is known by now)
from page_case import PageCase, SHOTS  # noqa: E402
from world import World  # noqa: E402

FULL = os.environ.get("FULL") == "1"
MINUTES = float(os.environ.get("MINUTES") or (30 if FULL else 1 / 6))
GROWTH = 1.1, 2e6  # of the scripts' memory: what it may be more at the end, as a factor and in bytes
STALL = {
    "episode": "e1",
    "slices": ["s1"],
    "named": "s1-w2",
    "run": "pretrain",
    "generation": 1,
    "at": "2026-11-27T10:00:00Z",
    "suspected": True,
    "by": "s1-w0",
    "why": "no step",
    "hosts": 4,
    "answered": 4,
    "outcome": "named",
    "summary": "slice s1, worker 2: it reads",
    "diagnosed": "2026-11-27T10:00:09Z",
    "confirmed": "2026-11-27T10:00:09Z",
    "recovered": None,
}
LONG = "x" * 300

# What would run, if any of it became markup, an attribute or an address.
MARKUP = [
    '<img src=x onerror="window.hit=1">',
    "<script>window.hit=1</script>",
    "\"><svg onload=window.hit=1>",
    "javascript:window.hit=1",
    "'onmouseover='window.hit=1",
    "</title><script>window.hit=1</script>",
    "<iframe srcdoc='<script>parent.hit=1</script>'>",
    "{{constructor.constructor('window.hit=1')()}}",
    "&lt;img src=x onerror=window.hit=1&gt;",
    "\u202e<b>gnp",
    "${window.hit=1}",
    "a`b`<u>c</u>",
]

FRAMES = """new Promise((done) => {
  const grid = document.querySelector(".grid"), times = [], draws = [];
  let at = performance.now(), n = 0;
  const step = () => {
    const now = performance.now();
    times.push(now - at);
    at = now;
    if (n++ === 120) return done({ times: times.slice(1).sort((a, b) => a - b), height: grid.scrollHeight });
    grid.scrollTop = (grid.scrollHeight - grid.clientHeight) * (n / 120);
    requestAnimationFrame(step);
  };
  requestAnimationFrame(step);
})"""

FILTER = """new Promise((done) => {
  const field = document.querySelector(".filter"), times = [];
  let n = 0;
  const step = () => {
    const began = performance.now();
    field.value = ["s", "s1", "s19", "s199", "s199-w1", "w6", "w63", ""][n % 8];
    field.dispatchEvent(new Event("input"));
    requestAnimationFrame(() => setTimeout(() => {
      times.push(performance.now() - began);
      if (++n === 16) done(times.sort((a, b) => a - b));
      else step();
    }));
  };
  step();
})"""


class Fake(PageCase):
    def setUp(self):
        super().setUp()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.fake = fake.Fake(world.page_folder(pathlib.Path(folder.name) / "page"))
        self.addCleanup(self.fake.close)
        self.fake.events()
        self.fake.answers["/api/v1/runs"] = {"runs": []}
        self.fake.answers["/api/v1/episodes"] = {"episodes": []}
        self.browser.size("desktop")

    def test_many_hosts(self):
        self.fake.hosts(fake.fleet(12_800))
        self.show(
            self.fake.url,
            "",
            "12,800 hosts: 1 stalled, 1 silent, 1 cordoned, 1 degraded, 1 checkpoint, 12,795 stepping",
        )
        rows = self.browser.run("document.querySelectorAll('.long tbody tr').length")
        self.assertLess(rows, 60)
        self.assertEqual(
            self.browser.run("document.querySelector('.long').getAttribute('aria-rowcount')"), "12801"
        )
        frames = self.browser.run(FRAMES)
        self.assertGreater(frames["height"], 400)
        filters = self.browser.run(FILTER)
        for name, times in (("scrolling", frames["times"]), ("filtering", filters)):
            print(
                f"12,800 hosts, {name}: {times[len(times) // 2]:.1f} ms a frame, 95 % below "
                f"{times[int(len(times) * 0.95)]:.1f}, most {times[-1]:.1f}"
            )
        self.browser.run("document.querySelector('.long tbody a').focus()")
        self.browser.key("End")
        self.browser.until("document.activeElement.closest('tr')?.getAttribute('aria-rowindex') === '12801'")
        self.browser.picture(str(SHOTS / "fleet-12800.png"))
        self.fit_for_all("12,800 hosts")

    def test_memory(self):
        """Views come and go, and each answer is another: neither the memory of scripts nor the document
        grows."""
        self.fake.hosts(hosts := fake.fleet(12_800))
        self.fake.events([fake.event(i) for i in range(200)])
        self.fake.answers["/api/v1/series"] = fake.series
        self.fake.answers["/api/v1/hosts/s1-w2"] = {**hosts[66], "metrics": fake.metrics()}
        self.fake.answers["/api/v1/episodes"] = {"episodes": [STALL]}
        self.fake.answers["/api/v1/episodes/e1"] = {**STALL, "diagnosis": fake.diagnosis()}
        self.show(self.fake.url, "", "12,800 hosts")
        for _ in range(2):
            self.every_view(hosts)
        first, rounds, end = self.in_use(), 0, time.monotonic() + 60 * MINUTES
        while time.monotonic() < end or rounds < 3:
            self.every_view(hosts)
            rounds += 1
        last = self.in_use()
        print(f"12,800 hosts, {rounds} times every view in {MINUTES:.1f} min: memory of scripts "
              f"{first['heap'] / 1e6:.1f} MB, then {last['heap'] / 1e6:.1f}; "
              f"nodes {first['nodes']}, then {last['nodes']}; "
              f"listeners {first['jsEventListeners']}, then {last['jsEventListeners']}")
        self.assertLess(last["heap"], first["heap"] * GROWTH[0] + GROWTH[1])
        self.assertLess(last["nodes"], first["nodes"] * 1.1 + 100)
        self.assertLess(last["jsEventListeners"], first["jsEventListeners"] * 1.1 + 50)
        self.assertEqual(self.browser.errors, [])

    def every_view(self, hosts):
        for h in hosts:
            h["step"] += 1
        for view, words in (
            ("#/run/pretrain", "Its hosts, odd ones first"),
            ("#/slice/s1", "Slice s1: 64 hosts"),
            ("#/host/s1-w2", "duty cycle by chip"),
            ("#/stall/e1", "Who waits for whom"),
            ("#/fleet", f"{hosts[0]['step']:,}"),
        ):
            self.browser.run(f"location.hash = {view!r}")
            self.says(words)

    def in_use(self):
        """After the garbage is gone; the least of some, for an answer may just be read."""
        seen = []
        for _ in range(4):
            self.browser.call("HeapProfiler.collectGarbage")
            heap = self.browser.call("Runtime.getHeapUsage")["usedSize"]
            seen.append({"heap": heap, **self.browser.call("Memory.getDOMCounters")})
            time.sleep(0.3)
        return min(seen, key=lambda s: s["heap"])

    def test_a_host_is_behind(self):
        hosts = fake.fleet(64)
        for h in hosts:
            h.update(step=18203, doing="step")
        hosts[5]["step"] -= 40
        self.fake.hosts(hosts)
        self.show(self.fake.url, "#/run/pretrain", "the most: s0-w5, 40 steps")
        self.named("image", "Steps behind the first host, by slice and worker; the most: s0-w5, 40")
        self.fit_for_all("behind")

    def test_asked_by_a_person(self):
        """What was found on a person's question holds while the run stands, and no longer."""
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        asked = {**STALL, "at": now, "suspected": False, "by": "somebody at 10.0.0.1", "confirmed": None}
        self.fake.answers["/api/v1/episodes"] = {"episodes": [asked]}
        self.fake.answers["/api/v1/episodes/e1"] = {**asked, "diagnosis": fake.diagnosis()}
        hosts = fake.fleet(128)
        for h in hosts:
            h.update(doing="stall")
        self.fake.hosts(hosts)
        self.show(self.fake.url, "", "128 hosts: 1 suspect, ")
        self.says("Run pretrain: slice s1, worker 2: it reads")
        self.browser.run("document.querySelector('.verdicts a').click()")
        self.says("Run pretrain stands still", "Asked by somebody at 10.0.0.1; no host had suspected a stall.")
        for h in hosts:
            h.update(doing="step")
        self.says("Run pretrain was asked where it stands")
        self.browser.run("location.hash = '#/fleet'")
        self.says("128 hosts: ")
        self.assertNotIn("suspect", self.browser.text())
        self.assertEqual(self.browser.errors, [])

    def test_slow(self):
        self.fake.hosts(fake.fleet(64))
        self.fake.delay = 2
        self.show(self.fake.url, "", "asking the collector")
        self.says("64 hosts: ")
        self.fit_for_all("slow")

    def test_away_and_back(self):
        self.fake.hosts(fake.fleet(64))
        self.show(self.fake.url, "", "64 hosts: ")
        self.fake.down = True
        self.says("The collector does not answer (no connection). The last known,")
        self.says("64 hosts: ")
        self.fake.down = False
        self.browser.until("document.getElementById('fresh').textContent === 'live'")
        self.assertEqual(self.browser.errors, [])

    def test_refused(self):
        for path in ("hosts", "runs", "episodes", "events"):
            self.fake.answers[f"/api/v1/{path}"] = (403, {"error": "use another certificate", "remedy": ""})
        self.show(self.fake.url, "", "The collector does not answer: use another certificate")

    def test_telemetry_elsewhere(self):
        self.fake.hosts(fake.fleet(64))
        self.fake.answers["/api/v1/events"] = (
            404,
            {"error": "e", "remedy": "r", "telemetry": "https://victoria:8428"},
        )
        self.show(self.fake.url, "", "telemetry goes to https://victoria:8428")
        self.fit_for_all("telemetry elsewhere")

    def test_lies(self):
        """No answer makes the page fail: wrong types, missing members, endless trees, circles."""
        wrong = [None, {}, 7, LONG, [], "text", True, [[]], [{"name": {"a": 1}}], -1e308][
            : None if FULL else 4
        ]
        deep = {"hosts": 4, "frames": [{"function": "f"}], "children": []}
        for _ in range(400):
            deep = {"hosts": 4, "frames": [{"function": "f", "file": LONG}], "children": [deep, 7]}
        circle = {
            "nodes": [{"host": LONG}, {"host": "s1-w2", "kind": 7}],
            "debts": [
                {"from": "s1-w2", "to": "s1-w2"},
                {"from": LONG, "to": "s1-w2", "weight": 1e308},
                {"from": 9, "to": 1},
            ],
        }
        views = [
            "#/fleet",
            "#/run/pretrain",
            "#/slice/s1",
            "#/host/s1-w2",
            "#/stall/e1",
            "#/none/%zz",
            "#/constructor/x",
        ]
        for value in wrong:
            h = fake.host(1, "s1", 2)
            for key in h:
                h[key] = value
            named = {
                **fake.host(1, "s1", 2),
                "metrics": [{"name": value, "attributes": value, "value": value}, value],
            }
            self.fake.answers.update(
                {
                    "/api/v1/hosts": {"hosts": [h, value, fake.host(2, "s1", 3)], "next": None},
                    "/api/v1/runs": {
                        "runs": [value, {"name": "pretrain", "history": value, "slices": value}]
                    },
                    "/api/v1/runs/pretrain": {
                        "name": "pretrain",
                        "history": [value],
                        "slices": value,
                        "waits_for": value,
                        "since": value,
                    },
                    "/api/v1/slices/s1": {"missing": value, "unlike": [value], "since": value},
                    "/api/v1/hosts/s1-w2": named,
                    "/api/v1/episodes": {"episodes": [STALL, value, {k: value for k in STALL}]},
                    "/api/v1/episodes/e1": {
                        **STALL,
                        "slices": value,
                        "diagnosis": {
                            "suspects": [value, {"host": "s1-w2", "score": 0.9, "chain": [value]}],
                            "classes": [value, {"frame": value}],
                            "tree": value or deep,
                            "graph": value or circle,
                        },
                    },
                }
            )
            for view in views:
                self.browser.go("about:blank")
                self.browser.go(self.fake.url + view)
                self.browser.until(
                    "!!document.querySelector('main h1, main [role=alert]')", f"{view} with {value!r}"[:80]
                )
                self.browser.run("new Promise((done) => setTimeout(done, 60))")
                self.assertEqual(self.browser.errors, [], f"{view} with {value!r}"[:200])

    def test_no_json(self):
        self.fake.answers["/api/v1/hosts"] = b"<html>a proxy's page</html>"
        self.show(self.fake.url, "", "its answer is not understood")


class Hostile(PageCase):
    """Texts out of every field that a host may fill, as they come through the real collector."""

    def test_no_markup(self):
        w = World((("s0", 2),))
        self.addCleanup(w.close)
        w.start()
        text = " ".join(MARKUP)
        for i, h in enumerate(w.hosts):
            h.say(reasons=text, orders=MARKUP[i], version=text[:60])
        for i, bad in enumerate(MARKUP):
            resource = {
                "host.name": bad,
                "service.name": "tpu-hostd",
                "service.version": bad,
                "tpu.boot.id": bad,
                "tpu.slice.name": bad,
                "tpu.worker.id": i,
                "tpu.accelerator.type": bad,
            }
            attributes = {
                "tpu.run.name": bad,
                "tpu.check.name": bad,
                "tpu.check.subject": bad,
                "tpu.chip": bad,
                "tpu.process": bad,
                "network.interface.name": bad,
                "network.io.direction": "receive",
                "tpu.net.peer": bad,
            }
            names = (
                "tpu.check.verdict",
                "tpu.hbm.usage",
                "system.network.io",
                "tpu.net.retransmits",
                "tpu.duty_cycle",
                bad,
            )
            w.collector.post(
                "/v1/metrics",
                otlp.request(resource, [otlp.gauge(n, [otlp.point(3, attributes)]) for n in names]),
            )
            body = {
                k: bad
                for k in (
                    "check",
                    "subject",
                    "found",
                    "wanted",
                    "reason",
                    "remedy",
                    "from",
                    "to",
                    "run",
                    "why",
                    "text",
                )
            }
            for name in ("tpu.check.changed", "tpu.run.stall_suspected", "tpu.run.exited", bad):
                w.collector.post("/v1/logs", otlp.request(resource, [otlp.log(name, body, 17, time.time())]))
            w.collector.post(
                "/v1/logs",
                otlp.request(
                    resource,
                    [
                        otlp.log(
                            "tpu.run.line",
                            bad,
                            9,
                            time.time(),
                            {"tpu.run.name": world.RUN, "tpu.run.invocation": "a", "tpu.run.line": i + 1},
                        )
                    ],
                ),
            )
        for h in w.hosts:
            h.what = lambda k: {
                "step": 7,
                "processes": [
                    {
                        "pid": 1,
                        "command": text,
                        "threads": [
                            {
                                "tid": 1,
                                "name": MARKUP[0][:15],
                                "state": "S",
                                "wait": MARKUP[1],
                                "syscall": MARKUP[2],
                                "frames": [{"file": m, "line": 1, "function": m} for m in MARKUP],
                            }
                        ],
                    }
                ],
            }
        episode = w.stall()["episode"]
        views = [
            "#/fleet",
            f"#/run/{world.RUN}",
            "#/slice/s0",
            "#/host/s0-0",
            f"#/stall/{episode}",
            *(f"#/host/{self.quote(m)}" for m in MARKUP),
            *(f"#/run/{self.quote(m)}" for m in MARKUP[:4]),
        ]
        b = self.browser
        b.size("desktop")
        for view in views:
            b.go("about:blank")
            b.go(w.url + view)
            b.until("!!document.querySelector('main h1')", view)
            b.run("new Promise((done) => setTimeout(done, 700))")
            self.assertFalse(b.run("'hit' in window"), view)
            self.assertEqual(
                b.run(
                    "document.querySelectorAll('main script, main img, main iframe, main u, main b, main [onerror], "
                    "main [onload], main [onmouseover], a[href^=javascript]').length"
                ),
                0,
                view,
            )
            self.assertEqual(b.errors, [], view)
        self.show(w.url, "#/host/" + self.quote(MARKUP[0]), MARKUP[0])  # it is there, as text
        self.assertEqual({u for u in b.requests if not u.startswith((w.url, "about:"))}, set())
        self.assertEqual(json.loads(json.dumps(b.errors)), [])

    @staticmethod
    def quote(name):
        import urllib.parse

        return urllib.parse.quote(name, safe="")


if __name__ == "__main__":
    unittest.main()
