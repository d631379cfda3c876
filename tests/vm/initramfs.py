"""A file system in memory that is all a machine runs from: busybox, socat, our programs and the libraries
they need.

Up in a few seconds, because nothing starts but what a test asks for: init brings up disk drivers and network
and then gives whoever
started the machine a shell, by connecting to the port that the kernel command line names (vm.control=).
"""

import re
import shutil
import subprocess
from pathlib import Path

from lab.command import sh

INIT = r"""#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin:/usr/sbin LC_ALL=C
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
mount -t tmpfs tmpfs /run
for module in $(cat /modules/order); do insmod /modules/$module; done
hostname vm
ip link set lo up
ip address add 10.0.2.15/24 dev eth0
ip link set eth0 up
ip route add default via 10.0.2.2
port=$(sed 's/.*vm\.control=\([0-9]*\).*/\1/' /proc/cmdline)
while :; do socat TCP:10.0.2.2:$port EXEC:/bin/sh; sleep 1; done
"""


def libraries(program):
    """What the loader maps for a program, the loader among it; none for a static one."""
    out = subprocess.run(["ldd", program], text=True, capture_output=True).stdout
    return {Path(p) for p in re.findall(r"(/\S+) \(0x", out)}


def write_tree(top, files):
    """files: {path: text}; a text that begins with "-> " is where a symbolic link leads."""
    for name, text in files.items():
        path = top / name.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        if text.startswith("-> "):
            path.symlink_to(text[3:])
        else:
            path.write_text(text)


def build(folder, modules, programs=(), files=None):
    """Writes FOLDER/initrd; programs: {path inside: file}, files: {path inside: text}. Returns its path."""
    root = folder / "initramfs"
    for name in ("bin", "dev", "proc", "sys", "run", "tmp", "etc", "data", "modules", "var/lib", "usr/sbin"):
        (root / name).mkdir(parents=True)
    (root / "init").write_text(INIT)
    (root / "init").chmod(0o755)
    (root / "etc/passwd").write_text("root:x:0:0:root:/:/bin/sh\n")
    (root / "etc/machine-id").write_text("0123456789abcdef0123456789abcdef\n")
    for module in modules:
        shutil.copy(module, root / "modules")
    (root / "modules/order").write_text("".join(f"{m.name}\n" for m in modules))
    wanted = {"/bin/busybox": shutil.which("busybox"), "/bin/socat": shutil.which("socat"), **dict(programs)}
    for inside, source in wanted.items():
        for library in libraries(source):
            _place(root, library, library)
        _place(root, Path(inside), source)
    write_tree(root, files or {})
    names = "\n".join(str(p.relative_to(root)) for p in sorted(root.rglob("*")))
    archive = folder / "initrd"
    with open(archive, "wb") as out:
        subprocess.run(["cpio", "--quiet", "-o", "-H", "newc", "-R", "0:0"], cwd=root, input=names.encode(),
                       stdout=out, check=True)
    shutil.rmtree(root)
    return archive


def _place(root, inside, source):
    target = root / str(inside).lstrip("/")
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(source, target)
    target.chmod(0o755)
    sh("strip", "--strip-unneeded", target, check=False)
