#!/usr/bin/python3
"""The same three packages on booted Debian 11, 12, 13 and sid, the kernel being this machine's: installed by
apt with its libraries, running as units, telemetry over mutual TLS, a run with its stacks. Then a package's
whole life under a live run (test_package.py).

TPU_HOSTD_DEBS names the packages' folder; default: build/release (tools/deb --release). Needs root;
tools/test --full runs it. Each system's trees are built once, from this machine's own mirror, and kept as
the lab's other layers. Each prints the row of docs/install.md that it saw.
"""

import os
import shutil
import sqlite3
import sys
import tempfile
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
sys.path.insert(0, str(HERE))
sys.path.append(str(HERE.parent / "hostd"))

from lab import Lab, LabError, apt          # noqa: E402  (the path comes first)
from lab.prepare import depends, whole  # noqa: E402
from lab.tree import (BASE_PACKAGES, CHROOT_INSTALL, DEBOOTSTRAP, MASKED, Layer,  # noqa: E402
                      OVERLAY_OPTIONS, digest, run_script)
from certificates import Authority  # noqa: E402
import scenario  # noqa: E402
import test_package  # noqa: E402

SUITES = {"bullseye": "Debian 11", "bookworm": "Debian 12", "trixie": "Debian 13", "sid": "Debian sid"}
PACKAGES = [*BASE_PACKAGES, "python3-minimal"]
PROGRAMS = ("tpu-hostd", "tpu-netcfg", "tpu-launchd", "tpu-stack", "tpuctl", "tpu-collectord")
RELEASE = Path(os.environ.get("TPU_HOSTD_DEBS") or scenario.TOP / "build/release")
PAGE = (scenario.TOP / "docs/install.md").read_text()
TRAIN = ["/usr/bin/python3", "-c", "import time\ndef next_batch():\n    time.sleep(10**6)\nnext_batch()"]
STAGED = "/srv/debs"
TLS = "/etc/tpu-hostd/tls"
SITE = """[Collector]
ListenOtlp={address}:4318
Certificate={tls}/tpu-collectord.pem
Key={tls}/tpu-collectord.key
ClientCa={tls}/ca.pem
AllowAgents=spiffe://site.example/host/*
AllowReaders=spiffe://site.example/oncall
"""
UPLINK = """[Hostd]
Endpoint=https://{address}:4318
[Uplink]
CaFile={tls}/ca.pem
CertFile={tls}/tpu-hostd.pem
KeyFile={tls}/tpu-hostd.key
"""


def base_layer(suite):
    def build(_layer, _work, out):
        mirror, _ = apt.sources()
        run_script(DEBOOTSTRAP, {"PACKAGES": ",".join(PACKAGES), "SUITE": suite, "OUT": out,
                                 "MIRROR": mirror, "MASKED": " ".join(MASKED)},
                   f"debootstrap of Debian {suite}")

    return Layer(suite, digest(DEBOOTSTRAP, *PACKAGES, *MASKED, suite), None, build)


def depends_layer(suite, debs):
    """On it what the packages depend on, as the apt of that suite resolves it: among it libraries under
    new names."""
    words = ["satisfy", depends(debs)]

    def build(layer, work, out):
        mirror, _ = apt.sources()
        run_script(CHROOT_INSTALL, {"LOWER": str(layer.parent.path), "WORK": work, "OUT": out,
                                    "SOURCES": f"deb {mirror} {suite} main\n",
                                    "TRANSPORT": apt.transport(), "OVERLAY_OPTIONS": OVERLAY_OPTIONS},
                   " ".join(words), words)

    return Layer(f"{suite}-depends", digest(CHROOT_INSTALL, *words), base_layer(suite), build)


