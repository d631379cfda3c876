#!/usr/bin/python3
"""An image baked in a machine with Debian's own kernel, and two machines that start from copies of its disk.

The packages are in the disk before it first starts; the agents run in it, it is generalized and powered off.
The collector runs here, beside the machines, and starts only after the bake: what the agents recorded in it
has waited in their spool. Judged by the collector's database, ip and /proc. Needs root, the packages in
build/debs and BUILD_DIR's tpu-collectord. Exit code 77: cannot run here.
"""

import json
import os
import shutil
import sys
import tempfile
import time
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
for folder in (HERE.parent, HERE.parent / "lab", HERE.parent / "hostd", HERE.parent / "collector"):
    sys.path.insert(0, str(folder))

import scenario  # noqa: E402  (the paths come first)
from collector_case import Collector  # noqa: E402
from lab.command import sh  # noqa: E402
from vm import image  # noqa: E402
from vm.kernel import Kernel, packages_layer  # noqa: E402
from vm.machine import QEMU, Machine, free_port  # noqa: E402

NIC_MTU = 8896
HERE_INSIDE = "10.0.2.2"  # this machine, as QEMU's own network has it
CLONES = ("clone-a", "clone-b")
# What metadata says on a cloud, who of the slice this is; and the host's own key, as a site makes it.
FIRST_BOOT = f"""#!/bin/sh
set -eu
key=/etc/tpu-hostd/tls/host.key
mkdir -p /etc/tpu-hostd/identity.conf.d /etc/tpu-hostd/tls
[ -e $key ] || head -c 32 /dev/urandom | od -A n -t x1 >$key
case $(uname -n) in clone-a) worker=0 ;; clone-b) worker=1 ;; *) exit 0 ;; esac
cat >/etc/tpu-hostd/identity.conf.d/10-host.conf <<END
[Identity]
SliceName=vm
AcceleratorType=v6e-8
MachineType=ct6e-standard-4t
Topology=2x4
WorkerId=$worker
WorkerHostnames={','.join(CLONES)}
Chips=4
[Network]
Mtu={NIC_MTU}
END
"""
FIRST_BOOT_UNIT = """[Unit]
DefaultDependencies=no
After=local-fs.target
Before=tpu-netcfg.service
[Service]
Type=oneshot
ExecStart=/bin/sh /usr/local/lib/first-boot
[Install]
WantedBy=sysinit.target
"""
READ_ONLY = "[Unit]\nDefaultDependencies=no\n[Mount]\nWhat=/usr\nWhere=/usr\nOptions=bind,ro\n"
UNITS = "/etc/systemd/system"


def site(port):
    return {
        "/etc/hosts": "127.0.0.1 localhost\n",
        "/etc/systemd/network/10-eth0.network": "[Match]\nName=eth0\n[Link]\nMTUBytes=1460\n[Network]\n"
                                                "DHCP=ipv4\nIPv6AcceptRA=no\nLinkLocalAddressing=no\n"
                                                "[DHCPv4]\nUseHostname=no\n",
        f"{UNITS}/multi-user.target.wants/systemd-networkd.service":
            "-> /lib/systemd/system/systemd-networkd.service",
        "/usr/local/lib/first-boot": FIRST_BOOT,
        f"{UNITS}/first-boot.service": FIRST_BOOT_UNIT,
        f"{UNITS}/sysinit.target.wants/first-boot.service": "-> ../first-boot.service",
        f"{UNITS}/usr.mount": READ_ONLY,
        f"{UNITS}/local-fs.target.requires/usr.mount": "-> ../usr.mount",
        # Emulated machines are slow: no reason to kill an agent here.
        **{f"{UNITS}/{agent}.service.d/emulated.conf": "[Service]\nWatchdogSec=20min\n"
                                                       "TimeoutStartSec=20min\n"
           for agent in scenario.AGENTS},
        # The emulator's network leads out of the emulator: what answers there is no metadata server.
        "/etc/tpu-hostd/hostd.conf.d/10-site.conf":
            f"[Hostd]\nEndpoint=http://{HERE_INSIDE}:{port}\nMetricsInterval=2s\n"
            "[Registry]\nKind=collector\n[Metadata]\nHost=none\n"
            "[Uplink]\nKeyFile=/etc/tpu-hostd/tls/host.key\n",
    }


