#!/usr/bin/python3
"""tpuctl on a machine that has nothing else of ours: a laptop. It asks a collector, or says what to do."""
import os
import pathlib
import shutil
import socket
import subprocess
import tempfile
import unittest

from ctl_case import TPUCTL, Ctl

HOSTS = {"hosts": [dict(name="h0", slice="s0", worker_id=0, state="ready", age_seconds=1, reasons="")]}


class Laptop(Ctl):
    def setUp(self):
        super().setUp()
        shutil.rmtree(self.root)
        (self.root / "etc").mkdir(parents=True)
        self.home = pathlib.Path(tempfile.mkdtemp(prefix="tpuctl-home-"))
        self.addCleanup(shutil.rmtree, self.home)

    def typed(self, *words, **env):
        done = subprocess.run([TPUCTL, "--root", self.root, *words], stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=60, check=False,
                              env={"PATH": "/usr/bin:/bin", "HOME": str(self.home), **env})
        return done.returncode, done.stdout, done.stderr

    def write_own(self, text, folder=".config"):
        path = self.home / folder / "tpu-hostd/tpuctl.conf"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def write_machines(self, text):
        path = self.root / "etc/tpu-hostd/tpuctl.conf.d/10-site.conf"
        path.parent.mkdir(parents=True)
        path.write_text(text)

    def test_nothing_is_configured(self):
        with socket.socket() as s:
            if s.connect_ex(("127.0.0.1", 9471)) == 0:
                self.skipTest("a collector runs on this machine")
        for words in (["fleet"], ["fleet", "slices"], ["runs", "--fleet"], ["events"],
                      ["logs", "train", "--fleet"], ["stop", "train", "--fleet", "--yes"],
                      ["fleet", "cordon", "h0", "x"], ["fleet", "drain", "h0", "x", "--yes"],
                      ["run", "--name", "x", "--user", "a", "--slices", "1", "--", "true"]):
            with self.subTest(words):
                self.assertEqual(self.typed(*words), (3, "", (
                    "tpuctl: no collector is configured, and http://127.0.0.1:9471 does not answer\n"
                    "to do:  man tpuctl # FILES: Collector= in tpuctl.conf names it\n")))

    def test_what_is_of_this_host(self):
        """No agent is here: each verb says so at once, and where to look instead."""
        for words, program in ((["status"], "tpu-hostd"), (["uplink"], "tpu-hostd"), (["net"], "tpu-hostd"),
                               (["sched"], "tpu-hostd"), (["mode", "observe"], "tpu-hostd"),
                               (["cordon", "x"], "tpu-hostd"), (["runs"], "tpu-launchd"),
                               (["stop", "train"], "tpu-launchd"), (["stack", "train"], "tpu-launchd"),
                               (["run", "--name", "x", "--", "true"], "tpu-launchd")):
            with self.subTest(words):
                code, out, err = self.typed(*words)
                self.assertEqual((code, out), (3, ""))
                self.assertRegex(err, r"^tpuctl: no answer from .*: No such file or directory\n"
                                      rf"to do:  systemctl status {program}.* # o[fn] (an)?other hosts?: "
                                      r"tpuctl (fleet|runs --fleet)\n$")

    def test_ones_own_file(self):
        server, url = self.collector()
        server.answers[("GET", "/api/v1/hosts")] = (200, HOSTS)
        self.write_own(f"[Ctl]\nCollector={url}\n")
        code, out, err = self.typed("fleet")
        self.assertEqual((code, err), (0, ""))
        self.assertIn("\ns0     0       h0    ready ", out)
        self.write_own("[Ctl]\nCollector=http://127.0.0.1:1\n", folder="elsewhere")
        code, _, err = self.typed("fleet", XDG_CONFIG_HOME=str(self.home / "elsewhere"))
        self.assertEqual((code, err), (3, "tpuctl: no answer from http://127.0.0.1:1/api/v1/hosts: "
                                          "Connection refused\nto do:  systemctl status tpu-collectord "
                                          "# on the collector's machine\n"))
        # --config stands for all files; --collector before all
        other = self.home / "other.conf"
        other.write_text("[Ctl]\nCollector=http://127.0.0.1:1\n")
        self.assertEqual(self.typed("--config", str(other), "fleet")[0], 3)
        self.assertEqual(self.typed("--config", str(other), "fleet", "--collector", url)[0], 0)

    def test_ones_own_stands_before_the_machines(self):
        server, url = self.collector()
        server.answers[("GET", "/api/v1/hosts")] = (200, HOSTS)
        self.write_machines(f"[Ctl]\nCollector={url}\n")
        self.write_own("[Ctl]\nCollectorCertificate=/home/ada/ada.pem\n")  # and says nothing of the URL
        self.assertEqual(self.typed("fleet")[0], 0)
        self.write_own("[Ctl]\nCollector=http://127.0.0.1:1\n")
        self.assertEqual(self.typed("fleet")[0], 3)

    def test_mistakes_in_ones_own_file(self):
        server, url = self.collector()
        server.answers[("GET", "/api/v1/hosts")] = (200, HOSTS)
        self.write_own(f"[Ctl]\nColector=x\nCollector={url}\n")
        code, _, err = self.typed("fleet")
        self.assertEqual(code, 0)
        self.assertIn(f"{self.home}/.config/tpu-hostd/tpuctl.conf:2", err)
        path = self.home / ".config/tpu-hostd/tpuctl.conf"
        if os.geteuid() != 0:
            path.chmod(0)
            self.assertEqual(self.typed("fleet")[0], 64)
        path.unlink()
        path.mkdir()  # no file: said, not passed over
        code, _, err = self.typed("fleet")
        self.assertEqual(code, 64)
        self.assertIn("the configuration cannot be read", err)


if __name__ == "__main__":
    unittest.main()
