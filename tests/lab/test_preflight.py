#!/usr/bin/python3
"""What hosts find of each other before a run starts: ports, routes, names, lists of workers, machine ids.

Each case is made on a booted host. The words of the refused run, of the host's own check and of the fleet
are read. Then the case is ended as the remedy says, and a trial run starts and ends. Needs root, the
packages in build/debs, and FULL=1.
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

END = 60  # seconds until the end of a trial run is seen
LOOKED_AT = 330  # names that were right are looked up each 5 minutes, and before each run


def setUpModule():
    slices.skip_unless_full(check)


class Preflight(slices.Case):
    LAB = {"n_hosts": 2, "per_slice": 2}

    def run_true(self, name, wait="8s"):
        """A trial run over both hosts, as a person types it."""
        return self.h[0].run(["tpuctl", "run", "--name", name, "--user", slices.USER, "--slices", "1",
                              "--wait", wait, "--", "/usr/bin/true"], check=False, timeout=120)

    def refused(self, name):
        done = self.run_true(name)
        told = done.out + done.err
        print(told)
        self.assertNotEqual(done.code, 0, told)
        return told

    def starts_and_ends(self, name):
        done = self.run_true(name, wait="60s")
        print(done.out + done.err)
        self.assertEqual(done.code, 0, done.out + done.err)
        run = self.wait_run(name, "its end", lambda r: r["state"] == "ended", END)
        self.assertEqual(run["outcome"], "success", run)
        return done.out + done.err

    def on_net(self, host, *argv):
        sh("nsenter", f"--net=/run/netns/{host.full_name}", *argv)

    def drop(self, host, rule):
        self.on_net(host, "nft", "add table inet t; add chain inet t in { type filter hook input priority "
                                 f"0; }}; add rule inet t in {rule}")

    def test_1_nothing_is_wrong(self):
        self.members()
        self.starts_and_ends("good")

    def test_2_the_mesh_is_dropped(self):
        self.drop(self.h[1], "tcp dport 8471 drop")
        told = self.refused("mesh")
        self.assertIn(f"port 8471 of h1 ({self.h[1].address('eth0')}), libtpu's mesh, is blocked: "
                      "no answer to h0 within 3 s", told)
        self.assertIn("sudo nft list ruleset # on h1", told)
        self.on_net(self.h[1], "nft", "delete table inet t")
        self.starts_and_ends("mesh-open")

    def test_3_the_mesh_is_rejected(self):
        self.drop(self.h[0], "tcp dport 8471 reject with icmp type port-unreachable")
        told = self.refused("rejected")
        self.assertIn(f"port 8471 of h0 ({self.h[0].address('eth0')}), libtpu's mesh, is blocked: "
                      "a firewall rejects what h1 sends", told)
        self.on_net(self.h[0], "nft", "delete table inet t")
        self.starts_and_ends("not-rejected")

    def test_4_a_blackhole_route(self):
        to = self.h[1].address("eth0")
        self.h[0].sh(f"ip route add blackhole {to}")
        try:
            told = self.refused("blackhole")
            if "unfit: route.foreign" in told:  # the host's own check was faster than the run's preflight
                told = self.h[0].run(["tpuctl", "check", "route"], check=False).out
                self.assertIn(f"sudo ip -4 route del blackhole {to}/32", told)
            else:
                self.assertIn(f"h1 ({to}), libtpu's mesh, cannot be reached from h0: a route of this host "
                              "is a blackhole", told)
                self.assertIn(f"ip route get {to}", told)
        finally:
            self.h[0].sh(f"ip route del blackhole {to}", check=False)
        self.starts_and_ends("no-blackhole")

    def says(self, host, check, *words):
        """What tpuctl check and the fleet say of it, once it is a check of the host."""
        def said():
            done = host.run(["tpuctl", "check", check.partition(".")[0]], check=False)
            ok = any(check in line and line.startswith("OK") for line in done.out.splitlines())
            return not ok and all(w in done.out for w in (check, *words)) and done.out
        told = scenario.wait_until(said, LOOKED_AT, f"{host.name} says {check} {words}")
        print(told)
        scenario.wait_until(lambda: check in scenario.ctl(self.h[0], "fleet", check=False).out, 60,
                            f"the fleet says {check}")
        return told

    def is_quiet(self, host, check):
        scenario.wait_until(lambda: check + " " not in host.run(
            ["tpuctl", "check", "--problems", check.partition(".")[0]], check=False).out, 60, f"no {check}")

    def test_5_one_machine_id_twice(self):
        copy, one = self.h[1], self.h[0].read("/etc/machine-id")
        copy.sh("systemctl stop tpu-hostd.service")  # another machine comes in its place: a copy of h0
        copy.write("/etc/machine-id", one)
        release = ["tpuctl", "fleet", "release", "--yes", "s0", "1", "a copy comes"]
        scenario.wait_until(lambda: self.h[0].run(release).code == 0, 60, "its worker id is given up")
        copy.sh("systemctl start tpu-hostd.service")
        self.members()
        told = self.says(copy, "enroll.machine", "h0 (10.10.0.10) has the machine id")
        self.says(self.h[0], "enroll.machine", "h1 (10.10.0.11) has the machine id")
        started = self.starts_and_ends("twins")
        self.assertIn("warning: ", started)
        self.assertIn("h1 (10.10.0.11) has the machine id", started)
        remedy = next(line for line in told.splitlines() if "systemd-machine-id-setup" in line)
        copy.sh(remedy.partition("sudo ")[2].replace("sudo ", "").partition("#")[0])
        self.assertNotEqual(copy.read("/etc/machine-id"), one)
        self.members()
        for h in self.h:
            self.is_quiet(h, "enroll.machine")
        self.starts_and_ends("no-twins")

    def test_6_a_name_of_another_host(self):
        h, own = self.h[0], self.h[0].read("/etc/hosts")
        h.sh("sed -Ei 's/(\\s)h1(\\s|$)/\\1\\2/g; $a 10.10.0.100 h1' /etc/hosts")
        told = self.says(h, "preflight.names", "WARN")  # the collector is no host of the slice
        h.write("/etc/hosts", own)
        h.sh("sed -Ei 's/(\\s)h1(\\s|$)/\\1\\2/g; $a 10.10.0.10 h1' /etc/hosts")
        refused = self.refused("stranger")
        self.assertIn("h1 resolves to 10.10.0.10, which is h0's: worker 1 has 10.10.0.11", refused)
        told = self.says(h, "preflight.names", "FAIL")
        remedy = next(line for line in told.splitlines() if "sed -Ei" in line)
        h.sh(remedy.partition("sudo ")[2])
        self.assertEqual(h.sh("getent ahostsv4 h1 | head -n 1").split()[0], "10.10.0.11")
        self.is_quiet(h, "preflight.names")
        self.starts_and_ends("own-names")
        h.write("/etc/hosts", own)

    def test_7_lists_of_workers_differ(self):
        h, path = self.h[1], "/etc/tpu-hostd/identity.conf.d/10-site.conf"
        own = h.read(path)
        h.write(path, own.replace("WorkerHostnames=h0,h1", "WorkerHostnames=h0,h9"))
        h.sh("systemctl restart tpu-hostd.service")
        self.says(h, "preflight.alike", "WARN")
        refused = self.refused("lists")
        self.assertIn("workers is h0,h9 on h1, but h0,h1 on the others of its slice", refused)
        h.write(path, own)
        h.sh("systemctl restart tpu-hostd.service")
        self.members()
        self.is_quiet(h, "preflight.alike")
        self.starts_and_ends("one-list")


if __name__ == "__main__":
    unittest.main(verbosity=2, failfast=True)
