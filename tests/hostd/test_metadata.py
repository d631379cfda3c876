"""tpu-hostd and the metadata server: the real program, a stand-in server on loopback, and a stand-in for
tpu-netcfg."""

import json
import os
import socketserver
import struct
import subprocess
import sys
import threading
import time
import unittest
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(Path(__file__).parent), str(TOP / "tests/lab"), str(TOP / "tests")]
from around import BINARY, Hostd, message, wait_until  # noqa: E402
from metadata import MetadataServer, endpoints, tpu_env  # noqa: E402
from protobuf import parse  # noqa: E402
from state_file import content_of, text_of  # noqa: E402

KIND_NETWORK_MTU, KIND_NETWORK_MTU_REPLY, KIND_OBSERVE, KIND_OBSERVE_REPLY = 12, 13, 14, 15
NICS = [{"mac": "42:01:0a:80:00:02", "ip": "10.128.0.2"}, {"mac": "42:01:0a:80:01:02", "ip": "10.128.1.2"}]
TPUCTL = Path(os.environ.get("BUILD_DIR", TOP / "build/dev")) / "agent/ctl/tpuctl"


class Netcfg:
    """tpu-netcfg's socket: keeps what it was handed as [({mac: mtu}, {source})]."""

    def __init__(self, path):
        self.got, self.refuse, self.observe, self.until = [], [], [], []
        netcfg = self

        class Handler(socketserver.StreamRequestHandler):
            def handle(self):
                while head := self.rfile.read(8):
                    size, version, kind = struct.unpack("<IHH", head)
                    payload = self.rfile.read(size)
                    if kind == KIND_OBSERVE:
                        netcfg.until += parse(payload).get(2, [0])
                        netcfg.observe.append(parse(payload).get(1, [0]) == [1])
                        self.wfile.write(struct.pack("<IHH", 0, 1, KIND_OBSERVE_REPLY))
                        continue
                    assert (version, kind) == (1, KIND_NETWORK_MTU), (version, kind)
                    entries = [{n: v for n, (v,) in parse(e).items()} for e in parse(payload).get(1, [])]
                    netcfg.got.append(({e[1].hex(":"): e[2] for e in entries},
                                       {e[3].decode() for e in entries}))
                    reply = message({1: len(entries), 2: netcfg.refuse})
                    self.wfile.write(struct.pack("<IHH", len(reply), 1, KIND_NETWORK_MTU_REPLY) + reply)

        class Server(socketserver.ThreadingUnixStreamServer):
            daemon_threads = True

        self.server = Server(str(path), Handler)
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05},
                         daemon=True).start()

    def stop(self):
        self.server.shutdown()
        self.server.server_close()


class Case(unittest.TestCase):
    def setUp(self):
        self.server = MetadataServer(("127.0.0.1", 0), lambda _: NICS, name="t1v-n-test-w-0")
        self.addCleanup(lambda: self.server.thread.is_alive() and self.server.stop())
        self.h = Hostd()
        self.addCleanup(lambda: self.h.close(failed=not self._outcome.success))
        self.netcfg = Netcfg(self.h.folder / "netcfg.sock")
        self.addCleanup(self.netcfg.stop)
        self.copy = self.h.folder / "metadata.json"
        (self.h.root / "sys/class/net/eth0/address").write_text(NICS[0]["mac"] + "\n")
        text = self.h.config.read_text().replace("[Hostd]\n",
                                                 f"[Hostd]\nNetcfgSocket={self.h.folder}/netcfg.sock\n")
        self.h.config.write_text(text + f"[Metadata]\nHost={self.server.address}\nCopy={self.copy}\n"
                                        f"CopyAfter=300ms\n")
        self.site = self.h.root / "etc/tpu-hostd/identity.conf.d/10-site.conf"
        lines = self.site.read_text().splitlines(keepends=True)
        self.site.write_text("".join(line for line in lines if not line.startswith("MachineType=")))

    def said(self, text):
        return text in self.h.output.read_text()

    def machine_type(self):
        return self.h.get("/v1/identity")["machine-type"]

    def handed(self, mtu, source="metadata"):
        return wait_until(lambda: self.netcfg.got
                          and self.netcfg.got[-1] == ({n["mac"]: mtu for n in NICS}, {source}), 10,
                          f"{mtu} handed to tpu-netcfg")

    def asked_nics(self):
        """What was asked of the network interfaces, in order."""
        return [a for a in self.server.asked if "network-interfaces" in a[0]]

    def waits(self):
        return wait_until(lambda: (n := self.asked_nics()) and "last_etag" in n[-1][1], 10,
                          "a wait for a change")

    def check(self):
        return next((c for c in self.h.get("/v1/checks")["checks"] if c["check"] == "metadata"), {})


