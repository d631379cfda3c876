#!/usr/bin/python3
"""A host with a valid certificate that speaks for another one: what is refused, and what stays as it was."""

import json
import unittest

from attack_case import AGENT, ACTOR, HOST, PROTOBUF, Attack, member, otlp
import capture_wire


def resource(host):
    return {**AGENT, "host.name": host}


class AnotherHost(Attack):
    def refuses(self, r, *words):
        self.assertEqual(r.status, 403, r.content)
        for w in words:
            self.assertIn(w.encode(), r.content)

    def test_sync_as_another(self):
        """A joins nobody else's slice under B's name, and is told nothing of B's run."""
        self.collector()
        self.assertEqual(self.sync("b", member=member("b")).status, 200)
        r = self.sync("a", member=member("b", incarnation="stolen"))
        self.refuses(r, "host a", "host b")
        self.assertNotIn("records", r.json)
        self.refuses(self.sync("a", member=member("b", "s9")), "host b")
        self.assertEqual(self.sync("a", member=member("a", "s1")).status, 200)

    def test_leave_of_another(self):
        """A does not end B's membership, nor does it renew its lease."""
        self.collector()
        b = self.sync("b", member=member("b"))
        self.assertEqual(b.json["records"]["slice/s0"]["state"], "ready")
        for more in ({"leave": True}, {}, {"figures": [{"run": "r", "generation": 1, "at": 1}]}):
            self.refuses(self.sync("a", same="s0/0", incarnation="life-b", **more), "host b")
        slice_now = self.people("/api/v1/slices/s0").json
        self.assertEqual((slice_now["state"], slice_now["generation"]),
                         ("ready", b.json["records"]["slice/s0"]["generation"]))
        self.assertTrue(self.sync("b", same="s0/0", incarnation="life-b", leave=True).json["tell"])

    def test_capture_of_another(self):
        self.collector()
        m = member("b")
        self.assertEqual(self.sync("b", member=m).status, 200)
        path = "/registry/v1/capture?" + capture_wire.query("", m, "train", 0)
        body = capture_wire.wire({"processes": []})
        self.refuses(self.call("a", path, body), "host b")
        self.assertEqual(self.call("b", path, body).status, 200)
        self.assertEqual(self.c.sql("SELECT host FROM captures"), [("b",)])

    def test_telemetry_of_another(self):
        """Metrics, events and lines of B: all of the request is refused, also where only one resource of it
        is another's."""
        self.collector()
        line = otlp.log("tpu.run.line", "text", attrs={"tpu.run.name": "r", "tpu.run.invocation": "i",
                                                       "tpu.run.line": 1})
        own, other = resource("a"), resource("b")
        gauge = [otlp.gauge("m", [otlp.point(1)])]
        for path, request in (("/v1/metrics", otlp.request(other, gauge)),
                              ("/v1/metrics", otlp.request(own, gauge) + otlp.request(other, gauge)),
                              ("/v1/logs", otlp.request(other, [otlp.log("tpu.x", "text")])),
                              ("/v1/logs", otlp.request(other, [line]))):
            self.refuses(self.push("a", path, request), "host a", "host b")
        self.assertEqual(self.c.sql("SELECT count(*) FROM hosts WHERE name IN ('a', 'b')"), [(0,)])
        self.assertEqual(self.push("a", "/v1/metrics", otlp.request(own, gauge)).status, 200)

    def test_another_by_what_is_left_out(self):
        """A push without a host's name is its sender's, whatever else it calls itself."""
        self.collector()
        for attributes in ({"service.instance.id": "b", "service.name": "x"}, {"service.name": "y"}):
            self.assertEqual(self.push("a", "/v1/logs",
                                       otlp.request(attributes, [otlp.log("tpu.x", "t")])).status, 200)
        self.assertEqual(self.c.sql("SELECT h.name, count(*) FROM events e JOIN hosts h ON e.host = h.id"
                                    " WHERE e.name = 'tpu.x' GROUP BY 1"), [("a", 2)])

    def test_what_was_set_aside_is_dropped(self):
        """A spool out of an image, of another host: 422, so that the agent drops it and goes on."""
        self.collector()
        r = self.push("a", "/v1/logs", otlp.request(resource("b"), [otlp.log("tpu.x", "t")]),
                      "0123456789abcdef/events/1", "TPU-Spool-Aside")
        self.assertEqual(r.status, 422, r.content)
        self.assertEqual(self.c.sql("SELECT count(*) FROM events WHERE name = 'tpu.x'"), [(0,)])

    def test_certificate_of_many_names(self):
        """Who has a name too many for what is looked at is nobody, not the first of them."""
        names = ",".join(f"URI:{HOST}x{i}" for i in range(63))
        self.who["64"] = self.ca.issue("n64", f"URI:{HOST}a,{names}")
        self.who["65"] = self.ca.issue("n65", f"URI:{HOST}a,{names},URI:{HOST}y")
        self.collector()
        self.assertEqual(self.sync("64", member=member("a")).status, 200)
        r = self.call("65", "/registry/v1/sync", json.dumps({"v": 1, "member": member("a")}))
        self.assertEqual((r.status, b"more than 64 names" in r.content), (403, True), r.content)

    def test_audit(self):
        """Each refusal counts; one a minute of a certificate is an event that names both."""
        self.collector()
        for _ in range(20):
            self.sync("a", member=member("b"))
            self.push("a", "/v1/logs", otlp.request(resource("b"), [otlp.log("tpu.x", "t")]))
        self.sync("b", member=member("a"))
        told = self.refusals()
        self.assertEqual(sorted(e["attributes"]["caller"] for e in told), [HOST + "a", HOST + "b"])
        for e in told:
            self.assertRegex(e["body"], r"spiffe://site/host/(.) from 127.0.0.1 called /registry/v1/sync: "
                             r"refused, this caller is host \1, and it speaks for host ")
        text = self.people_text("/metrics")
        self.assertIn("tpu_collectord_refused_for_another_host_total 41", text)

    def test_names_that_are_cut(self):
        """A name of 80 bytes that a reason cuts inside a character: it is refused in words, and an event."""
        self.collector(SlotFrom="{slice}-w-{worker}")
        long, shown = "é" * 40, "é" * 31 + "?"
        self.refuses(self.sync("a", member=member(long)), "host a", shown)
        self.refuses(self.sync("b", member=member("b", long)), "of slice " + shown)
        self.assertEqual([shown in e["body"] for e in self.refusals()], [True, True])

    def test_its_own_words_that_are_cut(self):
        """What is wrong with them is said nevertheless."""
        self.collector()
        r = self.sync("a", member=member("a", address=["a" + "é" * 40]))
        self.assertEqual((r.status, r.json["error"].split(": ")[1]), (400, '"a' + "é" * 29 + '?"'))

    def test_push_of_a_name_that_is_cut(self):
        """It is refused alone: what others push at the same moment is stored."""
        self.collector()
        foreign, own = self.connect("a"), self.connect("b")
        for c in foreign, own:  # its handshake is over before both push
            c.connect()
        text = otlp.log("tpu.x", "text")
        for c, host in (foreign, "é" * 40), (own, "b"):
            c.request("POST", "/v1/logs", otlp.request(resource(host), [text]), PROTOBUF)
        refused, stored = foreign.getresponse(), own.getresponse()
        self.assertEqual((refused.status, stored.status), (403, 200))
        self.assertIn(("é" * 31 + "?").encode(), refused.read())
        self.assertIn("é" * 31 + "?", self.refusals()[0]["body"])
        self.assertEqual(self.c.sql("SELECT count(*) FROM events WHERE name = 'tpu.x'"), [(1,)])

    def test_a_person_is_audited_nevertheless(self):
        """Also where the reason of the answer cuts what the person wrote."""
        self.collector()
        c = self.connect("actor", self.c.api)
        intent = {"name": "aé" + "é" * 40, "user": "alice", "argv": ["x"], "slices": ["s0"]}
        r = self.ask(c, "POST", "/api/v1/runs", json.dumps(intent), {"Content-Type": "application/json"})
        self.assertEqual(r.status, 400, r.content)
        told = self.people("/api/v1/events?name=tpu.api.acted&limit=1000").json["events"]
        self.assertEqual([e["attributes"]["status"] for e in told], [400])

    def people_text(self, path):
        c = self.connect("reader", self.c.api)
        return self.ask(c, "GET", path).content.decode()


