#!/usr/bin/python3
"""The real unit files as systemd-analyze reads them: how exposed each service is, and why where it could
be less."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

UNITS = pathlib.Path(__file__).resolve().parents[2] / "systemd"
# What is asked of tpu-netcfg; of the others what was reached: a change may lower these, not raise them.
DAEMONS = {"tpu-netcfg": 1.8, "tpu-launchd": 2.5, "tpu-hostd": 2.4, "tpu-collectord": 1.1}
EXPOSURE = DAEMONS | {"tpu-hostd-generalize": 1.4, "tpu-collector-token-keys": 1.1}
# What systemd-analyze does not judge, and every unit still sets or says why not.
ALSO = ("WatchdogSec NotifyAccess Restart PrivateIPC SystemCallErrorNumber CapabilityBoundingSet MemoryMax "
        "TasksMax OOMScoreAdjust "
        "RemoveIPC").split()


def comments(text):
    return "\n".join(line for line in text.splitlines() if line.startswith("#"))


def reason_pattern(name):
    """What a comment must hold to be about one item: "ProcSubset=" → the key; "…=~AF_(INET|INET6)" → that
    value."""
    key, _, value = name.partition("=~")
    if value:
        value = value.replace("*", r"\w*")
        return rf"(?<!\w){value}(?!\w)"
    return r"\b(" + "|".join(word for word in re.split("[=/]+", key) if word) + r")\b"


class Units(unittest.TestCase):
    def setUp(self):
        if not shutil.which("systemd-analyze"):
            self.skipTest("there is no systemd-analyze")

    def analyze(self, *words):
        # Another name for the folder would hide drop-ins of this machine behind our units' names.
        return subprocess.run(["systemd-analyze", *words], capture_output=True, text=True, timeout=60,
                              check=False,
                              env=os.environ | {"SYSTEMD_UNIT_PATH": f"{UNITS}:", "SYSTEMD_COLORS": "0",
                                                "SYSTEMD_PAGER": ""})

    def test_every_service_is_held(self):
        self.assertEqual({f.stem for f in UNITS.glob("*.service")}, set(EXPOSURE))

    def test_none_is_ever_given_up(self):
        """systemd's own limit, 5 starts in 10 s, would leave a daemon down that is killed often."""
        for name in DAEMONS:
            with self.subTest(name):
                text = (UNITS / f"{name}.service").read_text()
                self.assertIn("\nRestart=always\n", text)
                self.assertIn("\nStartLimitIntervalSec=0\n", text.split("[Service]")[0])

    def test_exposure(self):
        for name, most in EXPOSURE.items():
            with self.subTest(name):
                done = self.analyze("security", "--offline=yes", f"--threshold={round(most * 10)}",
                                    UNITS / f"{name}.service")
                self.assertIn("Overall exposure level", done.stdout, done.stderr)
                self.assertEqual(done.returncode, 0,
                                 "\n".join(line for line in done.stdout.splitlines() if "✓" not in line))

    def test_each_missing_key_has_its_reason(self):
        for name in EXPOSURE:
            text = (UNITS / f"{name}.service").read_text()
            done = self.analyze("security", "--offline=yes", "--json=short", UNITS / f"{name}.service")
            items = json.loads(done.stdout)
            self.assertGreater(len(items), 50, "systemd-analyze's list was not understood")
            for item in items:
                if item["set"] is False:
                    with self.subTest(name, item=item["name"]):
                        self.assertRegex(comments(text), reason_pattern(item["name"]), item["description"])
            for key in ALSO if name in DAEMONS else ():
                with self.subTest(name, key=key):
                    if key == "RemoveIPC" and not re.search(r"^User=", text, re.MULTILINE):
                        continue  # root's objects are never removed
                    self.assertRegex(text, rf"(?m)(^{key}=|^#.*\b{key}\b)")

    def test_units_are_read_without_a_complaint(self):
        """systemd-analyze verify, with programs where the units look for them."""
        with tempfile.TemporaryDirectory(prefix="tpu-units-test-") as folder:
            for unit in [*UNITS.glob("*.service"), *UNITS.glob("*.socket"), *UNITS.glob("*.timer")]:
                text = unit.read_text()
                text = re.sub(r"^(ExecStart=)/usr/s?bin/tpu-\w+", r"\1/bin/true", text, flags=re.MULTILINE)
                pathlib.Path(folder, unit.name).write_text(text)
            for unit in sorted(pathlib.Path(folder).iterdir()):
                with self.subTest(unit.name):
                    done = self.analyze("verify", "--man=no", "--recursive-errors=no", unit)
                    ours = [line for line in done.stderr.splitlines() if unit.name in line]
                    self.assertEqual(ours, [])

    def test_the_judge_can_say_no(self):
        """A unit with a key taken out and no word about it is found out, by the threshold and by the
        reasons."""
        with tempfile.TemporaryDirectory(prefix="tpu-units-test-") as folder:
            worse = pathlib.Path(folder, "tpu-netcfg.service")
            text = (UNITS / worse.name).read_text()
            for key in ("PrivateNetwork", "SystemCallFilter", "RestrictAddressFamilies", "NoNewPrivileges"):
                text = re.sub(rf"^{key}=.*\n", "", text, flags=re.MULTILINE)
            worse.write_text(text)
            done = self.analyze("security", "--offline=yes",
                                f"--threshold={round(EXPOSURE['tpu-netcfg'] * 10)}", worse)
            self.assertEqual(done.returncode, 1, done.stdout)
            self.assertNotRegex(comments(text), reason_pattern("NoNewPrivileges="))


if __name__ == "__main__":
    unittest.main()
