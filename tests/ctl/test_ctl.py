#!/usr/bin/python3
"""The screens and exit codes of tpuctl, compared exactly, against a folder of fixtures and servers that stand in for the daemons.

BUILD_DIR names the build. The stand-ins speak the real contracts: HTTP as in docs/api.md, frames as in agent/base/frame.h and
proto/local.proto (encoded by hand here, so that a mistake in our own generated code cannot hide).
"""
import datetime
import http.server
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
import unittest
import urllib.parse

from stand_ins import field, strings_of, UnixHttp, Handler, Launchd, LaunchdHandler

SOURCE = pathlib.Path(__file__).resolve().parents[2]
TPUCTL = pathlib.Path(os.environ["BUILD_DIR"]) / "agent/ctl/tpuctl"


def ago(seconds):
    return (datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S.000Z")


class Ctl(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        self.root = pathlib.Path(tempfile.mkdtemp(prefix="tpuctl-test-"))
        self.addCleanup(shutil.rmtree, self.root)
        shutil.copytree(SOURCE / "tests/fixtures/machine-v6e-4t", self.root, symlinks=True, dirs_exist_ok=True)

    def serve(self, server):
        server.seen, server.answers = [], {}
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        return server

    def hostd(self):
        path = self.root / "run/tpu-hostd/api.sock"
        path.parent.mkdir(parents=True)
        return self.serve(UnixHttp(str(path), Handler))

    def launchd(self):
        path = self.root / "run/tpu-launchd/launchd.sock"
        path.parent.mkdir(parents=True)
        return self.serve(Launchd(str(path), LaunchdHandler))

    def collector(self):
        server = self.serve(http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler))
        server.daemon_threads = True
        return server, f"http://127.0.0.1:{server.server_port}"

    def run_ctl(self, *args):
        done = subprocess.run([TPUCTL, "--root", self.root, *args], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60,
                              env={"PATH": "/usr/bin:/bin", "http_proxy": "http://127.0.0.1:1"}, check=False)
        self.assertNotIn("\033", done.stdout + done.stderr)
        return done

    def expect(self, args, code, stdout=None, stderr=None):
        done = self.run_ctl(*args)
        self.assertEqual((done.returncode, stdout if stdout is not None else done.stdout, stderr if stderr is not None else done.stderr),
                         (code, done.stdout, done.stderr))
        return done


class Usage(Ctl):
    def test_errors_exit_64(self):
        for args in ([], ["frob"], ["check", "nothing"], ["check", "a", "b"], ["status", "--bad"], ["run"], ["run", "--malloc", "x", "--", "true"],
                     ["run", "--framework", "tf", "--", "true"], ["run", "--directory", "rel", "--", "true"], ["stop"], ["stop", "Bad_Name"],
                     ["stack", "../x"], ["logs", "a b"], ["env", "--framework", "tf"], ["env", "1X=2"], ["fleet", "--collector", "gopher://x"],
                     ["cordon"], ["cordon", "x", "--until", "soon"], ["cordon", "x", "--until", "-1h"], ["drain"], ["uncordon", "x"], ["silence", "nic"],
                     ["silence", "nic", "known"], ["unsilence"], ["mode"], ["mode", "watch"], ["mode", "repair", "now"]):
            with self.subTest(args=args):
                done = self.expect(args, 64, stdout="")
                self.assertTrue(done.stderr)

    def test_help_names_every_verb(self):
        text = self.expect(["--help"], 0, stderr="").stdout
        for verb in "check status identity env run jobs logs stop stack cordon drain uncordon silence unsilence mode fleet events".split():
            self.assertIn(f"\n  {verb} ", text)
            self.assertIn(f"Usage: tpuctl {verb} ", self.expect([verb, "--help"], 0, stderr="").stdout)


class Check(Ctl):
    def owners(self, *owners):
        """tpu-launchd, which tells who has the chips open: (device, pid, unit, command)…"""
        daemon = self.launchd()
        reply = b"".join(field(1, field(1, d) + field(2, p) + field(4, u) + field(5, c)) for d, p, u, c in owners)
        daemon.answers[28] = (29, reply)
        return daemon

    def test_good(self):
        self.owners(("/dev/accel1", 812, "tpu-run-train.service", "python3 train.py"))
        self.expect(["check"], 0, stderr="", stdout="""\
Chips
OK       tpu.chips                                                         4 v6e (32 GiB of HBM each)                        wanted 4
OK       tpu.machine                                                       4 v6e                                             wanted 4 v6e in a ct6e-standard-4t
OK       tpu.nodes                                                         4 of 4 chips
OK       tpu.access                                                        4 of 4 nodes open to all users
OK       owners                 /dev/accel0, /dev/accel2 and 1 more        free
OK       owners                 /dev/accel1                                pid 812 tpu-run-train.service: python3 train.py
OK       lockfile                                                          none

Network
OK       nic.link               eth0, eth1                                 up
OK       nic.mtu                eth0, eth1                                 8896
OK       nic.driver             eth0, eth1                                 gve
OK       nic.speed              eth0, eth1                                 100000 Mbit/s
OK       nic.queues             eth0, eth1                                 4 receive, 4 transmit
OK       nic.count                                                         2
OK       nic.feature            eth0 tx-nocache-copy and 1 more            on
OK       nic.private_flag       eth0 enable-max-rx-buffer-size and 1 more  on
OK       nic.gso_max_size       eth0, eth1                                 65536
OK       nic.gro_max_size       eth0, eth1                                 65536
OK       nic.gso_ipv4_max_size  eth0, eth1                                 65536
OK       nic.gro_ipv4_max_size  eth0, eth1                                 65536
OK       sysctl                 net.ipv4.tcp_rmem and 7 more               as wanted
OK       module.parameter       tcp_cubic.hystart_detect                   2
OK       sysctl                 net.ipv4.conf.eth0.rp_filter and 1 more    2 (all: 0)
OK       route.rto_min                                                     nothing is wanted of routes
OK       route.source           eth0                                       table 847000002: rules 1, routes 3
OK       route.source           eth1                                       table 847000003: rules 1, routes 4
OK       proxy                  /etc/environment, systemd                  none

Host
OK       memory.available                                                  704.0 GiB of 720.0 GiB available
OK       disk.space             /                                          80.0 of 100.0 GiB free
OK       disk.inodes            /                                          96.0 % free
OK       clock.sync                                                        synchronized
OK       clock.offset                                                      -1.250 ms                                         wanted within 100 ms
OK       thp                                                               [always] madvise never
OK       limits.nofile                                                     100000 in a run (other services: systemd's built-in default)
OK       limits.memlock                                                    unlimited in a run (other services: 64M)
OK       cmdline                                                           intel_iommu=on,sm_on iommu=pt
OK       tpu_logs                                                          0.0 GiB

Software
OK       tcmalloc                                                          loadable
OK       fingerprint.kernel                                                6.11.0-1015-gcp
OK       fingerprint.wheel      libtpu                                     0.0.21 in /usr/local/lib/python3.10/dist-packages
OK       fingerprint.wheel      jax, jaxlib                                0.7.2 in /usr/local/lib/python3.10/dist-packages

Identity
OK       identity               t1v-n-0a1b2c3d-w-0                         worker 0 of 4 in slice v6e-a

64 checks: 64 OK, 0 WARN, 0 FAIL, 0 UNKNOWN
What is OK and alike shares a line; with a name, as in tpuctl check nic, each has its own.
""")

    def test_identity_counts(self):
        config = self.root / "etc/tpu-hostd/identity.conf.d/10-site.conf"
        config.write_text(config.read_text().replace("WorkerId=0", "WorkerId=9"))
        self.assertIn("FAIL     identity.worker_id  ", self.expect(["check", "identity"], 2).stdout)
        self.assertIn("FAIL     identity.worker_id  ", self.expect(["check"], 2).stdout)
        self.assertEqual(self.expect(["check", "nic"], 0).stdout.count("identity"), 0)

    def test_unknown_names(self):
        self.assertIn("  identity    slice,", self.expect(["check", "foo"], 64, stdout="").stderr)
        self.expect(["check", "nic.mtuu"], 3, stdout="", stderr="tpuctl check: no check answers to the name 'nic.mtuu'; "
                    "those that do: tpuctl check nic\n")

    def test_worst_first(self):
        (self.root / "proc/sys/net/ipv4/tcp_rmem").write_text("4096\t131072\t6291456\n")
        (self.root / "proc/meminfo").write_text("MemTotal: 1000000 kB\nMemAvailable: 40000 kB\n")
        shutil.rmtree(self.root / "sys/bus/pci/devices")
        shutil.copy(self.root / "netlink/links.drift", self.root / "netlink/links")
        done = self.expect(["check"], 2, stderr="")
        groups = {part.split("\n")[0]: [line.split()[:2] for line in part.split("\n")[1:] if line and line[0].isupper()]
                  for part in done.stdout.split("\n\n")[:-1]}
        self.assertEqual(list(groups), ["Network", "Host", "Chips", "Software", "Identity"])  # FAIL, WARN, UNKNOWN, OK
        self.assertEqual(groups["Network"][:3], [["FAIL", "nic.mtu"], ["FAIL", "sysctl"], ["OK", "nic.link"]])
        self.assertEqual(groups["Host"][0], ["WARN", "memory.available"])
        self.assertEqual(groups["Chips"][0], ["UNKNOWN", "tpu"])
        self.assertIn("         to do:  sysctl -w net.ipv4.tcp_rmem='4096 41943040 314572800'\n", done.stdout)

    def test_without_launchd_owners_are_unknown(self):
        done = self.expect(["check", "owners"], 3, stderr="")
        self.assertIn("/run/tpu-launchd/launchd.sock", done.stdout)
        self.assertIn("to do:  systemctl status tpu-launchd", done.stdout)
        (self.root / "tmp/libtpu_lockfile").touch()
        self.expect(["check", "lockfile"], 3)

    def test_stale_lockfile(self):
        self.owners()
        (self.root / "tmp/libtpu_lockfile").touch()
        self.assertIn("to do:  rm /tmp/libtpu_lockfile\n", self.expect(["check", "lockfile"], 1, stderr="").stdout)

    def test_a_silent_launchd_costs_one_line(self):
        path = self.root / "run/tpu-launchd/launchd.sock"
        path.parent.mkdir(parents=True)
        with socket.socket(socket.AF_UNIX) as s:
            s.bind(str(path))
            s.listen()
            start = time.monotonic()
            done = self.expect(["check"], 3, stderr="")
            self.assertLess(time.monotonic() - start, 5)
        self.assertIn("UNKNOWN  owners", done.stdout)
        self.assertIn("OK       disk.space", done.stdout)

    def test_golden(self):
        self.owners()
        golden = self.root / "golden.json"
        golden.write_text(self.expect(["check", "--json"], 0, stderr="").stdout)
        self.expect(["check", "--golden", golden], 0, stderr="", stdout="0 of 64 checks differ from the golden report\n")
        (self.root / "proc/meminfo").write_text("MemTotal: 1000000 kB\nMemAvailable: 500000 kB\n")  # varies: no difference
        (self.root / "proc/sys/kernel/osrelease").write_text("6.9.0\n")
        (self.root / "proc/sys/net/ipv4/tcp_rmem").write_text("4096\t131072\t6291456\n")
        shutil.rmtree(self.root / "usr/local/lib/python3.10/dist-packages/jax-0.7.2.dist-info")
        done = self.expect(["check", "--golden", golden], 2, stderr="")
        lines = [line.split()[:3] for line in done.stdout.splitlines() if line.startswith(("FAIL", "WARN", "OK", "UNKNOWN"))]
        self.assertEqual(lines, [["FAIL", "sysctl", "net.ipv4.tcp_rmem"], ["WARN", "fingerprint.kernel", "6.9.0"],
                                 ["WARN", "fingerprint.wheel", "jax"]])
        self.assertIn("6.11.0-1015-gcp", done.stdout)
        report = json.loads(self.expect(["check", "fingerprint", "--golden", golden, "--json"], 1, stderr="").stdout)
        self.assertEqual([c["check"] for c in report["checks"]], ["fingerprint.kernel", "fingerprint.wheel"])
        for text in ("{", "[]", '{"checks": 1}', ""):
            golden.write_text(text)
            self.assertIn("golden.json", self.expect(["check", "--golden", golden], 64, stdout="").stderr)
        golden.write_text('{"checks": [1, {"check": "a\\u001b[2J"}, {"verdict": 3}]}')
        self.expect(["check", "memory", "--golden", golden], 1)
        self.expect(["check", "--golden", self.root / "none"], 64, stdout="")

    def test_watch_ends_by_a_signal(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            process = subprocess.Popen([TPUCTL, "--root", self.root, "check", "thp", "--watch"], stdout=subprocess.PIPE, text=True)
            out = [process.stdout.readline()]
            while "1 checks: 1 OK" not in out[-1]:
                out.append(process.stdout.readline())
            process.send_signal(number)
            self.assertEqual(process.wait(20), 0)
            process.stdout.close()
            self.assertIn("every 5 s", out[0])
            self.assertIn("OK       thp    [always] madvise never\n", out)

    def test_one(self):
        self.expect(["check", "nic.link"], 0, stderr="", stdout="Network\nOK       nic.link  eth0  up\nOK       nic.link  eth1  up\n\n"
                    "2 checks: 2 OK, 0 WARN, 0 FAIL, 0 UNKNOWN\n")
        (self.root / "proc/meminfo").write_text("MemTotal: 1000000 kB\nMemAvailable: 40000 kB\n")
        self.expect(["check", "memory"], 1)
        (self.root / "proc/meminfo").unlink()
        self.expect(["check", "memory.available"], 3)
        (self.root / "netlink/links").unlink()
        self.assertIn("UNKNOWN  nic ", self.expect(["check", "nic.mtu"], 3).stdout)

    def test_json(self):
        report = json.loads(self.expect(["check", "sysctl", "--json"], 0).stdout)
        self.assertEqual((report["host"], report["verdict"], len(report["checks"])), ("t1v-n-0a1b2c3d-w-0", "OK", 9))
        self.assertEqual(report["checks"][0]["found"], "4096 41943040 314572800")

    def test_no_root(self):
        done = subprocess.run([TPUCTL, "check", "--root", "/nonexistent"], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 64)
        self.assertIn("/nonexistent", done.stderr)


class Identity(Ctl):
    def test_fields_and_origins(self):
        done = self.expect(["identity"], 0, stderr="")
        self.assertIn("\nworker-id         /etc/tpu-hostd/identity.conf.d/10-site.conf:6  0\n", done.stdout)
        fields = json.loads(self.expect(["identity", "--json"], 0).stdout)["identity"]
        self.assertEqual(fields["chips"], {"value": "4", "origin": "/etc/tpu-hostd/identity.conf.d/10-site.conf:7"})

    def test_env(self):
        done = self.expect(["env", "--framework", "jax", "TPU_WORKER_ID=3", "A=b c"], 0)
        lines = done.stdout.splitlines()
        self.assertEqual(lines[:2], ["TPU_WORKER_ID=3", "A='b c'"])
        self.assertIn("TPU_TOPOLOGY=4x4", lines)
        self.assertIn("TPU_WORKER_ID", done.stderr)
        read_back = subprocess.run(["/bin/sh", "-c", done.stdout + 'printf %s "$A"'], capture_output=True, text=True, check=True)
        self.assertEqual(read_back.stdout, "b c")

    def test_env_without_identity(self):
        (self.root / "etc/tpu-hostd/identity.conf.d/10-site.conf").unlink()
        done = self.expect(["env", "--framework", "jax"], 3, stdout="")
        self.assertIn("/etc/tpu-hostd/identity.conf.d/", done.stderr)


STATUS = {
    "host": "h0", "boot_id": "b", "version": "0.1.0", "state": "unfit", "jobs": 1, "started": None,
    "identity": {"slice": "v6e-a", "worker_id": "0", "accelerator_type": "v6e-16"},
    "reasons": [{"check": "nic.mtu", "subject": "eth1", "verdict": "FAIL", "reason": "found 1460,\033[2J wanted 8896", "remedy": "tpu-netcfg --once"}],
    "uplink": {"endpoint": "http://10.0.0.2:4318", "durable": True, "parked": False, "last_error": "Connection refused", "last_ok": None,
               "classes": {"events": {"kept": 3, "dropped": 0, "refused": 2, "damaged": 0}, "metrics": {"kept": 0}}},
}


class Status(Ctl):
    def test_no_agent(self):
        self.expect(["status"], 3, stdout="", stderr=f"tpuctl: no answer from {self.root}/run/tpu-hostd/api.sock: No such file or directory\n"
                    "to do:  systemctl status tpu-hostd\n")

    def test_screen(self):
        hostd = self.hostd()
        status = json.loads(json.dumps(STATUS))
        status["started"], status["uplink"]["last_ok"] = ago(3 * 3600 + 60), ago(200)
        hostd.answers[("GET", "/v1/status")] = (200, status)
        self.expect(["status"], 2, stderr="", stdout="""\
state    unfit
host     h0
slice    v6e-a, worker 0, v6e-16
agent    tpu-hostd 0.1.0, up 3 h
runs     1 running
uplink   http://10.0.0.2:4318, last good answer 3 min ago
         last error: Connection refused
         events: 3 waiting, 2 refused
         metrics: 0 waiting

FAIL     nic.mtu eth1: found 1460,?[2J wanted 8896
         to do:  tpu-netcfg --once
""")
        self.assertEqual(json.loads(self.expect(["status", "--json"], 2).stdout), status)
        status["uplink"].update(durable=False, parked=True, last_ok=None)
        self.assertIn("uplink   http://10.0.0.2:4318 refuses our records; one try a minute\n", self.expect(["status"], 2).stdout)
        self.assertIn("\n         the spool cannot be written: new records are lost\n", self.expect(["status"], 2).stdout)

    def test_history(self):
        hostd = self.hostd()
        status = json.loads(json.dumps(STATUS))
        for more, line in (({"since": ago(7300), "worsened": 4, "flapping": True, "last_good": ago(7400)}, "2 h, got worse 4 times, flapping, last good 2 h ago"),
                           ({"since": ago(200), "worsened": 1, "flapping": False, "last_good": None}, "3 min, never seen good")):
            status["reasons"][0].update(more)
            hostd.answers[("GET", "/v1/status")] = (200, status)
            self.assertIn(f"\n         since:  {line}\n         to do:", self.expect(["status"], 2).stdout)

    def test_states_and_bad_answers(self):
        hostd = self.hostd()
        for state, code in (("ready", 0), ("degraded", 1), ("unfit", 2), ("unknown", 3)):
            hostd.answers[("GET", "/v1/status")] = (200, dict(STATUS, state=state))
            self.expect(["status"], code)
        for body in (b"<html>", b"[1]", b"", b'{"a":1,"a":2}'):
            hostd.answers[("GET", "/v1/status")] = (200, body)
            self.assertIn("something else listens there", self.expect(["status"], 1, stdout="").stderr)
        hostd.answers[("GET", "/v1/status")] = (200, b'{"a":"' + b"x" * (33 << 20) + b'"}')
        self.assertIn("longer than 32 MiB", self.expect(["status"], 1, stdout="").stderr)
        hostd.answers[("GET", "/v1/status")] = (500, {"error": "it broke", "remedy": "mend it"})
        self.expect(["status"], 1, stdout="", stderr="tpuctl: it broke\nto do:  mend it\n")


JOB = {"name": "train", "unit": "tpu-run-train.service", "state": "running", "cause": "", "code": "", "status": "", "framework": "jax", "malloc": "tcmalloc",
       "user": "ada", "command": "python3 train.py", "ended": None, "main_pid": 7, "processes": 2, "step": 12, "step_seconds": 0.5}


def launchd_job(name, state, cause, code, status, started, ended):
    texts = (name, f"tpu-run-{name}.service", state, cause, code, status, "jax", "tcmalloc", "ada", "python3 train.py")
    return (b"".join(field(i + 1, t) for i, t in enumerate(texts))
            + field(11, started * 1000000) + field(12, ended * 1000000))



ORDER = {"reason": "bad cable", "by": "root (login ada)", "since": "2026-11-21T05:00:00Z", "until": "2026-11-21T10:00:00Z"}
ORDERED = {"cordon": ORDER, "drain": None, "observe": None, "observe_configured": False, "mode": "repair", "silences": [
    {"check": "nic.mtu", "subject": "eth1", "reason": "known", "by": "root", "since": "2026-11-21T05:00:00Z", "until": "2026-11-22T05:00:00Z"}]}


class Orders(Ctl):
    def asked(self, daemon):
        return [(m, urllib.parse.urlsplit(p).path, dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(p).query))) for m, p in daemon.seen]

    def test_cordon(self):
        daemon = self.hostd()
        daemon.answers["PUT", "/v1/cordon"] = (200, ORDER)
        before = time.time()
        self.expect(["cordon", "bad", "cable & more", "--until", "5h"], 0, stderr="",
                    stdout="cordoned by root (login ada) until 2026-11-21T10:00:00Z: bad cable\n")
        (method, path, arguments), = self.asked(daemon)
        self.assertEqual((method, path, arguments["reason"]), ("PUT", "/v1/cordon", "bad cable & more"))
        until = datetime.datetime.fromisoformat(arguments["until"]).timestamp()
        self.assertTrue(before + 5 * 3600 - 1 <= until <= time.time() + 5 * 3600 + 1)
        daemon.answers["PUT", "/v1/drain"] = (200, ORDER | {"until": None})
        self.expect(["drain", "--until=2026-12-24T00:00:00Z", "x"], 0, stdout="draining by root (login ada): bad cable\n")
        self.assertEqual(self.asked(daemon)[-1][2], {"reason": "x", "until": "2026-12-24T00:00:00Z"})

    def test_uncordon(self):
        daemon = self.hostd()
        self.expect(["uncordon"], 0, stderr="", stdout="this host was neither cordoned nor draining\n")
        daemon.answers["DELETE", "/v1/drain"] = (200, ORDER)
        self.expect(["uncordon"], 0, stdout="ended: by root (login ada) until 2026-11-21T10:00:00Z: bad cable\n")
        daemon.answers["DELETE", "/v1/cordon"] = (403, {"error": "only root may", "remedy": "sudo tpuctl"})
        self.expect(["uncordon"], 1, stdout="", stderr="tpuctl: only root may\nto do:  sudo tpuctl\n")

    def test_silence_and_mode(self):
        daemon = self.hostd()
        daemon.answers["PUT", "/v1/silence"] = daemon.answers["DELETE", "/v1/silence"] = (200, ORDER)
        daemon.answers["PUT", "/v1/observe"] = (200, ORDER | {"reason": "", "until": None})
        self.expect(["silence", "nic.mtu:eth1", "--until", "3d", "known"], 0)
        self.assertEqual({k: v for k, v in self.asked(daemon)[-1][2].items() if k != "until"}, {"check": "nic.mtu", "subject": "eth1", "reason": "known"})
        self.expect(["unsilence", "nic"], 0)
        self.assertEqual(daemon.seen[-1], ("DELETE", "/v1/silence?check=nic"))
        self.expect(["mode", "observe"], 0, stdout="observing by root (login ada)\n")
        daemon.answers["GET", "/v1/status"] = (200, ORDERED | {"observe_configured": True})
        done = self.expect(["mode", "repair"], 0, stdout="nobody had ordered to observe\n")
        self.assertIn("Mode=observe of the configuration", done.stderr)

    def test_shown(self):
        daemon = self.hostd()
        daemon.answers["GET", "/v1/status"] = (200, {"host": "h", "state": "ready", "reasons": [], **ORDERED})
        shown = ["cordoned by root (login ada) until 2026-11-21T10:00:00Z: bad cable",
                 "nic.mtu:eth1 silenced by root until 2026-11-22T05:00:00Z: known"]
        self.assertEqual([line.split(None, 1)[1] for line in self.expect(["status"], 0).stdout.splitlines() if line.startswith("ordered ")], shown)
        self.assertEqual([line.split(None, 1)[1] for line in self.expect(["check", "memory"], 0).stdout.splitlines() if line.startswith("ordered:")], shown)

    def test_run_refuses(self):
        daemon, launchd = self.hostd(), self.launchd()
        launchd.answers[20] = (21, field(1, "r") + field(2, "tpu-run-r.service"))
        daemon.answers["GET", "/v1/status"] = (200, ORDERED)
        done = self.expect(["run", "--name", "r", "--", "true"], 1, stdout="")
        self.assertIn("this host is cordoned by root (login ada): bad cable\nto do:  sudo tpuctl uncordon", done.stderr)
        self.assertEqual(launchd.seen, [])
        self.expect(["run", "--despite-cordon", "--name", "r", "--", "true"], 0, stdout="r started as tpu-run-r.service\n")
        daemon.answers["GET", "/v1/status"] = (200, ORDERED | {"cordon": None})
        self.expect(["run", "--name", "r", "--", "true"], 0, stderr="")


