#!/usr/bin/python3
"""tpuctl net, sched, io and uplink: the whole screen for an answer that has everything."""
import unittest

from ctl_case import Ctl, ago

BAD = {"address": "10.0.0.2", "peer": "1", "nic": "eth0", "connections": 4, "bad": True, "silence": 12.4,
       "rtt": 0.0123, "min_rtt": 85e-6, "leaves_by": "eth9",
       "receive_buffer_full": 2,
       "interval": {"timeouts": 2, "retransmits": 30, "segments": 1000, "sent_bytes": 1e9,
                    "received_bytes": 5e7, "busy": 10, "receive_window_limited": 3,
                    "send_buffer_limited": 0.5, "syn_retries": 1, "drops": 4},
       "kernel": {"timeouts": 2, "syns": 1, "resets_sent": 1, "resets_received": 2, "connect_failures": 1,
                  "connects": 5, "fast": 3, "rto": 2, "probes": 1}}
GOOD = {"address": "10.0.0.3", "peer": "10.0.0.3", "nic": "eth1", "connections": 1, "bad": False,
        "interval": {"timeouts": 0, "retransmits": 900, "segments": 1000, "sent_bytes": 10}}
NET = {"verdict": "WARN", "text": "h1 is bad", "looked": None, "interval": 10.0, "exact_timeouts": False,
       "left_out": 3,
       "links": [BAD, GOOD,
                 {"address": "10.0.0.4", "peer": "3", "connections": 0, "kernel": {"timeouts": 0}},
                 {"address": "10.0.0.5", "peer": "4", "connections": 0,
                  "kernel": {"timeouts": 3, "rto": 3}}],
       "nics": [{"run": "a", "nic": "eth0", "share": 0.61}, {"run": "a", "nic": "eth1", "share": 0.39},
                {"run": "b", "nic": "eth0", "share": 1}],
       "receive_buffer": {"text": "tcp_rmem suffices"},
       "kernel": {"connects": 5, "connect_failures": 1, "connect_mean": 0.0021, "dropped": 30, "unplaced": 2,
                  "uncounted": 1,
                  "drops": [{"place": "tcp_v4_rcv", "reason": "NO_SOCKET", "packets": 7,
                             "meaning": "nobody listens"}]}}
PRESSURE = {"some": 0.3, "full": 0.01}
SCHED = {"run": "run1", "tasks": 12, "seconds": 1.0,
         "cpu": {"user": 0.5, "system": 0.1, "throttled": 0, "threads": 40, "more_threads": True,
                 "waited": 0.2, "pressure": PRESSURE}}
SCHED_WATCH = {"delays": {"seconds": 1.5, "n": 100, "p50": 1e-5, "p99": 2e-3},
               "preempted": {"seconds": 0.1, "n": 7},
               "blocked": {"seconds": 0.4, "n": 3, "places": [{"seconds": 0.3, "waits": 2, "longest": 0.2,
                                                               "comm": "py", "stack": "a;b"}]},
               "softirqs": {"seconds": 0.01, "n": 5}, "migrations": {"cpus": 3, "nodes": 1}, "lost": 4}
IO = {"run": "run1", "tasks": 12, "seconds": 1.0,
      "storage": {"read_bytes": 123456789, "written_bytes": 5, "refaults": 7, "major_faults": 2,
                  "direct_reclaim": 0, "io_pressure": PRESSURE,
                  "memory_pressure": PRESSURE}}
TIMES = {"n": 5, "seconds": 0.2, "bytes": 1 << 20, "p50": 1e-3, "p99": 0.1}
SLOW = {"seconds": 0.2, "bytes": 4096, "comm": "py", "file": "/x/y"}
IO_WATCH = {"requests": [{"operation": "read", **TIMES}],
            "slow_requests": [{"operation": "read", "disk": "sda", **SLOW}], "calls": [],
            "slow_calls": [{"call": "fsync", "filesystem": "nfs", **SLOW}], "held_back": 3, "lost": 2}


