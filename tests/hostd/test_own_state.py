"""Whose the state is: tpu-hostd on a disk that was copied, with and without a metadata server that says
which instance this is. The real program and copies of its folder."""

import json
import os
import shutil
import sys
import tempfile
import unittest
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
FOLDERS = "tests/hostd", "tests/lab", "tests", "tests/collector"
sys.path[:0] = [str(TOP / f) for f in FOLDERS]
from around import Hostd, Launchd, Receiver, has_failed, wait_until  # noqa: E402
from collector_case import Collector  # noqa: E402
from metadata import MetadataServer  # noqa: E402
from state_file import content_of  # noqa: E402

NICS = [{"mac": "42:01:0a:80:00:02", "ip": "10.128.0.2"}]
MACHINES = {"a": "a" * 32, "b": "b" * 32}


class Case(unittest.TestCase):
    def host(self, name, machine="a", boot=1, endpoint="", metadata="none", after="300ms"):
        h = Hostd(endpoint=endpoint)
        self.addCleanup(lambda: h.close(failed=has_failed(self)))
        with open(h.config, "a") as f:
            f.write(f"StateFile={h.folder}/health.json\n[Metadata]\nHost={metadata}\n"
                    f"Copy={h.folder}/metadata.json\nCopyAfter={after}\n")
        site = h.root / "etc/tpu-hostd/identity.conf.d/10-site.conf"
        site.write_text(site.read_text() + f"\n[Identity]\nHostName={name}\n")
        self.be(h, machine, boot)
        return h

    def be(self, h, machine, boot):
        (h.root / "etc/machine-id").write_text(MACHINES[machine] + "\n")
        (h.root / "proc/sys/kernel/random/boot_id").write_text(f"5e0f3a52-52a7-4d2b-9b1c-{boot:012x}\n")

    def metadata(self, instance):
        server = MetadataServer(("127.0.0.1", 0), lambda _: NICS, name="vm")
        server.id = instance
        self.addCleanup(lambda: server.thread.is_alive() and server.stop())
        return server

    def copy(self, a, b):
        """What is on the disk of a, and no process of it runs, is on that of b, too."""
        for name in "spool", "captures", "health.json", "metadata.json", "prepared.json", "machine":
            source, target = a.folder / name, b.folder / name
            if source.is_dir():
                shutil.copytree(source, target)
            elif source.exists():
                shutil.copy2(source, target)

    def kept(self, h):
        return json.loads(content_of(h.folder / "machine"))

    def cordon(self, h):
        self.assertEqual(h.call("/v1/cordon?reason=bad+cable", "PUT")[0], 200)

    def is_cordoned(self, h):
        return h.get("/v1/status")["cordon"] is not None

    def aside(self, h):
        return sorted(p.name for p in h.folder.glob("*.other-machine*"))

    def ended(self, h):
        return wait_until(lambda: h.process.poll() is not None, 20, "its end") and h.process.returncode


class Bound(Case):
    def test_a_copy_is_set_aside(self):
        a = self.host("h-a").start()
        self.cordon(a)
        a.stop()
        b = self.host("h-b", "b", 2)
        self.copy(a, b)
        b.start()
        self.assertFalse(self.is_cordoned(b))
        wait_until(lambda: b.events("tpu.state.set_aside"), 10, "the event")
        said = b.events("tpu.state.set_aside")[0]["body"]
        self.assertEqual((said["owner"], said["owner_machine"], said["host"], said["machine"]),
                         ("h-a", MACHINES["a"], "h-b", MACHINES["b"]))
        self.assertEqual(self.aside(b), [f"{n}.other-machine" for n in ("health.json", "machine", "spool")])
        self.assertEqual((self.kept(b)["machine_id"], self.kept(b)["host"]), (MACHINES["b"], "h-b"))
        b.stop()
        b.start()  # and once is enough
        self.assertEqual(len(self.aside(b)), 3)
        self.assertEqual(b.events("tpu.state.set_aside"), [])

    def test_a_boot_changes_nothing(self):
        a = self.host("h-a").start()
        self.cordon(a)
        a.stop()
        self.be(a, "a", 2)
        a.start()
        self.assertTrue(self.is_cordoned(a))
        self.assertEqual(self.aside(a), [])

    def test_one_at_work_keeps_its_state(self):
        """Another machine's tpu-hostd on the same folder is refused, and takes nothing away."""
        a = self.host("h-a").start()
        self.cordon(a)
        b = self.host("h-b", "b", 2)
        b.config.write_text(b.config.read_text().replace(str(b.folder), str(a.folder))
                            .replace(f"{a.folder}/api.sock", f"{b.folder}/api.sock"))
        b.spawn()
        self.assertNotEqual(self.ended(b), 0)
        self.assertEqual((self.aside(a), self.kept(a)["host"]), ([], "h-a"))
        self.assertTrue(self.is_cordoned(a))

    def test_a_damaged_file_is_nobodys(self):
        a = self.host("h-a").start()
        self.cordon(a)
        a.stop()
        (a.folder / "machine").write_text("damaged")
        self.be(a, "b", 2)
        a.start()
        self.assertTrue(self.is_cordoned(a))
        self.assertEqual(self.kept(a)["machine_id"], MACHINES["b"])


