"""Booting one host with systemd-nspawn, and what runs in it before systemd."""

import os
import socket
import subprocess
import threading
import time

from . import cgroup
from .command import LabError

INIT_PATH = "/usr/lib/lab/init"

# nspawn makes the version 1 controllers read-only, after which memory and task limits do nothing.
INIT = r"""#!/bin/sh
# The kernel may lack the class accel, and no directory can be made in sysfs: all classes anew, and one more.
make_class() {
    classes=/run/lab-classes
    mkdir -p $classes
    mount -t tmpfs -o mode=755 tmpfs $classes
    mount --make-private $classes       # or the umount below would reach the copy too
    for class in /sys/class/*/; do
        mkdir $classes/$(basename $class)
        mount --bind $class $classes/$(basename $class)
    done
    mkdir $classes/accel
    mount -o remount,ro $classes
    mount --rbind $classes /sys/class
    umount -R $classes
}

bind_chips() {
    chips=/usr/lib/lab/chips
    [ -d $chips ] || return 0
    ! mountpoint -q /sys/bus/pci || umount /sys/bus/pci
    ! mountpoint -q /sys/class/accel || umount /sys/class/accel
    mount --bind $chips/sys/bus/pci /sys/bus/pci
    [ -d /sys/class/accel ] || make_class
    mount --bind $chips/sys/class/accel /sys/class/accel
    for chip in $chips/sys/class/accel/*; do
        [ -e /dev/${chip##*/} ] || mknod -m 666 /dev/${chip##*/} c 1 3
    done
}

if [ "$1" = chips ]; then
    bind_chips
    exit
fi
for controller in memory pids devices; do
    [ ! -d /sys/fs/cgroup/$controller ] || mount -o remount,bind,rw /sys/fs/cgroup/$controller
done
# nspawn lays a boot id of its own over the kernel's, but units with ProtectKernelTunables= get a /proc without it: one id for
# all, as on a real host, rather than two in one host.
while umount /proc/sys/kernel/random/boot_id 2>/dev/null; do :; done
[ -e /dev/kmsg ] || mknod -m 644 /dev/kmsg c 1 11
bind_chips
exec /lib/systemd/systemd "$@"
"""

# Joins the host's control groups before nspawn is there, then becomes it.
JOIN = 'while [ "$1" != -- ]; do echo 0 >"$1" || exit 1; shift; done; shift; exec "$@"'


def write_init(host):
    host.write(INIT_PATH, INIT, mode=0o755)


class Boot:
    """One life of a host, from power on to power off. leader: its first process, None until there is one."""

    def __init__(self, host, unified):
        self._host = host
        self.leader = None
        self._ready = threading.Event()
        self._console = host.directory / "console"
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(f"\0{host.full_name}")
        with open(self._console, "wb") as console:
            self._process = subprocess.Popen(
                ["sh", "-c", JOIN, "sh", *map(str, cgroup.create(host.full_name)), "--", *self._nspawn()],
                env=self._environment(unified), stdin=subprocess.DEVNULL, stdout=console, stderr=console,
                start_new_session=True)
        self._reader = threading.Thread(target=self._read_notices, name=f"notices of {host.name}",
                                        daemon=True)
        self._reader.start()

    def _environment(self, unified):
        env = {"PATH": os.environ.get("PATH", "/usr/sbin:/usr/bin:/sbin:/bin"),
               "NOTIFY_SOCKET": f"@{self._host.full_name}",
               "SYSTEMD_SECCOMP": "0",                          # its filter refuses bpf() to every service
               "SYSTEMD_NSPAWN_API_VFS_WRITABLE": "network"}    # /proc/sys/net of the host's own namespace
        if unified:
            env["SYSTEMD_NSPAWN_UNIFIED_HIERARCHY"] = "1"
        return env

    def _nspawn(self):
        host = self._host
        # The machine's name is unique among labs; the host itself knows only its short one.
        return ["systemd-nspawn", "-q", "-M", host.full_name, f"--hostname={host.name}", "--register=no",
                "--keep-unit", "-D", str(host.tree), "--kill-signal=SIGRTMIN+3", "--capability=all",
                f"--network-namespace-path=/run/netns/{host.full_name}", "--resolv-conf=off",
                "--timezone=off", "--link-journal=no", "--notify-ready=yes", INIT_PATH]

    @property
    def alive(self):
        return self.leader is not None and self._process.poll() is None

    def wait_ready(self, timeout):
        """Waits for READY=1 from the host's systemd; raises LabError with its console otherwise."""
        deadline = time.monotonic() + timeout
        while not self._ready.wait(0.2):
            if self._process.poll() is not None:
                raise LabError(f"{self._host.name}: ended while booting: {self._last_words()}")
            if time.monotonic() > deadline:
                raise LabError(f"{self._host.name}: not up within {timeout} s: {self._last_words()}")

    def _read_notices(self):
        """Reads notifications until reap(): the host's process 1 waits for ever to send one that finds no
        room."""
        while message := self._socket.recv(4096):
            for line in message.decode(errors="replace").splitlines():
                key, _, value = line.partition("=")
                if key == "X_NSPAWN_LEADER_PID":
                    self.leader = int(value)
                elif key == "READY" and value == "1":
                    self._ready.set()

    def _last_words(self):
        return self._console.read_text(errors="replace").strip()[-2000:] or "(nothing on its console)"

    def poweroff(self, timeout):
        """Asks for an orderly shutdown and waits for its end."""
        self._process.terminate()
        try:
            self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise LabError(f"{self._host.name}: not off within {timeout} s: {self._last_words()}") from None
        self.reap()

    def reap(self):
        """Collects nspawn, which has ended or is about to."""
        self._process.wait(10)
        self._socket.shutdown(socket.SHUT_RD)
        self._reader.join()
        self._socket.close()