class Seat(Attack):
    def test_seat_of_a_silent_host(self):
        """A has B's machine id and B is away: its seat stays its own, until people release it."""
        self.collector(control={"Lease": "3s"})
        self.assertEqual(self.sync("b", member=member("b", hosts=2)).status, 200)
        self.sync("b", same="s0/0", incarnation="life-b", leave=True)
        stolen = member("a", hosts=2, id="id-b", machine="id-b")
        for _ in range(2):
            r = self.sync("a", member=stolen)
            self.assertEqual((r.status, r.json["conflict"]["holder"]), (200, "b"), r.content)
            self.restart()
        self.assertEqual(self.people("/api/v1/slices/s0/slots/0", "DELETE").status, 403)
        # a collector that was restarted misses nobody before a lease has passed
        self.until(lambda: self.people("/api/v1/slices/s0/slots/0", "DELETE", "actor").status == 204)
        self.assertIsNone(self.sync("a", member=stolen).json["conflict"])

    def test_nobody_proves_himself(self):
        """What says that a name is proved comes from the certificate, not from the member."""
        self.collector(TrustAllAgents="yes")
        self.sync("b", member=member("b", proved=True))
        self.sync("b", same="s0/0", incarnation="life-b", leave=True)
        self.assertEqual(json.loads(self.c.sql("SELECT value FROM registry WHERE key = 'slot/s0/0'")[0][0])
                         ["proved"], False)


