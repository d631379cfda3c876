#!/usr/bin/python3
"""Runs in the place of a daemon of ours on a host, inside its unit: with its user, groups, descriptors,
capabilities, mounts and system call filter. It tries what the daemon's model forbids, and writes down what
it got.

Usage: intruder.py TARGETS RESULT [PART…]. TARGETS: JSON with pids by name, a secret that the process
"alice" holds, the name of its run, and the attempts that are this daemon's own work. RESULT: JSON,
{attempt: ["refused" or "GOT IN", words]}.
"""

import ctypes
import errno
import json
import os
import signal
import socket
import subprocess
import sys

sys.path.insert(0, "/usr/local/lib")
import launch_frames as frames  # noqa: E402

LIBC = ctypes.CDLL(None, use_errno=True)
NETCFG = "/run/tpu-netcfg/netcfg.sock"
CLONE_NEWNS, CLONE_NEWUSER, MS_BIND = 0x20000, 0x10000000, 0x1000
RTM_NEWADDR, IP_MARK_ROUTE = 20, 36
ATTEMPTS = {}


class Refused(Exception):
    """In words of ours, of systemd or of launchd."""


def attempt(name):
    def add(function):
        ATTEMPTS[name] = function
        return function
    return add


def call(function, *words):
    r = getattr(LIBC, function)(*words)
    if r < 0:
        e = ctypes.get_errno()
        raise OSError(e, os.strerror(e))
    return r


