"""tpu-hostd and the registry of a collector: what it says of itself, what it is told, and a registry that
is away, changes or refuses."""

import shutil
import signal
import ssl
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path
from urllib.parse import urlencode

sys.path.insert(0, str(Path(__file__).parent))
from around import Hostd, has_failed, wait_until  # noqa: E402
from certificates import Authority  # noqa: E402
from registry_stand_in import Registry  # noqa: E402

IDENTITY = ("[Identity]\nHostName=h2\nSliceName=s0\nWorkerId=2\nWorkerHostnames=h0,h1,h2,h3\n"
            "AcceleratorType=v6e-16\nTopology=4x4\n")
SLICE = {"v": 1, "slice": "s0", "generation": 3, "state": "forming", "since": 0, "hosts": 4,
         "roster": [{"worker": 2, "host": "h2", "id": "x", "address": ["127.0.0.1"], "incarnation": "y"}],
         "missing": [{"worker": 1, "host": "h1", "address": ["10.0.0.2"], "since": 0,
                      "why": "its lease ended"}],
         "conflicts": [], "unlike": []}


class WithRegistry(unittest.TestCase):
    def registry(self, **k):
        r = Registry(**k)
        self.addCleanup(lambda: r.stop())
        return r.start()

    def hostd(self, registry=None, identity=IDENTITY, start=True, alone=None, **settings):
        h = Hostd()
        self.addCleanup(lambda: h.close(failed=has_failed(self)))
        folder = h.root / "etc/tpu-hostd/identity.conf.d"
        for f in folder.iterdir():
            f.unlink()
        (folder / "50-test.conf").write_text(identity)
        if start if alone is None else alone:  # without tpu-launchd: there are no runs
            h.config.write_text(h.config.read_text().replace(f"LaunchdSocket={h.folder}/launchd.sock",
                                                             "LaunchdSocket="))
        given = {"Address": "127.0.0.1", "Splay": "0", **settings}
        if registry:
            given = {"Kind": "collector", "Endpoint": f"http://127.0.0.1:{registry.port}", **given}
        h.config.write_text(h.config.read_text() + "[Registry]\n"
                            + "".join(f"{k}={v}\n" for k, v in given.items() if v is not None))
        return h.start() if start else h

    def state(self, h):
        return h.get("/v1/status")["registry"]

    def until(self, h, state):
        wait_until(lambda: self.state(h)["state"] == state, 60, f"registry is {state}: {self.state(h)}")
        return self.state(h)

    def check(self, h, name):
        return next((c for c in h.get("/v1/checks")["checks"] if c["check"] == name), None)

    def member(self, r, key="s0/2"):
        wait_until(lambda: key in r.members, 60, f"{key} is a member")
        return r.members[key]


