#!/usr/bin/python3
"""What it costs etcd when a slice enrolls, counted by etcd itself: calls, puts and bytes of each host do not grow with the slice."""

import os
import sys
import unittest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "control"))
from etcd_server import Site, missing

if why := missing():
    if __name__ == "__main__":
        print(f"skipped: {why}")
        sys.exit(77)
    raise unittest.SkipTest(why)

from fleet import counted, Fleet  # noqa: E402

LIMIT = 120
SIZES = (32, 128, 512) if os.environ.get("FULL") else (32, 128)
SHORT = 2300  # bytes of a large slice's record with its key and head
JOIN = 4000   # bytes that a host is sent to join, and its part of what the leader is sent
SLOWER = (1, 2, 4, 8)
FEW = 40      # of all that only the leader does


def enroll(hosts, tls, gently):
    """What etcd counted, how often the slice's record was written, and whether something was asked twice: this machine was too slow for it.
    gently: how many times slower than at first the hosts come."""
    site = Site(tls=tls)
    try:
        fleet = Fleet(site, hosts, hosts, lease=60 * gently, splay=10 * hosts * gently)  # no renewal falls into it, and no question is asked twice
        before = site.metrics()
        fleet.go()
        ready, n = fleet.until_ready(LIMIT * gently), counted(before, site.metrics())
        writes = int(site.ctl("get", "/tpu/bench/slice/s0", "--write-out=fields").stdout.split('"Version" : ')[1].split()[0])
        fleet.close()
        assert ready, fleet.words
        return n, writes, fleet.end[2] > 0 or n["failed"]
    finally:
        site.close()


class Cost(unittest.TestCase):
    TLS = False

    def test_of_a_host(self):
        for hosts in SIZES:
            with self.subTest(hosts=hosts):
                for gently in SLOWER:
                    n, writes, troubled = enroll(hosts, self.TLS, gently)
                    if not troubled:
                        break
                self.assertEqual(n["granted"], hosts)
                self.assertLessEqual(n["calls"], 3 * hosts + FEW)  # the lease, the transaction, the watch
                self.assertLessEqual(n["watchers"], 5 * hosts + FEW)  # two at once, three a little later
                self.assertLessEqual(n["puts"], 2 * hosts + 2 * writes + FEW)  # its slot, its record
                self.assertLessEqual(n["sent"] / hosts, JOIN + writes * SHORT, f"{writes} writes")


class CostTls(Cost):
    TLS = True


if __name__ == "__main__":
    unittest.main()