class Good(Case):
    def test_identity_copy_and_handover(self):
        self.h.start()
        wait_until(self.machine_type, 5, "the machine type")
        self.assertEqual(self.machine_type(), {"value": "ct6e-standard-4t", "origin": "metadata"})
        self.assertEqual(self.h.get("/v1/identity")["host-name"],
                         {"value": "t1v-n-test-w-0", "origin": "metadata"})
        self.assertRegex(self.h.get("/v1/identity")["chips"]["origin"], "10-site.conf")
        self.handed(8896)
        wait_until(lambda: self.copy.exists() and json.loads(content_of(self.copy))["name"], 5, "the copy")
        kept = json.loads(content_of(self.copy))
        self.assertEqual(kept["nics"][1], {**NICS[1], "mtu": 8896})
        self.assertEqual(kept["boot_id"], "5e0f3a52-52a7-4d2b-9b1c-6a1f0e4d7c3b")
        self.assertLess(abs(kept["taken_usec"] / 1e6 - time.time()), 60)
        self.assertEqual(self.copy.stat().st_mode & 0o777, 0o600)
        for path, _, headers in self.server.asked:
            self.assertEqual(headers["Metadata-Flavor"], "Google")
            self.assertIn("tpu-hostd/", headers["User-Agent"])
        wait_until(lambda: self.check().get("found") == "answering", 5, "the check")

    def test_static_file_wins(self):
        self.site.write_text(self.site.read_text()
                             + "\n[Identity]\nMachineType=ct5lp-hightpu-4t\nHostName=mine\n")
        self.h.start()
        self.handed(8896)
        self.assertEqual(self.machine_type()["value"], "ct5lp-hightpu-4t")
        self.assertEqual(self.h.get("/v1/identity")["host-name"]["value"], "mine")

    def test_change_is_seen_at_once_by_a_wait(self):
        self.h.start()
        self.handed(8896)
        self.waits()
        path, query, _ = self.asked_nics()[-1]
        self.assertEqual((path, query["wait_for_change"], query["timeout_sec"], query["recursive"]),
                         ("/computeMetadata/v1/instance/network-interfaces/", "true", "60", "true"))
        wait_until(lambda: len([a for a in self.server.asked if "last_etag" in a[1]]) == 3, 10,
                   "waits for the notices, too")
        asked = len(self.server.asked)
        time.sleep(0.5)
        self.assertEqual(len(self.server.asked), asked, "it asks again while it waits")
        began = time.monotonic()
        self.server.set(mtu=1460)
        self.handed(1460)
        # who does not wait for changes learns it when the wait of 60 s is over
        self.assertLess(time.monotonic() - began, 30)
        wait_until(lambda: json.loads(content_of(self.copy))["nics"][0]["mtu"] == 1460, 5, "the new copy")

    def test_netcfg_that_comes_late_is_told(self):
        self.netcfg.stop()
        (self.h.folder / "netcfg.sock").unlink()
        self.h.start()
        wait_until(lambda: self.said("cannot be sent the networks' MTUs"), 5, "a word about tpu-netcfg")
        self.netcfg = Netcfg(self.h.folder / "netcfg.sock")
        self.handed(8896)

    @unittest.skipIf(os.getuid() != 0, "only root may order")
    def test_an_order_to_observe_is_told(self):
        """Also to a tpu-netcfg that comes late, and again after a restart: what it remembers may be over."""
        self.h.start()
        wait_until(lambda: self.netcfg.observe == [False], 5, "no order")
        self.assertEqual(self.h.call("/v1/observe", "PUT")[0], 200)
        wait_until(lambda: self.netcfg.observe == [False, True], 5, "the order")
        self.netcfg.stop()
        (self.h.folder / "netcfg.sock").unlink()
        self.assertEqual(self.h.call("/v1/observe", "DELETE")[0], 200)
        wait_until(lambda: self.said("cannot be sent the order to act as configured"), 5,
                   "a word about tpu-netcfg")
        self.netcfg = Netcfg(self.h.folder / "netcfg.sock")
        wait_until(lambda: self.netcfg.observe == [False], 15, "the end of the order")

    def test_an_order_is_told_with_its_end(self):
        self.h.start()
        wait_until(lambda: self.netcfg.observe == [False], 5, "no order")
        now = int(time.time())
        ends = [now + 3600, now + 7200]  # the second in place of the first
        for n, end in enumerate(ends):
            text = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(end))
            self.assertEqual(self.h.call("/v1/observe?until=" + text, "PUT")[0], 200)
            wait_until(lambda: len(self.netcfg.observe) > n + 1, 5, "the order")
        self.assertEqual((self.netcfg.observe, self.netcfg.until),
                         ([False, True, True], [0] + [end * 1000000 for end in ends]))

    def test_refusal_is_said(self):
        self.netcfg.refuse = ["NIC 42:01:0a:80:00:02: an MTU of 9"]
        self.h.start()
        wait_until(lambda: self.said("tpu-netcfg refuses an MTU that the metadata server states: NIC 42:01"),
                   5, "the refusal")

    def test_metadata_of_the_environment_is_not_read(self):
        self.h.config.write_text(self.h.config.read_text().replace(f"Host={self.server.address}\n", ""))
        os.environ["GCE_METADATA_IP"] = os.environ["GCE_METADATA_HOST"] = self.server.address
        self.addCleanup(os.environ.pop, "GCE_METADATA_IP")
        self.addCleanup(os.environ.pop, "GCE_METADATA_HOST")
        self.h.start()
        time.sleep(0.5)
        self.assertEqual(self.server.asked, [])

    def test_bad_host_is_named(self):
        for value in ("metadata.google.internal", "169.254.169.254:0", "169.254.169.254/x", "[::1",
                      "user@10.0.0.1", "10.0.0.1:99999"):
            self.h.config.write_text(f"[Metadata]\nHost={value}\n")
            r = subprocess.run([BINARY, "--config", self.h.config, "--root", self.h.root, "--check-config"],
                               capture_output=True,
                               text=True, timeout=60)
            self.assertEqual(r.returncode, 1, value)
            self.assertRegex(r.stderr, r"hostd\.conf:2: Host=")