class FreeSlot(Attack):
    """A slot that nobody held yet, of a slice that forms."""

    def claim(self, who, slice_name, worker, hosts=4, **more):
        r = self.sync(who, member=member(who, slice_name, worker, hosts, **more))
        return r.status, r.json.get("error", "")

    def holders(self, name):
        found = self.c.sql("SELECT key, value FROM registry WHERE key LIKE ?", f"slot/{name}/%")
        return {int(k.rsplit("/", 1)[1]): json.loads(v)["host"] for k, v in found}

    def leave(self, who, slot):
        self.sync(who, same=slot, incarnation=f"life-{who}", leave=True)

    def test_named_by_the_site(self):
        """A has a certificate, and takes no slot that the site's naming gives to another host."""
        for host in ("s0-w-0", "s0-w-1", "s1-w-1"):
            self.who[host] = self.ca.issue(host, f"URI:{HOST}{host}")
        self.collector(SlotFrom="{slice}-w-{worker}")
        self.assertEqual(self.claim("s0-w-0", "s0", 0), (200, ""))
        for who, name, worker in (("a", "s0", 1), ("s1-w-1", "s0", 1), ("s0-w-0", "s0", 1),
                                  ("s0-w-0", "s1", 0)):
            self.assertEqual(self.claim(who, name, worker),
                             (403, f"worker {worker} of slice {name} is host {name}-w-{worker}'s, "
                                   f"not host {who}'s (SlotFrom=)"))
        self.assertEqual(self.holders("s0"), {0: "s0-w-0"})
        self.assertEqual(self.claim("s0-w-1", "s0", 1), (200, ""))
        self.assertIn("(SlotFrom=)", self.refusals()[0]["body"])

    def test_map_of_the_site(self):
        """Files say it. What they say is stronger than who was there first, once that one is away; a slot
        that they do not give is nobody's."""
        slots = self.put("slots", "s0/0 b\n")
        self.collector(SlotFrom=slots, control={"Lease": "3s"})
        self.assertEqual(self.claim("b", "s0", 0, 2), (200, ""))
        self.assertEqual(self.claim("a", "s0", 1, 2),
                         (403, "worker 1 of slice s0 is nobody's, not host a's (SlotFrom=)"))
        self.put("slots", "s0/0 a\n")
        self.assertEqual(self.sync("b", same="s0/0", incarnation="life-b").status, 403)
        self.assertIsNotNone(self.sync("a", member=member("a", "s0", 0, 2)).json["conflict"])
        self.until(lambda: self.sync("a", member=member("a", "s0", 0, 2)).json["conflict"] is None)
        self.assertEqual(self.holders("s0"), {0: "a"})

    def test_it_claims_what_others_hold(self):
        """A claims the worker ids of B and of C: it is told who has each, and is one conflict in all."""
        self.who["c"] = self.ca.issue("c", f"URI:{HOST}c")
        self.collector(control={"Lease": "3s"})
        for who, name in ("b", "s0"), ("c", "s1"):
            self.assertEqual(self.claim(who, name, 0, 2), (200, ""))
        for _ in range(2):
            for holder, name in ("b", "s0"), ("c", "s1"):
                r = self.sync("a", member=member("a", name, 0, 2))
                self.assertEqual(r.json["conflict"]["holder"], holder)
        self.until(lambda: len(self.people("/api/v1/slices/s0").json["conflicts"]) == 1)
        self.assertEqual(self.people("/api/v1/slices/s1").json["conflicts"], [])

    def test_one_host_is_one_worker(self):
        """Where the site does not say whose a slot is, a certificate takes one and no more: neither beside
        the first, nor by turns, and slices that it leaves are not kept."""
        self.collector()
        self.assertEqual(self.claim("a", "s0", 0), (200, ""))
        for place in (("s0", 1), ("s1", 0)):
            status, why = self.claim("a", *place)
            self.assertEqual(status, 503)
            self.assertIn("host a is there as worker 0 of slice s0, and one host is one worker", why)
        self.leave("a", "s0/0")
        self.assertEqual(self.claim("a", "s1", 2), (200, ""))
        self.assertEqual((self.holders("s0"), self.holders("s1")), ({}, {2: "a"}))
        for i in range(20):
            self.leave("a", f"{'s1/2' if i == 0 else f'x{i - 1}/0'}")
            self.assertEqual(self.claim("a", f"x{i}", 0), (200, ""))
        self.assertEqual(self.c.sql("SELECT key FROM registry WHERE key LIKE 'slice/%'"), [("slice/x19",)])

    def test_the_real_host_gets_it(self):
        """A took B's slot before B came. B is told who has it, people see both, and give it to B."""
        self.collector(control={"Lease": "3s"})
        self.assertEqual(self.claim("a", "s0", 1), (200, ""))
        b = member("b", "s0", 1, 4)
        self.assertEqual(self.sync("b", member=b).json["conflict"]["holder"], "a")
        self.until(lambda: [(c["host"], c["holder"]) for c in
                            self.people("/api/v1/slices/s0").json["conflicts"]] == [("b", "a")])
        self.until(lambda: self.people("/api/v1/slices/s0/slots/1", "DELETE", "actor").status == 204)
        self.assertIsNone(self.sync("b", member=b).json["conflict"])

    def test_what_makes_no_sense(self):
        for words, said in (("{slice}", "no name with {slice} and {worker}"), ("/no/such", "No such file")):
            self.assertIn(said, self.collector_refuses(SlotFrom=words))


