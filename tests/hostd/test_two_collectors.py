#!/usr/bin/python3
"""Four real tpu-hostd of two slices, two real tpu-collectord over an etcd of three members, stand-ins for
tpu-launchd: the leader is killed while a run goes on.
BUILD_DIR names the build."""

import sys
import threading
import time
import unittest
import urllib.error
import urllib.request
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).resolve().parents[1] / "control")]
import etcd_site  # noqa: E402
from around import wait_until  # noqa: E402
from test_gang import BUILD, Collectord, Gang  # noqa: E402

LEASE = 10  # s; a busy machine renews late
HOSTS = ("s0-0", "s0-1", "s1-0", "s1-1")


class Either(Collectord):
    """One of several over the same etcd."""

    def __init__(self, folder, etcd):
        folder.mkdir()
        super().__init__(folder)
        (folder / "collectord.conf").write_text(f"[Control]\nStore=etcd\nEtcd={etcd.replace(',', ' ')}\n"
                                                f"Lease={LEASE}s\nAgentsUrl={self.agents}\n"
                                                f"PeopleUrl={self.people}\n")

    def leads(self):
        try:
            with urllib.request.urlopen(self.people + "/metrics", timeout=10) as r:
                return "\ntpu_collectord_registry_leads 1\n" in r.read().decode()
        except OSError:
            return False

    def metric(self, name):
        with urllib.request.urlopen(self.people + "/metrics", timeout=10) as r:
            return next(float(line.split()[1]) for line in r.read().decode().splitlines()
                        if line.startswith(name + " "))


class Both:
    """What hosts and people are configured with: the URLs of all."""

    def __init__(self, collectors):
        self.collectors = collectors
        self.agents, self.people = (" ".join(getattr(c, which) for c in collectors)
                                    for which in ("agents", "people"))


@unittest.skipIf(etcd_site.missing(), etcd_site.missing())
class TwoCollectors(Gang):
    def setUp(self):
        super().setUp()
        self.collector.close()
        self.etcd = etcd_site.Site(3)
        self.addCleanup(self.etcd.close)
        self.collectors = [Either(self.folder / name, self.etcd.urls) for name in ("first", "second")]
        for c in self.collectors:
            self.addCleanup(c.close)
            c.start()
        self.collector = Both(self.collectors)
        self.seen, self.over = [], threading.Event()

    def host(self, slice_name, worker, hosts=2):
        h = super().host(slice_name, worker, hosts, start=False)
        identity = h.root / "etc/tpu-hostd/identity.conf.d/50-test.conf"
        identity.write_text(identity.read_text().replace("AcceleratorType=v6e-4\n",
                                                         "AcceleratorType=v6e-8\n"))
        return h.start()

    def leader(self, but=None):
        wait_until(lambda: any(c.leads() for c in self.collectors if c is not but), 60, "one leads")
        return next(c for c in self.collectors if c is not but and c.leads())

    def watch(self, name):
        """All that this host ever says of itself from now on: its slice, its part in the run."""
        last = None
        while not self.over.is_set():
            try:
                s = self.hosts[name].get("/v1/status")
            except (OSError, AssertionError, ValueError):
                continue
            now = (name, (s["slice"] or {}).get("state"),
                   [(r["name"], r["generation"], r["state"]) for r in s["runs"]])
            if now != last:
                self.seen.append(now)
            last = now
            self.over.wait(0.1)

    def says(self, name, text):
        wait_until(lambda: text in self.hosts[name].output.read_text(), 60,
                   lambda: f"{name}: {text}: {self.hosts[name].output.read_text()}")

    def test_leader_killed_while_a_run_goes_on(self):
        for name in HOSTS:
            self.host(name[:2], int(name[-1]))
        for name in HOSTS:
            self.ready(name)
        self.run_over("--slices", "2", "--detach")
        for name in HOSTS:
            self.until_runs(name, 1)
        wait_until(lambda: all(self.part(name)["state"] == "running" for name in HOSTS), 60, "all run it")
        began = {name: self.part(name) for name in HOSTS}
        watchers = [threading.Thread(target=self.watch, args=(name,)) for name in HOSTS]
        for w in watchers:
            w.start()
        self.addCleanup(self.over.set)
        old = self.leader()
        term = self.etcd.term()
        # What was acknowledged a moment before is not lost.
        self.tpuctl("fleet", "cordon", "s1-1", "disk", "--collector", old.people)
        old.kill()
        at = time.monotonic()
        new = self.leader(but=old)
        print(f"another leads after {time.monotonic() - at:.1f} s (lease {LEASE} s)", file=sys.stderr)
        self.assertGreater(self.etcd.term(), term)
        wait_until(lambda: all(self.hosts[name].get("/v1/status")["registry"]["why"] == new.agents
                               for name in HOSTS), 60,
                   lambda: [self.hosts[name].get("/v1/status")["registry"] for name in HOSTS])
        wait_until(lambda: self.etcd.records(prefix="order/").get("order/s1-1",
                                                                  {}).get("cordon", {}).get("reason")
                   == "disk", 60, "the order is a record")
        self.says("s1-1", "the host is cordoned: disk")
        # An order that comes now, by whichever collector is asked, reaches its host.
        self.tpuctl("fleet", "drain", "s0-1", "fans", "--yes", "--collector", self.collector.people)
        self.says("s0-1", "the host is draining: fans")
        time.sleep(1.5 * LEASE)  # nobody is missed when the new leader's first lease is over
        self.assertEqual(new.metric("tpu_collectord_registry_leases_ended_total"), 0)
        self.assertEqual(new.metric("tpu_collectord_registry_members"), 4)
        self.over.set()
        for w in watchers:
            w.join(60)
        self.assertEqual(sorted(self.seen), [(name, "ready", [("run1", 1, "running")]) for name in HOSTS])
        for name in HOSTS:
            self.assertEqual((self.starts(name), self.launchds[name].stops), ([("run1", 1)], []))
            self.assertEqual(self.part(name)["generation"], began[name]["generation"])
        # Who led follows when it is back, and the run ends as it would have.
        old.start()
        wait_until(lambda: urllib_status(old.people + "/api/v1/runs") == 307, 60, "it follows")
        for name in HOSTS:
            self.launchds[name].exit("run1")
        for name in HOSTS:
            self.ended(name, "success")


class NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *a):
        return None


def urllib_status(url):
    try:
        with urllib.request.build_opener(NoRedirect).open(url, timeout=10) as r:
            return r.status
    except urllib.error.HTTPError as e:
        return e.code


del Gang

if __name__ == "__main__":
    unittest.main()