WORKERS = [("t1v-n-test-w-0", "10.128.0.2"), ("t1v-n-test-w-1", "10.128.0.3")]


class Slice(Case):
    """What is said of the slice; the static file says nothing of it."""

    def setUp(self):
        super().setUp()
        self.site.write_text("[Identity]\n")

    def identity(self, *fields):
        said = self.h.get("/v1/identity")
        return [said[f] and said[f]["value"] for f in fields]

    def knows(self, values, seconds=10):
        wait_until(lambda: self.identity(*values) == list(values.values()), seconds,
                   f"{values}, not {self.identity(*values)}: {self.h.output.read_text()[-2000:]}")

    def events(self, name):
        return [e for e in self.h.get("/v1/events")["events"] if e["name"] == name]

    def test_both_forms(self):
        for dialect, bare in (("cloud-tpu", False), ("compute-engine", True)):
            with self.subTest(dialect=dialect):
                self.server.set(attributes={"tpu-env": tpu_env(dialect, "v6e-8", 1, "2x4", "1,2,1",
                                                               MEGASCALE_NUM_SLICES=2,
                                                               MEGASCALE_SLICE_ID=1,
                                                               MEGASCALE_COORDINATOR_ADDRESS="10.128.0.9"),
                                            "worker-network-endpoints": endpoints(WORKERS, bare)})
                self.h.start()
                self.knows({"accelerator-type": "v6e-8", "worker-id": "1", "topology": "2x4",
                            "host-bounds": "1,2,1", "chips": "4",
                            "slice-name": "slice-a", "zone": "us-east5-b", "slices": "2", "slice-id": "1",
                            "preemptible": "false",
                            "coordinator": "10.128.0.9", "instance-id": "6502082742571311568",
                            "topology-wrap": "false,false,false",
                            "worker-hostnames": "t1v-n-test-w-0,t1v-n-test-w-1",
                            "worker-addresses": None if bare else "10.128.0.2,10.128.0.3"})
                said = self.h.get("/v1/identity")
                self.assertEqual(said["worker-id"]["origin"], "metadata (tpu-env)")
                self.assertEqual(said["worker-hostnames"]["origin"], "metadata (worker-network-endpoints)")
                self.assertEqual(said["chips"]["origin"], "from chips-per-host-bounds")
                kept = wait_until(
                        lambda: (k := json.loads(content_of(self.copy))["said"])["instance/attributes/tpu-env"] and k, 5, "the copy")
                self.assertEqual(kept["instance/zone"], {"zone": "us-east5-b"})
                self.h.stop()

    def test_a_change_of_the_slice_is_followed_at_once(self):
        self.h.start()
        self.knows({"zone": "us-east5-b"})
        self.assertEqual(self.identity("worker-id", "topology"), [None, None])
        self.assertTrue(self.said("instance/attributes/tpu-env: HTTP status 404"))
        self.h.stop()
        self.server.set(attributes={"tpu-env": tpu_env(worker=1)})
        self.h.start()
        self.knows({"worker-id": "1", "topology": "4x4"})
        wait_until(lambda: any("tpu-env" in a[0] and "last_etag" in a[1] for a in self.server.asked), 10,
                   "a wait for tpu-env")
        self.server.set(attributes={"tpu-env": tpu_env(worker=2)})
        self.knows({"worker-id": "2"}, 3)

    def test_the_slice_outlives_the_server(self):
        self.server.set(attributes={"tpu-env": tpu_env(worker=3),
                                    "worker-network-endpoints": endpoints(WORKERS * 2)})
        self.h.start()
        self.knows({"worker-id": "3"})
        wait_until(lambda: self.copy.exists()
                   and json.loads(content_of(self.copy))["said"]["instance/attributes/tpu-env"], 5,
                   "the copy")
        self.h.stop()
        self.server.stop()
        self.h.start()
        self.knows({"worker-id": "3", "topology": "4x4"})
        self.assertRegex(self.h.get("/v1/identity")["worker-id"]["origin"],
                         r"^metadata, last good of 20.*Z \(tpu-env\)$")

    def test_nonsense_is_refused_in_words(self):
        for text, word in (("<html><body>Sign in</body></html>", "a page of HTML"),
                           ("no colon", "line 1: not KEY: 'VALUE'"),
                           ("WORKER_ID: '1", "line 1: a quote is not closed"), ("", "it is empty")):
            self.h.output.write_text("")
            self.server.set(attributes={"tpu-env": text})
            self.h.start()
            wait_until(lambda: self.said(f"instance/attributes/tpu-env: {word}"), 10, word)
            self.knows({"zone": "us-east5-b", "worker-id": None})
            self.h.stop()
        self.server.set(attributes={"tpu-env": "WORKER_ID: '-1'\nACCELERATOR_TYPE: 'v6e-16'\n",
                                    "worker-network-endpoints": "a:b"})
        self.h.start()
        self.knows({"accelerator-type": "v6e-16", "worker-id": None})
        wait_until(lambda: self.said("tpu-env: WORKER_ID cannot be worker-id"), 5,
                   "the value that is passed over")
        wait_until(lambda: self.said("endpoint 0: neither NAME:UID:ADDRESS nor NAME"), 5, "the endpoint")

    def test_preemption_and_maintenance(self):
        self.h.start()
        wait_until(lambda: len([a for a in self.server.asked if "last_etag" in a[1]]) >= 2, 10,
                   "waits for the notices")
        self.assertEqual(self.events("tpu.host.preemption_notice"), [])
        began = time.monotonic()
        self.server.set(preempted=True)
        (event,) = wait_until(lambda: self.events("tpu.host.preemption_notice"), 10, "the event")
        print(f"preemption notice after {time.monotonic() - began:.2f} s", file=sys.stderr)
        self.assertEqual(event["body"],
                         {"notice": "preemption", "state": "ahead", "text": "TRUE", "runs": 0})
        self.assertEqual(self.h.get("/v1/status")["notices"], [{"notice": "preemption", "text": "TRUE"}])
        self.server.set(maintenance="TERMINATE_ON_HOST_MAINTENANCE")
        (event,) = wait_until(lambda: self.events("tpu.host.maintenance_notice"), 10, "the event")
        self.assertEqual((event["body"]["text"], event["body"]["state"]),
                         ("TERMINATE_ON_HOST_MAINTENANCE", "ahead"))
        self.server.set(maintenance="NONE")
        wait_until(lambda: [e["body"]["state"] for e in self.events("tpu.host.maintenance_notice")]
                   == ["ahead", "over"], 10, "its end")

    def test_upcoming_maintenance(self):
        """Planned, moved, over: each is told, in either spelling of the keys; no run and no other host
        is."""
        self.server.set(upcoming={"error": "no notifications have been received yet, try again later"})
        self.h.start()
        wait_until(lambda: [q for path, q, _ in self.server.asked if path.endswith("/upcoming-maintenance")
                            and "last_etag" in q], 60, "a wait for it")
        self.assertEqual({q.get("alt") for path, q,
                          _ in self.server.asked if path.endswith("/upcoming-maintenance")}, {"json"})
        plan = {"can_reschedule": "true", "latest_window_start_time": "2026-12-08T19:00:01Z",
                "maintenance_status": "PENDING", "type": "SCHEDULED",
                "maintenance_reasons": ["PLANNED_UPDATE"], "window_end_time": "2026-12-01T21:00:01Z",
                "window_start_time": "2026-12-01T19:00:01Z"}
        self.server.set(upcoming=plan)
        (event,) = wait_until(lambda: self.events("tpu.host.maintenance_upcoming"), 60, "the event")
        self.assertEqual(event["body"],
                         {"notice": "upcoming-maintenance", "state": "planned", "runs": 0, "text":
                                         "SCHEDULED, PENDING, 2026-12-01T19:00:01Z to 2026-12-01T21:00:01Z, "
                                         "at the latest from 2026-12-08T19:00:01Z, can be rescheduled"})
        self.server.set(upcoming={"windowStartTime": "2026-12-02T19:00:01Z", "maintenanceStatus": "ONGOING",
                                  "maintenanceType": "UNSCHEDULED"})
        events = wait_until(lambda: (e := self.events("tpu.host.maintenance_upcoming")) and len(e) == 2
                            and e, 60, "the other plan")
        self.assertIn("UNSCHEDULED, ONGOING, 2026-12-02T19:00:01Z", {e["body"]["text"] for e in events})
        self.server.set(upcoming={})
        wait_until(lambda: sorted(e["body"]["state"] for e in self.events("tpu.host.maintenance_upcoming"))
                   == ["over", "planned", "planned"], 60, "its end")
        self.assertEqual((self.events("tpu.host.maintenance_notice"), self.events("tpu.run.notified")),
                         ([], []))

    def test_what_is_absent_at_first_is_found_soon(self):
        self.h.start()
        asked = lambda: [path for path, _, _ in self.server.asked if path.endswith("/tpu-env")]
        wait_until(lambda: len(asked()) >= 2, 60, "tpu-env is asked for")
        self.server.set(attributes={"tpu-env": tpu_env("compute-engine", worker=1),
                                    "worker-network-endpoints": endpoints(WORKERS)})
        self.knows({"worker-id": "1"}, 60)

    def test_the_environment_of_tpuctl_counts(self):
        """The variables of GKE, of the asking command, on the real root. No variable names a server."""
        self.server.set(attributes={"tpu-env": tpu_env("compute-engine", worker=1),
                                    "worker-network-endpoints": endpoints(WORKERS)})
        static = self.h.folder / "identity.conf"
        static.write_text("[Identity]\nSliceName=mine\n")

        def identity(**variables):
            environment = {"PATH": os.environ["PATH"], **variables}
            done = subprocess.run([TPUCTL, "--config", static, "identity", "--json"], env=environment,
                                  capture_output=True, text=True, timeout=60)
            return json.loads(done.stdout)["identity"], done.stderr

        said, _ = identity(GCE_METADATA_IP=self.server.address, TPU_TOPOLOGY="2x8")
        self.assertEqual(said["slice-name"], {"value": "mine", "origin": f"{static}:2"})
        self.assertEqual(said["topology"], {"value": "2x8", "origin": "environment TPU_TOPOLOGY"})
        self.assertEqual(self.server.asked, [])
        _, complaint = identity(TPU_WORKER_ID="x")
        self.assertIn("TPU_WORKER_ID cannot be worker-id", complaint)