class Suite(test_package.Package):
    FOLDER = RELEASE
    suite = None

    def make_lab(self):
        debs = whole(scenario.debs(RELEASE))
        self.collector = next(f"{STAGED}/{deb.name}" for deb in debs if deb.name.startswith("tpu-collector"))
        lab = Lab.on_layer(depends_layer(self.suite, debs))
        lab.unified = True  # systemd 257 wants cgroup version 2
        self.enterContext(lab)
        host = lab.hosts[0]
        staging = host.path("/srv") / "debs"
        staging.mkdir(mode=0o755)
        for deb in debs:
            shutil.copy(deb, staging)
        self.apt_get(host, "install", *({f"{STAGED}/{deb.name}" for deb in debs} - {self.collector}))
        return lab

    def apt_get(self, host, *words):
        host.run(["apt-get", "-q", "-y", "--no-install-recommends", *words], check=True, timeout=300,
                 env={"DEBIAN_FRONTEND": "noninteractive"})

    def test_works(self):
        host = self.host
        self.apt_get(host, "install", self.collector)
        units = [f"{name}.service" for name in (*scenario.AGENTS, "tpu-collectord")]
        for unit in units:
            host.wait_for(["systemctl", "is-active", unit], 60, f"{unit} is active")
        for program in PROGRAMS:
            self.assertIn(self.version, host.run([program, "--version"], check=True).out)
        self.mutual_tls()
        self.a_run()
        for unit in units:
            self.assertEqual(host.sh(f"systemctl show -p NRestarts --value {unit}").strip(), "0",
                             host.journal(unit))
        self.row()
        self.apt_get(host, "purge", "tpu-hostd", "tpuctl", "tpu-collector")
        self.assertEqual(host.sh("find /etc /usr /var/lib -xdev -name 'tpu-*' ! -path '/var/lib/dpkg/*' ! "
                                 "-path '/var/lib/apt/*' ! -path '/etc/tpu-hostd*'"), "")

    def mutual_tls(self):
        """The host's events are in the collector's database; both showed certificates of the site."""
        host, address = self.host, self.host.address()
        ca = Authority(Path(self.enterContext(tempfile.TemporaryDirectory()), "ca"))
        host.write(f"{TLS}/ca.pem", ca.cert.read_text())
        for user, san in (("tpu-hostd", f"URI:spiffe://site.example/host/{host.name}"),
                          ("tpu-collectord", f"IP:{address}")):
            for file, kind in zip(ca.issue(user, san), ("pem", "key")):
                host.write(f"{TLS}/{user}.{kind}", file.read_text(), 0o640)
                host.sh(f"chown root:{user} {TLS}/{user}.{kind}")
        host.write("/etc/tpu-hostd/collectord.conf.d/10-site.conf", SITE.format(address=address, tls=TLS))
        host.write("/etc/tpu-hostd/hostd.conf.d/10-site.conf", UPLINK.format(address=address, tls=TLS))
        host.sh("systemctl restart tpu-collectord tpu-hostd")
        host.wait_for(lambda: self.stored("tpu.agent.started"), 60, "an event in the collector's database")
        host.run(["tpuctl", "uplink", "--drain"], check=True)

    def stored(self, event):
        uri = f"file:{self.host.tree}{scenario.DATABASE}?mode=ro"
        connection = sqlite3.connect(uri, uri=True, timeout=10)
        try:
            return connection.execute("SELECT 1 FROM events JOIN hosts ON hosts.id = events.host "
                                      "WHERE hosts.name = ? AND events.name = ?",
                                      (self.host.name, event)).fetchone()
        except sqlite3.OperationalError:  # not made yet
            return None
        finally:
            connection.close()

    def a_run(self):
        host = self.host
        scenario.ctl(host, "run", "--name", "probe", "--", *TRAIN, user="alice")
        pid = "systemctl show -p MainPID --value tpu-run-probe.service"
        seen = lambda: "next_batch" in host.run(["sh", "-c", f"tpu-stack $({pid})"]).out  # noqa: E731
        host.wait_for(seen, 60, "tpu-stack shows the run's Python")
        scenario.ctl(host, "stop", "probe")

    def row(self):
        """The page's row: what the system has, as its own tools say it. sid's versions move."""
        host = self.host
        systemd = host.sh("systemctl --version | sed -n '1s/^systemd \\([0-9]*\\).*/\\1/p'").strip()
        python = host.sh("python3 -c 'import sys; print(*sys.version_info[:2], sep=\".\")'").strip()
        gnutls = host.sh("dpkg-query -W -f '${Version}\\n' libgnutls30 libgnutls30t64 2>/dev/null | "
                         "sed -n 's/^\\([0-9.]*[0-9]\\).*/\\1/p'; true").strip()
        checks = scenario.ctl_json(host, "check")["checks"]
        row = f"| {SUITES[self.suite]} | booted | {systemd} | {python} | {gnutls} |"
        print(row, *(f"{c['check']}: {c['verdict']} {c['found']} {c['reason']}" for c in checks
                     if c["check"].startswith("bpf_") or c["verdict"] == "UNKNOWN"), sep="\n", flush=True)
        if self.suite != "sid":
            self.assertIn(row, PAGE)


for _name in SUITES:
    globals()[_name.title()] = type(_name.title(), (Suite,), {"suite": _name, "__module__": __name__})
del Suite


def setUpModule():
    test_package.setUpModule()
    try:
        scenario.debs(RELEASE)
    except LabError as error:
        raise unittest.SkipTest(str(error)) from None


if __name__ == "__main__":
    unittest.main(verbosity=2)
