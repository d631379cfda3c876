#!/usr/bin/python3
"""docs/image.md on booted hosts: contrib/packer/bake.sh puts the packages into a host, the host becomes an
image, and two hosts start from it.

Judged by the image's files, ip, systemctl and the collector's database. Needs root, the packages in
build/debs (TPU_HOSTD_DEBS names another folder) and BUILD_DIR's tpu-hostd.
"""

import json
import os
import secrets
import shutil
import subprocess
import sys
import unittest
import uuid
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
sys.path.insert(0, str(HERE))

from lab import Lab                                       # noqa: E402  (the path comes first)
from lab.check import check                               # noqa: E402
from lab.command import sh                                # noqa: E402
from lab.prepare import debs_layer, whole                 # noqa: E402
from lab.tree import Layer, cache_dir, remove_tree        # noqa: E402
import scenario                                           # noqa: E402
import state_file                                         # noqa: E402

HOSTD = Path(os.environ.get("BUILD_DIR", HERE.parents[1] / "build/dev")) / "agent/hostd/tpu-hostd"
FOLDER, LAPTOP = "/srv/image", "h2"
STATE = [f"/var/lib/{name}" for name in scenario.AGENTS]
SITE = {"hostd.conf.d/10-site.conf": "[Hostd]\nEndpoint=http://collector:4318\nMetricsInterval=2s\n"
                                     "[Registry]\nKind=collector\n"
                                     "[Uplink]\nKeyFile=/etc/tpu-hostd/tls/host.key\n",
        "authority.conf.d/10-site.conf": "[Remote]\nStart=alice\n",
        "tpuctl.conf.d/10-site.conf": "[Ctl]\nCollector=http://collector:9471\n"}
READ_ONLY = "[Unit]\nDefaultDependencies=no\n[Mount]\nWhat=/usr\nWhere=/usr\nOptions=bind,ro\n"


def setUpModule():
    missing = [f"{name}: {reason}" for name, reason in check() if reason]
    if missing:
        raise unittest.SkipTest("this machine does not permit a lab: " + "; ".join(missing))


