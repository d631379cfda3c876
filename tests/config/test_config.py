#!/usr/bin/python3
"""--check-config and --show-config of every daemon. BUILD_DIR names the build."""
import os
import pathlib
import subprocess
import tempfile
import unittest

BUILD = pathlib.Path(os.environ["BUILD_DIR"])
DAEMONS = {  # program: (where it is built, name of its configuration, a good line)
    "tpu-hostd": ("agent/hostd", "hostd", "[Hostd]\nEndpoint=http://10.0.0.1:4318\n"),
    "tpu-launchd": ("agent/launch", "identity", "[Identity]\nSliceName=a\n"),
    "tpu-netcfg": ("netcfg", "netcfg", "[Netcfg]\nMode=observe\n"),
    "tpu-collectord": ("collector", "collectord", "[Collector]\nDatabase=/tmp/x.db\n"),
}


class Config(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="tpu-config-test-")
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        profiles = self.root / "usr/lib/tpu-hostd/profiles"
        profiles.mkdir(parents=True)
        source = pathlib.Path(__file__).resolve().parents[2] / "netcfg/profiles"
        for profile in source.iterdir():
            (profiles / profile.name).write_text(profile.read_text())
        # Only tpu-netcfg would warn that it does not know the generation.
        self.write("identity", "05-type", "[Identity]\nAcceleratorType=v6e-16\n")

    def write(self, name, file, text):
        folder = self.root / f"etc/tpu-hostd/{name}.conf.d"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{file}.conf").write_text(text)

    def run_daemon(self, program, option):
        return subprocess.run([BUILD / DAEMONS[program][0] / program, "--root", self.root, option],
                              capture_output=True, text=True, timeout=60, check=False)

    def test_good(self):
        for program, (_, name, text) in DAEMONS.items():
            with self.subTest(program):
                self.write(name, "10-good", text)
                done = self.run_daemon(program, "--check-config")
                self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))
                shown = self.run_daemon(program, "--show-config")
                key, value = text.splitlines()[1].split("=", 1)
                self.assertEqual(shown.returncode, 0, shown.stderr)
                origin = f"/etc/tpu-hostd/{name}.conf.d/10-good.conf:2"
                self.assertIn(f"# from {origin}\n{key} = {value}\n", shown.stdout)

    def test_devices_of_runs(self):
        self.write("launchd", "10-devices", "[Devices]\nPolicy=any\nAllow=/dev/net/tun char-nvidia*\n")
        self.assertIn("10-devices.conf:2\nPolicy = any\n",
                      self.run_daemon("tpu-launchd", "--show-config").stdout)
        self.write("launchd", "20-bad", "[Devices]\nPolicy=open\nAllow=/etc/passwd\n")
        done = self.run_daemon("tpu-launchd", "--check-config")
        self.assertEqual(done.returncode, 1)
        self.assertIn("20-bad.conf:2: ", done.stderr)
        self.assertIn("'/etc/passwd' is neither below /dev nor", done.stderr)
        self.assertIn("10-devices.conf:3\nAllow = /dev/net/tun char-nvidia*\n",
                      self.run_daemon("tpu-launchd", "--show-config").stdout)

    def test_bad(self):
        for program, (_, name, text) in DAEMONS.items():
            with self.subTest(program):
                self.write(name, "20-bad", text.splitlines()[0] + "\nTypign=1\n")
                done = self.run_daemon(program, "--check-config")
                self.assertEqual((done.returncode, done.stdout), (1, ""))
                where = f"/etc/tpu-hostd/{name}.conf.d/20-bad.conf:2"
                self.assertIn(f"{where}: unknown key 'Typign'", done.stderr)

    def test_wrong_places(self):
        """Each mistake is told by the program whose configuration was meant, and by no other."""
        site = self.root / "etc/tpu-hostd"
        (site / "README").write_text("What lies here.\n")
        (site / "tls").mkdir()
        (site / "tls/ca.pem").write_text("-----BEGIN\n")
        for program in DAEMONS:
            self.assertEqual(self.run_daemon(program, "--check-config").stderr, "")
        (site / "hostd.conf").write_text("[Netcfg]\nMode=observe\n")
        (site / "hostd.d").mkdir()
        (site / "netcfg.conf.d").mkdir()
        (site / "netcfg.conf.d/10-site").write_text("[Netcfg]\nMode=observe\n")
        (site / "tpu-launchd.conf").write_text("")
        (site / "site.ini").write_text("[Hostd]\n")
        told = {
            "tpu-hostd": ["hostd.conf:2: section [Netcfg] belongs into netcfg.conf or netcfg.conf.d",
                          "hostd.d is not read: hostd.conf and hostd.conf.d/*.conf are",
                          "site.ini is not read: NAME.conf and NAME.conf.d/*.conf are"],
            "tpu-netcfg": ["netcfg.conf.d/10-site is not read: its name does not end in .conf"],
            "tpu-launchd": ["tpu-launchd.conf is not read: launchd.conf and launchd.conf.d/*.conf are"],
            "tpu-collectord": ["site.ini is not read: NAME.conf and NAME.conf.d/*.conf are"]}
        for program in DAEMONS:
            with self.subTest(program):
                done = self.run_daemon(program, "--check-config")
                lines = [line.partition(f"{program}: /etc/tpu-hostd/")[2] for line in
                         done.stderr.splitlines()]
                self.assertEqual(len(lines), len(told[program]), done.stderr)
                for line, words in zip(lines, told[program]):
                    self.assertTrue(line.startswith(words), line)
                self.assertEqual(done.returncode, 1)

    def test_one_file_for_all(self):
        """--config FILE stands for the files of every program: nobody warns of another's sections,
        whichever they are."""
        file = self.root / "all.conf"
        sections = set()
        for program in DAEMONS:
            shown = self.run_daemon(program, "--show-config").stdout
            sections |= {line for line in shown.splitlines() if line.startswith("[")}
        self.assertLessEqual({"[Hostd]", "[Uplink]", "[Collector]", "[Netcfg]"}, sections)
        file.write_text("".join(f"{section}\nOfAnother=1\n" for section in sorted(sections)))
        for program, (folder, _, _) in DAEMONS.items():
            with self.subTest(program):
                own = {line for line in self.run_daemon(program, "--show-config").stdout.splitlines()
                       if line.startswith("[")}
                done = subprocess.run([BUILD / folder / program, "--root", self.root, "--config", file,
                                       "--check-config"], capture_output=True, text=True,
                                      timeout=60, check=False)
                warned = {section for section in sections
                          if f"unknown key 'OfAnother' in section {section}" in done.stderr}
                self.assertTrue(warned)
                self.assertEqual(warned - own, set(), done.stderr)


if __name__ == "__main__":
    unittest.main()