class Collector(WithRegistry):
    def test_says_what_the_host_is(self):
        r = self.registry()
        h = self.hostd(r)
        m = self.member(r)
        self.assertEqual({k: m[k] for k in ("v", "slice", "worker", "host", "hosts", "accelerator",
                                            "topology", "address", "observe", "orders", "notice", "runs")},
                         {"v": 1, "slice": "s0", "worker": 2, "host": "h2", "hosts": 4,
                          "accelerator": "v6e-16", "topology": "4x4",
                          "address": ["127.0.0.1"], "observe": False, "orders": "", "notice": "",
                          "runs": []})
        self.assertRegex(m["incarnation"], r"^[0-9a-f]{16}\.[0-9a-f]{16}$")
        s = self.until(h, "member")
        self.assertEqual((s["kind"], s["endpoint"]), ("collector", f"http://127.0.0.1:{r.port}"))
        self.assertTrue(s["may_claim"])
        self.assertEqual(self.check(h, "enroll.registry")["verdict"], "OK")
        self.assertEqual(self.check(h, "enroll.identity")["found"], "worker 2 of slice s0")
        life = m["incarnation"]
        h.process.send_signal(signal.SIGKILL)
        h.process.wait(20)
        h.start()
        wait_until(lambda: r.members["s0/2"]["incarnation"] > life, 60, "a later life of this boot")

    def test_tells_changes_at_once_and_renews_in_short(self):
        r = self.registry(lease=600)  # a request is held for 300 s: only what is said at once is seen here
        h = self.hostd(r)
        self.until(h, "member")
        wait_until(lambda: r.members["s0/2"]["state"] == "ready" and r.asked[-1].get("wait") == 300, 60,
                   "the held request")
        r.put("slice/s0", SLICE)  # which answers it; the next one has nothing new to say
        wait_until(lambda: "same" in r.asked[-1] and r.asked[-1]["wait"] == 300, 60, "the short request")
        code, _, body = h.call("/v1/cordon?" + urlencode({"reason": "bad cable"}), "PUT")
        self.assertEqual(code, 200, body)
        wait_until(lambda: r.members["s0/2"]["orders"] == "cordoned: bad cable", 60, "the order is known")
        h.rmem("4096\t131072\t6291456")
        wait_until(lambda: r.members["s0/2"]["state"] != "ready"
                   and "tcp_rmem" in r.members["s0/2"]["reasons"], 60, "the state is known")

    def test_clocks_that_differ(self):
        r = self.registry()
        h = self.hostd(r)
        found = lambda: next((c for c in h.get("/v1/checks")["checks"] if c["check"] == "enroll.clock"), {})
        wait_until(lambda: found().get("verdict") == "OK", 30, found)
        r.clock_ahead = 10
        wait_until(lambda: found().get("verdict") == "WARN", 60, found)
        self.assertRegex(found()["reason"], r"differs by -(9|10)\.\d s from that of the collector")
        self.assertIn("chronyc", found()["remedy"])
        r.clock_ahead = 0
        wait_until(lambda: found().get("verdict") == "OK", 60, found)

    def test_told_records(self):
        r = self.registry()
        r.put("slice/s0", SLICE)
        h = self.hostd(r)
        wait_until(lambda: h.get("/v1/status")["slice"] == SLICE, 60, "the slice is shown")
        e = wait_until(lambda: h.events("tpu.slice.changed"), 60, "the event")[0]
        self.assertEqual((e["body"]["state"], e["body"]["missing"]),
                         ("forming", "h1 (10.0.0.2): its lease ended"))
        whole = {**SLICE, "state": "ready", "missing": [], "generation": 4}
        r.put("slice/s0", whole)
        wait_until(lambda: h.get("/v1/status")["slice"] == whole, 60, "the change is shown")
        r.put("slice/s0", None)
        wait_until(lambda: h.get("/v1/status")["slice"] is None, 60, "it is gone")
        r.put("slice/s0", whole)
        wait_until(lambda: h.get("/v1/status")["slice"] == whole, 60, "it is back")
        r.stop()
        r.epoch, r.records = "b", {}  # another life of the server: what it does not name is gone
        r.start()
        wait_until(lambda: h.get("/v1/status")["slice"] is None, 60, "gone with the server's memory")

    def test_away_changes_nothing(self):
        r = self.registry(lease=3)
        r.put("slice/s0", SLICE)
        h = self.hostd(r)
        wait_until(lambda: h.get("/v1/status")["slice"] == SLICE, 60, "the slice is shown")
        r.stop()
        s = self.until(h, "away")
        self.assertIn(f"http://127.0.0.1:{r.port}: ", s["why"])
        self.assertEqual(h.get("/v1/status")["slice"], SLICE)
        wait_until(lambda: not self.state(h)["may_claim"], 60, "the lease may have ended")
        check = wait_until(lambda: self.check(h, "enroll.registry")["settled"] == "WARN"
                           and self.check(h, "enroll.registry"), 60, "the check")
        self.assertIn("runs go on", check["reason"])
        self.assertEqual(h.get("/v1/status")["state"], "degraded")
        r.members.clear()
        r.start()
        self.until(h, "member")
        self.member(r)
        wait_until(lambda: self.check(h, "enroll.registry")["settled"] == "OK", 60, "good again")

    def test_who_is_away_tries_often_enough_to_be_back_within_a_lease(self):
        r = self.registry(lease=1)
        h = self.hostd(r)
        self.until(h, "member")
        real, asked = r.sync, []
        r.sync = lambda request, gone: asked.append(request) or (503, Raw(b""))
        # by an exponential backoff alone it would be ten times
        wait_until(lambda: len(asked) >= 20, 60, "it is asked again and again")
        self.until(h, "away")
        r.sync = real
        self.until(h, "member")

    def test_forgotten_member_is_told_again(self):
        r = self.registry(lease=3)
        h = self.hostd(r)
        self.until(h, "member")
        with r.news:
            r.members.clear()
        self.member(r)
        self.assertEqual(self.state(h)["state"], "member")

    def test_conflict(self):
        r = self.registry(lease=3)
        r.conflict = {"holder": "h1", "id": "4711", "address": ["10.0.0.2"], "since": 0}
        h = self.hostd(r)
        s = self.until(h, "conflict")
        self.assertEqual(s["why"], "worker id 2 of slice s0 is h1's (10.0.0.2, machine 4711)")
        self.assertFalse(s["may_claim"])
        wait_until(lambda: self.check(h, "enroll.identity")["settled"] == "FAIL", 60, "the check")
        self.assertEqual(h.get("/v1/status")["state"], "unfit")
        self.assertEqual(len(h.events("tpu.slice.conflict")), 1)
        asked = len(r.asked)
        wait_until(lambda: len(r.asked) > asked + 1, 60, "it asks again")
        self.assertIn("member", r.asked[-1])
        r.conflict = None
        self.until(h, "member")
        wait_until(lambda: self.check(h, "enroll.identity")["settled"] == "OK", 60, "solved")

    def test_refusals_and_nonsense(self):
        for status, body, state, why in ((404, b"{}", "refused", "keeps no registry"),
                                         (403, b'{"error":"no such host"}', "refused",
                                          "HTTP 403: no such host"),
                                         (503, b"", "joining", "HTTP 503"),
                                         (200, b"<html>", "refused", "cannot be understood"),
                                         (200,
                                          b'{"v":1,"lease":15,"term":0,"store":"","revision":"a.1",'
                                          b'"records":{"slice/s0":7}}', "refused",
                                          "record slice/s0 is no object"),
                                         (200, b'{"v":1,"lease":0,"revision":"a.1"}', "refused",
                                          "lease is no number of seconds")):
            with self.subTest(status=status, body=body):
                r = self.registry()
                r.sync = lambda request, gone, status=status, body=body: (status, Raw(body))
                h = self.hostd(r)
                wait_until(lambda: self.state(h)["why"], 60, "it is said")
                s = self.state(h)
                self.assertEqual(s["state"], state, s)
                self.assertIn(why, s["why"])
                self.assertEqual(h.get("/v1/status")["slice"], None)
                r.stop()

    def test_a_server_that_never_holds_is_not_asked_without_end(self):
        r = self.registry()
        real = r.sync
        r.sync = lambda request, gone: real({**request, "wait": 0, "since": None}, gone)
        h = self.hostd(r)
        self.until(h, "member")
        before = len(r.asked)
        time.sleep(3)  # without a limit it would be asked some thousand times
        self.assertLess(len(r.asked), before + 200)

    def test_name_is_looked_up(self):
        r = self.registry()
        h = self.hostd(r, Endpoint=f"http://localhost:{r.port}/")
        self.until(h, "member")