class Image(unittest.TestCase):
    """One image, one story, in the order of the names."""

    @classmethod
    def setUpClass(cls):
        host_deb, cls.collector_deb = scenario.debs(os.environ.get("TPU_HOSTD_DEBS"))
        cls.debs = whole([host_deb])
        # What an image has before: all that the packages need, and none of them.
        without = debs_layer(cls.debs).parent
        cls.image, cls.forgotten = cls.layer("image", without), cls.layer("forgotten", without)
        cls.lab = Lab(hosts=1, debs=without, before_boot=lambda h: h.write("/etc/hostname", "packer\n"))
        cls.lab.start()
        cls.addClassCleanup(lambda: cls.lab.stop())
        cls.host = cls.lab.hosts[0]
        folder = cls.host.path(FOLDER)
        folder.mkdir(parents=True)
        for file in (*cls.debs, HERE.parents[1] / "contrib/packer/bake.sh"):
            shutil.copy(file, folder)
        for name, text in SITE.items():
            cls.host.write(f"{FOLDER}/etc/tpu-hostd/{name}", text)

    @classmethod
    def layer(cls, name, parent):
        """One whose directory a test makes."""
        layer = Layer(name, secrets.token_hex(8), parent, None)
        cls.addClassCleanup(remove_tree, layer.path)
        cls.addClassCleanup((cache_dir() / "locks" / layer.path.name).unlink, missing_ok=True)
        return layer

    def state(self):
        """What the daemons keep, by the host's disk."""
        return [str(p) for folder in STATE for p in self.host.path(folder).rglob("*")]

    def machine_id(self):
        return self.host.read("/etc/machine-id").strip()

    def active(self, host=None):
        host = host or self.host
        return {name for name in scenario.AGENTS
                if scenario.unit(host, f"{name}.service", "ActiveState")["ActiveState"] == "active"}

    def settings(self):
        """What tpu-netcfg would set on a TPU host."""
        links = [scenario.link(self.host, nic)["mtu"] for nic in ("eth0", "eth1")]
        return links, self.host.sh("cat /proc/sys/net/ipv4/tcp_*mem /proc/sys/net/ipv4/tcp_no_metrics_save")

    def test_1_installed_where_no_service_may_start(self):
        """By policy-rc.d, as image tools write it; a chroot without systemd is debs/test_image.py."""
        self.host.write("/usr/sbin/policy-rc.d", "#!/bin/sh\nexit 101\n", 0o755)
        before = self.settings()
        self.host.sh(f"apt-get -q -y install {FOLDER}/*.deb")
        self.assertEqual(self.active(), set())
        self.assertEqual(self.state(), [])
        self.assertEqual(self.settings(), before)
        self.host.sh("apt-get -q -y purge tpu-hostd; rm /usr/sbin/policy-rc.d")

    def test_2_installed_on_a_machine_that_is_baked(self):
        """Its daemons start, and change nothing: it has no TPU."""
        before = self.settings()
        self.host.sh(f"apt-get -q -y install {FOLDER}/*.deb")
        self.assertEqual(self.active(), set(scenario.AGENTS))
        scenario.ctl(self.host, "run", "--name", "smoke", "--user", "nobody", "--", "true")
        self.host.wait_for(lambda: scenario.ctl_json(self.host, "runs")["runs"][0]["state"] == "exited", 20)
        scenario.ctl(self.host, "cordon", "being baked")
        self.assertEqual(self.settings(), before)
        self.assertGreater(len(self.state()), 5)
        self.host.poweroff()
        sh("cp", "-a", self.host.directory / "upper", self.forgotten.path)
        self.host.boot()

    def test_3_bake(self):
        """By the script of Packer's file: installed again, the site's files, generalized."""
        self.host.sh("useradd -m -G tpu-run alice")
        self.host.write("/etc/tpu-hostd/tls/host.key", "secret\n", 0o600)
        # as D-Bus of older systems keeps it, and systemd would take it up again
        self.host.sh("mkdir -p /var/lib/dbus; rm -f /var/lib/dbus/machine-id; "
                     "cp /etc/machine-id /var/lib/dbus/machine-id")
        type(self).baked_as = self.machine_id()
        scenario.ctl(self.host, "run", "--name", "long", "--despite-cordon", "--user", "nobody", "--",
                     "sleep", "1000")
        for user in None, "nobody":
            refused = self.host.run(["tpu-hostd", "--generalize"], user=user)
            self.assertEqual((refused.code, refused.out), (1, ""))
            self.assertRegex(refused.err, "only root may do that" if user else "run long is in progress")
        self.assertEqual(self.active(), set(scenario.AGENTS))
        scenario.ctl(self.host, "stop", "long")
        done = self.host.run(["sh", f"{FOLDER}/bake.sh", FOLDER], check=True, timeout=300)
        self.assertEqual([line for line in done.out.splitlines() if line.endswith(("emptied", "removed"))],
                         [*(f"{folder}: emptied" for folder in STATE if folder != "/var/lib/tpu-netcfg"),
                          "/var/lib/tpu-netcfg: emptied", "/etc/tpu-hostd/tls/host.key: removed",
                          "/var/lib/dbus/machine-id: removed", "/etc/machine-id: emptied"])
        self.assertEqual((self.active(), self.state(), self.machine_id()), (set(), [], ""))
        # Nobody wakes them up again.
        self.host.run(["tpuctl", "status"])
        self.assertEqual((self.active(), self.state()), (set(), []))

    def test_4_from_outside(self):
        """The disk of a machine that is off, as a mounted one."""
        self.boot_again()
        self.host.poweroff()
        self.assertGreater(len(self.state()), 2)
        done = subprocess.run([HOSTD, "--root", self.host.tree, "--generalize"], capture_output=True,
                              text=True, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual((self.state(), self.machine_id()), ([], ""))

    def test_5_at_the_shutdown(self):
        """The unit does nothing until the machine goes down."""
        self.boot_again()
        self.host.sh("systemctl start tpu-hostd-generalize; systemctl stop tpu-hostd-generalize")
        self.assertEqual(self.active(), set(scenario.AGENTS))
        self.assertGreater(len(self.state()), 2)
        self.assertNotEqual(self.machine_id(), "")
        self.host.sh("systemctl start tpu-hostd-generalize")
        self.host.poweroff()
        self.assertEqual((self.state(), self.machine_id()), ([], ""),
                         self.host.journal("tpu-hostd-generalize"))
        shutil.rmtree(self.host.path(FOLDER))
        os.rename(self.host.release(), self.image.path)
        self.lab.stop()

    def boot_again(self):
        if self.host.up:
            self.host.poweroff()
        self.host.boot()
        self.assertEqual(self.active(), set(scenario.AGENTS))

    def before_boot(self, host):
        """What metadata, cloud-init and a person at their laptop say."""
        if host.name == "collector":
            scenario.configure(host, 0, 0)
            return
        host.write("/etc/tpu-hostd/tpuctl.conf.d/10-site.conf", SITE["tpuctl.conf.d/10-site.conf"])
        if host.name == LAPTOP:
            return
        host.write("/etc/machine-id", "")  # as it is in an image: the lab writes one
        # not by fstab: systemd would remount the file system below it
        host.write("/etc/systemd/system/usr.mount", READ_ONLY)
        host.path("/etc/systemd/system/local-fs.target.requires").mkdir()
        host.path("/etc/systemd/system/local-fs.target.requires/usr.mount").symlink_to("../usr.mount")
        host.bind_chips(scenario.CHIPS)
        host.write("/etc/tpu-hostd/identity.conf.d/10-host.conf",
                   "[Identity]\nSliceName=lab\nAcceleratorType=v6e-8\nMachineType=ct6e-standard-4t\n"
                   f"Topology=2x4\nWorkerId={host.name[1:]}\nWorkerHostnames=h0,h1\nChips=4\n"
                   f"[Network]\nMtu={scenario.WANTED_MTU}\n")
        host.write("/etc/tpu-hostd/hostd.conf.d/20-site.conf",
                   "[Hostd]\nEndpoint=http://collector:4318\nMetricsInterval=2s\n"
                   "[Registry]\nKind=collector\n[Metadata]\nHost=none\n")

    def start(self, image):
        tpuctl = [deb for deb in self.debs if deb.name.startswith("tpuctl_")]
        return self.enterContext(Lab(hosts=3, debs=image, debs_of={LAPTOP: tpuctl},
                                     collector=[self.collector_deb], before_boot=self.before_boot))

    def test_6_two_hosts_start_from_it(self):
        lab = self.start(self.image)
        *hosts, laptop = lab.hosts
        for host in hosts:
            with self.subTest(host.name):
                self.tuned_before_any_run(host)
                self.assertNotEqual(host.run(["touch", "/usr/x"]).code, 0)
                self.assertEqual(scenario.ctl_json(host, "runs")["runs"], [])
                self.assertIsNone(scenario.ctl_json(host, "status")["cordon"])
        self.both_are_in_the_fleet(lab)
        of_the_bake = "SELECT count(*) FROM events WHERE body LIKE '%baked%'"
        self.assertEqual(scenario.query(lab, of_the_bake), [(0,)])
        self.assertEqual(laptop.sh("systemctl list-units --all --plain --no-legend 'tpu*'"), "")

        step = "print('completed step: 7, seconds: 0.5', flush=True); import time; time.sleep(1000)"
        scenario.ctl(hosts[0], "run", "--name", "first", "--", "python3", "-c", step, user="alice")
        runs = lambda: scenario.ctl_json(hosts[0], "runs", user="alice")["runs"]  # noqa: E731
        scenario.wait_until(lambda: runs()[0]["step"] == 7, 30, "the step of the first run")

    def test_7_two_hosts_start_from_one_that_was_not_generalized(self):
        """Nothing is lost: what waited in the image's spool arrives under the name of the machine that was
        baked, which is no host of the fleet for it."""
        # Hosts of a lab have one kernel and so one boot id: state would be a restarted daemon's own.
        for file in self.forgotten.path.glob("var/lib/tpu-*/machine"):
            content = json.loads(state_file.content_of(file)) | {"boot_id": str(uuid.uuid4())}
            owner = file.stat()
            file.write_text(state_file.text_of("machine", json.dumps(content)))
            os.chown(file, owner.st_uid, owner.st_gid)
        lab = self.start(self.forgotten)
        self.both_are_in_the_fleet(lab)
        for host in lab.hosts[:2]:
            scenario.wait_until(lambda h=host: scenario.events(lab, h, "tpu.state.set_aside"), 60,
                                f"what {host.name} says of the image's state")
            self.assertEqual(scenario.ctl_json(host, "runs")["runs"], [])
            self.assertIsNone(scenario.ctl_json(host, "status")["cordon"])
        baked = ("SELECT DISTINCT hosts.name FROM events JOIN hosts ON hosts.id = events.host "
                 "WHERE events.body LIKE '%being baked%'")
        scenario.wait_until(lambda: scenario.query(lab, baked), 60, "the records of the bake")
        self.assertEqual(scenario.query(lab, baked), [("packer",)])
        self.assertEqual(self.fleet(lab), ["h0", "h1"])

    def fleet(self, lab):
        """As the laptop sees it."""
        return sorted(h["name"] for h in scenario.ctl_json(lab.hosts[2], "fleet")["hosts"])

    def tuned_before_any_run(self, host):
        """At once: READY of the boot waits for nobody of ours but those."""
        self.assertEqual(self.active(host), set(scenario.AGENTS))
        self.assertEqual([scenario.link(host, nic)["mtu"] for nic in ("eth0", "eth1")],
                         [scenario.WANTED_MTU] * 2)
        self.assertEqual(scenario.tcp_rmem(host), scenario.WANTED_RMEM)
        times = [int(scenario.unit(host, f"{name}.service", "ActiveEnterTimestampMonotonic")
                     ["ActiveEnterTimestampMonotonic"]) for name in ("tpu-netcfg", "tpu-launchd")]
        self.assertLess(times[0], times[1])

    def both_are_in_the_fleet(self, lab):
        ids = [host.read("/etc/machine-id").strip() for host in lab.hosts[:2]]
        self.assertEqual(len({*ids, self.baked_as}), 3, ids)
        scenario.wait_until(lambda: len(self.fleet(lab)) > 1, 30, "two hosts in the fleet")
        self.assertEqual(self.fleet(lab), ["h0", "h1"])
        started = ("SELECT DISTINCT hosts.name FROM events JOIN hosts ON hosts.id = events.host "
                   "WHERE events.name = 'tpu.agent.started' ORDER BY hosts.name")
        scenario.wait_until(lambda: {("h0",), ("h1",)} <= {*scenario.query(lab, started)}, 60,
                            "events of both")


if __name__ == "__main__":
    unittest.main(verbosity=2)
