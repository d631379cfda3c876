"""metadata.py as a process at a lab's 169.254.169.254."""

import json
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from lab import network  # noqa: E402

HERE = Path(__file__).resolve().parent


class Metadata:
    """Serves the lab's hosts; prefix stands before each one's name."""

    def __init__(self, lab, prefix=""):
        nics = {h.address("eth0"): [{"mac": network.mac(n, h.number), "ip": h.address(n)}
                                    for n in network.NICS] for h in lab.every}
        names = {h.address("eth0"): prefix + h.name for h in lab.every}
        self.process = subprocess.Popen(
            ["setpriv", "--pdeathsig=KILL", "nsenter", f"--net=/run/netns/{lab.switch.namespace}",
             sys.executable, "-B",
             HERE / "metadata.py", network.METADATA_ADDRESS, "80", json.dumps(nics), json.dumps(names)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout.readline() == "ok\n"

    def set(self, **what):
        self.process.stdin.write(json.dumps(what) + "\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "ok\n"

    def stop(self):
        self.process.kill()
        self.process.communicate()