class Several(WithRegistry):
    """Up to four collectors, of which one leads."""

    def registries(self, n, **k):
        return [self.registry(**k) for _ in range(n)]

    def hostd_of(self, registries, **settings):
        return self.hostd(Kind="collector", Endpoint=" ".join(r.url for r in registries), **settings)

    def follow(self, registries, leader):
        """What the collectors say from now on."""
        for r in registries:
            r.leader = None if r is leader else leader.url if leader else ""
            r.wake()

    def test_the_leader_is_followed_and_another_one_found(self):
        a, b, c = registries = self.registries(3, lease=6)
        self.follow(registries, c)
        h = self.hostd_of(registries)
        self.until(h, "member")
        self.assertEqual(self.state(h)["why"], c.url)
        self.assertEqual((len(a.asked), len(b.asked)), (1, 0))
        self.assertEqual(self.member(c)["host"], "h2")
        self.assertEqual(c.asked[-1]["tenant"], "default")
        self.follow(registries, b)  # at once, and nobody is away for it
        self.member(b)
        self.assertEqual(self.state(h)["state"], "member")
        self.follow([a, c], a)
        b.stop()  # killed: its held request ends, and the next one is asked
        self.member(a)
        wait_until(lambda: self.state(h)["why"] == a.url, 60, "it says whose member it is")
        self.assertEqual(self.state(h)["state"], "member")
        self.assertNotIn("away", h.output.read_text(errors="replace"))

    def test_who_led_last_is_asked_first_by_the_next_life(self):
        a, b = registries = self.registries(2)
        self.follow(registries, b)
        h = self.hostd_of(registries, start=False)
        kept = h.folder / "prepared.json"
        h.config.write_text(h.config.read_text().replace("[Health]\n",
                                                         f"[Health]\nStateFile={h.folder}/health.json\n", 1))
        h.start()
        self.until(h, "member")
        wait_until(lambda: kept.exists() and b.url in kept.read_text(), 60, "it is kept")
        self.assertEqual(len(a.asked), 1)
        for _ in range(2):
            h.stop()
            b.members.clear()
            h.start()
            self.member(b)
            self.until(h, "member")
            self.assertEqual(len(a.asked), 1)  # no handshake with one that does not lead
        h.stop()
        b.stop()  # it is gone for good
        self.follow([a], a)
        h.start()
        self.member(a)
        wait_until(lambda: a.url in kept.read_text(), 60, "the other one is kept")
        kept.write_text("{")
        h.stop()
        h.start()
        self.until(h, "member")

    def test_nobody_leads_for_a_while(self):
        a, b = registries = self.registries(2, lease=3)
        h = self.hostd_of(registries)
        self.until(h, "member")
        for r in registries:
            r.status = 503
            r.wake()
        s = self.until(h, "away")
        self.assertIn(f"{a.url}: HTTP 503", s["why"])
        self.assertIn(f"{b.url}: HTTP 503", s["why"])
        wait_until(lambda: not self.state(h)["may_claim"], 60, "the lease may have ended")
        b.status = 200
        self.until(h, "member")
        self.assertTrue(self.state(h)["may_claim"])

    def test_a_takeover_is_no_news(self):
        """The leader is killed, and for a lease nobody knows another one: this host claims no more, and
        nobody is told that it is away."""
        a, b = registries = self.registries(2, lease=3)
        self.follow(registries, a)
        h = self.hostd_of(registries)
        self.until(h, "member")
        a.stop()
        wait_until(lambda: not self.state(h)["may_claim"], 60, "the lease may have ended")
        b.leader = None
        self.member(b)
        wait_until(lambda: self.state(h)["why"] == b.url and self.state(h)["may_claim"], 60,
                   "it claims again")
        log = h.output.read_text(errors="replace")
        self.assertNotIn("away", log)
        self.assertNotIn("enroll.registry", log)

    def test_two_that_name_each_other(self):
        a, b = registries = self.registries(2, lease=4)
        a.leader, b.leader = b.url, a.url
        h = self.hostd_of(registries)
        s = wait_until(lambda: self.state(h)["why"] and self.state(h), 60, "it is said")
        self.assertIn("was asked before", s["why"])
        self.assertEqual(s["state"], "joining")
        before = len(a.asked) + len(b.asked)
        time.sleep(2)
        # without an end to it there would be thousands
        self.assertLess(len(a.asked) + len(b.asked), before + 60)
        a.leader = None
        self.until(h, "member")

    def test_a_leader_that_is_not_configured(self):
        a, b, stranger = self.registries(3, lease=3)
        a.leader = b.leader = stranger.url
        h = self.hostd_of([a, b])
        s = wait_until(lambda: self.state(h)["why"] and self.state(h), 60, "it is said")
        self.assertIn(f"{stranger.url} leads, which is none of Endpoint=", s["why"])
        wait_until(lambda: len(a.asked) > 3 and len(b.asked) > 3, 60, "both are asked again")
        self.assertEqual(stranger.asked, [])
        b.leader = None
        self.until(h, "member")

    def test_who_led_before_is_not_believed(self):
        a, b = registries = self.registries(2, lease=3, store="cdf818194e3a8c32")
        a.term, b.term, b.epoch = 7, 9, "b"
        self.follow(registries, b)
        b.put("slice/s0", SLICE)
        h = self.hostd_of(registries)
        wait_until(lambda: h.get("/v1/status")["slice"] == SLICE, 60, "what the leader says")
        a.leader = None  # stopped for longer than the lease and continued: it still believes that it leads
        a.put("slice/s0", {**SLICE, "generation": 2})
        b.stop()
        wait_until(lambda: len(a.asked) > 4, 60, "it is asked again and again")
        self.assertEqual(h.get("/v1/status")["slice"], SLICE)
        self.assertIn("its term is older than what others said", self.until(h, "away")["why"])
        self.assertEqual(h.output.read_text(errors="replace").count("its term 7 is older"), 1)
        a.term = 12
        wait_until(lambda: h.get("/v1/status")["slice"] != SLICE, 60, "it was elected")
        self.until(h, "member")
        a.store, a.term = "another", 3
        wait_until(lambda: "the registry's store has changed: another, previously cdf818194e3a8c32" in h.output.read_text(errors="replace"), 60, "another store is said")
        self.assertEqual(self.state(h)["state"], "member")

    def test_one_that_keeps_no_registry_is_passed_by(self):
        """An endpoint of telemetry alone, and then a collector: those of [Hostd] without any of
        [Registry]."""
        a, b = self.registries(2)
        a.sync = lambda request, gone: (404, Raw(b"404 page not found"))
        h = self.hostd(Kind="collector", start=False, alone=True)
        h.config.write_text(h.config.read_text().replace("[Registry]",
                                                         f"[Hostd]\nEndpoint={a.url} {b.url}\n[Registry]"))
        h.start()
        self.until(h, "member")
        self.member(b)

    def test_another_tenant(self):
        r = self.registry()
        r.sync = lambda request, gone: (404, {"error": f"this collector serves tenant 'b', not "
                                                       f"'{request['tenant']}'"})
        h = self.hostd(r, Tenant="a")
        s = self.until(h, "refused")
        self.assertIn("serves tenant 'b', not 'a'", s["why"])

    def test_stopped_for_longer_than_the_lease(self):
        r = self.registry(lease=2)
        h = self.hostd(r)
        self.until(h, "member")
        wait_until(lambda: len(r.asked) > 3, 60, "it renews")
        h.process.send_signal(signal.SIGSTOP)
        time.sleep(3)
        r.status = 503
        r.wake()
        h.process.send_signal(signal.SIGCONT)
        wait_until(lambda: not self.state(h)["may_claim"], 60, "its claim is over")
        r.status = 200
        self.until(h, "member")
        wait_until(lambda: self.state(h)["may_claim"], 60, "it claims again")


