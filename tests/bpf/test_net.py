#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The network set's figures against the kernel's own counters (nstat) of the same traffic, and against
what was done to the network."""
import os
import subprocess
import sys
import time
import unittest

import holding
from wire import Wire

FAST, RTO, PROBE, SYN = range(4)
MEGABYTES = 400 if os.environ.get("FULL") == "1" else 20
# Room for what is sent (SO_RCVBUFFORCE): a window that was taken back would be probed by the timer, which
# TCPTimeouts leaves out.
SERVE = """
import socket, sys, threading
s = socket.create_server(("", 5000), backlog=200)
s.setsockopt(socket.SOL_SOCKET, 33, 1 << 26)
def drain(c):
    try:
        while c.recv(1 << 20):
            pass
    except OSError:
        pass
    c.close()
print("ready", flush=True)
while True:
    threading.Thread(target=drain, args=(s.accept()[0],), daemon=True).start()
"""
SEND = """
import socket, sys
c = socket.create_connection((sys.argv[1], 5000))
for _ in range(int(sys.argv[2])):
    c.sendall(b"x" * 1000000)
c.shutdown(socket.SHUT_WR)
c.recv(1)
"""


def mapped(n):
    return f"::ffff:10.77.0.{n}"


class Net(holding.Case):
    def setUp(self):
        super().setUp()
        self.wire = Wire("a", "b", "c")
        self.addCleanup(self.wire.close)
        for name in ("b", "c"):
            self.serve(name)
        self.holder = self.hold(before=self.wire.command("a"))
        self.assertEqual(self.holder.sets["net"]["verdict"], "OK", self.holder.sets["net"]["reason"])
        self.before = self.wire.counters("a")

    def python(self, name, code, *words, check=True):
        return subprocess.run(self.wire.command(name, sys.executable, "-c", code, *map(str, words)),
                              capture_output=True, text=True,
                              timeout=120, check=check)

    def serve(self, name):
        server = subprocess.Popen(["setpriv", "--pdeathsig=KILL",
                                   *self.wire.command(name, sys.executable, "-c", SERVE)],
                                  stdout=subprocess.PIPE, text=True)
        self.addCleanup(server.communicate)
        self.addCleanup(server.kill)
        self.assertEqual(server.stdout.readline(), "ready\n")

    def since(self, *names, before=None):
        """How much these counters of the kernel rose, added up."""
        now, before = self.wire.counters("a"), before or self.before
        return sum(now.get(n, 0) - before.get(n, 0) for n in names)  # nstat leaves zeros out

    def sent_again(self, before=None):
        """
        Segments that left TCP again. The kernel counts one in TcpRetransSegs before it hands it down
        (__tcp_retransmit_skb); what
        could not be handed down it counts in TCPRetransFail, and its tracepoint is silent or tells of an
        error.
        """
        return self.since("TcpRetransSegs", before=before) - self.since("TcpExtTCPRetransFail",
                                                                        before=before)

    def peers(self, figures):
        return {p["peer"]: p for p in figures["peers"]}

    def retransmits(self, figures, n):
        """Segments to the n-th host, of all its entries (two CPUs may have begun one each)."""
        return sum(sum(p["retransmits"]) for p in figures["peers"] if p["peer"] == mapped(n))

    def assert_told(self, told, kernels):
        """The same, but where the kernel ran no program on top of itself, and says so."""
        if self.holder.missed("retransmit") == 0:
            self.assertEqual(told, kernels)
        else:
            self.assertLessEqual(told, kernels)

    def send(self, n):
        """Returns when all of it was acknowledged, so no counter moves any more; how much was sent again
        meanwhile, says the kernel."""
        before = self.wire.counters("a")
        self.python("a", SEND, f"10.77.0.{n}", MEGABYTES)
        return self.sent_again(before)

    def test_losses(self):
        self.wire.lose("a", 20)
        to_b = self.send(2)
        f = self.holder.figures()
        self.assertGreater(self.wire.lost(), 0)
        self.assertGreater(to_b, 0)
        self.assert_told(self.retransmits(f, 2), to_b)
        self.assertEqual(self.retransmits(f, 3), 0)
        self.wire.lose("a", 0)
        to_c = self.send(3)  # a machine that stood still sends again without a loss, too
        f = self.holder.figures()
        self.assert_told(self.retransmits(f, 2), to_b)
        self.assert_told(self.retransmits(f, 3), to_c)
        self.assert_told(sum(f["all"]["retransmits"]), self.sent_again())
        # A timer that ran out is counted before it is known whether anything can be sent
        # (tcp_retransmit_timer): nothing is, and the
        # tracepoint tells an error or nothing, while it still waits in a queue of this host, or has no way
        # (EBUSY, EHOSTUNREACH).
        self.assertLessEqual(f["all"]["events"][RTO] + f["all"]["events"][SYN],
                             self.since("TcpExtTCPTimeouts"))
        # A tail loss probe is new data when there is some (tcp_send_loss_probe), and then nothing is sent
        # again.
        self.assertLessEqual(f["all"]["events"][PROBE], self.since("TcpExtTCPLossProbes"))
        self.assertEqual(self.peers(f)[mapped(2)]["local"], mapped(1))
        self.assertEqual([sum(p["retransmits"][k] for p in f["peers"]) for k in range(4)],
                         f["all"]["retransmits"])
        self.assertEqual(f["peers_lost"] + f["drops_lost"] + f["connects_lost"], 0)

    def test_of_other_namespaces_nothing(self):
        other = self.hold(before=self.wire.command("c"))
        self.wire.lose("a", 20)
        self.python("a", SEND, "10.77.0.2", 20)
        self.assertGreater(sum(self.holder.figures()["all"]["retransmits"]), 0)
        f = other.figures()
        self.assertEqual((sum(f["all"]["retransmits"]), f["peers"], f["all"]["connects"]), (0, [], 0))

    def test_cut(self):
        """What is sent into a cut comes again when timers run out, and the peer is named."""
        code = SEND.replace("c.shutdown", "print('sent', flush=True); sys.stdin.readline(); c.sendall(b'y' "
                                          "* 100000); c.shutdown")
        sender = subprocess.Popen(self.wire.command("a", sys.executable, "-c", code, "10.77.0.2", "1"),
                                  stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE, text=True)
        self.addCleanup(sender.communicate)
        self.addCleanup(sender.kill)
        self.assertEqual(sender.stdout.readline(), "sent\n")
        self.wire.lose("a", 1000)
        sender.stdin.write("\n")
        sender.stdin.flush()
        end = time.monotonic() + 60
        while self.timers(self.holder.figures()) < 3 and time.monotonic() < end:
            time.sleep(0.1)
        self.wire.lose("a", 0)
        sender.communicate(timeout=300)  # the next timer may be as far away as the cut took
        f = self.holder.figures()
        self.assertGreaterEqual(self.timers(f), 3)
        self.assertLessEqual(self.timers(f), self.since("TcpExtTCPTimeouts"))  # as in test_losses
        self.assert_told(self.retransmits(f, 2), self.sent_again())

    def timers(self, figures):
        return sum(p["events"][RTO] for p in figures["peers"] if p["peer"] == mapped(2))

    def test_connects(self):
        self.python("a", "import socket\nfor _ in range(20): socket.create_connection(('10.77.0.2', "
                         "5000)).close()")
        # refused
        self.python("a", "import socket; socket.create_connection(('10.77.0.2', 5001))", check=False)
        self.wire.run("a", "sysctl", "-qw", "net.ipv4.tcp_syn_retries=1")
        self.wire.lose("a", 1000)
        self.wire.run("a", "ip", "neigh", "replace", "10.77.0.3", "lladdr", "02:00:00:00:00:01", "dev",
                      "eth0")
        done = self.python("a", "import socket; socket.create_connection(('10.77.0.3', 5000))", check=False)
        self.assertIn("TimeoutError", done.stderr)
        f = self.holder.figures()
        peers = self.peers(f)
        self.assertEqual(peers[mapped(2)]["connects"], 20)
        self.assertEqual(sum(peers[mapped(2)]["connect_histogram"]), 20)
        self.assertTrue(0 < peers[mapped(2)]["connect_ns"] < 60e9)
        self.assertEqual(peers[mapped(2)]["connect_failures"], 1)
        self.assertEqual(peers[mapped(3)]["connect_failures"], 1)
        self.assertGreaterEqual(peers[mapped(3)]["events"][SYN], 1)
        # The kernel counts one before it is handed down, as all segments.
        self.assertLessEqual(f["all"]["events"][SYN], self.since("TcpExtTCPSynRetrans"))
        self.assertEqual(f["all"]["connects"] + f["all"]["connect_failures"], self.since("TcpActiveOpens"))

    def test_resets(self):
        abort = ("import socket, struct; c = socket.create_connection(('10.77.0.2', 5000)); c.send(b'x'); "
                 "c.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0)); c.close()")
        for _ in range(5):
            self.python("a", abort)
        for _ in range(3):  # nobody listens at a: it sends a reset
            self.python("b", "import socket; socket.create_connection(('10.77.0.1', 5999))", check=False)
        f = self.holder.figures()
        self.assertEqual(f["all"]["resets_sent"] + f["resets_without_socket"], self.since("TcpOutRsts"))
        self.assertEqual(self.peers(f)[mapped(2)]["resets_sent"], 5)

    def test_drops(self):
        """Datagrams that find no room in their socket, counted by the kernel, by reason and place."""
        self.python("a", "import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); "
                         "s.bind(('127.0.0.1', 6000)); "
                         "s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096); "
                         "[s.sendto(b'x' * 1000, ('127.0.0.1', 6000)) for _ in range(200)]")
        lost = self.since("UdpRcvbufErrors")
        self.assertGreater(lost, 100)
        dropped = self.holder.figures()["dropped"]
        with open("/sys/kernel/btf/vmlinux", "rb") as f:
            has_reasons = b"SKB_DROP_REASON_SOCKET_RCVBUFF" in f.read()  # from Linux 5.17 on
        if has_reasons:
            at = [d for d in dropped if d["reason"] == "SOCKET_RCVBUFF"]
            self.assertEqual(sum(d["packets"] for d in at), lost, dropped)
            self.assertRegex(at[0]["symbol"], r"^\w*udp\w*\+0x")
        else:
            self.assertGreaterEqual(sum(d["packets"] for d in dropped), lost)

    def test_drops_on_all_cpus(self):
        """Counted apart by CPU, and right in the sum."""
        flood = ("import os, socket\nos.sched_setaffinity(0, {{{cpu}}})\ns = socket.socket(socket.AF_INET, "
                 "socket.SOCK_DGRAM)\n"
                 "s.bind(('127.0.0.1', 0))\ns.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)\n"
                 "for _ in range(20000): s.sendto(b'x' * 1000, s.getsockname())")
        floods = [subprocess.Popen(self.wire.command("a", sys.executable, "-c", flood.format(cpu=cpu)))
                  for cpu in sorted(os.sched_getaffinity(0))[:4]]
        self.assertEqual([f.wait(300) for f in floods], [0] * len(floods))
        lost = self.since("UdpRcvbufErrors")
        self.assertGreater(lost, 1000)
        f = self.holder.figures()
        counted = sum(d["packets"] for d in f["dropped"] if d["reason"] in ("SOCKET_RCVBUFF", ""))
        self.assertEqual(f["drops_lost"], 0)
        if not any(d["reason"] for d in f["dropped"]):  # before Linux 5.17: all drops
            self.assertGreaterEqual(counted, lost)
            return
        # The kernel runs no program on top of itself (an interrupt in it, whose packet is dropped), and says
        # how often that was.
        self.assertLessEqual(counted, lost)
        self.assertGreaterEqual(counted + self.holder.missed("drop"), lost)

    def test_more_peers_than_fit(self):
        """1,000 peers find their places; what finds none is counted, and not lost from the sum."""
        connect = ("import socket, sys\nfor i in range(int(sys.argv[1])):\n    s = socket.socket()\n"
                   "    s.connect_ex((f'127.{sys.argv[2]}.{i // 250}.{i % 250 + 1}', 9))\n    s.close()\n")
        self.python("a", connect, 1000, 1)
        f = self.holder.figures()
        self.assertEqual((len(f["peers"]), f["peers_lost"]), (1000, 0))
        self.python("a", connect, 4000, 2)
        f = self.holder.figures()
        self.assertEqual(f["all"]["connect_failures"], 5000)
        self.assertGreater(f["peers_lost"], 0)
        self.assertEqual(f["all"]["resets_received"], 5000)
        again = sum(f["all"]["events"])  # where the answer to a SYN took more than a second
        placed = sum(p["connect_failures"] + p["resets_received"] + sum(p["events"]) for p in f["peers"])
        self.assertEqual(placed + f["peers_lost"], 10000 + again)
        self.assertTrue(all(p["connect_failures"] == 1 for p in f["peers"]))


if __name__ == "__main__":
    unittest.main()
