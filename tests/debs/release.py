#!/usr/bin/python3
"""The release's packages (tools/deb --release): they hold what all packages hold (test_debs.py) and are the
same to the byte when built again. What they depend on is in Ubuntu, where nobody tried them, under that name
and new enough.

TPU_HOSTD_DEBS names their folder; default: build/release. It takes root, and what tools/deb takes.
"""

import hashlib
import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
RELEASE = Path(os.environ.setdefault("TPU_HOSTD_DEBS", str(TOP / "build/release")))
sys.path.insert(0, str(Path(__file__).resolve().parent))

from test_debs import Debs  # noqa: E402,F401  (its tests are run here, too)
CLAUSE = re.compile(r"([^\s(:]+)\S*\s*(?:\((\S+) ([^)]+)\))?")
PACKAGES = ("tpu-hostd", "tpuctl", "tpu-collector")

# What the archives of both have. noble's libc6, curl, GnuTLS, jansson, nghttp2, systemd and zlib are those
# of an installed one (github.com/cybozu/ubuntu-base, docs/ubuntu-dev-24.04.md). Not looked up yet: its
# other ones, and jammy's dbus, libdw1, libelf1 and zlib1g (packages.ubuntu.com lists them). Where noble has
# a new name (libcurl3t64-gnutls, libdw1t64, libelf1t64, libgnutls30t64, libmicrohttpd12t64), that package
# provides the old one in its version.
UBUNTU = {
    "jammy": """
        dbus 1.12.20, libc6 2.35, libcurl3-gnutls 7.81.0, libdw1 0.186, libelf1 0.186,
        libgnutls30 3.7.3, libinih1 53, libjansson4 2.13.1, libmicrohttpd12 0.9.75,
        libnghttp2-14 1.43.0, libnl-3-200 3.5.0, libprotobuf-c1 1.3.3, libsqlite3-0 3.37.2,
        libsystemd0 249, systemd 249, zlib1g 1:1.2.11""",
    "noble": """
        dbus 1.14.10, libc6 2.39, libcurl3-gnutls 8.5.0, libdw1 0.190, libelf1 0.190,
        libgnutls30 3.8.3, libinih1 55, libjansson4 2.14, libmicrohttpd12 1.0.1,
        libnghttp2-14 1.59.0, libnl-3-200 3.7.0, libprotobuf-c1 1.4.1, libsqlite3-0 3.45.1,
        libsystemd0 255, systemd 255, zlib1g 1:1.3""",
}


def field(deb, name):
    return subprocess.run(["dpkg-deb", "-f", deb, name], capture_output=True, text=True, timeout=60,
                          check=True).stdout.strip()


def fits(version, relation, bound):
    done = subprocess.run(["dpkg", "--compare-versions", version, relation, bound], check=False)
    return done.returncode == 0


def lacking(depends, offered):
    """What of a Depends line is not among {name: version}: a list of words, empty when all is there."""
    found = []
    for clause in filter(None, re.split(r"\s*,\s*", depends)):
        for alternative in clause.split("|"):
            name, relation, version = CLAUSE.fullmatch(alternative.strip()).groups()
            if name in offered and (not relation or fits(offered[name], relation, version)):
                break
        else:
            found.append(clause)
    return found


class Depends(unittest.TestCase):
    def test_the_comparison_can_fail(self):
        offered = {"libc6": "2.35", "libjansson4": "2.13.1"}
        self.assertEqual(lacking("libc6 (>= 2.28), libjansson4 (>= 2.7)", offered), [])
        self.assertEqual(lacking("libc6 (>= 2.36), libjansson4 (>= 2.14), libbpf1", offered),
                         ["libc6 (>= 2.36)", "libjansson4 (>= 2.14)", "libbpf1"])
        self.assertEqual(lacking("libbpf1 | libc6 (>= 2.28)", offered), [])

    def test_ubuntu(self):
        debs = {name: next(RELEASE.glob(f"{name}_*.deb"), None) for name in PACKAGES}
        self.assertNotIn(None, debs.values(), f"no packages in {RELEASE}: run tools/deb --release")
        own = {name: field(deb, "Version") for name, deb in debs.items()}
        for suite, text in UBUNTU.items():
            offered = dict(line.split() for line in text.replace("\n", " ").split(",")) | own
            for name, deb in debs.items():
                with self.subTest(f"{name} on {suite}"):
                    self.assertEqual(lacking(field(deb, "Depends"), offered), [])

    def test_every_dpkg_reads_them(self):
        for deb in RELEASE.glob("*.deb"):
            names = subprocess.run(["ar", "t", deb], capture_output=True, text=True, check=True).stdout
            self.assertEqual(names.split(), ["debian-binary", "control.tar.xz", "data.tar.xz"], deb)

    def test_two_builds_are_one(self):
        """Another folder, time, time zone and mask of the caller; every .deb is the same to the byte."""
        sums = lambda folder: {deb.name: hashlib.sha256(deb.read_bytes()).hexdigest()  # noqa: E731
                               for deb in Path(folder).glob("*.deb")}
        with tempfile.TemporaryDirectory(prefix="tpu-hostd-second-") as folder:
            kept = {k: v for k, v in os.environ.items() if not k.startswith(("CCACHE_", "CMAKE_"))}
            subprocess.run([TOP / "tools/deb", "--release", folder], check=True, stdout=subprocess.DEVNULL,
                           env=kept | {"TZ": "Pacific/Auckland"}, umask=0o077)
            self.assertEqual(sums(folder), sums(RELEASE))
        self.assertEqual(len(sums(RELEASE)), 6)


if __name__ == "__main__":
    unittest.main()