class Screens(Ctl):
    def shown(self, path, answer, code, *args):
        self.server.answers[("GET", path)] = (200, answer)
        return self.expect(args, code, stderr="").stdout

    def setUp(self):
        super().setUp()
        self.server = self.hostd()

    def test_net(self):
        self.assertEqual(self.shown("/v1/net", NET, 1, "net"), """\
WARN  h1 is bad
      BPF: counted by the kernel's programs since the agent started

STATE  PEER          NIC   CONNS  RTOS  RETRANSMITS  RTT      LEAST  TRAFFIC     NOTES
BAD    1 (10.0.0.2)  eth0  4      2     30 (3 %)     12.3 ms  85 us  840 Mbit/s  nothing acknowledged for 12 s, SYN retransmitted 1 times, LEAVES BY eth9, 30 % held by the peer's window, receive buffer full on 2, 4 received segments dropped, BPF: 7 segments retransmitted, 2 RTOs, 1 of them SYNs, 3 resets, 1 of 6 connects failed
ok     10.0.0.3      eth1  1      0     900 (90 %)   -        -      8 bit/s     -
-      4 (10.0.0.5)  -     -      -     -            -        -      -           BPF: 3 segments retransmitted, 3 RTOs

NICs of run a: eth0 61 % of the traffic, eth1 39 % of the traffic
NICs of run b: eth0 100 % of the traffic
receive buffers: tcp_rmem suffices
3 sockets found no room and are not counted
connections begun: 5, failed 1, established after 2.1 ms on average
dropped in tcp_v4_rcv (NO_SOCKET): 7 packets: nobody listens
dropped for other reasons: 23 packets (by reason and place: metric tpu.net.drops)
dropped, and not known in which network namespace of this host: 2 packets
1 events found no room in the tables of the kernel's programs: the numbers of peers and drops are too low by so many
""")
        self.assertEqual(self.shown("/v1/net", {}, 3, "net"), "UNKNOWN  -\n")
        many = dict(NET, links=[dict(GOOD, address=f"10.1.0.{i}") for i in range(30)])
        text = self.shown("/v1/net", many, 1, "net")
        self.assertEqual(text.count("\nok "), 24)
        self.assertIn("\nand 6 more that are no worse (--json has all, --peer one)\n", text)

    def test_net_peer(self):
        self.shown("/v1/net", NET, 1, "net", "--peer", "fd00::2&x")
        self.assertEqual(self.server.seen[-1][1], "/v1/net?peer=fd00%3A%3A2%26x")

    def test_sched(self):
        self.assertEqual(self.shown("/v1/sched", SCHED, 0, "sched", "run1"), """\
run run1, 12 tasks, over 1 s
CPU                used 500 ms by user, 100 ms by system; held back by its quota 0 us
                   40 of its threads waited 200 ms for one; 30 % of the time one did, 1 % all did
what exactly, and where: sudo tpuctl sched --watch
""")
        self.assertEqual(self.server.seen[-1][1], "/v1/sched?run=run1")
        self.assertEqual(self.shown("/v1/sched", dict(SCHED, watch=SCHED_WATCH), 0, "sched", "--watch"), """\
run run1, 12 tasks, over 1 s
CPU                used 500 ms by user, 100 ms by system; held back by its quota 0 us
                   40 of its threads waited 200 ms for one; 30 % of the time one did, 1 % all did
waits for a CPU    1.5 s in 100 waits: half below 10 us, 99 % below 2 ms; 100 ms of it in 7 after it was preempted
waits in state D   400 ms in 3 waits
    300 ms in 2 waits, the longest 200 ms, py:
        a;b
softirqs on it     10 ms in 5
moved              3 times to another CPU, 1 of them to another NUMA node
4 waits found no room and are not counted
""")
        self.assertEqual(self.server.seen[-1][1], "/v1/sched?watch=10")
        self.assertTrue(self.shown("/v1/sched", dict(SCHED, not_watched="no BPF"), 0, "sched", "--seconds",
                                   "3", "a").endswith("\nnot watched: no BPF\n"))
        self.assertEqual(self.server.seen[-1][1], "/v1/sched?run=a&watch=3")

    def test_io(self):
        self.assertEqual(self.shown("/v1/io", dict(IO, watch=IO_WATCH), 0, "io"), """\
run run1, 12 tasks, over 1 s
disks              read 118 MiB, written 5 B; 30 % of the time a thread waited for them, 1 % all did
page cache         7 pages thrown out and needed again, 2 faults that read from a disk
memory             0 pages freed by its own threads; 30 % of the time a thread waited for memory, 1 % all did
REQUESTS  N  TIME    BYTES  HALF BELOW  99 % BELOW
read      5  200 ms  1 MiB  1 ms        100 ms
SLOWEST  TIME    BYTES  WHERE  BY  FILE
read     200 ms  4 KiB  sda    py  /x/y
SLOWEST  TIME    BYTES  WHERE  BY  FILE
fsync    200 ms  4 KiB  nfs    py  /x/y
its writers were held back 3 times until the disk had caught up
2 requests or calls found no room and are not counted
""")
        self.assertTrue(self.shown("/v1/io", IO, 0, "io").endswith(" all did\nwhat exactly, and where: sudo "
                                                                   "tpuctl io --watch\n"))

    def test_uplink(self):
        classes = {"events": {"kept": 3, "oldest": ago(200), "bytes": 30000, "sent": 7, "retried": 1,
                              "body_bytes": 1000, "wire_bytes": 300,
                              "dropped_by": {"400 malformed": 2, "byte limit": 1, "other": 0}},
                   "metrics": {"kept": 0, "bytes": 1023 << 20, "sent": 0, "retried": 0, "dropped_by": {}}}
        uplink = {"endpoints": [{"url": "http://a",
                                 "events": {"state": "ok", "sent": 5, "until": None, "why": ""},
                                 "metrics": {"state": "waits", "sent": 1, "until": ago(-7300),
                                             "why": "HTTP 503"}, "dns_error": "no name"}],
                  "classes": classes,
                  "certificate": {"file": "/c.pem", "until": "2026-01-01T00:00:00Z", "error": None},
                  "durable": False, "spool_error": "full",
                  "parked": False}
        self.assertEqual(self.shown("/v1/status", {"uplink": uplink}, 1, "uplink"), """\
ENDPOINT  CLASS    STATE  SENT  NEXT TRY  WHY
http://a  events   ok     5     -         no name
http://a  metrics  waits  1     in 2 h    HTTP 503

CLASS    WAITING  OLDEST  DISK      SENT  PACKED   RETRIED  DROPPED
events   3        3 min   29.3 KiB  7     to 30 %  1        2 400 malformed, 1 byte limit
metrics  0        -       1023 MiB  0     -        0        -

certificate /c.pem: EXPIRED at 2026-01-01T00:00:00Z
the spool cannot be written (tpuctl check daemon.disk): full
""")
        for certificate, line in (({"error": "bad"}, "certificate: bad"),
                                  ({"file": None}, "certificate: none of this host's own")):
            self.assertTrue(self.shown("/v1/status",
                                       {"uplink": dict(uplink, certificate=certificate, durable=True)}, 0,
                                       "uplink").endswith(f"\n\n{line}\n"))
        for kept, more in ((None, ""), (7, ", 7 records wait")):
            aside = {"spool": "/spool.other-machine", "kept": kept, "bytes": kept}
            self.assertTrue(self.shown("/v1/status", {"uplink": dict(uplink, aside=aside, durable=True)}, 0,
                                       "uplink").endswith("\nset aside, of another machine: "
                                                          f"/spool.other-machine{more}\n"))
        text = self.shown("/v1/status", {"uplink": dict(uplink, endpoints=[], parked=True, durable=True)}, 2,
                          "uplink")
        self.assertTrue(text.startswith("no endpoint is configured: records are kept on this host only\n\n"
                                        "CLASS "))


if __name__ == "__main__":
    unittest.main()