class BadDays(Case):
    def quiet(self, mode, word):
        """A server in that mode is refused in words, nothing of it is believed, and the daemon lives and
        answers at once."""
        self.server.mode = mode
        self.h.start()
        wait_until(lambda: self.said(word), 15, f"{mode}: {word!r} in {self.h.output.read_text()}")
        began = time.monotonic()
        self.assertIsNone(self.machine_type())
        self.assertLess(time.monotonic() - began, 20)
        self.assertEqual(self.netcfg.got, [])
        self.assertFalse(self.copy.exists())
        self.server.set(mode="good")
        self.handed_later()

    def handed_later(self):
        wait_until(lambda: self.netcfg.got, 40, "recovery")
        self.handed(8896)

    def test_missing(self):
        self.quiet("missing", "HTTP status 404")

    def test_html_with_200(self):
        self.quiet("html", "a page of HTML")

    def test_html_said_to_be_json(self):
        self.quiet("page", "a page of HTML")

    def test_other_flavor(self):
        self.quiet("flavor", "this is not the metadata server")

    def test_huge(self):
        self.quiet("huge", "too long")

    def test_garbage(self):
        self.quiet("garbage", "network-interfaces/?recursive=true: line 1")

    def test_slow(self):
        self.quiet("slow", "imeout")

    def test_flaky(self):
        self.server.mode = "flaky"
        self.h.start()
        self.handed(8896)
        wait_until(lambda: self.machine_type(), 30, "the machine type through every second answer a 503")

    def test_server_that_does_not_wait_is_not_hammered(self):
        self.server.mode = "restless"
        self.h.start()
        self.handed(8896)
        self.waits()
        asked = len(self.server.asked)
        time.sleep(3)
        self.assertLessEqual(len(self.server.asked) - asked, 3 * 3 + 2, "of the interfaces and of the two "
                                                                        "notices that are there; and the "
                                                                        "two keys that are not, once")

    def test_a_change_to_nonsense_leaves_what_was_good(self):
        self.h.start()
        self.handed(8896)
        wait_until(self.machine_type, 5, "the machine type")
        self.waits()
        self.server.set(mode="html", mtu=1460)
        wait_until(lambda: self.said("a page of HTML"), 5, "the refusal")
        self.assertEqual(self.machine_type()["origin"], "metadata")
        wait_until(lambda: self.check().get("verdict") == "WARN", 5, "a WARN")
        self.assertEqual(len(self.netcfg.got[-1][0]), 2)
        self.assertEqual(self.netcfg.got[-1][0][NICS[0]["mac"]], 8896)


