#!/usr/bin/python3
"""A training that people start by hand in a container, one rank on each of two booted hosts: once by docker,
once by podman. Nothing of ours starts it. It is found by the chip that it holds (a stand-in: a node of the
null device), called what its container is called, followed step by step in its engine's log, and when it is
stopped on one host, that host is named. The image is made of the host's own Python: no registry is asked.

And one that `tpuctl run --image` starts, on one host and over two: who it is inside, its steps, its stacks,
its ends, and an image that is not the same on both hosts.
"""

import json
import os
import sys
import time
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
sys.path.insert(0, str(HERE))

from lab import Lab              # noqa: E402  (the path comes first)
from lab.check import check      # noqa: E402
from lab.prepare import debs_layer  # noqa: E402
from lab.tree import apt_layer   # noqa: E402
import own_container                   # noqa: E402
import scenario                  # noqa: E402
import slices                    # noqa: E402

TOOLS = ("--no-install-recommends", "docker.io", *own_container.PODMAN_TOOLS)
# What the container is, and then steps; on TERM it saves, and ends with 3.
STEPS = '''
import os, signal, sys, time
def end(*_):
    print("saved a checkpoint", flush=True)
    sys.exit(3)
if sys.argv[2:] == ["save"]:
    signal.signal(signal.SIGTERM, end)
with open("/proc/self/status") as status:
    said = dict(line.rstrip().split(":\\t", 1) for line in status if ":\\t" in line)
print("inside:", os.getuid(), os.getgid(), said["CapEff"], said["CapBnd"], said["NoNewPrivs"],
      os.access("/srv", os.W_OK), os.environ.get("MINE"), os.environ.get("LD_PRELOAD"),
      os.environ.get("TPU_WORKER_ID"), os.getcwd(), flush=True)
os.close(os.open("/dev/accel0", os.O_RDWR))
for step in range(1, int(sys.argv[1])):
    time.sleep(0.1)
    print(f"completed step: {step}, seconds: 0.100", flush=True)
sys.exit(7)
'''
MOUNT = "[Container]\nMount=/srv:ro\n[Remote]\nStart=alice\n"
ENGINES = {"docker": ("docker", 7401, "py:1", []), "podman": own_container.PODMAN}


def setUpModule():
    if not os.environ.get("FULL"):
        raise unittest.SkipTest("takes minutes: with FULL=1")
    missing = [f"{name}: {reason}" for name, reason in check() if reason]
    if missing:
        raise unittest.SkipTest("this machine does not permit a lab: " + "; ".join(missing))


def before_boot(host):
    if host in host.lab.hosts:
        host.lab_collector_address = host.lab.collector.address("eth0")
        slices.configure(host, 2, 2, "Kind=collector", grant=False)
        own_container.configure(host)
        host.write("/srv/steps.py", STEPS)
        host.write("/etc/tpu-hostd/authority.conf.d/50-image.conf", MOUNT)
    else:
        scenario.configure(host, 2, scenario.WANTED_MTU)