class Image(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="tpu-hostd-vm-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder, cls.kernel = Path(folder.name), Kernel()
        cls.port = free_port()
        layer = packages_layer([scenario.debs()[0]])
        leases = layer.leases()
        cls.disk = image.build(cls.folder, layer, site(cls.port))
        for lease in leases:
            lease.close()

    def machine(self, name, disk):
        folder = self.folder / name
        folder.mkdir()
        m = Machine(folder, self.kernel.image, self.kernel.initrd, [
            "-device", f"virtio-net-pci,host_mtu={NIC_MTU},romfile=,netdev=user0,mac=42:01:0a:00:00:01",
            "-drive", f"file={disk},format=raw,if=none,id=root,cache=unsafe", "-device",
            "virtio-blk-pci,drive=root"],
            f"root=/dev/vda rw quiet systemd.hostname={name}", memory=1024)
        self.addCleanup(m.close)
        m.start()
        return m

    def up(self, machine):
        began = time.monotonic()
        machine.wait_shell()
        state = machine.shell.run("systemctl is-system-running --wait; true").strip()
        print(f"{machine.folder.name}: {state} after {time.monotonic() - began:.0f} s", flush=True)
        self.assertEqual(state, "running", machine.shell.run("systemctl --failed --no-legend"))

    def wait(self, what, name):
        end = time.monotonic() + 300
        while not (answer := what()):
            self.assertLess(time.monotonic(), end, name)
            time.sleep(0.5)
        return answer

    def test_two_machines_of_one_image(self):
        bake = self.machine("bake", self.disk)
        self.up(bake)
        run = bake.shell.run
        run("tpuctl cordon 'being baked'")
        run("ls /var/lib/tpu-hostd/spool/events/*.seg")
        baked_as = run("cat /etc/machine-id").strip()
        print(run("tpu-hostd --generalize"), flush=True)
        self.assertEqual(run("cat /etc/machine-id; find /var/lib/tpu-* -type f; "
                             "ls /etc/tpu-hostd/tls").strip(), "")
        bake.shell.run("systemctl poweroff --no-block")
        bake.wait_off()

        self.collector = Collector(str(self.folder / "collector.db"), "--listen-otlp",
                                   f"127.0.0.1:{self.port}")
        self.addCleanup(self.collector.stop)
        clones = {}
        for name in CLONES:
            disk = self.folder / f"{name}.img"
            sh("cp", "--sparse=always", self.disk, disk)
            clones[name] = self.machine(name, disk)
        ids, keys = {baked_as}, set()
        for name, m in clones.items():
            self.up(m)
            with self.subTest(name):
                link = json.loads(m.shell.run("ip -j -d link show eth0"))[0]
                self.assertEqual((link["mtu"], link["max_mtu"]), (NIC_MTU, NIC_MTU))
                self.assertEqual(m.shell.run("cat /proc/sys/net/ipv4/tcp_rmem").split(),
                                 scenario.WANTED_RMEM.split())
                self.assertEqual(m.shell.run("touch /usr/x 2>/dev/null; echo $?").strip(), "1")
                self.assertNotIn("being baked", m.shell.run("tpuctl status; true"))
                self.assertIn('"runs": []', m.shell.run("tpuctl runs --json"))
            ids.add(m.shell.run("cat /etc/machine-id").strip())
            keys.add(m.shell.run("cat /etc/tpu-hostd/tls/host.key"))
        self.assertEqual((len(ids), len(keys)), (3, 2))
        listed = self.wait(lambda: (h := self.collector.get("/api/v1/hosts").json["hosts"]) and len(h) > 1
                           and all(x["registry"] == "member" for x in h) and h, "two members")
        self.assertEqual(sorted(h["name"] for h in listed), list(CLONES))
        recorded = ("SELECT hosts.name, events.body FROM events JOIN hosts ON hosts.id = events.host "
                    "ORDER BY events.id")
        self.wait(lambda: len({name for name, _ in self.collector.sql(recorded)}) > 1, "events of both")
        events = self.collector.sql(recorded)
        self.assertEqual({name for name, _ in events}, {*CLONES})
        self.assertEqual([e for e in events if "being baked" in e[1]], [])


if __name__ == "__main__":
    if os.geteuid() != 0 or not all(map(shutil.which, (QEMU, "mke2fs"))):
        print("cannot run: needs root and the packages of tools/deps vm")
        sys.exit(77)
    unittest.main(verbosity=2)
