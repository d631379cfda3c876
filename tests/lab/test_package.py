#!/usr/bin/python3
"""The package's whole life on a booted host with a run in progress: installed again, upgraded, downgraded,
removed, purged. And what it sets of a machine, and leaves there.

The run must not notice any of it. Judged by systemctl, /proc, find and the run's own file. Needs root and
the packages in build/debs.
"""

import os
import shutil
import subprocess
import sys
import time
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
sys.path.insert(0, str(HERE))

from lab import Lab              # noqa: E402  (the path comes first)
from lab.check import check      # noqa: E402
from lab.prepare import whole    # noqa: E402
import scenario                  # noqa: E402

UNITS = [f"{agent}.{kind}" for agent in scenario.AGENTS for kind in ("service", "socket")]
STEPS = "n=0; while :; do n=$((n + 1)); echo $n >/srv/steps/all; sleep 0.05; done"
# What one of our names leads to, but for what systemd keeps of the run itself.
OURS = ("find / -xdev ! -path '/proc/*' ! -path '/sys/*' ! -path '/srv/*' "
        r"\( -name 'tpu-*' -o -name 'tpuctl*' -o -name '90-tpu-*' -o -name 'launchd.sock' \) "
        "! -path '/run/systemd/transient/tpu-run-*' ! -path '/run/systemd/units/*:tpu-run-*' ! -path "
        "'/var/log/journal/*'; "
        "find /run /dev -name '*tpu-*' ! -path '/run/systemd/transient/tpu-run-*' ! -path "
        "'/run/systemd/units/*:tpu-run-*'")


def setUpModule():
    missing = [f"{name}: {reason}" for name, reason in check() if reason]
    if missing:
        raise unittest.SkipTest("this machine does not permit a lab: " + "; ".join(missing))


def bumped(deb, version, folder):
    """The same package under another version in the folder, its changelog and control changed and nothing
    else."""
    tree = Path(folder, "tree")
    subprocess.run(["dpkg-deb", "-R", deb, tree], check=True)
    control = tree / "DEBIAN/control"
    lines = control.read_text().splitlines()
    old, = [line.removeprefix("Version: ") for line in lines if line.startswith("Version: ")]
    control.write_text("".join(f"{line}\n".replace(f"Version: {old}", f"Version: {version}")
                               .replace(f"(= {old})", f"(= {version})") for line in lines))
    for changelog in (tree / "usr/share/doc").rglob("changelog*"):
        changelog.write_bytes(b"")
    subprocess.run(["dpkg-deb", "-b", "--root-owner-group", "-Znone", tree, Path(folder, deb.name)],
                   check=True, stdout=subprocess.DEVNULL)
    shutil.rmtree(tree)


