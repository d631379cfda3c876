"""A small .deb with a service, for testing how the lab installs packages."""

import os
import subprocess
from pathlib import Path

CONTROL = """Package: lab-dummy
Version: 1
Architecture: all
Maintainer: the lab <lab@localhost>
Depends: libjansson4 (>= 2.0)
Description: proves that the lab installs packages
"""

# Its state is born at the first start: it must not be the same on two hosts.
UNIT = """[Unit]
Description=proves that the lab installs packages
[Service]
ExecStart=/bin/sh -c 'test -e $STATE_DIRECTORY/born || date +%%s%%N >$STATE_DIRECTORY/born; \\
          exec sleep infinity'
StateDirectory=tpu-dummy
[Install]
WantedBy=multi-user.target
"""

# Enabling writes a link, starting needs a running systemd: both are what a chroot could not prove.
POSTINST = """#!/bin/sh
set -e
test -e /usr/lib/x86_64-linux-gnu/libjansson.so.4
systemctl daemon-reload
systemctl enable --now lab-dummy.service
systemctl is-active lab-dummy.service >/usr/share/lab-dummy-postinst
"""


def build(directory):
    """Builds the package in directory, the same bytes every time; returns its path."""
    root = Path(directory) / "root"
    for name, text, mode in (("DEBIAN/control", CONTROL, 0o644), ("DEBIAN/postinst", POSTINST, 0o755),
                             ("usr/lib/systemd/system/lab-dummy.service", UNIT, 0o644)):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(mode)
    deb = Path(directory) / "lab-dummy_1_all.deb"
    subprocess.run(["dpkg-deb", "--root-owner-group", "--build", root, deb], check=True,
                   stdout=subprocess.DEVNULL, env={**os.environ, "SOURCE_DATE_EPOCH": "1700000000"})
    return deb
