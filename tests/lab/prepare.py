"""The layers that come from .debs: installed by apt in a booted host, once for each content."""

import os
import re
import shutil
from pathlib import Path

from .command import LabError, sh
from .tree import Layer, apt_layer, digest, training_layer

STAGING = "/var/cache/lab-debs"

# State that belongs to one host and must be born on each: also a spool's id, which no image may carry.
UNIQUE = ("etc/machine-id", "var/lib/dbus/machine-id", "var/lib/systemd/random-seed",
          "var/lib/systemd/credential.secret", "var/lib/systemd/timers", "var/log/journal",
          "var/lib/private", STAGING[1:], "var/tmp", "var/cache/apt")


def _field(deb, name):
    return sh("dpkg-deb", "--field", deb, name).strip()


def whole(debs):
    """Returns the .debs and, from the same folder, those that they need in the same version (tpuctl)."""
    debs = sorted(Path(deb) for deb in debs)
    for deb in debs:
        if not deb.is_file():
            raise LabError(f"{deb}: no such package file")
        for name, version in re.findall(r"([^\s,(]+) \(= ([^)]+)\)", _field(deb, "Depends")):
            debs += {*deb.parent.glob(f"{name}_{version}_*.deb")} - {*debs}  # visited, too
    return sorted(debs)


def depends(debs):
    """Returns what the .debs need from elsewhere, as one dependency line; "" if nothing."""
    own = {_field(deb, "Package") for deb in debs}
    clauses = []
    for deb in debs:
        for field in ("Pre-Depends", "Depends"):
            clauses += [" ".join(c.split()) for c in _field(deb, field).split(",") if c.strip()]
    return ", ".join(sorted({c for c in clauses if re.match(r"[^\s:(]+", c).group() not in own}))


def debs_layer(debs, on=None):
    """Returns the topmost layer of a tree with these .debs installed on the training layer, or on another;
    without any, that layer."""
    debs = whole(debs)
    parent = on or training_layer()
    if not debs:
        return parent
    if needs := depends(debs):
        parent = apt_layer("depends", parent, "satisfy", needs)
    key = digest(Path(__file__).read_bytes(), *(deb.read_bytes() for deb in debs))
    return Layer("debs", key, parent, lambda layer, work, out: _install(debs, layer, out))


def _install(debs, layer, out):
    from .laboratory import Lab         # a lab needs layers, and this layer a lab

    with Lab.on_layer(layer.parent) as lab:
        host = lab.hosts[0]
        staging = host.path(STAGING)
        staging.mkdir(mode=0o755)
        for deb in debs:
            shutil.copy(deb, staging)
        packages = [f"{STAGING}/{deb.name}" for deb in debs]
        host.run(["apt-get", "-q", "-y", "--no-install-recommends", "install", *packages],
                 check=True, timeout=300, env={"DEBIAN_FRONTEND": "noninteractive"})
        host.poweroff()
        upper = host.release()
        for path in [upper / name for name in UNIQUE] + list(upper.glob("var/lib/tpu-*/*")):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
        os.rename(upper, out)