class Package(unittest.TestCase):
    FOLDER = os.environ.get("TPU_HOSTD_DEBS")

    def make_lab(self):
        return self.enterContext(Lab(hosts=1, debs=[self.deb]))

    def setUp(self):
        self.deb, _ = scenario.debs(self.FOLDER)
        self.version = subprocess.run(["dpkg-deb", "-f", self.deb, "Version"], capture_output=True,
                                      text=True, check=True).stdout.strip()
        self.lab = self.make_lab()
        self.host = self.lab.hosts[0]
        old, new = (self.host.path("/srv") / name for name in ("old", "new"))
        for folder in old, new:
            folder.mkdir()
        for deb in whole([self.deb]):
            shutil.copy(deb, old)
            bumped(deb, "99", new)
        self.host.sh("useradd -m -G tpu-run alice; mkdir -m 0777 /srv/steps")

    def start(self, name, *argv):
        scenario.ctl(self.host, "run", "--name", name, "--", *argv, user="alice")
        return scenario.unit(self.host, f"tpu-run-{name}.service", "MainPID")["MainPID"]

    def listed(self, name):
        return next(j for j in scenario.ctl_json(self.host, "runs")["runs"] if j["name"] == name)

    def steps(self):
        return int(self.host.sh("cat /srv/steps/all").strip() or 0)

    def the_run_goes_on(self):
        """The same process, never started anew, its unit whole and known to systemd, its steps going on."""
        state = scenario.unit(self.host, "tpu-run-keep.service", "ActiveState", "MainPID", "NRestarts",
                              "LoadState", "User", "Slice")
        self.assertEqual(state, {"ActiveState": "active", "MainPID": self.pid, "NRestarts": "0",
                                 "LoadState": "loaded",
                                 "User": "alice", "Slice": "tpu-run-keep.slice"})
        before = self.steps()
        self.host.wait_for(lambda: self.steps() > before, timeout=5)
        self.assertEqual(self.host.sh("systemctl list-units --failed --plain --no-legend 'tpu*'"), "")

    def the_agents_are_new(self, version):
        self.assertEqual(self.host.sh("dpkg-query -W -f '${Version}' tpu-hostd"), version)
        for name in scenario.AGENTS:
            state = scenario.unit(self.host, f"{name}.service", "ActiveState", "MainPID", "NRestarts")
            self.assertEqual((state["ActiveState"], state["NRestarts"]), ("active", "0"), name)
            # What is mapped is what is installed: the program of before would read "… (deleted)".
            self.assertEqual(self.host.sh(f"readlink /proc/{state['MainPID']}/exe").strip(),
                             f"/usr/sbin/{name}")
        self.assertEqual((self.listed("keep")["state"], str(self.listed("keep")["main_pid"])),
                         ("running", self.pid))

    def test_life(self):
        host = self.host
        self.pid = self.start("keep", "sh", "-c", STEPS)
        short = self.start("short", "sleep", "1000")
        for step, package, version in (("again", "old", self.version), ("upgrade", "new", "99"),
                                       ("downgrade", "old", self.version)):
            with self.subTest(step):
                host.sh(f"dpkg -i /srv/{package}/*.deb")
                self.the_agents_are_new(version)
                self.the_run_goes_on()
        with self.subTest("exit truth after upgrades"):
            host.sh(f"kill -KILL {short}")
            host.wait_for(lambda: self.listed("short")["state"] == "exited", timeout=10)
            self.assertEqual({k: self.listed("short")[k] for k in ("cause", "code", "status")},
                             {"cause": "signal", "code": "killed", "status": "KILL"})
        with self.subTest("remove"):
            done = host.run(["apt-get", "remove", "-y", "tpu-hostd"], check=True)
            self.assertIn("tpu-hostd: tpu-run-keep.service is on the TPU chips: the network settings stay",
                          done.out)
            self.the_run_goes_on()
            self.nothing_of_ours_runs()
            self.assertNotEqual(host.sh("ls /var/lib/tpu-launchd/runs"), "")
        with self.subTest("install after remove"):
            host.sh("dpkg -i /srv/old/tpu-hostd_*.deb")
            self.the_agents_are_new(self.version)
            self.the_run_goes_on()
        with self.subTest("purge"):
            host.run(["apt-get", "purge", "-y", "tpu-hostd", "tpuctl"], check=True)
            self.the_run_goes_on()
            self.nothing_of_ours_runs()
            self.assertEqual(host.sh(OURS).split(), [])
        with self.subTest("the run's own end, with nobody there"):
            host.sh(f"kill -TERM {self.pid}")
            host.wait_for(lambda: scenario.unit(host, "tpu-run-keep.service", "LoadState")["LoadState"]
                          == "not-found", timeout=10)
            self.assertEqual(host.sh("systemctl list-units --failed --plain --no-legend 'tpu*'"), "")

    def nothing_of_ours_runs(self):
        self.assertEqual(self.host.sh("readlink /proc/[0-9]*/exe | grep tpu; true"), "")
        for unit in UNITS:
            self.assertEqual(scenario.unit(self.host, unit, "LoadState", "ActiveState"),
                             {"LoadState": "not-found", "ActiveState": "inactive"}, unit)


