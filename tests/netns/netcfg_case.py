# SPDX-License-Identifier: Apache-2.0
"""What the tests of tpu-netcfg share: a host with two NICs whose network carries 8896, and the program on
it."""
import json
import os
import time
import unittest

from namespace import NET_ADMIN_ONLY, Host

SOURCE = os.path.realpath(os.path.join(os.path.dirname(__file__), "../.."))
NETCFG = os.path.join(os.path.realpath(os.environ.get("BUILD_DIR", os.path.join(SOURCE, "build/dev"))),
                      "netcfg/tpu-netcfg")
RMEM = "4096 41943040 314572800"
SYSCTLS = {"net.ipv4.tcp_slow_start_after_idle": "0", "net.ipv4.tcp_no_metrics_save": "1",
           "net.core.somaxconn": "4096",
           "net.ipv4.tcp_max_syn_backlog": "4096", "net.ipv4.tcp_mtu_probing": "0",
           "net.ipv4.ping_group_range": "0 2147483647"}
RUNTIME, STATE = "/run/tpu-netcfg", "/var/lib/tpu-netcfg"
KIND_ERROR, KIND_REPORT_REQUEST, KIND_REPORT = 1, 10, 11
HOSTD, OTHER = 4711, 4712  # users

# Lowers the MTU of each NIC named, one after the other, and prints how many milliseconds until it is back.
DRIFT = """
import fcntl, socket, struct, sys, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
def mtu(nic):
    return struct.unpack('16sI', fcntl.ioctl(s, 0x8921, struct.pack('16sI', nic.encode(), 0))[:20])[1]
for nic in sys.argv[2:]:
    start = time.monotonic()
    fcntl.ioctl(s, 0x8922, struct.pack('16sI', nic.encode(), int(sys.argv[1])))
    while mtu(nic) != 8896 and time.monotonic() < start + 10:
        pass
    print(f'{(time.monotonic() - start) * 1000:.2f}' if mtu(nic) == 8896 else 'never')
"""

# Runs in the host as the caller: connects, sends the frame, prints the answer's kind and payload.
SEND = """
import socket, struct, sys
s = socket.socket(socket.AF_UNIX)
s.settimeout(10)
s.connect(sys.argv[1])
data = bytes.fromhex(sys.argv[3])
s.sendall(struct.pack('<IHH', len(data), 1, int(sys.argv[2])) + data)
f = s.makefile('rb')
n, _, kind = struct.unpack('<IHH', f.read(8))
print(kind, f.read(n).hex())
"""


def new_host(network_mtu=8896, **arguments):
    host = Host(os.path.join(SOURCE, "netcfg/profiles"), **arguments)
    network = f"[Network]\nMtu={network_mtu}\n" if network_mtu else ""
    host.identity(f"[Identity]\nAcceleratorType=v6e-16\n{network}")
    return host


class Case(unittest.TestCase):
    network_mtu = 8896

    def setUp(self):
        self.host = new_host(self.network_mtu)
        self.addCleanup(self.host.close)
        self.before = self.state()

    def state(self):
        return self.host.sysctl("net.ipv4.tcp_rmem"), self.host.mtu("eth0"), self.host.mtu("eth1")

    def netcfg(self, *words, code=0, prefix=()):
        done = self.host.run(*prefix, NETCFG, *words)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done

    def wait_for(self, what, wanted, seconds=60):
        end = time.monotonic() + max(seconds, 60)
        while what() != wanted and time.monotonic() < end:
            time.sleep(0.01)
        self.assertEqual(what(), wanted)

    def give_runtime(self):
        """The directories of the unit (RuntimeDirectory=, StateDirectory=): the daemon's user's."""
        self.host.check("install", "-d", "-o", "65534", "-g", "65534", RUNTIME, STATE)

    def start(self):
        self.give_runtime()
        return self.host.start(*NET_ADMIN_ONLY, NETCFG)

    def report(self):
        """What the running daemon says of the host."""
        kind, payload = self.host.ask(f"{RUNTIME}/netcfg.sock", KIND_REPORT_REQUEST)
        self.assertEqual(kind, KIND_REPORT)
        return payload.decode(errors="replace")


class ToldCase(Case):
    """The daemon, and tpu-hostd's user who tells it things; what the network carries is not known from
    any file."""
    network_mtu = 0

    def setUp(self):
        super().setUp()
        with open(f"{self.host.tree}/etc/passwd", "w", encoding="utf-8") as file:
            file.write(f"root:x:0:0::/root:/bin/sh\nodd line\ntpu-hostd:x:{HOSTD}:{HOSTD}::/:/bin/false\n")
        self.start()

    def restart(self):
        self.host.stop(self.host.processes.pop())
        self.host.start(*NET_ADMIN_ONLY, NETCFG)

    def mac(self, nic):
        return json.loads(self.host.check("ip", "-j", "link", "show", nic))[0]["address"]

    def tell(self, kind, payload, uid=HOSTD):
        """Sends a frame as that user; returns kind and payload of the answer."""
        out = self.host.check("setpriv", f"--reuid={uid}", "--clear-groups", "/usr/bin/python3", "-c", SEND,
                              f"{RUNTIME}/netcfg.sock",
                              str(kind), payload.hex())
        kind, _, data = out.strip().partition(" ")
        return int(kind), bytes.fromhex(data)
