#!/usr/bin/python3
"""The walk of a newcomer: a machine that has none of the packages, and README.md. What README and
docs/first-run.md say is typed in their order, each command has to end as a person expects, and docs/walk.md
is the transcript with its times.

Needs root and the packages in build/debs. WRITE=1 writes the transcript anew.
"""

import os
import re
import shutil
import sys
import time
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
sys.path.insert(0, str(HERE))

from lab import Lab                          # noqa: E402  (the path comes first)
from lab.check import check                  # noqa: E402
from lab.prepare import debs_layer, whole    # noqa: E402
import scenario                              # noqa: E402

PAGE = scenario.TOP / "docs/walk.md"
HEAD = """# The walk of a newcomer

What came when README.md, and then docs/first-run.md, were followed on a booted Debian 12 host that had none
of the packages, beside a collector. `tests/lab/test_newcomer.py` walks it again and compares what is typed
and how it ends; with WRITE=1 it writes this page. {minutes} in all, {seconds} s of it waiting for commands.
The long output of apt is cut.

```
{walk}
```
"""
HELLO = (r"""printf 'import time\nfor step in range(1000):\n    print(f"completed step: {step}")\n"""
         r"""    time.sleep(0.1)\n'""")
PROMPT = re.compile(r"^\w+@\w+\$ .*$", re.MULTILINE)


def setUpModule():
    missing = [f"{name}: {reason}" for name, reason in check() if reason]
    if missing:
        raise unittest.SkipTest("this machine does not permit a lab: " + "; ".join(missing))


def install_lines():
    """The three lines of README's section Install."""
    text = (scenario.TOP / "README.md").read_text().split("\n## Install\n")[1]
    return re.search(r"```\n(.*?)```", text, re.DOTALL)[1].splitlines()


class Newcomer(unittest.TestCase):
    def setUp(self):
        host_deb, collector_deb = scenario.debs(os.environ.get("TPU_HOSTD_DEBS"))
        debs = whole([host_deb])

        def before_boot(host):
            if host.name == "collector":
                scenario.configure(host, 1, scenario.WANTED_MTU)
            else:
                host.bind_chips(scenario.CHIPS)

        self.lab = self.enterContext(Lab(hosts=1, debs=debs_layer(debs).parent, collector=[collector_deb],
                                         before_boot=before_boot))
        self.host, self.walk, self.spent = self.lab.hosts[0], [], 0.0
        for deb in debs:
            shutil.copy(deb, self.host.path("/root"))
        self.host.sh("useradd -m alice")

    def typed(self, user, line, code=0):
        began = time.monotonic()
        done = self.host.run(["/bin/sh", "-c", f"exec 2>&1; cd; {line}"], user=user, timeout=180)
        took = time.monotonic() - began
        self.spent += took
        shown = done.out.rstrip().splitlines()
        if line.startswith("apt-get"):
            shown = ["…", *shown[-2:]]
        self.walk.append("\n".join([f"{user}@h0$ {line}", *shown, f"[{took:.1f} s]", ""]))
        self.assertEqual(done.code, code, f"{line}\n{done.out}")
        return done.out

    def test_walk(self):
        began = time.monotonic()
        collector = self.lab.collector.address("eth0")
        for line in install_lines():
            self.typed("root", line.replace("COLLECTOR", collector))
        self.typed("root", "tpu-hostd --check-config")
        said = self.typed("root", "tpuctl check --problems; true")
        self.assertNotIn("FAIL ", said.split("checks:")[0])
        self.host.wait_for(lambda: " good " in self.host.run(["tpuctl", "uplink"]).out, 30, "a good uplink")
        self.assertIn(" good ", self.typed("root", "tpuctl uplink"))
        self.typed("root", "usermod -aG tpu-run alice")
        self.typed("alice", HELLO + " >hello.py")
        self.typed("alice", "tpuctl run --name hello -- python3 hello.py")
        self.host.wait_for(lambda: "step: 9" in self.host.journal("tpu-run-hello.service"), 30, "steps")
        self.assertIn("running", self.typed("alice", "tpuctl runs"))
        self.assertIn("completed step", self.typed("alice", "tpuctl logs hello -n 1"))
        self.assertIn("hello.py", self.typed("alice", "tpuctl stack hello"))
        self.typed("alice", "tpuctl stop hello")
        self.assertIn("stopped", self.typed("alice", "tpuctl runs"))
        walk = "\n".join(self.walk).rstrip()
        if os.environ.get("WRITE") == "1":
            PAGE.write_text(HEAD.format(walk=walk, minutes=f"{time.monotonic() - began:.0f} s",
                                        seconds=f"{self.spent:.0f}"))
        self.assertEqual(PROMPT.findall(walk), PROMPT.findall(PAGE.read_text()))


if __name__ == "__main__":
    unittest.main(verbosity=2)