class Tls(WithRegistry):
    def test_certificates_and_their_renewal(self):
        folder = Path(tempfile.mkdtemp(prefix="registry-test-"))
        self.addCleanup(shutil.rmtree, folder)
        site = Authority(folder / "site")
        other = Authority(folder / "other", "another authority")
        own, key = folder / "own.pem", folder / "own.key"
        cert, _ = other.issue("wrong")
        own.write_bytes(Path(cert).read_bytes())
        key.write_bytes(Path(_).read_bytes())
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*site.issue("collector"))
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(site.cert)
        r = self.registry(tls=context)
        h = self.hostd(r, Endpoint=f"https://127.0.0.1:{r.port}", CaFile=site.cert, CertFile=own,
                       KeyFile=key)
        wait_until(lambda: "alert" in self.state(h)["why"], 60, f"not believed: {self.state(h)}")
        self.assertEqual(self.state(h)["state"], "refused")
        cert, fresh = site.issue("h2")
        key.write_bytes(Path(fresh).read_bytes())
        own.write_bytes(Path(cert).read_bytes())  # and nobody restarts anything
        self.until(h, "member")
        self.assertEqual(r.members["s0/2"]["host"], "h2")


class Raw(bytes):
    """A body as it is."""


class WithoutOne(WithRegistry):
    def test_static(self):
        h = self.hostd(Kind="static")
        wait_until(lambda: h.get("/v1/status")["slice"], 60, "the slice")
        s = h.get("/v1/status")
        self.assertEqual((s["slice"]["state"], s["slice"]["hosts"],
                          [m["host"] for m in s["slice"]["roster"]]), ("static", 4, ["h2"]))
        self.assertEqual((s["registry"]["kind"], s["registry"]["state"]), ("static", "member"))
        self.assertFalse(s["registry"]["may_claim"])

    def test_a_registry_that_a_reload_takes_away(self):
        h = self.hostd(Kind="static")
        wait_until(lambda: self.check(h, "enroll.identity"), 60, "its checks")
        h.config.write_text(h.config.read_text().replace("Kind=static", "Kind=none"))
        h.process.send_signal(signal.SIGHUP)
        wait_until(lambda: self.state(h)["kind"] == "none", 20, "the reload")
        wait_until(lambda: not self.check(h, "enroll.registry") and not self.check(h, "enroll.identity"), 20,
                   "its checks to be forgotten")

    def test_no_identity_is_said(self):
        r = self.registry()
        h = self.hostd(r, identity="[Identity]\nHostName=h2\n")
        wait_until(lambda: self.check(h, "enroll.registry"), 60, "the check")
        self.assertIn("the slice's name of this host is not known",
                      self.check(h, "enroll.registry")["reason"])
        (h.root / "etc/tpu-hostd/identity.conf.d/50-test.conf").write_text(IDENTITY)
        h.process.send_signal(signal.SIGHUP)
        self.member(r)
        self.until(h, "member")

    def test_nothing_is_asked_by_itself_below_another_root(self):
        h = self.hostd()
        self.assertEqual(self.state(h)["kind"], "none")
        self.assertIsNone(self.check(h, "enroll.registry"))

    def test_too_many_collectors(self):
        h = self.hostd(Kind="collector", Endpoint=",".join(f"http://127.0.0.1:{i}" for i in range(1, 6)),
                       start=False)
        done = subprocess.run([h.binary, "--root", h.root, "--config", h.config, "--show-config"],
                              capture_output=True, text=True, timeout=60, check=False)
        self.assertIn("more than 4;", done.stderr)


if __name__ == "__main__":
    unittest.main()
