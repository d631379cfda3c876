#!/usr/bin/python3
"""What must not start, and says why, by host and with the remedy; beside it a run of another slice goes on
through everything.

Told in order: each test leaves the hosts as it found them. Needs root, the packages in build/debs, and
FULL=1.
"""

import sys
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
sys.path.insert(0, str(HERE))

from lab.check import check      # noqa: E402  (the path comes first)
from lab.command import sh       # noqa: E402
import scenario                  # noqa: E402
import slices                    # noqa: E402

KEEP = "keep"  # the run of s0 that nothing touches
WHEEL = "/usr/local/lib/python3.11/dist-packages/libtpu-{0}.dist-info/METADATA"
POST = """import sys, urllib.request as u
q = u.Request(sys.argv[1], sys.argv[2].encode(), {"Content-Type": "application/json"})
try:
    r = u.urlopen(q)
except u.HTTPError as e:
    r = e
print(r.status, r.read().decode())
"""
IDENTITY = "/etc/tpu-hostd/identity.conf.d/10-site.conf"


def setUpModule():
    slices.skip_unless_full(check)


class Refused(slices.Case):
    def refused(self, run, *flags, user=slices.USER, wait="5s"):
        """What tpuctl run over s1 says that nobody may start; not a step is made."""
        done = slices.train(self.h[0], run, "--on", "s1", "--wait", wait, *flags, user=user)
        told = done.out + done.err
        print(told)
        self.assertNotEqual(done.code, 0, told)
        for h in self.h:
            self.assertNotIn("completed step", slices.log(h, run))
        return told

    def starts(self, run, *flags):
        done = slices.train(self.h[0], run, "--on", "s1", "--wait", "60s", *flags)
        self.assertEqual(done.code, 0, done.out + done.err)
        self.stop(run)

    def stop(self, run):
        self.steps_on(self.h[2:], run)
        scenario.ctl(self.h[0], "stop", run, "--fleet", "--yes")
        self.wait_run(run, "the end", lambda r: r["state"] == "ended")

    def keep_goes_on(self):
        self.steps_on(self.h[:2], KEEP)
        slices.whole(KEEP, self.h[:2])
        run = slices.runs(self.lab)[KEEP]
        self.assertEqual((run["state"], run["generation"]), ("running", 1))

    def slice_record(self, name):
        script = "import sys, urllib.request as u; sys.stdout.write(u.urlopen(sys.argv[1]).read().decode())"
        return slices.json.loads(self.lab.collector.run(["python3", "-c", script,
                                                         f"http://127.0.0.1:9471/api/v1/slices/{name}"],
                                                        check=True).out)

    def test_1_a_run_that_is_not_concerned(self):
        self.members()
        done = slices.train(self.h[0], KEEP, "--on", "s0")
        self.assertEqual(done.code, 0, done.out + done.err)
        self.keep_goes_on()

    def test_2_a_taken_id(self):
        thief, own = self.h[3], self.h[3].read(IDENTITY)
        thief.write(IDENTITY, own.replace("SliceName=s1", "SliceName=s0"))
        thief.sh("systemctl restart tpu-hostd")
        scenario.wait_until(lambda: slices.registry(thief)["state"] == "conflict", 60, "the conflict")
        said = scenario.wait_until(
                lambda: "enroll.identity" in (s := scenario.ctl(thief, "status", check=False).out) and s,
                60, "the check")
        print(said)
        self.assertIn("h1", said)                        # who has it
        self.assertIn(self.h[1].address("eth0"), said)
        record = scenario.wait_until(lambda: (r := self.slice_record("s0"))["conflicts"] and r, 60,
                                     "the slice's record says it")
        conflict, = record["conflicts"]
        self.assertEqual((conflict["worker"], conflict["host"], conflict["holder"]), (1, "h3", "h1"))
        self.assertIn(thief.address("eth0"), conflict["address"])
        self.assertEqual([(m["worker"], m["host"]) for m in record["roster"]], [(0, "h0"), (1, "h1")])
        events = scenario.ctl(self.h[0], "events", "--since", "1h").out
        print(scenario.ctl(self.h[0], "fleet").out, events, sep="\n")
        self.assertRegex(events, r"(?i)worker.*\bh3\b|\bh3\b.*worker")
        self.keep_goes_on()
        thief.write(IDENTITY, own)
        thief.sh("systemctl restart tpu-hostd")
        self.members()
        scenario.wait_until(lambda: not self.slice_record("s0")["conflicts"], 60, "no conflict any more")
        self.keep_goes_on()

    def test_3_another_version(self):
        def install(host, version):
            host.sh("rm -rf /usr/local/lib/python3.11/dist-packages/libtpu-*.dist-info")
            host.write(WHEEL.format(version), f"Metadata-Version: 2.1\nName: libtpu\nVersion: {version}\n")
            host.sh("systemctl restart tpu-hostd")

        install(self.h[2], "0.0.39")
        install(self.h[3], "0.0.41")
        scenario.wait_until(lambda: self.slice_record("s1")["unlike"], 60, "the slice's record says it")
        self.members()
        told = self.refused("unlike")
        self.assertRegex(told, r"libtpu is 0\.0\.41 .*\bh3\b|\bh3\b.* libtpu is 0\.0\.41")
        self.assertIn("0.0.39 on the others", told)
        install(self.h[3], "0.0.39")
        scenario.wait_until(lambda: (r := self.slice_record("s1"))["state"] == "ready" and not r["unlike"],
                            60, "they are alike")
        self.starts("alike")

    def test_4_a_busy_device(self):
        owner = self.h[3].spawn(["/bin/sh", "-c", "exec sleep 1000 </dev/accel0"])
        self.addCleanup(self.h[3].stop_command, owner)
        self.h[3].wait_for(lambda: self.h[3].sh("pgrep -x sleep || true").strip())
        pid = self.h[3].sh("pgrep -x sleep").strip()
        told = self.refused("busy")
        for word in ("h3", "/dev/accel0", f"process {pid}", "sleep", owner.unit, f"kill {pid}"):
            self.assertIn(word, told)
        begun = self.h[0].spawn(slices.train_command("freed", "--on", "s1", "--wait", "120s"))
        self.addCleanup(self.h[0].stop_command, begun)
        self.wait_run("freed", "it waits for the device",
                      lambda r: any("/dev/accel0" in w for w in r["waits_for"]))
        print(scenario.ctl(self.h[0], "runs", "--fleet").out)
        self.h[3].stop_command(owner)
        out, err = begun.communicate(timeout=120)
        print(out, err)
        self.assertEqual(begun.returncode, 0)
        self.stop("freed")
        self.keep_goes_on()

    def on_net(self, host, *argv):
        sh("nsenter", f"--net=/run/netns/{host.full_name}", *argv)

    def test_5_a_port_that_packets_do_not_reach(self):
        self.on_net(self.h[2], "nft",
                    "add table inet t; add chain inet t in { type filter hook input priority 0; }; "
                                      "add rule inet t in tcp dport 8500 drop")
        told = self.refused("blocked", "--port", "8500", wait="10s")
        self.assertIn("port 8500 of the coordinator h2 (10.10.0.12) is blocked: no answer to h3", told)
        self.on_net(self.h[2], "nft", "delete table inet t")
        self.starts("open", "--port", "8500")

    def test_6_a_port_that_is_taken(self):
        other = self.h[2].spawn(["/usr/bin/python3", "-m", "http.server", "8501"])
        self.addCleanup(self.h[2].stop_command, other)
        self.h[2].wait_for(lambda: "8501" in self.h[2].sh("ss -ltn"))
        told = self.refused("taken", "--port", "8501")
        self.assertIn("port 8501 of this run's coordinator is taken on h2", told)
        self.assertIn("ss -ltnp", told)
        self.h[2].stop_command(other)
        self.starts("not-taken", "--port", "8501")

    def test_7_nobody_grants_root(self):
        for h in self.h[2:]:
            h.write("/etc/tpu-hostd/authority.conf.d/90-root.conf", "[Remote]\nStart=root\n")
            h.sh("systemctl restart tpu-launchd")
        self.assertIn("as root", self.refused("root", user="root"))
        intent = slices.json.dumps({"name": "root", "user": "root", "framework": "plain",
                                    "argv": ["/usr/bin/true"], "slices": ["s1"], "min": 1,
                                    "max": 1, "wait": 5000000, "late": "fail"})
        posted = self.lab.collector.run(["python3", "-c", POST, "http://127.0.0.1:9471/api/v1/runs", intent],
                                        check=True).out
        print(posted)
        if posted.startswith("201"):  # who takes it in need not know: each host decides
            run = self.wait_run("root", "its end", lambda r: r["state"] == "ended")
            self.assertEqual(run["outcome"], "refused")
            self.assertRegex(run["why"], r"\bh[23]\b.*may not start runs as root")
        # tpu-launchd decides by itself, whatever tpu-hostd lets through.
        done = self.h[3].run(["tpuctl", "run", "--name", "lies", "--user", "root", "--", "/usr/bin/true"],
                             user="tpu-hostd")
        print(done.err)
        self.assertNotEqual(done.code, 0)
        self.assertIn("may not start runs as root", done.err)
        for h in self.h:
            self.assertEqual(h.run(["systemctl", "list-units", "--all", "-q", "--no-legend", "tpu-run-root*",
                                    "tpu-run-lies*"]).out, "")
        self.starts("alices")  # and the line took nothing from her
        self.keep_goes_on()
        print(scenario.ctl(self.h[0], "runs", "--fleet").out)


if __name__ == "__main__":
    unittest.main(verbosity=2, failfast=True)