class Away(Case):
    def test_last_good_copy_stands_in(self):
        self.h.start()
        self.handed(8896)
        wait_until(lambda: self.copy.exists() and json.loads(content_of(self.copy))["machine_type"], 5,
                   "the copy")
        self.h.stop()
        self.server.stop()
        self.netcfg.got.clear()
        self.h.start()
        taken = json.loads(content_of(self.copy))["taken_usec"]
        origin = time.strftime("metadata, last good of %Y-%m-%dT%H:%M:%S",
                               time.gmtime(taken // 1_000_000)) + f".{taken // 1000 % 1000:03d}Z"
        self.handed(8896, origin)
        self.assertEqual(self.machine_type(), {"value": "ct6e-standard-4t", "origin": origin})
        wait_until(lambda: (c := self.check()).get("verdict") == "WARN" and "last good of" in c["reason"],
                   10, "a WARN with the reason")

    def test_bad_copies_are_passed_over(self):
        self.server.stop()
        good = {"boot_id": "b", "taken_usec": 5, "machine_type": "m", "name": "n",
                "nics": [{**NICS[0], "mtu": 8896}]}
        strange = ("", "{", "[]", "{}", json.dumps({**good, "taken_usec": -5}),
                   json.dumps({**good, "nics": []}),
                   json.dumps({**good, "name": "a b"}),
                   json.dumps({**good, "nics": [{"mac": "x", "mtu": 1}]}))
        for text in (*(text_of("metadata", t) for t in strange), text_of("metadata", json.dumps(good), 2),
                     json.dumps(good), "x" * 100_000):
            self.copy.write_text(text)
            self.h.output.write_text("")
            self.h.start()
            wait_until(lambda: self.said(f"{self.copy} is passed over"), 5,
                       f"a word about the copy {text[:60]!r}")
            self.assertIsNone(self.machine_type())
            self.assertEqual(self.h.stop(), 0)
        self.assertEqual(self.netcfg.got, [])

    def test_no_server_and_no_copy_is_no_alarm(self):
        self.server.stop()
        self.h.start()
        wait_until(lambda: self.check(), 5, "the check")
        self.assertEqual(self.check()["verdict"], "OK")
        self.assertEqual(self.h.get("/v1/status")["state"], "ready")


if __name__ == "__main__":
    unittest.main()
