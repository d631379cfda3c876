"""The trees that hosts boot from, built once and kept outside the project.

A tree is a stack of read-only layers, each a directory that overlayfs takes as a lower one:

    base      debootstrap: systemd and the network tools
    training  on base: python3-torch and the allocator that runs preload
    depends   on training: what our .debs say that they depend on (prepare.py)
    debs      on depends: our .debs, installed by apt in a booted host (prepare.py)

A layer's directory carries a hash of everything it is made from, so a changed recipe is a new layer and
nothing is ever changed in place. It is built beside its place and renamed into it, under a lock that
dies with the builder: a killed build leaves a directory that the next builder removes.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from . import apt
from .command import LabError, sh

# No run-time library of ours: what a .deb needs must come from its own Depends, or be found missing.
BASE_PACKAGES = "systemd systemd-sysv dbus udev iproute2 ethtool procps kmod iputils-ping".split()

# libgoogle-perftools4 is the one that has libtcmalloc.so.4 and not only the minimal variant.
TRAINING_PACKAGES = "python3 python3-torch python3-numpy libgoogle-perftools4".split()

# Timers that would wake hosts up in the middle of a measurement.
MASKED = """apt-daily.timer apt-daily-upgrade.timer e2scrub_all.timer fstrim.timer dpkg-db-backup.timer
            e2scrub_reap.service""".split()

DEBOOTSTRAP = r"""
set -eu
debootstrap --variant=minbase --include="$PACKAGES" "$SUITE" "$OUT" "$MIRROR" || {
    tail -n 20 "$OUT/debootstrap/debootstrap.log" 2>/dev/null || true; exit 1; }