class Containers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        host_deb, collector_deb = scenario.debs(os.environ.get("TPU_HOSTD_DEBS"))
        layer = apt_layer("containers", debs_layer([host_deb]), "install", *TOOLS)
        cls.lab = cls.enterClassContext(Lab(hosts=2, debs=layer, collector=[collector_deb], unified=True,
                                            before_boot=before_boot))
        for host in cls.lab.hosts:
            host.sh("useradd -m -G tpu-run alice")
            host.sh("systemctl stop docker docker.socket containerd podman.socket; umask 022;" +
                    own_container.place("containers", "docker") +
                    "rm -rf /run/containers/storage /run/libpod; systemctl start docker", timeout=120)
            host.sh(f"{own_container.IMAGE} >/var/tmp/py.tar", timeout=120)
            host.sh("docker import /var/tmp/py.tar py:1; podman import -q /var/tmp/py.tar localhost/py:1",
                    timeout=120)

    def run_of(self, host, name):
        return {r["name"]: r for r in json.loads(host.sh("tpuctl runs --json"))["runs"]}.get(name)

    def step(self, host, name):
        run = self.run_of(host, name)
        return run["step"] or 0 if run else 0

    def check_engine(self, engine):
        command, name, (h0, h1) = ENGINES[engine][0], f"train-{engine}", self.lab.hosts
        for host in self.lab.hosts:
            host.sh("chmod 0666 /dev/accel0")
        self.addCleanup(own_container.remove, ENGINES[engine], name, self.lab.hosts)
        own_container.start(ENGINES[engine], name, self.lab.hosts)
        for host in self.lab.hosts:
            host.wait_for(lambda h=host: self.run_of(h, name), 120, "who holds the chip is found")
            run = self.run_of(host, name)
            self.assertEqual((run["state"], run["user"], run["devices"], run["adopted"]),
                             ("running", "alice", "/dev/accel0", True))
            self.assertRegex(run["container"], f"^{engine} [0-9a-f]{{12}}$")
        # Its lines are its steps.
        for host in self.lab.hosts:
            host.wait_for(lambda h=host: self.step(h, name) > 5, 60, "its steps are read")
            learned = self.step(host, name) + 100
            host.wait_for(lambda h=host: self.step(h, name) > learned, 90, "its step time is learned")
        said = int(h0.sh(f"{command} logs --tail 1 {name}").split(":")[1].split(",")[0])
        self.assertLess(abs(said - self.step(h0, name)), 60)
        # Its stacks, through the container's own namespaces.
        self.assertIn('File "/srv/loop.py", line ', h1.sh(f"tpuctl stack {name}"))
        lines = h0.run(["tpuctl", "logs", name], check=False)
        self.assertIn(f"to do:  sudo {command} logs ", lines.err)
        stop = h0.run(["tpuctl", "stop", name, "--here"], check=False)
        self.assertNotEqual(stop.code, 0)
        self.assertIn(f"sudo {command} stop ", stop.err)
        # Stopped on one host: who it is and what it waits for, within 40 s of the stall.
        pid = self.run_of(h1, name)["main_pid"]
        h1.sh(f"kill -STOP {pid}")
        began = time.monotonic()
        said = None
        while time.monotonic() - began < 40:
            said = h0.run(["tpuctl", "diagnose", "s0"], timeout=60, check=False)
            if h1.address("eth0") in said.out and "stopped" in said.out and "no answer" not in said.out:
                break
            time.sleep(1)
        took = time.monotonic() - began
        print(f"{engine}: named after {took:.1f} s: {said.out.splitlines()[:3]}", flush=True)
        self.assertLess(took, 40, said.out + said.err + h0.sh("tpuctl runs; journalctl -u tpu-hostd | tail"))
        h1.sh(f"kill -CONT {pid}")
        at = self.step(h0, name)
        h0.wait_for(lambda: self.step(h0, name) > at + 5, 60, "it goes on")
        # Its end.
        own_container.remove(ENGINES[engine], name, self.lab.hosts)
        for host in self.lab.hosts:
            host.wait_for(lambda h=host: self.run_of(h, name)["state"] == "exited", 30, "its end is seen")
        self.assertNotEqual(self.run_of(h1, name)["cause"], "success")

    def test_docker(self):
        scenario.wait_until(lambda: all(slices.registry(h)["state"] == "member" for h in self.lab.hosts), 90,
                            "both hosts are members")
        self.check_engine("docker")

    def test_podman(self):
        self.check_engine("podman")

    # --- Started by tpuctl --------------------------------------------------------------------------------

    def image_run(self, host, name, *words, engine="podman", image="py:1", options=()):
        return host.run(["tpuctl", "run", "--name", name, "--image", image, "--engine", engine, *options,
                         "--", "/usr/bin/python3", "/srv/steps.py", *words], user="alice", check=False,
                        timeout=90)

    def ended(self, host, name, cause, status):
        host.wait_for(lambda: self.run_of(host, name)["state"] == "exited", 60, f"{name} has ended")
        run = self.run_of(host, name)
        self.assertEqual((run["cause"], run["status"]), (cause, status), run)
        return run

    def check_image(self, engine, limits=()):
        h0, name = self.lab.hosts[0], f"image-{engine}"
        for host in self.lab.hosts:
            host.sh("chmod 0666 /dev/accel0")
        done = self.image_run(h0, name, "100000", "save", engine=engine,
                              options=("--env", "MINE=a b#c", "--directory", "/usr", *limits))
        self.assertEqual(done.code, 0, done.err + h0.journal("tpu-launchd.service"))
        self.assertIn("malloc glibc (in a container", done.out)
        h0.wait_for(lambda: self.step(h0, name) > 5, 60, "its steps are read")
        run = self.run_of(h0, name)
        self.assertEqual((run["state"], run["user"], run["adopted"]), ("running", "alice", False))
        self.assertRegex(run["image"], rf"^{engine} py:1 \([0-9a-f]{{12}}\)$")
        lines = h0.run(["tpuctl", "logs", name], user="alice", check=True).out
        inside = next(line for line in lines.splitlines() if line.startswith("inside: "))
        self.assertEqual(inside, "inside: 1000 1000 0000000000000000 0000000000000000 1 False a b#c None 0 "
                                 "/usr")
        self.assertIn('File "/srv/steps.py", line ', h0.run(["tpuctl", "stack", name], user="alice").out)
        # The node that it opens is no run of anybody else's.
        self.assertEqual([r["name"] for r in json.loads(h0.sh("tpuctl runs --json"))["runs"]
                          if r["adopted"] and r["state"] == "running"], [])
        # It saves on TERM, and nothing is left.
        done = h0.run(["tpuctl", "stop", name], user="alice", check=False, timeout=60)
        self.assertEqual(done.code, 0, done.err)
        self.ended(h0, name, "stopped", "3")
        self.assertIn("saved a checkpoint", h0.run(["tpuctl", "logs", name], user="alice").out)
        slice_name = f"tpu-run-{name.replace('-', '_')}.slice"
        h0.wait_for(lambda: h0.run(["systemctl", "is-active", slice_name], check=False).code != 0, 30,
                    "its slice is gone")
        # How it ends is how its container ended.
        self.assertEqual(self.image_run(h0, name, "3", engine=engine, options=limits).code, 0)
        self.ended(h0, name, "exit-code", "7")
        self.assertEqual(self.image_run(h0, name, "100000", engine=engine, options=limits).code, 0)
        h0.wait_for(lambda: self.step(h0, name) > 2, 60, "its steps are read")
        h0.sh("kill -KILL $(pgrep -f '^/usr/bin/python3 /srv/steps.py')")
        self.ended(h0, name, "signal", "137")

    def test_image_by_podman(self):
        self.check_image("podman")
        h0 = self.lab.hosts[0]
        done = self.image_run(h0, "none", "3", image="py:2")
        self.assertNotEqual(done.code, 0)
        self.assertIn("image py:2 is not among those that podman has on this host", done.err)
        self.assertIn("to do:  sudo podman pull py:2", done.err)
        # What is no option of ours is none of the engine's.
        self.assertIn("is not an image's name", self.image_run(h0, "none", "3", image="--privileged").err)

    def over_slices(self, name, image, *words, wait="20s"):
        return self.lab.hosts[0].run(
            ["tpuctl", "run", "--name", name, "--slices", "1", "--user", "alice", "--image", image,
             "--directory", "/usr", "--wait", wait, "--", "/usr/bin/python3", "/srv/steps.py", *words],
            check=False, timeout=120)

    def test_image_over_slices(self):
        h0, h1 = self.lab.hosts
        scenario.wait_until(lambda: all(slices.registry(h)["state"] == "member" for h in self.lab.hosts), 90,
                            "both hosts are members")
        for host in self.lab.hosts:
            host.sh("chmod 0666 /dev/accel0")
        # Each host made its own py:1: one name for two images.
        done = self.over_slices("unlike", "py:1", "3")
        self.assertNotEqual(done.code, 0)
        self.assertRegex(done.out + done.err, r"s0: h[01] \([0-9.]+\): image py:1 is [0-9a-f]{12} there, "
                                              r"and [0-9a-f]{12} on 1 other")
        self.assertIn("to do: sudo podman pull py:1", done.out + done.err)
        for host in self.lab.hosts:
            self.assertIsNone(self.run_of(host, "unlike"))
        # On one host alone: the other refuses, with the command.
        h0.sh("podman tag py:1 localhost/both:1; podman save -q -o /var/tmp/both.tar localhost/both:1",
              timeout=120)
        done = self.over_slices("absent", "localhost/both:1", "3", wait="5s")
        self.assertIn("image localhost/both:1 is not among those that podman has on this host",
                      done.out + done.err)
        # The same on both.
        h1.path("/var/tmp/both.tar").write_bytes(h0.path("/var/tmp/both.tar").read_bytes())
        h1.sh("podman load -q -i /var/tmp/both.tar", timeout=120)
        done = self.over_slices("both", "localhost/both:1", "100000", "save", wait="2min")
        self.assertEqual(done.code, 0, done.out + done.err)
        for host in self.lab.hosts:
            host.wait_for(lambda h=host: self.step(h, "both") > 5, 60, "its steps are read")
        a, b = (self.run_of(h, "both")["image"] for h in self.lab.hosts)
        self.assertEqual(a, b)
        done = h0.run(["tpuctl", "stop", "--fleet", "both", "--yes"], check=False, timeout=120)
        self.assertEqual(done.code, 0, done.out + done.err)
        for host in self.lab.hosts:
            self.ended(host, "both", "stopped", "3")
        # Killed on one host, it ends on both, by that host's fault.
        done = self.over_slices("killed", "localhost/both:1", "100000", wait="2min")
        self.assertEqual(done.code, 0, done.out + done.err)
        h1.wait_for(lambda: self.step(h1, "killed") > 2, 60, "its steps are read")
        h1.sh("kill -KILL $(pgrep -f '^/usr/bin/python3 /srv/steps.py')")
        scenario.wait_until(lambda: slices.runs(self.lab)["killed"]["state"] == "ended", 90,
                            "the run has ended")
        record = slices.runs(self.lab)["killed"]
        self.assertEqual((record["outcome"], record["cause"], record["blame"]), ("failed", "signal", "h1"))

    def test_image_by_docker(self):
        h0 = self.lab.hosts[0]
        done = self.image_run(h0, "none", "3", engine="docker")
        self.assertIn("docker may not make containers of runs on this host", done.err)
        h0.write("/etc/tpu-hostd/authority.conf.d/60-docker.conf", "[Container]\nDocker=yes\n")
        # What makes the containers has no right here to raise a limit (CAP_SYS_RESOURCE).
        self.check_image("docker", ("--memlock", "8M", "--nofile", "20000"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
