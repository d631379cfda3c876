#!/usr/bin/python3
"""Four hosts, one bad link: a real training over gloo, packets lost between two of them and no others.
tpuctl net names link, NIC and
peer on both of its ends and nothing on the others; when nothing passes any more the diagnosis of the stall
quotes it. With FULL=1."""

import json
import os
import re
import sys
import time
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE), str(HERE / "stalls")]

import live                    # noqa: E402  (the paths come first)
import scenario                # noqa: E402
import slices                  # noqa: E402
from lab import Lab            # noqa: E402
from lab.check import check    # noqa: E402

RUN = "badlink"
LIMIT = 240


def lab(folder):
    """One slice of four, that look at their sockets every five seconds."""
    host_deb, collector_deb = scenario.debs(folder)

    def before_boot(host):
        host.lab_collector_address = host.lab.collector.address("eth0")
        slices.configure(host, 4, 4, "Kind=collector", True)
        if host.name != "collector":
            host.write("/etc/tpu-hostd/hostd.conf.d/20-net.conf", "[Hostd]\nMetricsInterval=5s\n")
    return Lab(hosts=4, debs=[host_deb], collector=[collector_deb], before_boot=before_boot, unified=True)


def net(host):
    done = host.run(["tpuctl", "net", "--json"], timeout=60)
    return json.loads(done.out) if done.out else {"links": [], "text": done.err}


def bad(host):
    return {(link["nic"], link["peer"], link["address"]) for link in net(host)["links"] if link["bad"]}


class BadLink(unittest.TestCase):
    def test_it_is_named_and_quoted(self):
        slices.skip_unless_full(check)
        with lab(os.environ.get("TPU_HOSTD_DEBS")) as lab_of_four:
            self.lab = lab_of_four
            self.story()

    def story(self):
        h0, h1, h2, h3 = self.lab.hosts
        slices.prepare(self.lab)
        scenario.wait_until(lambda: all(slices.registry(h)["state"] == "member" for h in self.lab.hosts), 90,
                            "all hosts are members")
        done = slices.train(h0, RUN, "--slices", "1:1")
        self.assertEqual(done.code, 0, done.out + done.err)
        for h in self.lab.hosts:
            h.wait_for(lambda host=h: max(slices.losses(host, RUN), default=0) >= 10, LIMIT, "ten steps")
        # Every host sees its three peers as the run's, and nothing wrong.
        for h in self.lab.hosts:
            others = {f"worker {i}" for i in range(4) if f"h{i}" != h.name}
            h.wait_for(lambda host=h, wanted=others: net(host).get("verdict") == "OK"
                       and wanted <= {x["peer"] for x in net(host)["links"] if x["run"] == RUN},
                       LIMIT, f"three good ways: {net(h)}")

        self.lab.spoil(h1, h2, "eth0", 30)
        for h, peer in ((h1, h2), (h2, h1)):
            h.wait_for(lambda host=h: bad(host), LIMIT, f"a bad way of {h.name}")
            self.assertEqual(bad(h), {("eth0", f"worker {peer.name[1]}", peer.address("eth0"))})
        shown = h1.run(["tpuctl", "net"], timeout=60)
        print(shown.out)
        self.assertEqual(shown.code, 1)
        self.assertRegex(shown.out.splitlines()[0], r"^WARN  NIC eth0 to worker 2: ")
        for h in (h0, h3):
            self.assertEqual(bad(h), set(), net(h)["text"])

        cut_at = time.time()
        self.lab.spoil(h1, h2, "eth0", 100)
        told = None
        while told is None and time.time() - cut_at < LIMIT:
            time.sleep(0.5)
            told = next(iter(live.events(self.lab, RUN, (live.CONFIRMED,), cut_at)), None)
        self.assertIsNotNone(told, "no verdict of the stall")
        answer = live.asked(self.lab, "s0")
        words = json.dumps(answer)
        print(answer["summary"],
              *[f"{s['host']}: {s['sentence']}\n{s['details']}" for s in answer["suspects"][:3]], sep="\n")
        self.assertRegex(answer["summary"], r"NIC eth0 to worker [12]: ")
        self.assertTrue(re.search(r"NIC eth0 to worker [12]: [^\"]*(RTO|nothing acknowledged)", words),
                        words)
        for h in (h0, h3):
            self.assertEqual(bad(h), set(), net(h)["text"])
        self.assertTrue([e for e in live.scenario.query(self.lab, "SELECT name FROM events WHERE name = "
                                                                  "'tpu.net.link_bad'")])


if __name__ == "__main__":
    unittest.main()