class Runs(Ctl):
    def test_jobs(self):
        """Runs are launchd's; hostd adds the steps to those that it knows by name and start."""
        started = int(time.time()) - 300
        self.launchd().answers[22] = (23, b"".join(field(1, launchd_job(*j)) for j in (
            ("train", "running", "", "", "", started, 0), ("anew", "running", "", "", "", started, 0),
            ("old", "exited", "signal", "killed", "KILL", started - 9999, started - 17700),
            ("ended", "exited", "stopped", "killed", "TERM", started - 9999, started))))
        text = datetime.datetime.fromtimestamp(started, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.000Z")
        self.hostd().answers[("GET", "/v1/jobs")] = (200, {"jobs": [
            dict(JOB, started=text), dict(JOB, name="anew", started=ago(9999)), dict(JOB, name="forgotten", started=text)]})
        self.expect(["jobs"], 0, stderr="", stdout="""\
NAME   STATE    USER  FRAMEWORK  SINCE  STEP  PER STEP  END           COMMAND
train  running  ada   jax        5 min  12    0.5 s     -             python3 train.py
anew   running  ada   jax        5 min  -     -         -             python3 train.py
old    exited   ada   jax        5 h    -     -         signal KILL   python3 train.py
ended  exited   ada   jax        5 min  -     -         stopped TERM  python3 train.py
""")
        self.assertEqual([j["step"] for j in json.loads(self.expect(["jobs", "--json"], 0).stdout)["jobs"]], [12, None, None, None])

    def test_logs_of_an_unknown_run(self):
        launchd = self.launchd()
        launchd.answers[22] = (23, b"")
        self.assertIn("there is no run 'nothere' on this host", self.run_ctl("logs", "nothere").stderr)
        self.assertEqual(strings_of(launchd.seen[0][1]), [(1, "nothere")])

    def test_jobs_without_hostd(self):
        job = b"".join(field(i + 1, v) for i, v in enumerate((
            "train", "tpu-run-train.service", "running", "", "", "", "plain", "glibc", "ada", "sleep 9")))
        self.launchd().answers[22] = (23, field(1, job))
        done = self.expect(["jobs"], 0)
        self.assertEqual(done.stdout.splitlines()[1], "train  running  ada   plain      -      -     -         -    sleep 9")
        self.assertIn("systemctl status tpu-hostd", done.stderr)

    def test_run(self):
        launchd = self.launchd()
        launchd.answers[20] = (21, field(1, "train") + field(2, "tpu-run-train.service") + field(3, "glibc (tcmalloc is not installed)") +
                               field(4, "X: yours '1' kept, ours would be '2'"))
        self.expect(["run", "--name", "train", "--framework=jax", "--env", "X=1", "--env=Y=a b", "--", "python3", "--env", "t.py"], 0,
                    stdout="train started as tpu-run-train.service, malloc glibc (tcmalloc is not installed)\n",
                    stderr="tpuctl run: warning: X: yours '1' kept, ours would be '2'\n")
        self.assertEqual(launchd.seen[0][0], 20)
        self.assertEqual(strings_of(launchd.seen[0][1]), [(1, "train"), (2, "jax"), (3, "auto"), (5, "python3"), (5, "--env"), (5, "t.py"),
                                                          (6, "X=1"), (6, "Y=a b")])

    def test_refused(self):
        self.launchd().answers[20] = (1, field(1, 1) + field(2, "you may not start runs") + field(3, "ask to be in the group tpu-run"))
        self.expect(["run", "true"], 1, stdout="", stderr="tpuctl: you may not start runs\nto do:  ask to be in the group tpu-run\n")

    def test_garbled(self):
        launchd = self.launchd()
        for answer in ((21, b"\xff\xff\xff"), (27, b""), (1, b"\xff")):
            launchd.answers[20] = answer
            self.assertIn("cannot be understood", self.expect(["run", "true"], 1, stdout="").stderr)

    def test_a_refusal_of_two_lines_stays_one(self):
        self.launchd().answers[24] = (1, field(1, 1) + field(2, "one\ntwo\n") + field(3, "see: tpuctl jobs"))
        self.expect(["stop", "a"], 1, stdout="", stderr="tpuctl: one; two\nto do:  see: tpuctl jobs\n")

    def test_stop(self):
        launchd = self.launchd()
        launchd.answers[24] = (25, field(1, "train"))
        self.expect(["stop", "train"], 0, stdout="train stopped\n", stderr="")
        self.assertEqual(strings_of(launchd.seen[0][1]), [(1, "train")])

    def test_no_launchd(self):
        for args in (["run", "true"], ["stop", "a"], ["jobs"], ["stack", "a"]):
            self.assertIn("to do:  systemctl status tpu-launchd", self.expect(args, 3, stdout="").stderr)

    def test_stack(self):
        hostd = self.hostd()
        hostd.answers[("POST", "/v1/jobs/train/stack")] = (200, {"name": "train", "taken": "2026-11-21T05:00:00.000Z", "processes": 1, "threads": 2,
                                                                 "text": "Thread 1\n  train_step (train.py:7)\n", "record": {"spool": "ab", "class": "events", "seq": 9}})
        self.expect(["stack", "train"], 0, stderr="", stdout="run train: 1 processes, 2 threads, taken 2026-11-21T05:00:00.000Z\n"
                    "record ab/events/9 is durable and goes to the collector\n\nThread 1\n  train_step (train.py:7)\n")
        hostd.answers[("POST", "/v1/jobs/train/stack")] = (404, {"error": "there is no run 'train'", "remedy": "tpuctl jobs"})
        self.expect(["stack", "train"], 1, stdout="", stderr="tpuctl: there is no run 'train'\nto do:  tpuctl jobs\n")

    def test_stack_without_hostd(self):
        self.launchd().answers[26] = (27, field(1, "train") + field(2, "Thread 1\n") + field(3, 1763701200000000) + field(4, 1) + field(5, 1))
        done = self.expect(["stack", "train"], 0, stdout="run train: 1 processes, 1 threads, taken 2025-11-21T05:00:00.000Z\n\nThread 1\n")
        self.assertIn("NOT sent", done.stderr)


class Fleet(Ctl):
    def test_hosts(self):
        server, url = self.collector()
        hosts = [dict(name="h0", slice="v6e-a", worker_id="0", state="ready", reasons="", age_seconds=4.2, lag_seconds=0.1, job="train", step=12),
                 dict(name="h1", slice="v6e-a", worker_id="1", state="unfit", reasons="nic.mtu eth1", age_seconds=9, lag_seconds=600, job="train", step=12),
                 dict(name="h2", slice="v6e-a", worker_id="2", state="ready", reasons="", age_seconds=7300, job=None, step=None)]
        server.answers[("GET", "/api/v1/hosts")] = (200, {"hosts": hosts})
        screen = """\
SLICE  WORKER  HOST  STATE   JOB    STEP  AGE  LAG     REASON
v6e-a  0       h0    ready   train  12    4 s  0 s     -
v6e-a  1       h1    unfit   train  12    9 s  10 min  nic.mtu eth1
v6e-a  2       h2    SILENT  -      -     2 h  -       nothing heard for 2 h; was ready then
3 hosts: 1 silent, 1 ready, 1 unfit
"""
        self.expect(["fleet", "--collector", url + "/"], 0, stdout=screen, stderr="")
        (self.root / "etc/tpu-hostd/tpuctl.conf.d").mkdir()
        (self.root / "etc/tpu-hostd/tpuctl.conf.d/10-site.conf").write_text(f"[Ctl]\nCollector={url}\n")
        self.expect(["fleet"], 0, stdout=screen, stderr="")
        self.assertEqual(json.loads(self.expect(["fleet", "--json"], 0).stdout), {"hosts": hosts})
        self.expect(["fleet", "--slice", "a b", "--state", "unfit"], 0)
        self.assertEqual(server.seen[-1][1], "/api/v1/hosts?slice=a%20b&state=unfit")

    def test_pages(self):
        server, url = self.collector()
        pages = iter([{"hosts": [dict(name="h0", state="ready")], "next": 1}, {"hosts": [dict(name="h1", state="unfit")], "next": None}])
        server.answers[("GET", "/api/v1/hosts")] = (200, lambda: next(pages))
        self.assertEqual(json.loads(self.expect(["fleet", "--json", "--collector", url], 0).stdout),
                         {"hosts": [dict(name="h0", state="ready"), dict(name="h1", state="unfit")]})
        self.assertEqual([p for _, p in server.seen], ["/api/v1/hosts", "/api/v1/hosts?offset=1"])

    def test_no_collector(self):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            url = f"http://127.0.0.1:{s.getsockname()[1]}"
            done = self.expect(["fleet", "--collector", url], 3, stdout="")
        self.assertIn(f"no answer from {url}/api/v1/hosts: Connection refused", done.stderr)
        self.assertIn("to do:", done.stderr)

    def test_events(self):
        server, url = self.collector()
        server.answers[("GET", "/api/v1/events")] = (200, {"next": 0, "events": [
            dict(id=1, host="h0", time="2026-11-21T05:00:00.123Z", name="tpu.job.exited", severity="ERROR", body={"job": "train", "cause": "signal"}),
            dict(id=2, host="h0", time="2026-11-21T05:00:09.000Z", name="tpu.stack", severity="INFO", body={"text": "a\nb\n", "threads": 3})]})
        self.expect(["events", "--collector", url, "--host", "h 0&x"], 0, stderr="", stdout="""\
TIME                  SEVERITY  HOST  EVENT           BODY
2026-11-21T05:00:00Z  ERROR     h0    tpu.job.exited  job=train  cause=signal
2026-11-21T05:00:09Z  INFO      h0    tpu.stack       text=(4 bytes of text, see --json)  threads=3
""")
        self.assertEqual(server.seen[0][1], "/api/v1/events?limit=200&host=h%200%26x")

    def event(self, i):
        return dict(id=i, host="h0", time="2026-11-21T05:00:00.123Z", name=f"e{i}", severity="INFO", body="text")

    def test_events_since(self):
        server, url = self.collector()
        answers = iter([{"next": 1, "events": [self.event(1)]}, {"next": 2, "events": [self.event(2)]}, {"next": 2, "events": []}])
        server.answers[("GET", "/api/v1/events")] = (200, lambda: next(answers))
        got = json.loads(self.expect(["events", "--collector", url, "--since", "2026-11-21T05:00:00Z", "--slice", "s", "--name", "n", "--json"], 0).stdout)
        self.assertEqual(([e["id"] for e in got["events"]], got["next"]), ([1, 2], 2))
        self.assertEqual([p for _, p in server.seen], [f"/api/v1/events?limit=200&slice=s&name=n&{w}" for w in
                                                       ("from=2026-11-21T05%3A00%3A00Z", "since=1", "since=2")])
        server.seen.clear()
        answers = iter([{"next": 0, "events": []}])
        self.expect(["events", "--collector", url, "--since", "10min"], 0, stdout="no events\n")
        self.assertRegex(server.seen[0][1], r"from=20\d\d-\d\d-\d\dT\d\d%3A")
        self.expect(["events", "--collector", url, "--since", "noon"], 64)

    def test_events_follow(self):
        """Goes on over an answer without events and over a collector that is away; ends at a refusal."""
        server, url = self.collector()
        answers = iter([{"next": 1, "events": [self.event(1)]}, {"next": 1, "events": []}, {"next": 2, "events": [self.event(2)]}])

        def answer():
            a = next(answers, None)
            if a is None:
                server.answers[("GET", "/api/v1/events")] = (403, {"error": "enough", "remedy": ""})
                return b"cut off"
            return a
        server.answers[("GET", "/api/v1/events")] = (200, answer)
        done = self.expect(["events", "--collector", url, "--follow"], 1,
                           stdout="2026-11-21T05:00:00Z  INFO  h0  e1  text\n2026-11-21T05:00:00Z  INFO  h0  e2  text\n")
        self.assertEqual([p.split("&", 1)[1] if "&" in p else "" for _, p in server.seen],
                         ["", "since=1&wait=25", "since=1&wait=25", "since=2&wait=25"])
        self.assertIn("no JSON", done.stderr)


if __name__ == "__main__":
    unittest.main()