class Settings(unittest.TestCase):
    """What the package sets of a host, what of a machine without TPUs, and what is left of it."""
    TUNED = (scenario.WANTED_RMEM, scenario.WANTED_MTU, scenario.WANTED_MTU)

    @classmethod
    def setUpClass(cls):
        deb, _ = scenario.debs(os.environ.get("TPU_HOSTD_DEBS"))

        def before_boot(host):
            if host.name == "h0":
                host.lab_collector_address = "127.0.0.1"  # nobody listens there
                scenario.configure(host, 1, scenario.WANTED_MTU)

        lab = Lab(hosts=2, debs=[deb], before_boot=before_boot)
        lab.__enter__()
        cls.addClassCleanup(lab.__exit__, None, None, None)
        cls.tpu, cls.plain = lab.hosts
        for host in lab.hosts:
            (host.path("/srv") / "debs").mkdir()
            for package in whole([deb]):
                shutil.copy(package, host.path("/srv/debs"))
        # What the kernel gives a new network goes by the machine's memory.
        rmem = subprocess.run(["unshare", "--net", "cat", "/proc/sys/net/ipv4/tcp_rmem"],
                              capture_output=True, text=True, check=True).stdout
        cls.booted = " ".join(rmem.split()), 1460, 1460

    def state(self, host):
        return (" ".join(host.sh("cat /proc/sys/net/ipv4/tcp_rmem").split()),
                *(int(host.sh(f"cat /sys/class/net/{nic}/mtu")) for nic in ("eth0", "eth1")))

    def everything(self, host):
        """All settings of the network, but for what the kernel counts, and addresses it makes meanwhile."""
        return [line for line in host.sh("sysctl -a --pattern '^net[.]'; ip -d link; ip rule; "
                                         "ip route show table all; ethtool -k eth0").splitlines()
                if not any(word in line for word in ("nf_conntrack_count", "expires", "_probe_", "fe80:"))]

    def test_a_machine_without_tpus(self):
        host = self.plain
        self.assertEqual(self.state(host), self.booted)
        done = scenario.ctl(host, "check", check=False)
        self.assertEqual((done.code, done.out.splitlines()[:2], len(done.out.splitlines())), (0, [
            "Chips", "OK       tpu.chips    none here, none expected: this machine is not changed"], 4))
        self.assertIn("no TPU is in /sys/bus/pci", host.journal("tpu-netcfg"))
        before = self.everything(host)
        self.assertEqual(host.run(["test", "-e", "/run/tpu-netcfg/originals"]).code, 1)
        done = host.run(["apt-get", "purge", "-y", "tpu-hostd", "tpuctl"], check=True)
        self.assertNotIn("stay as they are", done.out)
        self.assertEqual(self.everything(host), before)
        host.sh("dpkg -i /srv/debs/*.deb")
        self.assertEqual(self.everything(host), before)

    def test_brought_back_and_left(self):
        host = self.tpu
        self.assertEqual(self.state(host), self.TUNED)
        with self.subTest("remove"):
            done = host.run(["apt-get", "remove", "-y", "tpu-hostd"], check=True)
            self.assertNotIn("stay as they are", done.out)
            self.assertEqual(self.state(host), self.booted)
            self.assertEqual(host.sh("ip rule show priority 28470; ip route show table all proto 147"), "")
        with self.subTest("installed again"):
            host.sh("dpkg -i /srv/debs/tpu-hostd_*.deb")
            host.wait_for(lambda: self.state(host) == self.TUNED)
        with self.subTest("a process of somebody's has a chip"):
            holder = host.spawn(["sh", "-c", "exec sleep 1000 </dev/accel0"])
            host.wait_for(["sh", "-c", "ls -l /proc/[0-9]*/fd | grep -q /dev/accel0"])
            done = host.run(["apt-get", "purge", "-y", "tpu-hostd", "tpuctl"], check=True)
            self.assertRegex(done.out,
                             r"tpu-hostd: process \d+ is on the TPU chips: the network settings stay")
            self.assertEqual(self.state(host), self.TUNED)
            host.stop_command(holder)


if __name__ == "__main__":
    started = time.monotonic()
    program = unittest.main(verbosity=2, exit=False)
    print(f"{time.monotonic() - started:.1f} s")
    sys.exit(not program.result.wasSuccessful())