class Instance(Case):
    """A metadata server says which instance this is."""

    def first(self, receiver=None):
        server = self.metadata("4711")
        a = self.host("h-a", metadata=server.address).start()
        wait_until(lambda: self.kept(a)["instance_id"] == "4711", 10, "the instance id")
        self.cordon(a)
        a.stop()
        return a

    def test_no_phantom_in_the_registry(self):
        """Who may be a copy joins nothing under the identity that lies on its disk."""
        c = Delivered.collector(self)
        a = self.first()
        b = self.host("h-b", "a", 2, f"http://127.0.0.1:{c.otlp}", self.metadata("4712").address, "60s")
        with open(b.config, "a") as f:
            f.write(f"[Registry]\nEndpoint=http://127.0.0.1:{c.otlp}\nSplay=0\nAddress=127.0.0.1\n")
        (b.root / "etc/tpu-hostd/identity.conf.d/60-slice.conf").write_text(
            "[Identity]\nSliceName=s0\nWorkerId=0\n")
        launchd = Launchd(b.folder / "launchd.sock")
        self.addCleanup(launchd.stop)
        self.copy(a, b)
        b.start()
        self.ended(b)
        self.assertEqual(c.get("/api/v1/hosts").json["hosts"], [])
        b.start()

        def heard():
            return [(h["name"], h["registry"]) for h in c.get("/api/v1/hosts").json["hosts"]
                    if h["missing"] != "never heard"]  # the workers of its slice that its identity names

        wait_until(lambda: heard() == [("h-b", "member")], 60, heard)

    def test_another_instance_with_the_same_machine_id(self):
        a, receiver = self.first(), Receiver().start()
        self.addCleanup(receiver.stop)
        b = self.host("h-b", "a", 2, f"http://127.0.0.1:{receiver.port}",
                      self.metadata("4712").address, "60s")
        self.copy(a, b)
        b.start()
        self.assertEqual(self.ended(b), 0)  # systemd starts it again
        self.assertEqual(receiver.got, [])
        b.start()
        self.assertFalse(self.is_cordoned(b))
        wait_until(lambda: receiver.events(), 10, "what it sends")
        said = wait_until(lambda: b.events("tpu.state.set_aside"), 10, "the event")[0]["body"]
        self.assertEqual((said["owner_instance"], said["instance"]), ("4711", "4712"))
        self.assertEqual(self.kept(b)["instance_id"], "4712")

    def test_a_new_machine_id_on_the_same_instance(self):
        a = self.first()
        b = self.host("h-a", "b", 2, metadata=self.metadata("4711").address, after="60s")
        self.copy(a, b)
        b.start()
        self.assertTrue(self.is_cordoned(b))
        wait_until(lambda: self.kept(b)["machine_id"] == MACHINES["b"], 10, "the new machine id")
        self.assertEqual(self.aside(b), [])

    def test_no_answer_is_no_difference(self):
        a, receiver = self.first(), Receiver().start()
        self.addCleanup(receiver.stop)
        self.be(a, "a", 2)
        text = a.config.read_text().replace("Endpoint=\n", f"Endpoint=http://127.0.0.1:{receiver.port}\n")
        lines = [line if not line.startswith("Host=") else "Host=127.0.0.1:1" for line in text.split("\n")]
        a.config.write_text("\n".join(lines).replace("CopyAfter=300ms", "CopyAfter=2s"))
        a.start()
        self.assertTrue(self.is_cordoned(a))
        self.assertEqual(receiver.got, [])  # until it is clear that there is no answer
        wait_until(lambda: receiver.got, 20, "what it sends")
        self.assertEqual((self.kept(a)["instance_id"], self.aside(a)), ("4711", []))

    def test_the_last_good_copy_is_of_the_machine_with_its_nic(self):
        a = self.first()
        self.assertIn("42:01:0a:80:00:02", (a.folder / "metadata.json").read_text())
        for mac, used in ("42:01:0a:80:00:03", False), (NICS[0]["mac"], True):
            b = self.host("h-b", "a", 2, metadata="127.0.0.1:1")
            self.copy(a, b)
            (b.root / "sys/class/net/eth1/address").write_text(mac + "\n")
            b.start()
            check = wait_until(lambda: [c for c in b.get("/v1/checks")["checks"]
                                        if c["check"] == "metadata" and c["verdict"] == "WARN"], 20,
                               "the check")
            known = b.get("/v1/identity")["instance-id"]
            if used:
                self.assertIn("last good", known["origin"])
            else:
                self.assertIsNone(known)
                self.assertRegex(check[0]["reason"], "metadata.json is passed over: .* of another machine")
                self.assertIn("metadata.json is passed over", b.output.read_text())
            b.stop()

    def test_the_answer_comes_late(self):
        """It was taken for its own while the metadata server said nothing."""
        a, server = self.first(), self.metadata("4712")
        server.set(mode="busy")
        b = self.host("h-b", "a", 2, metadata=server.address)
        self.copy(a, b)
        b.start()
        wait_until(lambda: "records stay in the spool" in str(b.get("/v1/checks")), 20,
                   "its spool to be its own")
        server.set(mode="good")
        self.assertEqual(self.ended(b), 0)
        b.start()
        self.assertFalse(self.is_cordoned(b))
        self.assertIn("spool.other-machine", self.aside(b))

    def test_no_answer_and_another_machine_id(self):
        a = self.first()
        b = self.host("h-b", "b", 2, metadata="127.0.0.1:1")
        self.copy(a, b)
        b.start()
        self.assertEqual(self.ended(b), 0)
        b.start()
        self.assertFalse(self.is_cordoned(b))
        self.assertIn("spool.other-machine", self.aside(b))


