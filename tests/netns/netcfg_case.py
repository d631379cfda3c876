# SPDX-License-Identifier: Apache-2.0
"""What the tests of tpu-netcfg share: a host with two NICs whose network carries 8896, and the program on it."""
import os
import time
import unittest

from namespace import NET_ADMIN_ONLY, Host

SOURCE = os.path.realpath(os.path.join(os.path.dirname(__file__), "../.."))
NETCFG = os.path.join(os.path.realpath(os.environ.get("BUILD_DIR", os.path.join(SOURCE, "build/dev"))), "netcfg/tpu-netcfg")
RMEM = "4096 41943040 314572800"
SYSCTLS = {"net.ipv4.tcp_slow_start_after_idle": "0", "net.ipv4.tcp_no_metrics_save": "1", "net.core.somaxconn": "4096",
           "net.ipv4.tcp_max_syn_backlog": "4096", "net.ipv4.tcp_mtu_probing": "0"}
RUNTIME = "/run/tpu-netcfg"
KIND_ERROR, KIND_REPORT_REQUEST, KIND_REPORT = 1, 10, 11

# Lowers the MTU of each NIC named, one after the other, and prints how many milliseconds until it is back.
DRIFT = """
import fcntl, socket, struct, sys, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
def mtu(nic):
    return struct.unpack('16sI', fcntl.ioctl(s, 0x8921, struct.pack('16sI', nic.encode(), 0))[:20])[1]
for nic in sys.argv[2:]:
    start = time.monotonic()
    fcntl.ioctl(s, 0x8922, struct.pack('16sI', nic.encode(), int(sys.argv[1])))
    while mtu(nic) != 8896 and time.monotonic() < start + 5:
        pass
    print(f'{(time.monotonic() - start) * 1000:.2f}' if mtu(nic) == 8896 else 'never')
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

    def wait_for(self, what, wanted, seconds=5):
        end = time.monotonic() + seconds
        while what() != wanted and time.monotonic() < end:
            time.sleep(0.01)
        self.assertEqual(what(), wanted)

    def give_runtime(self):
        """/run/tpu-netcfg as the package's tmpfiles.d makes it: the daemon's user's."""
        self.host.check("install", "-d", "-o", "65534", "-g", "65534", RUNTIME)

    def start(self):
        self.give_runtime()
        return self.host.start(*NET_ADMIN_ONLY, NETCFG)

    def report(self):
        """What the running daemon says of the host."""
        kind, payload = self.host.ask(f"{RUNTIME}/netcfg.sock", KIND_REPORT_REQUEST)
        self.assertEqual(kind, KIND_REPORT)
        return payload.decode(errors="replace")
