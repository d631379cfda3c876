#!/usr/bin/python3
"""tpuctl: its usage, the state of this host, who this host is."""
import json
import re
import subprocess
import unittest

from ctl_case import Ctl, ago

STATUS = {
    "host": "h0", "boot_id": "b", "version": "0.1.0", "state": "unfit", "live_runs": 1, "runs": [],
    "started": None,
    "identity": {"slice": "v6e-a", "worker_id": "0", "accelerator_type": "v6e-16"},
    "reasons": [{"check": "nic.mtu", "subject": "eth1", "verdict": "FAIL",
                 "reason": "found 1460,\033[2J wanted 8896", "remedy": "tpu-netcfg --once"}],
    "uplink": {"endpoint": "http://10.0.0.2:4318", "durable": True, "parked": False,
               "last_error": "Connection refused", "last_ok": None,
               "classes": {"events": {"kept": 3, "dropped": 0, "refused": 2, "damaged": 0},
                           "metrics": {"kept": 0}}},
}


class Usage(Ctl):
    def test_errors_exit_64(self):
        for args in ([], ["frob"], ["check", "a", "b"], ["status", "--bad"], ["run"],
                     ["run", "--malloc", "x", "--", "true"],
                     ["run", "--framework", "tf", "--", "true"], ["run", "--directory", "rel", "--", "true"],
                     ["stop"], ["stop", "Bad_Name"],
                     ["stack", "../x"], ["logs", "a b"], ["env", "--framework", "tf"], ["env", "1X=2"],
                     ["fleet", "--collector", "gopher://x"],
                     ["cordon"], ["cordon", "x", "--until", "soon"], ["cordon", "x", "--until", "-1h"],
                     ["drain"], ["uncordon", "x"], ["silence", "nic"],
                     ["silence", "nic", "known"], ["unsilence"], ["mode"], ["mode", "watch"],
                     ["mode", "repair", "now"]):
            with self.subTest(args=args):
                done = self.expect(args, 64, stdout="")
                self.assertTrue(done.stderr)

    def test_an_unknown_check_is_named_with_those_there_are(self):
        said = self.expect(["check", "nothing"], 1, stdout="").stderr
        self.assertIn("there is no check 'nothing'", said)
        self.assertIn("enroll", said)

    def test_help_names_every_verb(self):
        text = self.expect(["--help"], 0, stderr="").stdout
        for verb in "check status identity env run runs logs stop stack cordon drain uncordon silence unsilence mode fleet events".split():
            self.assertIn(f"\n  {verb} ", text)
            self.assertIn(f"Usage: tpuctl {verb}", self.expect([verb, "--help"], 0, stderr="").stdout)


    def test_help_in_every_form(self):
        text = self.expect(["--help"], 0).stdout
        verbs = re.findall(r"^  ([a-z]\w*) ", text.split("Verbs:")[1], re.MULTILINE)
        self.assertGreater(len(verbs), 15)
        for args in (["-h"], ["help"]):
            self.expect(args, 0, stdout=text, stderr="")
        version = self.expect(["--version"], 0).stdout
        self.assertRegex(version, r"^tpuctl \d")
        self.expect(["-V"], 0, stdout=version, stderr="")
        for verb in verbs:
            with self.subTest(verb):
                text = self.expect([verb, "--help"], 0, stderr="").stdout
                for args in ([verb, "-h"], [verb, "help"], ["help", verb], ["--root", "/", verb, "-h"]):
                    self.expect(args, 0, stdout=text, stderr="")
                self.assertEqual(self.expect([verb, "-V"], 0).stdout.split()[-1], version.split()[-1])

    def test_mistyped(self):
        for args, said in ((["flet"], "tpuctl: there is no verb 'flet'; did you mean 'fleet'?"),
                           (["Check"], "tpuctl: there is no verb 'Check'; did you mean 'check'?"),
                           (["x" * 500], f"tpuctl: there is no verb '{'x' * 500}'"),
                           (["fleet", "--slcie=s0"],
                            "tpuctl fleet: unknown option '--slcie=s0'; did you mean '--slice'?"),
                           (["status", "--jsn"],
                            "tpuctl status: unknown option '--jsn'; did you mean '--json'?"),
                           (["stop", "-f", "x"], "tpuctl stop: unknown option '-f'"),
                           (["help", "flet"], "tpuctl: there is no verb 'flet'; did you mean 'fleet'?")):
            with self.subTest(args):
                done = self.expect(args, 64, stdout="")
                self.assertEqual(done.stderr.splitlines()[0], said)
                self.assertRegex(done.stderr, r"\nTry 'tpuctl[a-z ]* --help'\.\n$")


