#!/usr/bin/python3
"""The packages baked into an image: installed in a chroot twice, compared file by file, then purged.

What no two images may share is born on the host, so two images must be the same to the byte, and after a
purge nothing is left but
dpkg's own memory and the users. Needs root, the lab's cache (tests/lab) and the packages; TPU_HOSTD_DEBS
names their folder.
"""
import hashlib
import os
import pathlib
import stat
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
sys.path.insert(0, str(HERE.parent / "lab"))

from lab.check import check                                                        # noqa: E402  (the path comes first)
from lab.prepare import debs_layer, whole                                          # noqa: E402
from lab.tree import cache_dir, OVERLAY_OPTIONS, remove_tree, run_script           # noqa: E402
import scenario                                                                    # noqa: E402

# dpkg's memory of what was done, and of when.
KEPT_BY_DPKG = {"var/lib/dpkg/status", "var/lib/dpkg/status-old", "var/lib/dpkg/lock",
                "var/lib/dpkg/lock-frontend",
                "var/lib/dpkg/triggers/Lock", "var/log/dpkg.log", "var/log/alternatives.log",
                "var/lib/dpkg/available"}
# systemd's index of all catalogs, made anew by its own trigger.
CATALOG = "var/lib/systemd/catalog/database"
INSTALL = "dpkg -i /tmp/*.deb"
USERS = {f"etc/{name}{old}" for name in ("passwd", "group", "shadow", "gshadow")
         for old in ("", "-")} | {"etc/.pwd.lock"}

BAKE = r"""
set -eu
mkdir -p "$WORK/merged" "$WORK/work" "$OUT"
mount -t overlay overlay -o "lowerdir=$LOWER,upperdir=$OUT,workdir=$WORK/work,$OVERLAY_OPTIONS" "$WORK/merged"
cd "$WORK/merged"
mount -t proc proc proc
mount -t tmpfs tmpfs run
mount --bind /dev/null dev/null 2>/dev/null || mknod -m 666 dev/null c 1 3
mount -t tmpfs tmpfs tmp
cp "$@" tmp
export DEBIAN_FRONTEND=noninteractive LC_ALL=C
chroot . sh -c "$COMMAND"
# nothing was started
if find run -type s | grep . || readlink proc/[0-9]*/exe | grep tpu-; then exit 1; fi
"""


def listing(root):
    """{path: what it is} of everything below root; times are left out."""
    found = {}
    for folder, folders, files in os.walk(root):
        for name in folders + files:
            path = pathlib.Path(folder, name)
            info = path.lstat()
            kind = os.readlink(path) if path.is_symlink() else hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
            found[str(path.relative_to(root))] = (oct(info.st_mode), info.st_uid, info.st_gid, info.st_rdev,
                                                  kind)
    return found


class Image(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        missing = [f"{name}: {reason}" for name, reason in check() if reason]
        if missing:
            raise unittest.SkipTest("this machine does not permit a lab: " + "; ".join(missing))
        cls.debs = whole(scenario.debs(os.environ.get("TPU_HOSTD_DEBS")))
        cls.layer = debs_layer(cls.debs).parent  # what they depend on
        for lease in cls.layer.leases():
            cls.addClassCleanup(lease.close)

    def bake(self, command):
        """{path: what it is} of all that command changed in the image; the packages are in /tmp."""
        work = pathlib.Path(tempfile.mkdtemp(prefix="image-test-", dir=cache_dir()))
        self.addCleanup(remove_tree, work)
        os.chmod(work, 0o755)
        run_script(BAKE,
                   {"LOWER": ":".join(map(str, self.layer.stack())), "WORK": work, "OUT": work / "upper",
                          "OVERLAY_OPTIONS": OVERLAY_OPTIONS, "COMMAND": command}, command,
                   [str(deb) for deb in self.debs])
        return work / "upper", listing(work / "upper")

    def is_in_image_already(self, path):
        return any(os.path.lexists(folder / path) for folder in self.layer.stack())

    def test_two_images_are_one(self):
        upper, first = self.bake(INSTALL)
        _, second = self.bake(f"sleep 1.1; {INSTALL}")
        same = lambda tree: {path: what for path, what in tree.items() if path not in KEPT_BY_DPKG}  # noqa: E731
        self.assertEqual(same(first), same(second))
        self.assertIn("usr/sbin/tpu-hostd", first)
        self.assertIn(b"tpu-", (upper / CATALOG).read_bytes())
        for path, (mode, *_) in first.items():
            with self.subTest(path):
                kind = int(mode, 8)
                self.assertTrue(stat.S_ISREG(kind) or stat.S_ISDIR(kind) or stat.S_ISLNK(kind), mode)
                # Configuration is the site's, state is the host's; a link says what may be written there.
                if path == "etc/tpu-hostd/README":
                    self.assertTrue(stat.S_ISLNK(kind))
                elif path != "etc/tpu-hostd":
                    self.assertFalse(path.startswith(("etc/tpu-", "var/lib/tpu-", "srv/", "home/", "root/")),
                                     path)
        self.assertEqual((upper / "etc/machine-id").exists(), False)
        enabled = {path.rpartition("/")[2] for path in first
                   if path.startswith("etc/systemd/system/")
                   and path.endswith((".service", ".socket", ".timer"))}
        agents = {f"{name}.{kind}" for name in scenario.AGENTS for kind in ("service", "socket")}
        self.assertEqual(enabled, agents | {"tpu-collectord.service"})

    def test_purge_leaves_nothing(self):
        made = "/var/lib/tpu-hostd/spool /var/lib/tpu-launchd/runs /var/lib/tpu-collectord /run/tpu-netcfg /run/tpu-launchd"
        upper, after = self.bake(f"{INSTALL} && mkdir -p {made} && for d in {made}; do echo x >$d/x; done "
                                 f"&& "
                             "dpkg --purge tpu-hostd tpuctl tpu-collector && ! ls -d /run/tpu-* 2>/dev/null")
        left = {path for path, what in after.items()
                if path not in KEPT_BY_DPKG | USERS | {CATALOG}
                and not self.is_folder_of_the_image(path, what)}
        self.assertEqual(left, set())
        self.assertNotIn(b"tpu-", (upper / CATALOG).read_bytes())
        users = (upper / "etc/passwd").read_text()
        self.assertIn("tpu-hostd:", users)  # the chroot did install: else nothing would be left of nothing

    def is_folder_of_the_image(self, path, what):
        """Folders of the image that were written into are copied up; in them nothing of ours is left."""
        return stat.S_ISDIR(int(what[0], 8)) and self.is_in_image_already(path)


if __name__ == "__main__":
    unittest.main()
