"""One tpu-hostd on a machine of fixtures that has everything: chips, NICs, disks, control groups of a
run."""

import shutil
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "hostd"))
import around  # noqa: E402
from around import Launchd, wait_until  # noqa: E402,F401

NUMBERS = around.TOP / "tests/fixtures/machine-metrics"
JOURNAL_WRITER = Path("/lib/systemd/systemd-journal-remote")
WRONG = "4096\t131072\t6291456"
RIGHT = "4096\t41943040\t314572800"
RUN = {1: "my-run", 2: "tpu-run-my-run.service", 3: "running", 7: "jax", 8: "tcmalloc", 9: "alice",
       10: "python3 train.py", 13: 4242, 14: 2}
STEP = ("completed step: {}, seconds: 0.5, TFLOP/s/device: 1.0, Tokens/s/device: 11.5, total_weights: 2, "
        "loss: 1.5")


class Hostd(around.Hostd):
    """Not started yet. cleanup: a test's addCleanup or addClassCleanup; url: the endpoint's base; uplink:
    lines of [Uplink]."""

    def __init__(self, cleanup, url, uplink="", host=None, **settings):
        super().__init__(endpoint=url, **settings)
        cleanup(lambda: self.close(failed=bool(self.process and self.process.poll())))
        for folder in ("proc", "sys/fs", "sys/block", "sys/devices"):
            shutil.copytree(NUMBERS / folder, self.root / folder, symlinks=True, dirs_exist_ok=True)
        (self.root / "proc/self").mkdir(exist_ok=True)
        (self.root / "proc/self/stat").write_text("7 (tpu-hostd) S 1 7 7 0 -1 4194560 1 0 0 0 250 150 0 0 "
                                                  "20 0 2 0 1 1 1\n")
        (self.root / "proc/self/statm").write_text("9000 1000 900 100 0 400 0\n")
        self.config.write_text(self.config.read_text() + f"[Uplink]\n{uplink}\n")
        if host:
            site = self.root / "etc/tpu-hostd/identity.conf.d/10-site.conf"
            site.write_text(site.read_text().replace("[Identity]\n", f"[Identity]\nHostName={host}\n"))
        self.cleanup = cleanup

    def launchd(self):
        """tpu-launchd with one run."""
        daemon = Launchd(self.folder / "launchd.sock")
        self.cleanup(daemon.stop)
        daemon.runs = [{**RUN, 11: time.time_ns() // 1000}]
        return daemon

    def journal(self):
        """A function that writes a line of the run's log."""
        folder = self.folder / "journal"
        folder.mkdir()
        self.config.write_text(self.config.read_text().replace("[Hostd]\n", f"[Hostd]\nJournal={folder}\n"))
        writer = subprocess.Popen([JOURNAL_WRITER, "-o", folder / "system.journal", "-"],
                                  stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.cleanup(lambda: (writer.stdin.close(), writer.wait(60)))

        def line(text):
            writer.stdin.write((f"__REALTIME_TIMESTAMP={time.time_ns() // 1000}\n"
                                f"__MONOTONIC_TIMESTAMP={time.monotonic_ns() // 1000}\n"
                                f"_BOOT_ID={'5e0f3a5252a74d2b9b1c6a1f0e4d7c3b'}\nSYSLOG_IDENTIFIER=tpu-run\n"
                                f"_SYSTEMD_UNIT={RUN[2]}\nMESSAGE={text}\n\n").encode())
            writer.stdin.flush()

        line("the journal begins")
        wait_until(lambda: list(folder.glob("*.journal")), 5, "the journal file")
        return line

    def net_dev(self, **received):
        """Sets the bytes received of NICs in /proc/net/dev."""
        path = self.root / "proc/net/dev"
        lines = path.read_text().splitlines()
        for i, line in enumerate(lines):
            name, colon, rest = line.partition(":")
            if colon and name.strip() in received:
                words = rest.split()
                words[0] = str(received[name.strip()])
                lines[i] = name + ": " + " ".join(words)
        text = "\n".join(lines) + "\n"
        # in place and at once: the agent keeps its files of /proc open
        with open(path, "r+b", buffering=0) as f:
            f.write(text.encode())
            f.truncate(len(text))
