"""Says what this machine does not permit that a lab needs, each by name."""

import os
import subprocess
import tempfile
from pathlib import Path

from . import cgroup
from .command import LabError, sh
from .tree import OVERLAY_OPTIONS, cache_dir

TOOLS = """debootstrap systemd-nspawn nsenter unshare setpriv ip nft ethtool journalctl dpkg-deb
           apt-get""".split()

MOUNTS = ["unshare", "--mount", "--pid", "--fork", "--mount-proc"]


def _root():
    if os.geteuid() != 0:
        raise LabError("run it as root")


def _tools():
    path = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
    gone = [t for t in TOOLS if not any(os.access(Path(d) / t, os.X_OK) for d in path.split(":") if d)]
    if gone:
        raise LabError(f"{', '.join(gone)} not installed: run sudo tools/deps lab")


def _namespaces():
    sh(*MOUNTS, "--net", "--uts", "--ipc", "--cgroup", "true")


def _overlay():
    with tempfile.TemporaryDirectory(dir=cache_dir()) as work:
        for sub in ("lower", "upper", "work", "tree"):
            (Path(work) / sub).mkdir()
        options = f"lowerdir=lower,upperdir=upper,workdir=work,{OVERLAY_OPTIONS}"
        script = (f"mount -t overlay check -o {options} tree"
                  " && touch tree/file && mknod tree/node c 1 3 && mount -t sysfs sysfs tree")
        sh(*MOUNTS, "--net", "sh", "-c", f"cd {work} && {script}")


def _cgroup():
    name = f"tpulab-check-{os.getpid()}"
    files = cgroup.create(name)
    try:
        sleeper = subprocess.Popen(["sleep", "60"])
        try:
            for file in files:
                file.write_text(str(sleeper.pid))
            cgroup.kill(name)
            sleeper.wait(5)
        except subprocess.TimeoutExpired:
            raise LabError("cgroup.kill did not end a process") from None
        finally:
            sleeper.kill()
            sleeper.wait()
    finally:
        cgroup.remove(name)


def _wires():
    namespace = f"tpulab-check-{os.getpid()}"
    try:
        sh("ip", "netns", "add", namespace)
        sh("ip", "-n", namespace, "link", "add", "br0", "type", "bridge")
        sh("ip", "-n", namespace, "link", "add", "p0", "type", "veth", "peer", "name", "p1")
        sh("nsenter", f"--net=/run/netns/{namespace}", "nft", "add", "table", "bridge", "check")
    finally:
        sh("ip", "netns", "del", namespace, check=False)


def _space():
    stat = os.statvfs(cache_dir())
    free = stat.f_bavail * stat.f_frsize / 2**30
    if free < 4 and not any((cache_dir() / "layers").glob("training-*")):
        raise LabError(f"{free:.1f} GiB free at {cache_dir()}, 4 needed: set TPU_HOSTD_CACHE elsewhere")


CHECKS = (("root", _root),
          ("tools", _tools),
          ("namespaces (mount, pid, net, uts, ipc, cgroup)", _namespaces),
          ("overlay, device nodes and sysfs mounts", _overlay),
          ("cgroups of its own, cgroup.kill", _cgroup),
          ("network namespaces, bridge, veth, nftables bridge rules", _wires),
          ("disk space", _space))


def check():
    """Returns a (permission, reason) pair for each that was looked for; reason is None where it is there."""
    answers = []
    for name, probe in CHECKS:
        try:
            probe()
            answers.append((name, None))
        except (LabError, OSError) as e:
            answers.append((name, str(e)))
            if probe in (_root, _tools):
                break                   # the rest would only say so again
    return answers