def command(*words):
    done = subprocess.run(words, capture_output=True, text=True, timeout=30, check=False,
                          stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        raise Refused((done.stderr or done.stdout).strip().splitlines()[-1:] or "no words")
    return done.stdout


# --- Processes of others --------------------------------------------------------------------------------

def processes(t):
    def read(path):
        def go():
            with open(path, "rb") as f:
                return f.read(1 << 16)
        return go

    for name, pid in t["pids"].items():
        ATTEMPTS[f"signal {name}"] = lambda pid=pid: os.kill(pid, signal.SIGTERM)
        ATTEMPTS[f"stop {name}"] = lambda pid=pid: os.kill(pid, signal.SIGSTOP)
        ATTEMPTS[f"trace {name}"] = lambda pid=pid: call("ptrace", 0x4206, pid, 0, 0)  # SEIZE
        ATTEMPTS[f"take a descriptor of {name}"] = lambda pid=pid: call(
            "syscall", 438, os.pidfd_open(pid), 1, 0)
        for file in ("environ", "mem", "maps", "stack"):
            ATTEMPTS[f"read /proc/PID/{file} of {name}"] = read(f"/proc/{pid}/{file}")
        for file in ("mem", "oom_score_adj", "attr/current"):
            ATTEMPTS[f"write /proc/PID/{file} of {name}"] = lambda pid=pid, file=file: put(
                f"/proc/{pid}/{file}")
        ATTEMPTS[f"stacks of {name} by tpu-stack itself"] = lambda pid=pid: command("/usr/sbin/tpu-stack",
                                                                                    str(pid))

    class Vector(ctypes.Structure):
        _fields_ = [("base", ctypes.c_void_p), ("len", ctypes.c_size_t)]

    @attempt("read memory by process_vm_readv")
    def vm_readv():
        place = ctypes.create_string_buffer(64)
        here = Vector(ctypes.cast(place, ctypes.c_void_p), 64)
        return call("process_vm_readv", t["pids"]["alice"], ctypes.byref(here), 1,
                    ctypes.byref(Vector(0x400000, 64)), 1, 0)

    @attempt("find the secret in any file of /proc")
    def secret():
        for pid in filter(str.isdigit, os.listdir("/proc")):
            for file in ("environ", "cmdline", "comm", "wchan", "status"):
                try:
                    with open(f"/proc/{pid}/{file}", "rb") as f:
                        if t["secret"].encode() in f.read():
                            return f"{pid}/{file}"
                except OSError:
                    continue
        raise Refused("it is in none that can be read")


# --- Files and the kernel's settings ---------------------------------------------------------------------

def put(path):
    with open(path, "r+b" if os.path.exists(path) else "wb", buffering=0) as f:
        f.write(b"1\n")


def files(t):
    for path in ("/etc/passwd", "/etc/tpu-hostd/intruder.conf", "/etc/tpu-hostd/authority.conf.d/99.conf",
                 "/etc/cron.d/intruder", "/etc/ld.so.preload", "/usr/sbin/tpu-launchd",
                 "/usr/lib/tpu-hostd/intruder", "/run/systemd/system/intruder.service",
                 "/run/systemd/transient/intruder.service", "/run/tpu-launchd/intruder",
                 "/run/tpu-netcfg/intruder", "/var/lib/tpu-launchd/intruder", "/home/alice/intruder",
                 "/srv/intruder", "/tmp/intruder", "/dev/shm/intruder", "/run/credentials/intruder",
                 "/proc/sys/net/ipv4/tcp_rmem", "/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger",
                 "/proc/sys/net/ipv4/ip_forward", "/sys/fs/cgroup/cgroup.procs", "/sys/kernel/uevent_helper",
                 "/dev/mem", "/dev/kmem", "/dev/sda", "/dev/vda", "/dev/vfio/9"):
        ATTEMPTS[f"write {path}"] = lambda path=path: put(path)
    for path in ("/etc/shadow", "/run/tpu-launchd/secrets/alice", "/home/alice/.ssh/id",
                 f"/run/credentials/tpu-run-{t['run']}.service/tpu-environment", "/root/.ssh/id",
                 "/var/lib/tpu-launchd/runs.json", "/dev/mem", "/proc/kcore"):
        ATTEMPTS[f"read {path}"] = lambda path=path: open(path, "rb").read(1)
    ATTEMPTS["replace the socket of tpu-launchd"] = lambda: os.unlink(frames.SOCKET)
    ATTEMPTS["replace the socket of tpu-netcfg"] = lambda: os.unlink(NETCFG)


# --- Becoming more ---------------------------------------------------------------------------------------

def powers(_):
    ATTEMPTS["become root"] = lambda: os.setresuid(0, 0, 0)
    ATTEMPTS["take the group of root"] = lambda: os.setgroups([0])
    ATTEMPTS["a namespace of users"] = lambda: call("unshare", CLONE_NEWUSER)
    ATTEMPTS["a namespace of mounts"] = lambda: call("unshare", CLONE_NEWNS)
    ATTEMPTS["mount over /etc"] = lambda: call("mount", b"/tmp", b"/etc", None, MS_BIND, None)
    ATTEMPTS["the namespaces of the first process"] = lambda: call(
        "setns", os.open("/proc/1/ns/mnt", os.O_RDONLY), 0)
    ATTEMPTS["chroot"] = lambda: os.chroot("/tmp")
    ATTEMPTS["set the clock"] = lambda: call("settimeofday", ctypes.byref(ctypes.c_longlong(1)), None)
    ATTEMPTS["the host's name"] = lambda: socket.sethostname("intruder")
    ATTEMPTS["load a module"] = lambda: call("syscall", 313, 0, b"", 0)
    ATTEMPTS["restart the machine"] = lambda: call("reboot", 0x1234567)
    ATTEMPTS["a real-time priority"] = lambda: os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    ATTEMPTS["memory that is written and run"] = lambda: __import__("mmap").mmap(-1, 4096, prot=7)
    ATTEMPTS["a file that runs as root"] = lambda: command("/usr/bin/su", "root", "-c", "id")
    ATTEMPTS["packets below IP"] = lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 3)
    ATTEMPTS["raw packets"] = lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
    ATTEMPTS["a unit of systemd"] = lambda: command(
        "/usr/bin/busctl", "call", "org.freedesktop.systemd1", "/org/freedesktop/systemd1",
        "org.freedesktop.systemd1.Manager", "StartUnit", "ss", "tpu-netcfg.service", "replace")
    ATTEMPTS["stop a unit of systemd"] = lambda: command("/usr/bin/systemctl", "--no-ask-password", "stop",
                                                         "tpu-launchd.service")
    ATTEMPTS["a unit of its own"] = lambda: command("/usr/bin/systemd-run", "--no-ask-password", "id")

    @attempt("capabilities")
    def capabilities():
        with open("/proc/self/status", encoding="ascii") as f:
            held = {k: v.strip() for k, v in (line.split(":", 1) for line in f) if k.startswith("Cap")}
        more = {k: v for k, v in held.items() if int(v, 16) & ~ALLOWED}
        if more:
            return more
        raise Refused(f"CapEff {held['CapEff']}")


# --- The sockets of the other daemons ---------------------------------------------------------------------

def frame(path, kind, payload):
    import struct
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(30)
        s.connect(path)
        s.sendall(struct.pack("<IHH", len(payload), 1, kind) + payload)
        size, _, kind = struct.unpack("<IHH", frames.receive(s, 8))
        fields = frames.parse(frames.receive(s, size))
    if kind == 1:
        raise Refused(frames.text(fields.get(2, [b""])[0]))
    return fields


def run_request(user, *more, name="intruder", argv=("id",)):
    spec = frames.field(1, name) + b"".join(frames.field(5, a) for a in argv)
    return frames.field(1, spec + (frames.field(3, user) if user is not None else b"")) + b"".join(more)


