#!/usr/bin/python3
"""The etcd client against real members of etcd: TLS, leases, watches, a leader killed, a quorum lost, rights refused."""

import itertools
import os
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "control"))
from etcd_server import Lines, Site, missing, until

if why := missing():
    if __name__ == "__main__":
        print(f"skipped: {why}")
        sys.exit(77)
    raise unittest.SkipTest(why)

DRIVER = Path(os.environ["BUILD_DIR"]) / "tests/etcd/etcd-driver"


class Client(Lines):
    tags = itertools.count()

    def __init__(self, site, identity=None, timeout=3000, urls=None):
        files = [site.authority.cert, *(identity or site.root)] if site.tls else ["-"] * 3
        super().__init__(DRIVER, urls or site.urls, *files, timeout)

    def ask(self, verb, *words):
        tag = f"t{next(self.tags)}"
        self.tell(f"{verb} {tag} {' '.join(map(str, words))}")
        return self.next(lambda x: x.get("tag") == tag)

    def event(self, kind, key):
        return self.next(lambda x: x.get("event") == kind and x["kv"]["key"] == key)

    def stands(self):
        return self.next(lambda x: x.get("watch") == "stands")


class One(unittest.TestCase):
    TLS = True

    @classmethod
    def setUpClass(cls):
        cls.site = Site(tls=cls.TLS)

    @classmethod
    def tearDownClass(cls):
        cls.site.close()

    def setUp(self):
        self.client = Client(self.site)
        self.addCleanup(self.client.close)

    def test_keys(self):
        c = self.client
        a = c.ask("create", "/a/1", "one", 0)
        self.assertTrue(a["outcome"] == "answered" and a["succeeded"], a)
        self.assertFalse(c.ask("create", "/a/1", "two", 0)["succeeded"])
        c.ask("put", "/a/2", "two", 0)
        c.ask("put", "/b", "other", 0)
        for how in ("fresh", "stale"):
            self.assertEqual([(k["key"], k["value"]) for k in c.ask("range", "/a/", "prefix", how)["kvs"]],
                             [("/a/1", "one"), ("/a/2", "two")])
        self.assertEqual(c.ask("range", "/nothing", "one", "fresh")["kvs"], [])
        c.ask("delete", "/a/1")
        self.assertEqual([k["key"] for k in c.ask("range", "/a/", "prefix", "fresh")["kvs"]], ["/a/2"])

    def test_leases(self):
        c = self.client
        self.assertEqual(c.ask("grant", 4711, 60)["ttl"], 60)
        self.assertEqual(c.ask("grant", 4711, 60)["outcome"], "refused")
        self.assertEqual(c.ask("keep", 4711)["ttl"], 60)
        self.assertTrue(c.ask("create", "/l/1", "x", 4711)["succeeded"])
        self.assertEqual(c.ask("put", "/l/2", "x", 99)["status"], "NOT_FOUND")
        c.tell("watch /l/ 0")
        c.stands()
        self.assertEqual(c.ask("revoke", 4711)["outcome"], "answered")
        c.event("delete", "/l/1")
        self.assertEqual(c.ask("keep", 4711)["ttl"], 0)

    def test_a_lease_ends_by_itself(self):
        c = self.client
        ttl = c.ask("grant", 4712, 1)["ttl"]
        c.ask("create", "/e/1", "x", 4712)
        c.tell("watch /e/ 0")
        c.stands()
        c.event("delete", "/e/1")
        self.assertGreaterEqual(ttl, 1)

    def test_watch_from_a_revision(self):
        c = self.client
        first = c.ask("put", "/w/1", "a", 0)["revision"]
        c.ask("put", "/w/1", "b", 0)
        c.ask("delete", "/w/1")
        c.ask("put", "/other", "b", 0)
        c.tell(f"watch /w/ {first}")
        events = [c.next(lambda x: "event" in x) for _ in range(3)]
        self.assertEqual([(e["event"], e["kv"]["value"]) for e in events], [("put", "a"), ("put", "b"), ("delete", "")])
        c.ask("put", "/w/2", "c", 0)
        c.event("put", "/w/2")

    def test_watch_later_in_the_same_stream(self):
        """Nothing is lost meanwhile, and what is told comes once."""
        c = self.client
        first = c.ask("put", "/s/a", "a", 0)["revision"]
        c.ask("put", "/s/b", "b", 0)
        c.tell(f"watch /s/a {first} 300 /s/c")
        c.stands()
        c.ask("put", "/s/c", "c", 0)  # the end is not in it
        c.ask("put", "/s/b", "d", 0)
        c.ask("put", "/s/a", "e", 0)
        self.assertEqual([c.next(lambda x: "event" in x)["kv"]["value"] for _ in range(4)], ["a", "b", "d", "e"])
        c.tell("unwatch")
        c.tell(f"watch /s/a {first} 60000")
        c.stands()
        before = self.site.metrics()["etcd_debugging_mvcc_watcher_total"]
        c.tell("unwatch")  # before the other key was asked for
        until(lambda: self.site.metrics()["etcd_debugging_mvcc_watcher_total"] < before, "the stream ends")
        c.tell(f"watch /s/a {first} 1")
        for _ in range(2):
            c.event("put", "/s/a")

    def test_compaction(self):
        c = self.client
        first = c.ask("put", "/c/1", "a", 0)["revision"]
        last = c.ask("put", "/c/1", "b", 0)["revision"]
        self.site.ctl("compact", str(last))
        c.tell(f"watch /c/ {first}")
        c.next(lambda x: x.get("lost"))
        revision = c.ask("range", "/c/", "prefix", "fresh")["revision"]
        c.tell(f"watch /c/ {revision + 1}")
        c.stands()
        c.ask("put", "/c/2", "c", 0)
        c.event("put", "/c/2")

    def test_many_at_once(self):
        for i in range(50):
            self.client.tell(f"put m{i} /m/{i:02} {i} 0")
        for i in range(50):
            self.assertEqual(self.client.next(lambda x: "tag" in x)["outcome"], "answered")
        self.assertEqual(len(self.client.ask("range", "/m/", "prefix", "fresh")["kvs"]), 50)


