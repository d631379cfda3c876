# SPDX-License-Identifier: Apache-2.0
"""A host in namespaces of its own: a network namespace with NICs whose other ends are in a second one, and a
mount
namespace in which /run and /var/lib are empty and /etc/tpu-hostd and /usr/lib/tpu-hostd are a test's own.
Nothing of it outlives
the test's process, however that ends: the two holders die with it, and the namespaces with them."""
import contextlib
import json
import os
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import unittest

PROFILES = os.path.realpath(os.path.join(os.path.dirname(__file__), "../../netcfg/profiles"))
SETUP = """set -e
mount -t tmpfs -o mode=755 tmpfs /run
mount -t tmpfs -o mode=755 tmpfs /var/lib
# As a start of the unit sets it on a real host; here it is the machine's, which a test leaves alone.
echo 2 > /run/hystart_detect
mount --bind /run/hystart_detect /sys/module/tcp_cubic/parameters/hystart_detect
mount -t overlay -o ro,lowerdir="$1/etc:/etc" overlay /etc
mount -t overlay -o ro,lowerdir="$1/usr/lib:/usr/lib" overlay /usr/lib
ip link set lo up
echo ready
exec sleep infinity"""
DIE_WITH_US = ["setpriv", "--pdeathsig=KILL"]
UNPRIVILEGED = ["setpriv", "--pdeathsig=KILL", "--reuid=65534", "--regid=65534", "--clear-groups"]
NET_ADMIN_ONLY = UNPRIVILEGED + ["--inh-caps=-all,+net_admin", "--ambient-caps=+net_admin",
                                 "--bounding-set=-all,+net_admin"]
NO_RIGHTS = UNPRIVILEGED + ["--inh-caps=-all", "--bounding-set=-all"]


class NotPermitted(Exception):
    """This machine does not let us make namespaces; the text says what was refused."""


def hold(command):
    """Starts a holder of namespaces that says "ready" and dies with us."""
    holder = subprocess.Popen(DIE_WITH_US + command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True)
    if holder.stdout.readline() != "ready\n":
        holder.kill()
        raise NotPermitted(f"{' '.join(command[:4])}: {holder.communicate()[1].strip()}")
    return holder


