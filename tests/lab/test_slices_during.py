#!/usr/bin/python3
"""What may happen to hosts and agents during a run over two slices, and does not lose a step of it; a
preemption; an end that nobody saw.

Told in order: each test begins where the one before it ended. Needs root, the packages in build/debs, and
FULL=1.
"""

import json
import sys
import tempfile
import time
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
sys.path.insert(0, str(HERE))

from lab.check import check      # noqa: E402  (the path comes first)
from lab.prepare import whole    # noqa: E402
import metadata_process          # noqa: E402
import scenario                  # noqa: E402
import slices                    # noqa: E402
from test_package import bumped  # noqa: E402

RUN, SHORT = "long", "short"
AWAY = 60  # seconds that the collector is away
LOST = 60  # seconds: longer than a lease and half a minute, after which a host without power counts as lost
AGENTS = " ".join(f"{name}.service {name}.socket" for name in scenario.AGENTS)


def setUpModule():
    slices.skip_unless_full(check)


class During(slices.Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.metadata = metadata_process.Metadata(cls.lab)
        cls.addClassCleanup(cls.metadata.stop)
        for h in cls.h:  # a server that was not there at boot is asked again after a while only
            h.sh("systemctl restart tpu-hostd")

    def record(self, run=RUN):
        return slices.runs(self.lab).get(run, {})

    def pids(self):
        return {h.name: scenario.unit(h, f"tpu-run-{RUN}.service", "MainPID")["MainPID"] for h in self.h}

    def test_1_it_trains(self):
        self.members()
        done = slices.train(self.h[0], RUN, "--slices", "1:2", "--restarts", "20", "--grace", "5",
                            "--preempt", "TERM")
        self.assertEqual(done.code, 0, done.out + done.err)
        print(done.out)
        self.steps_on(self.h, RUN, 45)
        self.assertLess(slices.losses(self.h[3], RUN)[45], slices.losses(self.h[3], RUN)[0] * 0.6)

    def test_2_the_package_is_upgraded(self):
        deb, _ = scenario.debs(slices.os.environ.get("TPU_HOSTD_DEBS"))
        generation, pids = self.record()["generation"], self.pids()
        with tempfile.TemporaryDirectory() as folder:
            for part in whole([deb]):
                bumped(part, "99", folder)
            new = {part.name: part.read_bytes() for part in Path(folder).glob("*.deb")}
        for h in self.h:
            for name, content in new.items():
                h.path("/srv").joinpath(name).write_bytes(content)
            h.run(["apt-get", "install", "-y", *(f"/srv/{name}" for name in new)], check=True, timeout=180)
            self.assertEqual(h.sh("dpkg-query -W -f '${Version}' tpu-hostd"), "99")
        self.steps_on(self.h, RUN, 20)
        slices.whole(RUN, self.h)
        self.members()
        self.assertEqual(self.pids(), pids)
        self.assertEqual(self.record()["generation"], generation)

    def test_3_the_collector_is_away_for_a_minute(self):
        generation, pids = self.record()["generation"], self.pids()
        self.lab.collector.sh("kill -KILL $(systemctl show -p MainPID --value tpu-collectord); systemctl "
                              "stop tpu-collectord")
        gone = time.monotonic()
        for h in self.h:
            scenario.wait_until(lambda h=h: slices.registry(h)["state"] == "away", 90,
                                f"{h.name} says that the registry is away")
        print(slices.registry(self.h[0]), scenario.ctl(self.h[0], "status", check=False).out)
        self.steps_on(self.h, RUN, 20)
        time.sleep(max(0, gone + AWAY - time.monotonic()))
        self.lab.collector.sh("systemctl start tpu-collectord")
        self.members()
        self.steps_on(self.h, RUN, 20)
        slices.whole(RUN, self.h)
        self.assertEqual(self.pids(), pids)
        self.assertEqual((self.record()["generation"], self.record()["state"]), (generation, "running"))

    def test_4_a_preemption_notice(self):
        host, generation = self.h[3], self.record()["generation"]
        said = time.time()
        self.metadata.set(preempted=host.address("eth0"))
        run = self.wait_run(RUN, "one slice goes on", lambda r: r["state"] == "running"
                            and [s["slice"] for s in r["slices"]] == ["s0"])
        self.assertGreater(run["generation"], generation)
        self.assertIn("h3", run["why"])
        self.assertIn("preempt", run["why"])
        records = [(int(r["__REALTIME_TIMESTAMP"]) / 1e6, r["MESSAGE"])
                   for r in host.journal_records(f"tpu-run-{RUN}.service")]
        lines = [(at, text) for at, text in records if "step" in text]
        self.assertRegex(lines[-1][1], "^saved a checkpoint at step ")  # what it did last
        saved = int(lines[-1][1].rpartition(" ")[2])
        print(f"told to checkpoint kept: {lines[-1][0] - said:.2f} s")
        scenario.wait_until(lambda: slices.resumed(self.h[0], RUN), 60, "h0 goes on from a checkpoint")
        self.assertGreaterEqual(slices.resumed(self.h[0], RUN)[-1], saved - saved % 20 - 1)
        self.steps_on(self.h[:2], RUN)
        told = json.dumps([r for r in scenario.events(self.lab, host, "tpu.run.exited")])
        self.assertIn("preempted", told)
        words = scenario.ctl(self.h[0], "events", "--since", "1h").out
        print(words, scenario.ctl(host, "runs").out, scenario.ctl(self.h[0], "runs", "--fleet").out,
              scenario.ctl(self.h[0], "fleet").out, sep="\n")
        self.assertRegex(words, r"(?i)checkpoint of step \d+")
        self.metadata.set(preempted=False)
        self.wait_run(RUN, "both slices again", lambda r: r["state"] == "running" and len(r["slices"]) == 2)
        self.steps_on(self.h, RUN)

    def stop_agents(self, hosts=()):
        for h in hosts or self.h:
            h.sh("kill -KILL $(for a in tpu-hostd tpu-netcfg tpu-launchd; do systemctl show -p MainPID "
                 "--value $a; done | grep -vx 0); "
                 f"systemctl stop {AGENTS}")

    def start_agents(self, hosts=()):
        for h in hosts or self.h:
            h.sh(f"systemctl start {AGENTS}")

    def test_3_the_agents_of_one_host_are_away(self):
        """Its training goes on, and so do the steps of all: it is no lost host."""
        generation, pids = self.record()["generation"], self.pids()
        self.stop_agents(self.h[3:])
        gone = time.monotonic()
        run = self.wait_run(RUN, "the record says so",
                            lambda r: "the steps of the others go on" in "".join(r["waits_for"]))
        self.assertIn("h3 (", run["waits_for"][0])
        print(scenario.ctl(self.h[0], "runs", "--fleet").out)
        time.sleep(max(0, gone + LOST - time.monotonic()))
        self.steps_on(self.h, RUN, 20)
        self.start_agents(self.h[3:])
        self.members()
        self.wait_run(RUN, "nobody is missing", lambda r: not r["waits_for"])
        self.steps_on(self.h, RUN, 20)
        slices.whole(RUN, self.h)
        self.assertEqual(self.pids(), pids)
        self.assertEqual((self.record()["generation"], self.record()["state"]), (generation, "running"))

    def test_4_a_shutdown_is_told(self):
        """At once: not after the lease and half a minute that a host without power is waited for."""
        began = time.monotonic()
        self.h[3].poweroff()
        off = time.monotonic()
        run = self.wait_run(RUN, "one slice goes on", lambda r: r["state"] == "running"
                            and [s["slice"] for s in r["slices"]] == ["s0"])
        print(f"down {off - began:.1f} s after the order, the run goes on {time.monotonic() - off:.1f} s "
              f"later: {run['why']}")
        self.assertIn("h3", run["why"])
        words = scenario.ctl(self.h[0], "events", "--since", "1h").out
        self.assertRegex(words, r"worker 1, h3 .*it was shut down")
        self.h[3].boot()
        self.wait_run(RUN, "both slices again", lambda r: r["state"] == "running" and len(r["slices"]) == 2,
                      120)
        self.steps_on(self.h, RUN)

    def test_5_it_ends_while_every_agent_is_dead(self):
        generation = self.record()["generation"]
        self.stop_agents()
        self.steps_on(self.h, RUN)
        self.h[1].sh(f"kill -KILL {scenario.unit(self.h[1], f'tpu-run-{RUN}.service', 'MainPID')['MainPID']}")
        for h in self.h:  # the others lose their peer
            h.wait_for(lambda h=h: not h.sh("pgrep -f '^/usr/bin/python3 /srv/train.py' || true").strip(),
                       60, "no process is left")
        self.start_agents()
        run = self.wait_run(RUN, "the next generation runs",
                            lambda r: r["generation"] > generation and r["state"] == "running")
        print(run["why"])
        self.assertIn("h1", run["why"])
        self.assertIn("KILL", run["why"])
        self.steps_on(self.h, RUN)
        scenario.ctl(self.h[1], "stop", RUN, "--fleet", "--yes")
        self.wait_run(RUN, "the end", lambda r: r["state"] == "ended" and r["outcome"] == "stopped")

    def test_6_it_succeeds_while_every_agent_is_dead(self):
        for h in self.h:
            h.sh(f"install -d -o {slices.USER} /srv/short")
        done = slices.train(self.h[0], SHORT, "--slices", "2", steps=120, kept="/srv/short")
        self.assertEqual(done.code, 0, done.out + done.err)
        self.steps_on(self.h, SHORT)
        dead = time.monotonic()
        self.stop_agents()
        for h in self.h:
            h.wait_for(lambda h=h: not h.sh("pgrep -f '^/usr/bin/python3 /srv/train.py' || true").strip(),
                       120, "the training ends")
        time.sleep(max(0, dead + LOST - time.monotonic()))
        self.start_agents()
        run = self.wait_run(SHORT, "its end is known", lambda r: r["state"] == "ended")
        self.assertEqual((run["outcome"], run["restarts"], run["generation"]), ("success", 0, 1))
        for h in self.h:
            self.assertEqual(sorted(slices.losses(h, SHORT)), list(range(120)))
        print(scenario.ctl(self.h[1], "runs", "--fleet").out, scenario.ctl(self.h[1], "runs").out, sep="\n")


if __name__ == "__main__":
    unittest.main(verbosity=2, failfast=True)