rm -rf "$OUT"/var/cache/apt/*.bin "$OUT"/var/cache/apt/archives/*.deb "$OUT"/var/lib/apt/lists/*
rm -f "$OUT"/etc/apt/sources.list "$OUT"/etc/machine-id "$OUT"/var/lib/dbus/machine-id "$OUT"/etc/hostname
: >"$OUT"/etc/machine-id
# Names are in /etc/hosts; everything else fails at once instead of timing out.
printf 'nameserver 127.0.0.1\n' >"$OUT"/etc/resolv.conf
for unit in $MASKED; do ln -sf /dev/null "$OUT/etc/systemd/system/$unit"; done
mkdir -p "$OUT"/etc/systemd/journald.conf.d "$OUT"/var/log/journal
# The kernel log of a lab host is this machine's own: keep it out of the host's journal.
printf '[Journal]\nStorage=persistent\nReadKMsg=no\n' >"$OUT"/etc/systemd/journald.conf.d/lab.conf
"""

BROUGHT = "/var/cache/brought"

# Runs in a mount namespace of its own: whatever happens, no mount is left.
CHROOT_INSTALL = r"""
set -eu
root=$WORK/merged
mkdir -p "$root" "$WORK/work"
mount -t overlay overlay -o "lowerdir=$LOWER,upperdir=$OUT,workdir=$WORK/work,$OVERLAY_OPTIONS" "$root"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
cat /etc/resolv.conf >"$root/etc/resolv.conf"
printf '%s' "$SOURCES" >"$root/etc/apt/sources.list.d/lab.list"
printf '%s' "$TRANSPORT" >"$root/etc/apt/apt.conf.d/99lab"
export DEBIAN_FRONTEND=noninteractive LC_ALL=C
chroot "$root" apt-get -q update
chroot "$root" apt-get -q -y --no-install-recommends "$@"
chroot "$root" apt-get clean
rm -rf "$root"/var/lib/apt/lists/* "$root"/var/cache/apt/*.bin
rm -f "$root/etc/apt/sources.list.d/lab.list" "$root/etc/apt/apt.conf.d/99lab"
printf 'nameserver 127.0.0.1\n' >"$root/etc/resolv.conf"
"""

# Stated, so that a layer made under one kernel configuration can be read under another.
OVERLAY_OPTIONS = "redirect_dir=off,metacopy=off,index=off"


def cache_dir():
    """Returns the directory that holds layers and running labs, made if need be."""
    path = Path(os.environ.get("TPU_HOSTD_CACHE") or "/var/cache/tpu-hostd-lab").absolute()
    if any(c in str(path) for c in ",:\\ \n"):
        raise LabError(f"TPU_HOSTD_CACHE={path}: commas, colons and spaces do not go with overlayfs")
    try:
        for sub in ("layers", "locks", "labs"):
            (path / sub).mkdir(parents=True, exist_ok=True)
    except OSError as e:
        raise LabError(f"{path}: {e.strerror}; run as root, or set TPU_HOSTD_CACHE") from e
    return path


def digest(*parts):
    """Returns a short hash of the parts, each text or bytes."""
    h = hashlib.sha256()
    for part in parts:
        raw = part.encode() if isinstance(part, str) else part
        h.update(len(raw).to_bytes(8, "big") + raw)
    return h.hexdigest()[:16]


def say(text):
    print(f"lab: {text}", file=sys.stderr, flush=True)


class Lease:
    """A shared lock on a layer: while it is held, nobody prunes the layer. Dies with its holders."""

    def __init__(self, path, exclusive):
        self.file = open(path, "a")
        fcntl.flock(self.file, fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH)

    def share(self):
        fcntl.flock(self.file, fcntl.LOCK_SH)

    def fileno(self):
        return self.file.fileno()

    def close(self):
        self.file.close()


class Layer:
    """One directory of a tree. parent is the layer below, or None."""

    def __init__(self, name, key, parent, build):
        self.name, self.parent, self._build = name, parent, build
        self.key = digest(key, parent.key if parent else "")
        self.path = cache_dir() / "layers" / f"{name}-{self.key}"

    def stack(self):
        """Returns the lower directories, topmost first."""
        return [self.path] + (self.parent.stack() if self.parent else [])

    def leases(self):
        """Builds what is missing; returns shared leases on this layer and those below it."""
        below = self.parent.leases() if self.parent else []
        lock = cache_dir() / "locks" / self.path.name
        lease = Lease(lock, exclusive=False)
        while not self.path.is_dir():
            lease.close()
            lease = Lease(lock, exclusive=True)
            if not self.path.is_dir():
                self._make()
            lease.share()
        os.utime(self.path)
        return below + [lease]

    def _make(self):
        layers = cache_dir() / "layers"
        for stale in layers.glob(f".{self.path.name}-*"):
            remove_tree(stale)
        work = Path(tempfile.mkdtemp(prefix=f".{self.path.name}-", dir=layers))
        os.chmod(work, 0o755)
        out = work / "root"
        out.mkdir(mode=0o755)
        start = time.monotonic()
        say(f"building layer {self.path.name}; this happens once")
        try:
            self._build(self, work, out)
            os.rename(out, self.path)
        finally:
            remove_tree(work)
        say(f"layer {self.path.name} built in {time.monotonic() - start:.0f} s")


def remove_tree(path):
    """Removes a directory and all in it, but nothing that is mounted below it."""
    if os.path.lexists(path):
        sh("rm", "-rf", "--one-file-system", path, timeout=300)


def run_script(script, env, what, arguments=()):
    """Runs a shell script in mount and process namespaces that die with us."""
    argv = ["setpriv", "--pdeathsig", "KILL", "unshare", "--mount", "--pid", "--fork", "--kill-child",
            "sh", "-c", script, "sh", *arguments]
    full = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", **{k: str(v) for k, v in env.items()}}
    done = subprocess.run(argv, env=full, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, errors="replace")
    if done.returncode != 0:
        raise LabError(f"{what} failed, exit code {done.returncode}:\n{done.stdout[-3000:]}")


def _build_base(_layer, _work, out):
    mirror, _ = apt.sources()
    run_script(DEBOOTSTRAP, {"PACKAGES": ",".join(BASE_PACKAGES), "SUITE": apt.SUITE, "OUT": out,
                             "MIRROR": mirror, "MASKED": " ".join(MASKED)}, "debootstrap")


def apt_layer(name, parent, *arguments, bring=()):
    """A layer made by `apt-get ARGUMENTS` in a chroot of its parent, with this machine's package sources.

    bring: files that are put into BROUGHT for it and taken away again.
    """
    def build(layer, work, out):
        _, lines = apt.sources()
        if bring:
            (out / BROUGHT[1:]).mkdir(parents=True)
        for file in bring:
            shutil.copy(file, out / BROUGHT[1:])
        run_script(CHROOT_INSTALL, {"LOWER": ":".join(map(str, parent.stack())), "WORK": work, "OUT": out,
                                    "SOURCES": lines, "TRANSPORT": apt.transport(),
                                    "OVERLAY_OPTIONS": OVERLAY_OPTIONS},
                   f"apt-get {' '.join(arguments)}", arguments)
        if bring:
            shutil.rmtree(out / BROUGHT[1:])

    return Layer(name, digest(CHROOT_INSTALL, *arguments, *(Path(file).read_bytes() for file in bring)),
                 parent, build)


def base_layer():
    return Layer("base", digest(DEBOOTSTRAP, *BASE_PACKAGES, *MASKED, apt.SUITE), None, _build_base)


def training_layer():
    return apt_layer("training", base_layer(), "install", *TRAINING_PACKAGES)


def _unused(name):
    """Returns an open lock on a layer that nobody uses or builds now, else None."""
    lock = open(cache_dir() / "locks" / name, "a")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return lock
    except BlockingIOError:
        lock.close()
        return None


def prune(keep_debs=6, keep_others=1):
    """Removes the layers that were used longest ago, but none in use, and what killed builds have left."""
    layers = cache_dir() / "layers"
    limits = {"debs": keep_debs, "depends": keep_debs, "training": keep_others, "kernel": keep_others,
              "vm": keep_others, "base": keep_others, "contrib": keep_others, "mpi": keep_others,
              "hub": keep_others, "containers": keep_others, "podman": keep_others,
              "image": keep_debs, "forgotten": keep_debs}  # of test_image.py, which removes its own
    for name, keep in limits.items():
        by_age = sorted(layers.glob(f"{name}-*"), key=lambda p: p.stat().st_mtime, reverse=True)
        for path in by_age[keep:]:
            if lock := _unused(path.name):
                with lock:
                    os.rename(path, path.with_name(f".{path.name}-pruned"))
    for path in layers.glob(".*"):
        if lock := _unused(path.name[1:].rpartition("-")[0]):
            with lock:
                remove_tree(path)