class Host:
    def __init__(self, profiles, nics=("eth0", "eth1"), mtu=1460, packages=None):
        """packages: a folder into which packages were unpacked, whose etc and usr/lib the host then has."""
        if os.geteuid() != 0:
            raise NotPermitted("namespaces need root")
        self.tree = tempfile.mkdtemp(prefix="netcfg-test-")
        os.chmod(self.tree, 0o755)
        shutil.copytree(profiles, f"{self.tree}/usr/lib/tpu-hostd/profiles")
        shutil.copy(f"{profiles}/../machines.conf", f"{self.tree}/usr/lib/tpu-hostd")
        for folder in ("etc", "usr/lib") if packages else ():
            shutil.copytree(f"{packages}/{folder}", f"{self.tree}/{folder}", symlinks=True,
                            dirs_exist_ok=True)
        os.makedirs(f"{self.tree}/etc/tpu-hostd/identity.conf.d")
        os.makedirs(f"{self.tree}/etc/tpu-hostd/netcfg.conf.d")
        os.makedirs(f"{self.tree}/etc/tpu-hostd/profiles")
        self.processes = []
        self.holder = self.wire = None
        try:
            self.wire = hold(["unshare", "--net", "sh", "-c", "echo ready; exec sleep infinity"])
            self.holder = hold(["unshare", "--net", "--mount", "--propagation", "private", "sh", "-c", SETUP,
                                "sh", self.tree])
            for nic in nics:
                self.add_nic(nic, mtu)
        except BaseException:
            self.close()
            raise

    def close(self):
        for process in self.processes + [self.holder, self.wire]:
            if process:
                process.kill()
                process.wait()
                for stream in (process.stdout, process.stderr):
                    if stream:
                        stream.close()
        shutil.rmtree(self.tree)

    def add_nic(self, name, mtu):
        self.check("ip", "link", "add", name, "mtu", str(mtu), "type", "veth", "peer", "name", f"p-{name}",
                   "mtu", "8896",
                   "netns", str(self.wire.pid))
        subprocess.run(["nsenter", "-t", str(self.wire.pid), "-n", "ip", "link", "set", f"p-{name}", "up"],
                       check=True)
        self.check("ip", "link", "set", name, "up")

    def on_wire(self, *words):
        """A command at the other ends of the NICs."""
        subprocess.run(["nsenter", "-t", str(self.wire.pid), "-n", *words], check=True)

    def identity(self, text):
        with open(f"{self.tree}/etc/tpu-hostd/identity.conf.d/10-test.conf", "w", encoding="utf-8") as file:
            file.write(text)

    def netcfg_conf(self, text):
        with open(f"{self.tree}/etc/tpu-hostd/netcfg.conf.d/10-test.conf", "w", encoding="utf-8") as file:
            file.write(text)

    def site_profile(self, name, text):
        with open(f"{self.tree}/etc/tpu-hostd/profiles/{name}.conf", "w", encoding="utf-8") as file:
            file.write(text)

    def command(self, *words):
        return ["nsenter", "-t", str(self.holder.pid), "-m", "-n", *words]

    def run(self, *words):
        return subprocess.run(self.command(*words), stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=60)

    def check(self, *words):
        done = self.run(*words)
        if done.returncode != 0:
            raise NotPermitted(f"{' '.join(words)}: {done.stderr.strip()}")
        return done.stdout

    def path(self, path):
        """A path of the host as this process can open it."""
        return f"/proc/{self.holder.pid}/root{path}"

    # --- What the kernel says, by others' tools

    def mtu(self, nic):
        return json.loads(self.check("ip", "-j", "link", "show", nic))[0]["mtu"]

    def sysctl(self, name):
        return " ".join(self.check("cat", "/proc/sys/" + name.replace(".", "/")).split())

    @contextlib.contextmanager
    def monitor_links(self):
        """Gives a list that holds, after the with block, ip monitor's line of every link change inside
        it."""
        lines = []
        with subprocess.Popen(DIE_WITH_US + self.command("ip", "-o", "monitor", "link"),
                              stdout=subprocess.PIPE) as monitor:
            try:
                # ip says nothing when it is ready: change lo until it notices, and once more for the end.
                for mtu in range(60001, 60101):
                    self.check("ip", "link", "set", "lo", "mtu", str(mtu))
                    if select.select([monitor.stdout], [], [], 0.05)[0]:
                        break
                yield lines
                self.check("ip", "link", "set", "lo", "mtu", "65536")
                for line in monitor.stdout:
                    if b"mtu 65536" in line:
                        break
                    if b" lo: " not in line:
                        lines.append(line.decode())
            finally:
                monitor.kill()

    # --- A daemon

    def start(self, *words):
        """Starts a daemon and waits for its READY=1. Its standard error goes to a file."""
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        path = f"{self.tree}/notify-{time.monotonic_ns()}"
        listener.bind(path)
        os.chmod(path, 0o777)
        listener.settimeout(60)
        with open(f"{self.tree}/stderr", "w", encoding="utf-8") as stderr:
            process = subprocess.Popen(DIE_WITH_US + self.command("env", f"NOTIFY_SOCKET={path}", *words),
                                       stdin=subprocess.DEVNULL, stderr=stderr)
        self.processes.append(process)
        with listener:
            while "READY=1" not in listener.recv(4096).decode().split("\n"):
                pass
        return process

    def stderr(self):
        with open(f"{self.tree}/stderr", encoding="utf-8") as file:
            return file.read()

    def stop(self, process, number=signal.SIGTERM):
        process.send_signal(number)
        return process.wait(60)

    def ask(self, path, kind):
        """Sends an empty frame of that kind; returns kind and payload of the answer."""
        with socket.socket(socket.AF_UNIX) as sock:
            sock.settimeout(60)
            sock.connect(self.path(path))
            sock.sendall(struct.pack("<IHH", 0, 1, kind))
            stream = sock.makefile("rb")
            length, _, answer = struct.unpack("<IHH", stream.read(8))
            return answer, stream.read(length)


def run_tests(*programs):
    """The tests of the file that was started; where namespaces are not permitted, says why and exits with
    77."""
    for program in programs:
        if not os.access(program, os.X_OK):
            sys.exit(f"{program} is missing: build first, or set BUILD_DIR")
    try:
        Host(PROFILES).close()
    except NotPermitted as refused:
        print(f"SKIP: {refused}")
        sys.exit(77)
    unittest.main(verbosity=2)
