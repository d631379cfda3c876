#!/usr/bin/python3
"""Hosts of a stalled run say what their sockets show: the first word names one, before any capture."""

import json
import time
import unittest

from collector_case import Case

HOSTS, ODD = 4, 2


class FirstWord(Case):
    def sync(self, c, host, at, stalls):
        def peer(n, turn, sent, received, unread=0):
            return {"local": f"10.0.0.{host}", "peer": f"10.0.0.{n % HOSTS}", "turn": turn,
                    "unread": unread, "unsent": 0, "sent": sent, "received": received}
        before = (host - 1) % HOSTS
        turn = (peer(before, "owes", 12400, 12000, 49632) if host == ODD else
                peer(before, "waits", 12000, 12400) if before == ODD else
                peer(before, "open", 12000, 12000))
        figure = {"run": "train", "generation": 1, "at": int(at * 1e6), "step": 30}
        if stalls:
            figure["debts"] = {"at": int(at * 1e6), "silent": 12000, "step": 430, "left_out": 0,
                               "peers": [turn, peer(host + 1, "sends", 12000, 3600000)]}
        member = {"v": 1, "slice": "s0", "worker": host, "host": f"h{host}", "id": f"id{host}",
                  "incarnation": "1", "address": [f"10.0.0.{host}"], "hosts": HOSTS, "state": "ready",
                  "runs": []}
        r = c.post("/registry/v1/sync",
                   json.dumps({"v": 1, "member": member, "wait": 0, "figures": [figure]}))
        self.assertEqual(r.status, 200, r.content)

    def test_named(self):
        c = self.start()
        for stalls in (False, True):
            at = time.time()
            for host in range(HOSTS):
                self.sync(c, host, at, stalls)
        self.until(lambda: c.get("/api/v1/events?name=tpu.run.first_word").json["events"])
        event, = c.get("/api/v1/events?name=tpu.run.first_word").json["events"]
        print(f"named {time.time() - at:.2f} s after the first host said it")
        self.assertEqual((event["host"], event["slice"], event["worker_id"], event["severity"]),
                         ("h2", "s0", 2, "INFO"))
        self.assertRegex(event["body"],
                         r"^run train: first word, from sockets alone \(4 of 4 hosts\): slice s0, worker 2 "
                         r"\(h2\) holds it up: .*49632 bytes lie unread there")
        self.assertEqual(event["attributes"]["says"], "clear")

    def test_nobody_stalls(self):
        c = self.start()
        for _ in range(3):
            for host in range(HOSTS):
                self.sync(c, host, time.time(), False)
        self.assertEqual(c.get("/api/v1/events?name=tpu.run.first_word").json["events"], [])


if __name__ == "__main__":
    unittest.main()