def launchd(t):
    def ask(kind, payload):
        return lambda: frame(frames.SOCKET, kind, payload)

    f, run = frames.field, t["run"]
    for user in ("root", "0", "alice", "bob", "", "daemon", "../root", "alice\n", None):
        ATTEMPTS[f"launchd: a run of {user!r}"] = ask(20, run_request(user, f(2, 1)))
        ATTEMPTS[f"launchd: a run of {user!r} without a generation"] = ask(20, run_request(user))
    for n in (9, 15, 99):  # fields that do not exist: of a caller who says who he is
        ATTEMPTS[f"launchd: a caller's own words in field {n}"] = ask(
            20, run_request("alice", f(2, 1), f(n, "uid=0"), f(n + 100, 0)))
    ATTEMPTS["launchd: a run under the name of another's"] = ask(20, run_request("alice", f(2, 9), name=run))
    ATTEMPTS["launchd: stop another's run"] = ask(24, f(1, run))
    ATTEMPTS["launchd: stop it in a generation"] = ask(24, f(1, run) + f(2, 1) + f(3, 2 ** 63))
    ATTEMPTS["launchd: signal a run that wants none"] = ask(30, f(1, run) + f(3, "preemption"))
    ATTEMPTS["launchd: KILL it"] = ask(30, f(1, run) + f(2, 9) + f(3, "preemption"))
    ATTEMPTS["launchd: its environment"] = ask(35, f(1, run))
    ATTEMPTS["launchd: the log of a run that is not adopted"] = ask(39, f(1, run))
    ATTEMPTS["launchd: the log of a path"] = ask(39, f(1, "../../../etc/shadow"))
    ATTEMPTS["launchd: stacks of what is no run"] = ask(26, f(1, "../1") + f(2, 1))

    @attempt("launchd: what a capture holds of another's memory")
    def capture():
        told = json.dumps({str(k): [frames.text(x) if isinstance(x, bytes) else x for x in v]
                           for k, v in frame(frames.SOCKET, 26, f(1, run)).items()})
        if t["secret"] in told:
            return "the secret"
        raise Refused("frames, and no values")


def netcfg(t):
    def ask(kind, payload):
        return lambda: frame(NETCFG, kind, payload)

    f = frames.field
    for mtu in (0, 1, 68, 1299, 8897, 65536, 2 ** 32 - 1):
        entry = f(1, bytes.fromhex(t["mac"].replace(":", ""))) + f(2, mtu) + f(3, "metadata")

        @attempt(f"netcfg: a network of MTU {mtu}")
        def lie(entry=entry):
            fields = frame(NETCFG, 12, f(1, entry))
            if fields.get(1, [0]) == [0]:
                raise Refused(frames.text(fields[2][0]))
            return "taken"
    ATTEMPTS["netcfg: more networks than a host has"] = ask(12, b"".join(
        f(1, f(1, bytes([2, 0, 0, 0, 0, i])) + f(2, 1500) + f(3, "x")) for i in range(64)))
    ATTEMPTS["netcfg: a request that does not exist"] = ask(99, f(1, "sysctl kernel.core_pattern=|/x"))


def network(_):
    """For tpu-netcfg, which has no IP socket."""
    ATTEMPTS["an IP socket"] = lambda: socket.socket(socket.AF_INET)
    ATTEMPTS["an IPv6 socket"] = lambda: socket.socket(socket.AF_INET6)


PARTS = {p.__name__: p for p in (processes, files, powers, launchd, netcfg, network)}
ALLOWED = 0  # capabilities that the daemon has while it runs


def words_of(e):
    return errno.errorcode.get(e.errno, str(e)) if isinstance(e, OSError) and e.errno else str(e)


def main(targets, result, *parts):
    global ALLOWED
    with open(targets, encoding="utf-8") as f:
        t = json.load(f)
    ALLOWED = int(t["allowed"], 16)
    for part in parts:
        PARTS[part](t)
    found = {}
    for name in t["own"]:  # what this daemon is there for
        del ATTEMPTS[name]
    for name, function in ATTEMPTS.items():
        child, reply = os.pipe()
        pid = os.fork()  # what one attempt does to itself the next one does not inherit
        if pid == 0:
            os.close(child)
            try:
                words = ["GOT IN", repr(function())[:200]]
            except (Refused, OSError, EOFError, subprocess.SubprocessError, SystemExit) as e:
                words = ["refused", words_of(e)]
            except BaseException as e:  # noqa: BLE001  a mistake of the test's
                words = ["GOT IN", f"the attempt itself failed: {e!r}"]
            os.write(reply, json.dumps(words).encode())
            os._exit(0)
        os.close(reply)
        with os.fdopen(child, "rb") as f:
            found[name] = json.loads(f.read() or b'["refused", "it was killed"]')
        os.waitpid(pid, 0)
    with open(result + ".new", "w", encoding="utf-8") as f:
        json.dump(found, f)
    os.rename(result + ".new", result)


if __name__ == "__main__":
    main(*sys.argv[1:])
