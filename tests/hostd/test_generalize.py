"""tpu-hostd --generalize on a folder that stands for an image: what is gone, what stays, what is refused."""

import os
import subprocess
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from around import BINARY, Hostd  # noqa: E402

MACHINE_ID = "0123456789abcdef0123456789abcdef"
SITE = """[Hostd]
Endpoint=https://collector.example:4318
SpoolDirectory=/srv/spool
[Uplink]
CaFile=/etc/tpu-hostd/tls/ca.pem
CertFile=/etc/tpu-hostd/tls/host.pem
KeyFile=/etc/tpu-hostd/tls/host.key
[Registry]
KeyFile=credential:registry.key
CertFile=/etc/tpu-hostd/tls/host.pem
"""


class Generalize(unittest.TestCase):
    def setUp(self):
        self.host = Hostd()
        self.addCleanup(self.host.close)
        self.root = self.host.root
        self.before = set()
        self.write("/etc/tpu-hostd/hostd.conf.d/10-site.conf", SITE)
        for name in ("ca.pem", "host.pem", "host.key"):
            self.write(f"/etc/tpu-hostd/tls/{name}")
        self.write("/var/lib/tpu-hostd/README")

    def write(self, path, text="x\n"):
        file = self.root / path[1:]
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file

    def generalize(self):
        return subprocess.run([BINARY, "--root", self.root, "--generalize"], capture_output=True, text=True,
                              timeout=60, check=False)

    def listing(self):
        """{path below the root: what a file holds or where a link leads}"""
        return {str(p.relative_to(self.root)):
                os.readlink(p) if p.is_symlink() else p.read_bytes().decode("latin1")
                for p in self.root.rglob("*") if p.is_symlink() or p.is_file() and os.access(p, os.R_OK)}

    def test_what_belongs_to_one_machine_goes(self):
        self.write("/srv/data/thesis")
        before = self.listing()
        for path in ("/var/lib/tpu-hostd/spool/events/0000.seg", "/var/lib/tpu-hostd/spool/events/id",
                     "/var/lib/tpu-hostd/health.json", "/var/lib/tpu-hostd/made-by-a-later-version",
                     "/var/lib/tpu-launchd/runs/a", "/var/lib/tpu-launchd/exits/a",
                     "/var/lib/tpu-netcfg/observe",
                     "/srv/spool/metrics/0000.seg", "/srv/captures/a", "/srv/machine",
                     "/srv/spool.other-machine/events/0000.seg", "/srv/machine.other-machine-2",
                     "/var/lib/dbus/machine-id"):
            self.write(path)
        self.write("/etc/machine-id", MACHINE_ID + "\n")
        done = self.generalize()
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        gone = {"etc/tpu-hostd/tls/host.pem", "etc/tpu-hostd/tls/host.key", "var/lib/tpu-hostd/README"}
        self.assertEqual(self.listing(), {k: v for k, v in before.items() if k not in gone} |
                         {"etc/machine-id": ""})
        self.assertEqual(done.stdout.split("\n"), [
            "/var/lib/tpu-hostd: emptied", "/var/lib/tpu-launchd: emptied", "/var/lib/tpu-netcfg: emptied",
            "/srv/spool: emptied", "/srv/spool.other-machine: emptied", "/srv/captures: emptied",
            "/srv/machine: removed", "/srv/machine.other-machine-2: removed",
            "/etc/tpu-hostd/tls/host.pem: removed",
            "/etc/tpu-hostd/tls/host.key: removed",
            "/var/lib/dbus/machine-id: removed", "/etc/machine-id: emptied", ""])
        link = self.root / "var/lib/dbus/machine-id"
        link.symlink_to("/etc/machine-id")
        again = self.generalize()
        self.assertEqual((again.returncode, again.stderr), (0, ""))
        self.assertTrue(link.is_symlink())

    def test_an_image_that_never_ran(self):
        (self.root / "var/lib/tpu-hostd/README").unlink()
        (self.root / "var/lib/tpu-hostd").rmdir()
        for machine_id in (None, "", "uninitialized\n"):
            with self.subTest(machine_id):
                if machine_id is not None:
                    self.write("/etc/machine-id", machine_id)
                done = self.generalize()
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                self.assertNotIn("machine-id", done.stdout)
                if machine_id is not None:
                    self.assertEqual((self.root / "etc/machine-id").read_text(), machine_id)

    def test_links_are_removed_and_not_followed(self):
        outside = self.write("/home/alice/thesis")
        folder = self.root / "var/lib/tpu-hostd"
        (folder / "file").symlink_to(outside)
        (folder / "folder").symlink_to(outside.parent)
        (folder / "nowhere").symlink_to("/nonexistent")
        self.write("/srv/spool/a")
        (self.root / "srv/captures").symlink_to(outside.parent)
        self.assertEqual(self.generalize().returncode, 0)
        self.assertEqual(list(folder.iterdir()), [])
        self.assertEqual([p.name for p in (self.root / "srv").iterdir()], ["spool"])
        self.assertTrue(outside.exists())

    def test_a_key_behind_a_link(self):
        """As a renewer keeps them: what the link points to must not stay in the image."""
        key = self.root / "etc/tpu-hostd/tls/host.key"
        archive = self.write("/etc/archive/privkey1.pem")
        key.unlink()
        key.symlink_to("../../archive/privkey1.pem")
        self.assertEqual(self.generalize().returncode, 0)
        self.assertFalse(key.is_symlink())
        self.assertEqual(archive.read_bytes(), b"")

    def test_what_was_set_aside_goes_alone_too(self):
        self.write("/srv/spool/a")
        aside = self.write("/srv/captures.other-machine/a")
        self.assertEqual(self.generalize().returncode, 0)
        self.assertFalse(aside.exists())

    def test_what_is_somebody_elses_beside_the_spool(self):
        self.write("/srv/spool/a")
        thesis = self.write("/srv/captures/thesis")
        os.chown(thesis.parent, 1000, 1000)
        self.assertEqual(self.generalize().returncode, 0)
        self.assertTrue(thesis.exists())

    def test_a_run_in_progress(self):
        unit = self.write("/run/systemd/transient/tpu-run-pretrain-2.service")
        before = self.listing()
        done = self.generalize()
        self.assertEqual(done.returncode, 1)
        self.assertIn("run pretrain-2 is in progress; end it first: tpuctl stop pretrain-2", done.stderr)
        self.assertEqual(self.listing(), before)
        unit.rename(unit.with_name("tpu-run-pretrain_2.slice"))  # what is left of one that ended
        self.assertEqual(self.generalize().returncode, 0)

    def test_what_cannot_be_removed_is_named(self):
        """And all else is removed."""
        deep = self.root / "var/lib/tpu-launchd" / "/".join("d" * 40)
        deep.mkdir(parents=True)
        (self.root / "var/lib/tpu-netcfg").mkdir()
        self.write("/var/lib/tpu-netcfg/observe")
        done = self.generalize()
        self.assertEqual(done.returncode, 1)
        self.assertIn("/var/lib/tpu-launchd cannot be emptied", done.stderr)
        self.assertEqual(list((self.root / "var/lib/tpu-netcfg").iterdir()), [])
        self.assertEqual(list((self.root / "var/lib/tpu-hostd").iterdir()), [])


if __name__ == "__main__":
    unittest.main()