class Identity(Ctl):
    def test_fields_and_origins(self):
        done = self.expect(["identity"], 0, stderr="")
        self.assertRegex(done.stdout, r"\nworker-id +/etc/tpu-hostd/identity\.conf\.d/10-site\.conf:6  0\n")
        fields = json.loads(self.expect(["identity", "--json"], 0).stdout)["identity"]
        self.assertEqual(fields["chips"],
                         {"value": "4", "origin": "/etc/tpu-hostd/identity.conf.d/10-site.conf:7"})

    def test_env(self):
        done = self.expect(["env", "--framework", "jax", "TPU_WORKER_ID=3", "A=b c"], 0)
        lines = done.stdout.splitlines()
        self.assertEqual(lines[:2], ["TPU_WORKER_ID=3", "A='b c'"])
        self.assertIn("TPU_TOPOLOGY=4x4", lines)
        self.assertIn("TPU_WORKER_ID", done.stderr)
        read_back = subprocess.run(["/bin/sh", "-c", done.stdout + 'printf %s "$A"'], capture_output=True,
                                   text=True, check=True)
        self.assertEqual(read_back.stdout, "b c")
        explained = self.expect(["env", "--explain", "A=b"], 0).stdout.splitlines()
        self.assertEqual(explained[:2], ["# set by the user", "A=b"])
        self.assertIn("In a container (--image) it adds nothing", explained[-1])

    def test_env_of_frameworks(self):
        def env(*words):
            done = json.loads(self.expect(["env", "--json", *words], 0).stdout)["environment"]
            return {v["name"]: v["value"] for v in done}, {v["name"]: v["reason"] for v in done}

        jax, why = env("--framework", "jax")
        self.assertEqual(jax["TPU_HOST_BOUNDS"], "2,2,1")
        self.assertRegex(why["TPU_WORKER_ID"],
                         r"^worker-id from /etc/tpu-hostd/identity\.conf\.d/10-site\.conf:\d+$")
        chip, _ = env("--framework", "torch_xla", "--chip", "3")
        self.assertEqual((chip["TPU_VISIBLE_CHIPS"], chip["TPU_PROCESS_PORT"]), ("3", "8479"))
        ray, _ = env("--framework", "ray", "--ray-head", "10.0.0.9:6379")
        self.assertTrue(ray["TPU_RAY_START"].startswith("--address=10.0.0.9:6379 "))
        torch, _ = env("--framework", "torch")
        self.assertEqual((torch["RANK"], torch["WORLD_SIZE"]),
                         (jax["TPU_WORKER_ID"], str(len(jax["TPU_WORKER_HOSTNAMES"].split(",")))))
        self.expect(["env", "--framework", "jax", "--chip", "1"], 64, stdout="")
        self.expect(["env", "--framework", "torch_xla", "--chip", "x"], 64, stdout="")
        done = self.expect(["env", "LIBTPU_INIT_ARGS=--xla_tpu_use_enhanced_launch_barrier=true",
                            "--framework", "torch_xla"], 0)
        self.assertIn("LIBTPU_INIT_ARGS: --xla_tpu_use_enhanced_launch_barrier=true is JAX's", done.stderr)

    def test_env_without_identity(self):
        (self.root / "etc/tpu-hostd/identity.conf.d/10-site.conf").unlink()
        done = self.expect(["env", "--framework", "jax"], 3, stdout="")
        self.assertIn("/etc/tpu-hostd/identity.conf.d/", done.stderr)


class Status(Ctl):
    def test_no_agent(self):
        self.expect(["status"], 3, stdout="", stderr=f"tpuctl: no answer from "
                                                     f"{self.root}/run/tpu-hostd/api.sock: No such file or "
                                                     f"directory\n"
                    "to do:  systemctl status tpu-hostd # of another host: tpuctl fleet\n")

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
        self.assertIn("uplink   http://10.0.0.2:4318 refuses our records; one try a minute\n",
                      self.expect(["status"], 2).stdout)
        self.assertIn("\n         the spool cannot be written: tpuctl check daemon.disk\n",
                      self.expect(["status"], 2).stdout)

    def test_notices(self):
        hostd = self.hostd()
        hostd.answers[("GET", "/v1/status")] = (200, dict(STATUS, notices=[
            {"notice": "preemption", "text": "TRUE"}, {"notice": "upcoming-maintenance", "text": "a\033b"}]))
        self.assertIn("\nnotice   preemption is ahead: the metadata server says 'TRUE'\n"
                      "notice   upcoming-maintenance is ahead: the metadata server says 'a?b'\n",
                      self.expect(["status"], 2).stdout)

    def test_history(self):
        hostd = self.hostd()
        status = json.loads(json.dumps(STATUS))
        for more, line in (({"since": ago(7300), "worsened": 4, "flapping": True, "last_good": ago(7400)},
                            "2 h, got worse 4 times, flapping, last good 2 h ago"),
                           ({"since": ago(200), "worsened": 1, "flapping": False, "last_good": None},
                            "3 min, never seen good")):
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


if __name__ == "__main__":
    unittest.main()
