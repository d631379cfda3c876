#!/usr/bin/python3
"""The packages that Debian 12 built, on a booted Debian 13 (systemd 257, Python 3.13, kernel of this
machine): installed by its apt with its
libraries, running as units, a run with its stacks, and purged. Needs root and the packages in build/debs;
tools/test --full runs it.

Its trees are built once, from this machine's own mirror, and kept as the lab's other layers.
"""

import os
import shutil
import sys
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
sys.path.insert(0, str(HERE))

from lab import Lab, apt                                                                   # noqa: E402  (the path comes first)
from lab.check import check                                                                # noqa: E402
from lab.prepare import STAGING, depends, whole                                            # noqa: E402
from lab.tree import (BASE_PACKAGES, CHROOT_INSTALL, DEBOOTSTRAP, MASKED, Layer, OVERLAY_OPTIONS,  # noqa: E402
                      digest, run_script)
import scenario                                                                            # noqa: E402

SUITE = "trixie"
PACKAGES = [*BASE_PACKAGES, "python3-minimal"]
TRAIN = ["/usr/bin/python3", "-c", "import time\ndef next_batch():\n    time.sleep(10**6)\nnext_batch()"]


def base_layer():
    def build(_layer, _work, out):
        mirror, _ = apt.sources()
        run_script(DEBOOTSTRAP, {"PACKAGES": ",".join(PACKAGES), "SUITE": SUITE, "OUT": out,
                                 "MIRROR": mirror, "MASKED": " ".join(MASKED)},
                   f"debootstrap of Debian {SUITE}")

    return Layer(SUITE, digest(DEBOOTSTRAP, *PACKAGES, *MASKED, SUITE), None, build)


def depends_layer(debs):
    """On it what the packages depend on, as the apt of that suite resolves it: among it libraries under
    new names."""
    words = ["satisfy", depends(debs)]

    def build(layer, work, out):
        mirror, _ = apt.sources()
        run_script(CHROOT_INSTALL, {"LOWER": str(layer.parent.path), "WORK": work, "OUT": out,
                                    "SOURCES": f"deb {mirror} {SUITE} main\n",
                                    "TRANSPORT": apt.transport(), "OVERLAY_OPTIONS": OVERLAY_OPTIONS},
                   " ".join(words), words)

    return Layer(f"{SUITE}-depends", digest(CHROOT_INSTALL, *words), base_layer(), build)


def setUpModule():
    missing = [f"{name}: {reason}" for name, reason in check() if reason]
    if missing:
        raise unittest.SkipTest("this machine does not permit a lab: " + "; ".join(missing))


class Trixie(unittest.TestCase):
    def test_whole_life(self):
        debs = whole(scenario.debs(os.environ.get("TPU_HOSTD_DEBS")))
        lab = Lab.on_layer(depends_layer(debs))
        lab.unified = True  # systemd 257 wants cgroup version 2
        self.enterContext(lab)
        host = lab.hosts[0]
        print(host.sh("systemctl --version | head -n 1; python3 --version").strip(), flush=True)
        self.assertIn("13", host.read("/etc/debian_version"))
        staging = host.path(STAGING)
        staging.mkdir(mode=0o755)
        for deb in debs:
            shutil.copy(deb, staging)
        apt_get = {"timeout": 300, "check": True, "env": {"DEBIAN_FRONTEND": "noninteractive"}}
        host.run(["apt-get", "-q", "-y", "--no-install-recommends", "install",
                  *(f"{STAGING}/{deb.name}" for deb in debs)], **apt_get)
        units = [f"{name}.service" for name in (*scenario.AGENTS, "tpu-collectord")]
        for unit in units:
            host.wait_for(["systemctl", "is-active", unit], 60, f"{unit} is active")
        host.wait_for(lambda: host.run(["tpuctl", "status", "--json"]).out.startswith("{"), 60,
                      "tpuctl status answers")
        self.a_run(host)
        for unit in units:
            self.assertEqual(host.sh(f"systemctl show -p NRestarts --value {unit}").strip(), "0",
                             host.journal(unit))
        host.run(["apt-get", "-q", "-y", "purge", "tpu-hostd", "tpuctl", "tpu-collector"], **apt_get)
        self.assertEqual(host.sh("find /etc /usr /var/lib -xdev -name 'tpu-*' ! -path '/var/lib/dpkg/*' ! "
                                 "-path '/var/lib/apt/*'"), "")

    def a_run(self, host):
        host.sh("useradd -m -G tpu-run alice")
        scenario.ctl(host, "run", "--name", "probe", "--", *TRAIN, user="alice")
        pid = "systemctl show -p MainPID --value tpu-run-probe.service"
        seen = lambda: "next_batch" in host.run(["sh", "-c", f"tpu-stack $({pid})"]).out  # noqa: E731
        host.wait_for(seen, 60, "tpu-stack shows the run's Python")
        scenario.ctl(host, "stop", "probe")


if __name__ == "__main__":
    unittest.main(verbosity=2)
