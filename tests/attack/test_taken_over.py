#!/usr/bin/python3
"""A daemon of ours that was taken over: what its user can do on a booted host, with its sockets, groups,
capabilities and descriptors, to runs, other users, settings and the other daemons. Needs root and the
packages in build/debs (TPU_HOSTD_DEBS)."""

import json
import os
import sys
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "lab")]
from lab.check import check  # noqa: E402
import scenario  # noqa: E402

SECRET = "s3cr3t-of-alice-0a1b2c"
CAP_NET_ADMIN = 1 << 12
TARGETS, SCRIPT = "/usr/local/lib/targets.json", "/usr/local/lib/intruder.py"


class TakenOver(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.lab = cls.enterClassContext(scenario.slice_lab(1, os.environ.get("TPU_HOSTD_DEBS")))
        cls.host = host = cls.lab.hosts[0]
        host.write(SCRIPT, (HERE / "intruder.py").read_text())
        host.write("/usr/local/lib/launch_frames.py", (HERE.parent / "lab/launch_frames.py").read_text())
        host.sh("useradd -m -G tpu-run alice; useradd -m bob; mkdir -p /home/alice/.ssh; chmod 755 "
                "/home/alice; touch /home/alice/.ssh/id; chmod 600 /home/alice/.ssh/id")
        host.run(["tpuctl", "run", "--name", "hers", "--preempt", "none", "--malloc", "glibc",
                  "--share-devices", "--env", f"API_KEY={SECRET}", "--", "sleep", "100000"],
                 user="alice", check=True)
        host.write("/root/key", SECRET, 0o600)
        cls.beside = host.spawn(["sh", "-c", "ROOT_KEY=$(cat /root/key) exec sleep 100000"])
        host.sh("mkdir -p /dev/vfio; mknod -m 666 /dev/vfio/9 c 10 229")  # of a driver, as a chip is
        cls.policy = host.run(["true"], properties=["DevicePolicy=closed"]).code == 0 and host.run(
            ["sh", "-c", "exec 3<>/dev/vfio/9"], properties=["DevicePolicy=closed"], user="bob").code != 0
        print(f"this lab {'enforces' if cls.policy else 'does not enforce'} DevicePolicy=")

    def pids(self):
        show = lambda unit: int(self.host.sh(f"systemctl show -P MainPID {unit}"))
        return {"alice": show("tpu-run-hers.service"), "root": show(self.beside.unit), "systemd": 1,
                "tpu-launchd": show("tpu-launchd"), "tpu-netcfg": show("tpu-netcfg"),
                "tpu-hostd": show("tpu-hostd"), "systemd-journald": show("systemd-journald")}

    def status(self, unit):
        pid = self.host.sh(f"systemctl show -P MainPID {unit}").strip()
        return dict(line.split(":\t", 1) for line in self.host.sh(f"cat /proc/{pid}/status").splitlines())

    def settings(self):
        return (scenario.link(self.host, "eth0")["mtu"], scenario.tcp_rmem(self.host),
                self.host.sh("sysctl -n kernel.core_pattern kernel.hostname; cat /etc/passwd /etc/shadow; "
                             "ls -R /etc /usr/sbin /run/tpu-launchd /run/tpu-netcfg "
                             "/run/systemd/transient | grep -v ^lab-"))

    def taken_over(self, name, parts, allowed=0, more="", own=()):
        """What the intruder got in the place of this daemon. Afterwards it runs again."""
        host, place = self.host, f"/var/lib/{name}/intruder.json"
        own = [*own, *([] if self.policy else ["write /dev/vfio/9"])]
        pids = {k: v for k, v in self.pids().items() if k != name}
        before = self.settings()
        host.write(TARGETS, json.dumps({"pids": pids, "secret": SECRET, "run": "hers", "own": own,
                                        "allowed": f"{allowed:x}",
                                        "mac": scenario.link(host, "eth0")["address"]}), 0o644)
        host.write(f"/run/systemd/system/{name}.service.d/intruder.conf",
                   "[Service]\nType=exec\nRestart=no\nWatchdogSec=0\nExecStart=\nExecStart=/usr/bin/python3 "
                   f"-B {SCRIPT} {TARGETS} {place} {' '.join(parts)}\n{more}")
        try:
            host.sh(f"systemctl daemon-reload; rm -f {place}; systemctl restart {name}")
            host.wait_for(lambda: host.sh(f"cat {place} 2>/dev/null; true").strip(), 120,
                          lambda: host.journal(name)[-2000:])
            found = json.loads(host.sh(f"cat {place}; rm {place}"))
        finally:
            host.sh(f"rm -r /run/systemd/system/{name}.service.d; systemctl daemon-reload; "
                    f"systemctl restart {name}")
        for attempt, (verdict, words) in found.items():
            print(f"  {name:12} {attempt:58} {verdict:8} {str(words)[:90]}")
        self.assertGreater(len(found), 60)
        self.assertEqual({a: w for a, (v, w) in found.items() if v != "refused"}, {})
        self.assertEqual({k: v for k, v in self.pids().items() if k in pids}, pids)
        self.assertEqual(self.settings(), before)
        self.assertEqual(host.sh("tpuctl runs --json | grep -c intruder; true").strip(), "0")

    def test_hostd(self):
        """Its capabilities are given up before it opens a socket that others reach: it is taken over
        without them."""
        now = self.status("tpu-hostd")
        self.assertEqual({k: int(now[k], 16) for k in ("CapEff", "CapPrm", "CapAmb", "CapInh")},
                         dict.fromkeys(("CapEff", "CapPrm", "CapAmb", "CapInh"), 0))
        self.assertEqual((now["NoNewPrivs"], now["Seccomp"]), ("1", "2"))
        self.taken_over("tpu-hostd", ("processes", "files", "powers", "launchd", "netcfg"),
                        more="AmbientCapabilities=\nCapabilityBoundingSet=\n")

    def test_netcfg(self):
        """It may change what is of the network, and that is all."""
        self.taken_over("tpu-netcfg", ("processes", "files", "powers", "launchd", "network"), CAP_NET_ADMIN,
                        own=["write /run/tpu-netcfg/intruder", "write /proc/sys/net/ipv4/tcp_rmem",
                             "write /proc/sys/net/ipv4/ip_forward", "replace the socket of tpu-netcfg",
                             "write /tmp/intruder"])  # its own: PrivateTmp=


if __name__ == "__main__":
    missing = [f"{name}: {reason}" for name, reason in check() if reason]
    if missing:
        print("this machine does not permit a lab: " + "; ".join(missing))
        sys.exit(77)
    unittest.main()