class Delivered(Case):
    """What was set aside reaches a real collector, after what the host has to say, under its own name."""

    def collector(self):
        folder = tempfile.mkdtemp(prefix="own-state-test-")
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        c = Collector(f"{folder}/collector.db")
        self.addCleanup(c.stop)
        return c

    def stored(self, c, host):
        """(name, body) of this host's events, in the order in which they came."""
        return c.sql("SELECT e.name, e.body FROM events e JOIN hosts h ON h.id = e.host WHERE h.name = ? "
                     "ORDER BY e.id", host)

    def orders(self, c, host, reason):
        """How often this order of it is there."""
        return sum(n == "tpu.host.cordoned" and f'"{reason}"' in t for n, t in self.stored(c, host))

    def order(self, h, reason):
        self.assertEqual(h.call(f"/v1/cordon?reason={reason}", "PUT")[0], 200)

    def aside_is_gone(self, h):
        return h.get("/v1/status")["uplink"]["aside"] is None and not list(h.folder.glob("spool.other*"))

    def test_a_clone_and_its_original(self):
        c = self.collector()
        url = f"http://127.0.0.1:{c.otlp}"
        a = self.host("h-a").start()  # without an endpoint: all of it is in its spool
        for i in range(5):
            self.order(a, f"a{i}")
        a.stop()
        b = self.host("h-b", "b", 2, url)
        self.copy(a, b)
        b.start()
        self.order(b, "b0")
        self.order(b, "b1")
        wait_until(lambda: self.aside_is_gone(b), 60, "what was set aside is delivered")
        self.assertEqual([h["name"] for h in c.get("/api/v1/hosts").json["hosts"]], ["h-b"])
        for i in range(5):
            self.assertEqual(self.orders(c, "h-a", f"a{i}"), 1, i)
        self.assertIn("tpu.state.set_aside", [n for n, _ in self.stored(c, "h-b")])
        a.config.write_text(a.config.read_text().replace("Endpoint=\n", f"Endpoint={url}\n"))
        a.start()  # it delivers the same, and more
        self.order(a, "a5")
        wait_until(lambda: self.orders(c, "h-a", "a5"), 60, "the original's last word")
        for i in range(6):
            self.assertEqual(self.orders(c, "h-a", f"a{i}"), 1, i)
        self.assertEqual(c.sql("SELECT count(*) FROM events WHERE name = 'tpu.spool.shared'"), [(0,)])

    def mounted(self, h, how=""):
        """Its spool is a mount point, for tpu-hostd alone."""
        script = f'mount --bind {h.folder}/spool {h.folder}/spool {how} && exec "$@"'
        h.wrapper = ["unshare", "--mount", "sh", "-c", script, "-"]

    @unittest.skipUnless(os.geteuid() == 0, "only root mounts")
    def test_a_spool_that_is_a_mount_point(self):
        """It cannot be renamed: what it holds is set aside inside it."""
        c = self.collector()
        a, b = self.host("h-a").start(), self.host("h-b", "b", 2, f"http://127.0.0.1:{c.otlp}")
        self.order(a, "a0")
        a.stop()
        self.copy(a, b)
        (b.folder / "spool/lost+found").mkdir()
        self.mounted(b)
        b.start()
        wait_until(lambda: self.orders(c, "h-a", "a0"), 60, "what was set aside is delivered")
        wait_until(lambda: self.aside_is_gone(b), 60, "it is gone")
        self.assertEqual(sorted(p.name for p in (b.folder / "spool").iterdir()),
                         ["events", "logs", "lost+found", "metrics"])
        self.assertEqual([h["name"] for h in c.get("/api/v1/hosts").json["hosts"]], ["h-b"])

    @unittest.skipUnless(os.geteuid() == 0, "only root mounts")
    def test_a_spool_that_cannot_be_set_aside_stays_closed(self):
        a, b = self.host("h-a").start(), self.host("h-b", "b", 2)
        a.stop()
        self.copy(a, b)
        kept = {p: p.read_bytes() for p in (b.folder / "spool").rglob("*") if p.is_file()}
        self.mounted(b, f"&& mount -o remount,ro,bind {b.folder}/spool")
        for _ in range(2):  # the next start finds the same
            b.start()
            wait_until(lambda: [f for f in b.get("/v1/checks")["checks"] if f["check"] == "uplink.delivery"
                                and f["verdict"] == "FAIL" and "stays closed" in f["reason"]], 20,
                       "the check")
            b.stop()
        self.assertEqual({p: p.read_bytes() for p in (b.folder / "spool").rglob("*") if p.is_file()}, kept)
        self.assertEqual(self.kept(b)["host"], "h-a")
        b.wrapper = []  # it can be renamed now
        b.start()
        self.assertIn("spool.other-machine", self.aside(b))

    def test_a_snapshot_comes_back(self):
        c = self.collector()
        a = self.host("h-a", endpoint=f"http://127.0.0.1:{c.otlp}").start()
        self.order(a, "before")
        wait_until(lambda: self.orders(c, "h-a", "before"), 60, "the first")
        a.stop()
        shutil.copytree(a.folder / "spool", a.folder / "snapshot")
        self.be(a, "a", 2)
        a.start()
        for i in range(5):
            self.order(a, f"lost{i}")
        wait_until(lambda: self.orders(c, "h-a", "lost4"), 60, "the last")
        a.stop()
        shutil.rmtree(a.folder / "spool")
        (a.folder / "snapshot").rename(a.folder / "spool")
        self.be(a, "a", 3)
        a.start()
        for i in range(3):
            self.order(a, f"new{i}")
        wait_until(lambda: self.orders(c, "h-a", "new2"), 60, "what is new")
        for reason in "before", "lost0", "lost4", "new0", "new1", "new2":
            self.assertEqual(self.orders(c, "h-a", reason), 1, reason)
        self.assertTrue(c.sql("SELECT 1 FROM events WHERE name = 'tpu.spool.went_back'"))

    def test_a_full_one_is_sent_whole(self):
        """The limit is this host's own: what was set aside is only ever sent, and gives up nothing."""
        c = self.collector()
        a, b = self.host("h-a"), self.host("h-b", "b", 2, f"http://127.0.0.1:{c.otlp}")
        for h in a, b:
            text = h.config.read_text().replace("[Hostd]\n", "[Hostd]\nSpoolBytes=1M\n")
            h.config.write_text(text.replace("MetricsInterval=300ms", "MetricsInterval=100ms"))
        a.start()
        wait_until(lambda: len(list(a.folder.glob("spool/metrics/*.seg"))) > 6, 60, "some segments")
        spool = a.get("/v1/status")["uplink"]["classes"]["metrics"]
        a.stop()
        self.copy(a, b)
        b.start()
        wait_until(lambda: self.aside_is_gone(b), 60, "what was set aside is delivered")
        gaps = [json.loads(t) for n, t in self.stored(c, "h-b") if n == "tpu.spool.gap"]
        self.assertEqual(gaps, [])

    def test_one_that_is_damaged_stays(self):
        receiver = Receiver().start()
        self.addCleanup(receiver.stop)
        b = self.host("h-b", endpoint=f"http://127.0.0.1:{receiver.port}")
        (b.folder / "spool.other-machine").write_text("no folder")
        b.start()
        wait_until(lambda: "other-machine" in b.output.read_text(), 20, "it is named")
        wait_until(lambda: b.get("/v1/status")["uplink"]["aside"] is None, 20, "no more")
        self.assertTrue((b.folder / "spool.other-machine").exists())


if __name__ == "__main__":
    unittest.main()