@unittest.skipUnless(os.environ.get("FULL"), "with FULL=1")
class OnePlain(One):
    TLS = False


class Large(unittest.TestCase):
    def test_a_large_value_comes_whole_to_all_who_watch(self):
        """What was taken off a socket is told to the end, though nothing more comes that would remind of it (libcurl 7.88 held it back)."""
        for tls in (False, True):
            site = Site(tls=tls)
            self.addCleanup(site.close)
            clients = [Client(site) for _ in range(10)]
            for c in clients:
                self.addCleanup(c.close)
                c.tell("watch /large/ 0")
            for c in clients:
                c.stands()
            for i in range(5):
                site.ctl("put", f"/large/{i}", stdin="x" * 1000000)
                for c in clients:
                    self.assertEqual(len(c.event("put", f"/large/{i}")["kv"]["value"]), 1000000)


class Members(unittest.TestCase):
    """Three of them."""

    def setUp(self):
        self.site = Site(members=3)
        self.addCleanup(self.site.close)
        self.client = Client(self.site)
        self.addCleanup(self.client.close)

    def settled(self, key):
        """The key is there, whatever the first answer was: asked again as often as needed, which does no harm."""
        def put():
            self.client.ask("create", key, "x", 0)
            a = self.client.ask("range", key, "one", "fresh")
            return a["outcome"] == "answered" and a["kvs"]
        until(put, f"{key} is written")

    def test_leader_killed(self):
        c = self.client
        self.assertEqual(c.ask("grant", 5, 60)["outcome"], "answered")
        c.tell("watch /k/ 0")
        c.stands()
        self.settled("/k/1")
        c.event("put", "/k/1")
        self.site.kill(self.site.leader())
        self.settled("/k/2")
        c.event("put", "/k/2")
        until(lambda: c.ask("keep", 5).get("ttl") == 60, "the lease lives on")

    @unittest.skipUnless(os.environ.get("FULL"), "with FULL=1")
    def test_leader_hangs(self):
        """Stopped, not dead: its connections stay open, and nothing comes."""
        c = self.client
        c.tell("watch /h/ 0")
        c.stands()
        leader = self.site.leader()
        self.site.pause(leader)
        self.addCleanup(self.site.pause, leader, False)
        self.settled("/h/1")
        c.event("put", "/h/1")

    def test_quorum_lost_and_back(self):
        c = self.client
        self.settled("/q/1")
        c.tell("watch /q/ 0")
        c.stands()
        left = self.site.leader()
        others = [i for i in range(3) if i != left]
        for i in others:
            self.site.kill(i)
        self.assertNotEqual(c.ask("create", "/q/2", "x", 0)["outcome"], "answered")
        until(lambda: c.ask("range", "/q/", "prefix", "fresh")["outcome"] != "answered", "who is cut off says so")
        c.next(lambda x: x.get("watch", "stands") != "stands")  # the watch does not stay silent
        a = c.ask("range", "/q/", "prefix", "stale")
        self.assertTrue(a["outcome"] == "answered" and a["kvs"], a)
        for i in others:
            self.site.start(i)
        self.settled("/q/3")
        c.event("put", "/q/3")


class Rights(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.site = Site()
        cls.host = cls.site.authority.issue("host")
        cls.stranger = cls.site.authority.issue("nobody-knows")
        for words in (("user", "add", "root", "--no-password"), ("user", "grant-role", "root", "root"),
                      ("role", "add", "host"), ("role", "grant-permission", "host", "--prefix=true", "readwrite", "/tpu/"),
                      ("user", "add", "host", "--no-password"), ("user", "grant-role", "host", "host"), ("auth", "enable")):
            cls.site.ctl(*words)

    @classmethod
    def tearDownClass(cls):
        cls.site.close()

    def test_the_certificates_name_is_the_user(self):
        c = Client(self.site, self.host)
        self.addCleanup(c.close)
        self.assertTrue(c.ask("create", "/tpu/a", "x", 0)["succeeded"])
        c.tell("watch /tpu/ 0")
        c.stands()
        a = c.ask("put", "/elsewhere", "x", 0)
        self.assertEqual((a["outcome"], a["status"]), ("refused", "PERMISSION_DENIED"))
        self.assertIn("permission denied", a["why"])
        self.assertIn(self.site.url(0), a["why"])
        c.tell("unwatch")
        c.tell("watch /elsewhere/ 0")
        self.assertIn("permission denied", c.next(lambda x: x.get("watch", "stands") != "stands")["watch"])

    def test_a_user_whom_etcd_does_not_know(self):
        c = Client(self.site, self.stranger)
        self.addCleanup(c.close)
        self.assertEqual(c.ask("range", "/tpu/", "prefix", "fresh")["outcome"], "refused")


class Nobody(unittest.TestCase):
    def test_no_member_answers(self):
        site = Site()
        self.addCleanup(site.close)
        site.kill(0)
        c = Client(site)
        self.addCleanup(c.close)
        a = c.ask("create", "/a", "x", 0)
        self.assertEqual(a["outcome"], "unsent", a)
        c.tell("watch /a/ 0")
        self.assertIn(site.url(0), c.next(lambda x: "watch" in x)["watch"])
        site.start(0)
        c.stands()  # by itself


if __name__ == "__main__":
    unittest.main()