class HostFrom(Attack):
    """Which host a certificate is, as the site says."""

    def host_of(self, who, *names):
        """Of these names, those for whom it may speak."""
        return [n for n in names if self.sync(who, member=member(n, f"s-{n}")).status == 200]

    def test_without_it(self):
        """What is behind the last slash of the URI that AllowAgents= names is the host."""
        self.who["two"] = self.ca.issue("two", f"URI:spiffe://other/b,URI:{HOST}c")
        self.collector()
        self.assertEqual(self.host_of("two", "a", "b", "c"), ["c"])

    def test_shared_certificate(self):
        """It speaks for no host, unless the site says so in words."""
        self.who["shared"] = self.ca.issue("shared", "URI:spiffe://site/ns/n/sa/")
        self.collector(AllowAgents="spiffe://site/ns/*")
        r = self.sync("shared", member=member("a"))
        self.assertEqual(r.status, 403)
        self.assertIn("HostFrom=", r.json["error"])
        self.assertEqual(self.c.stop(), 0)
        self.collector(AllowAgents="spiffe://site/ns/*", TrustAllAgents="yes")
        self.assertIn("WARN TrustAllAgents=yes", self.c.told)
        self.assertEqual(self.host_of("shared", "a", "b"), ["a", "b"])
        self.assertEqual(self.c.stop(), 0)
        self.assertIn("TrustAllAgents=yes: whoever has a certificate", self.c.said)

    def test_pattern_of_a_uri(self):
        self.who["c"] = self.ca.issue("c", "URI:spiffe://site/host/c/agent")
        self.who["d"] = self.ca.issue("d", "URI:spiffe://site/host/x/d/agent")
        self.collector(HostFrom=HOST + "{host}/agent")
        self.assertEqual(self.host_of("c", "c", "agent", "a"), ["c"])
        for who in ("a", "d"):
            self.assertEqual(self.host_of(who, "a", "d", "x", "agent"), [], who)

    def test_dns_name(self):
        self.who["c"] = self.ca.issue("c", "DNS:c.hosts.site,URI:spiffe://site/host/shared")
        self.who["d"] = self.ca.issue("d", "DNS:d.hosts.site.evil,URI:spiffe://site/host/shared")
        self.who["e"] = self.ca.issue("e", "URI:dns:c.hosts.site,URI:spiffe://site/host/shared")
        self.who["f"] = self.ca.issue("f", "DNS:f.hosts.site")
        self.collector(HostFrom="dns:{host}.hosts.site", AllowAgents="spiffe://site/host/shared dns:f.*")
        self.assertEqual(self.host_of("c", "c", "shared"), ["c"])
        self.assertEqual(self.host_of("f", "f", "c"), ["f"])
        for who in ("d", "e"):
            self.assertEqual(self.host_of(who, "c", "d", "d.hosts.site", "shared"), [], who)

    def test_map(self):
        """A file that is read again when it changes; one that is damaged changes nothing."""
        hosts = self.put("hosts", f"# name host\n{HOST}a  one\n\n{HOST}b two # here\n")
        self.collector(HostFrom=hosts)
        self.assertEqual((self.host_of("a", "a", "one", "two"), self.host_of("b", "one", "two")),
                         (["one"], ["two"]))
        self.put("hosts", f"{HOST}a two\n")
        self.assertEqual((self.host_of("a", "one", "two"), self.host_of("b", "one", "two", "b")),
                         (["two"], []))
        self.put("hosts", f"{HOST}a one two three\n")
        self.assertEqual(self.host_of("a", "one", "two"), ["two"])
        self.assertEqual(self.c.stop(), 0)
        self.assertIn("hosts:1: the line has more than two words; what the file said before stays in force",
                      self.c.said)

    def test_what_makes_no_sense(self):
        for words, said in (({"HostFrom": "spiffe://site/host/*"}, "no pattern with {host} once"),
                            ({"HostFrom": "*{host}"}, "no pattern with {host} once"),
                            ({"HostFrom": "/no/such"}, "/no/such: No such file"),
                            ({"HostFrom": "x/{host}", "TrustAllAgents": "yes"}, "exclude each other")):
            self.assertIn(said, self.collector_refuses(**words))


if __name__ == "__main__":
    unittest.main()
