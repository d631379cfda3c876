#!/usr/bin/python3
"""What a person meets who starts a run for the first time: an ordinary user on booted hosts, without any
group but tpu-run. Everything that is typed and said is compared word by word with first_run.txt.

A start whose interpreter is missing is said to have failed or not, as the machine is fast: what it says is
not compared, what became of it is.

Needs root and the packages in build/debs. WRITE=1 writes the page anew, to be read before it is kept.
"""

import os
import re
import sys
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
sys.path.insert(0, str(HERE))

from lab.check import check      # noqa: E402  (the path comes first)
import scenario                  # noqa: E402
import slices                    # noqa: E402

PAGE = HERE / "first_run.txt"
HELLO = """import os, sys, time
print("worker", os.environ["TPU_WORKER_ID"], "says hello")
for step in range(int(sys.argv[1])):
    print(f"completed step: {step}, seconds: 0.100, loss: 1.0")
    time.sleep(0.1)
"""
# Who, where, what is typed; the story goes on over all of them.
STORY = """
alice@h0$ tpuctl run --name hello -- python3 /srv/hello.py 3
alice@h0$ tpuctl logs -f hello
alice@h0$ tpuctl logs hello -n 1
alice@h0$ tpuctl runs
bob@h0$ tpuctl logs hello
alice@h0$ tpuctl logs helo
alice@h0$ tpuctl stop helo
alice@h0$ tpuctl run --name typo -- pyhton3 /srv/hello.py 3
alice@h0$ tpuctl run --name typo --directory /nowhere -- python3 /srv/hello.py 3
alice@h0$ tpuctl run --name typo --restarts 5 -- /srv/no-interpreter >/dev/null 2>&1; true
alice@h0$ tpuctl logs -f typo
alice@h0$ tpuctl run --name short -- true
alice@h0$ tpuctl run --name long -- python3 /srv/hello.py 100000
alice@h0$ timeout -s INT 3 tpuctl logs -f long >/dev/null
alice@h0$ tpuctl stop long
bob@h0$ tpuctl run -- true
root@h0$ tpuctl run --user dave -- true
alice@h0$ tpuctl env --explain PYTHONUNBUFFERED=0 2>&1 | grep PYTHON
alice@h0$ tpuctl env --explain | grep -A1 Python
alice@h0$ tpuctl run --name both --slices 1 -- python3 /srv/hello.py 100000
alice@h0$ tpuctl logs both -n 1 | cut -c 1-15
alice@h1$ tpuctl logs both -n 1 | cut -c 1-15
alice@h0$ tpuctl stop --fleet both --yes
carol@h0$ tpuctl run --name nouser --slices 1 --restarts 5 -- true
alice@h0$ tpuctl run --name noprogram --slices 1 --restarts 5 -- /srv/only-on-h0
"""


def setUpModule():
    missing = [f"{name}: {reason}" for name, reason in check() if reason]
    if missing:
        raise unittest.SkipTest("this machine does not permit a lab: " + "; ".join(missing))


def masked(text):
    """Without what differs from one day to the next: times, and states on the way to running that are
    seen or not."""
    text = re.sub(r"\b\d+ (s|min)\b", "N s", text)
    text = re.sub(r"(?m)^(hello .* N s) .* (success .*)$", r"\1 (steps) \2", text)  # as far as hostd saw it
    text = re.sub(r"(?m)^\w+: (waiting|preparing).*\n(  .*\n)*", "", text)
    return re.sub(r" +", " ", text)


class FirstRun(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.lab = cls.enterClassContext(slices.lab(2, 2, os.environ.get("TPU_HOSTD_DEBS"), grant=False))
        cls.hosts = {h.name: h for h in cls.lab.hosts}
        for h in cls.lab.hosts:
            h.sh("useradd -m -G tpu-run alice; useradd -m bob")
            h.write("/srv/hello.py", HELLO)
            h.write("/srv/no-interpreter", "#!/nowhere/python3\n", 0o755)
        cls.hosts["h0"].sh("useradd -m -G tpu-run carol; install -m 755 /bin/true /srv/only-on-h0")
        for name, users in (("h0", "alice carol"), ("h1", "alice")):
            cls.hosts[name].write(slices.AUTHORITY, f"[Remote]\nStart={users}\n")
        scenario.wait_until(lambda: all(slices.registry(h)["state"] == "member" for h in cls.lab.hosts), 90,
                            "all hosts are members")

    def typed(self, line):
        """The line, what came of it, and its exit code where that is not 0."""
        user, host, words = re.fullmatch(r"(\w+)@(\w+)\$ (.*)", line).groups()
        done = self.hosts[host].run(["/bin/sh", "-c", f"exec 2>&1; {words}"], user=user, timeout=120)
        return line + "\n" + done.out + (f"[exit code {done.code}]\n" if done.code else "")

    def test_the_page(self):
        said = masked("\n".join(self.typed(line) for line in STORY.strip().splitlines()))
        if os.environ.get("WRITE") == "1":
            PAGE.write_text(said)
        self.assertEqual(said, masked(PAGE.read_text()))


if __name__ == "__main__":
    unittest.main(verbosity=2)
