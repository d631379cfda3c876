#!/usr/bin/python3
"""A training that people start by hand in a container, one rank on each of two booted hosts: once by docker,
once by podman. Nothing of ours starts it. It is found by the chip that it holds (a stand-in: a node of the
null device), called what its container is called, followed step by step in its engine's log, and when it is
stopped on one host, that host is named. The image is made of the host's own Python: no registry is asked.
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
import scenario                  # noqa: E402
import slices                    # noqa: E402

TOOLS = ("--no-install-recommends", "podman", "crun", "runc", "docker.io", "conmon", "netavark", "iptables",
         "catatonit")
# A host's own root is an overlay, and no other can lie on it.
PLACES = "".join(f"mkdir -p /var/lib/{name}; mount -t tmpfs -o mode=711,size=1g tmpfs /var/lib/{name};"
                 for name in ("containers", "docker"))
# This kernel has no controller of pids, and crun wants to raise a limit that no host of a lab may raise.
PODMAN = "[containers]\npids_limit=0\n[engine]\nruntime=\"runc\"\n"
IMAGE = ("tar -C / -ch --exclude=dist-packages --exclude=test usr/bin/python3 usr/lib/python3.11 "
         "$(ldd /usr/bin/python3 | grep -o '/lib[^ ]*' | cut -c2-)")
PROGRAM = '''
import os, socket, sys, time
chip = os.open("/dev/accel0", os.O_RDWR)
rank, other, port = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
if rank == 0:
    server = socket.create_server(("", port))
    link = server.accept()[0]
else:
    while True:
        try:
            link = socket.create_connection((other, port))
            break
        except OSError:
            time.sleep(0.2)
def exchange(payload):
    link.sendall(payload)
    left = len(payload)
    while left:
        left -= len(link.recv(left))
payload, step = b"x" * 65536, 0
while True:
    began = time.monotonic()
    exchange(payload)
    time.sleep(0.2)
    step += 1
    print(f"completed step: {step}, seconds: {time.monotonic() - began:.3f}", flush=True)
'''
ENGINES = {"docker": ("docker", 7401, "py:1", []),
           "podman": ("podman", 7402, "localhost/py:1", ["--log-driver", "k8s-file", "--init"])}


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
        host.write("/srv/loop.py", PROGRAM)
        host.write("/etc/containers/containers.conf", PODMAN)
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
            host.sh("useradd -m alice")
            host.sh("systemctl stop docker docker.socket containerd podman.socket; umask 022;" + PLACES +
                    "rm -rf /run/containers/storage /run/libpod; systemctl start docker", timeout=120)
            host.sh(f"{IMAGE} >/var/tmp/py.tar", timeout=120)
            host.sh("docker import /var/tmp/py.tar py:1; podman import -q /var/tmp/py.tar localhost/py:1",
                    timeout=120)

    def remove(self, command, name):
        for host in self.lab.hosts:
            host.sh(f"{command} rm -f {name}", timeout=60, check=False)
            self.mark(host, 0)

    def run_of(self, host, name):
        return {r["name"]: r for r in json.loads(host.sh("tpuctl runs --json"))["runs"]}.get(name)

    def start(self, engine, name):
        command, port, image, options = ENGINES[engine]
        for rank, host in enumerate(self.lab.hosts):
            host.run([command, "run", "-d", "--name", name, "--network", "host", "--user", "1000:1000",
                      "--device", "/dev/accel0", "-v", "/srv:/srv:ro", *options, image,
                      "/usr/bin/python3", "/srv/loop.py", str(rank), f"h{1 - rank}", str(port)],
                     check=True, timeout=60, properties=("KillMode=process",))  # conmon outlives podman
            self.mark(host, 1)

    def mark(self, host, opened):
        """The number that vfio-pci raises when a chip is opened; a node of the null device has none, and the
        nodes of a container are not the host's, which are watched."""
        for device in host.path("/sys/bus/pci/devices").iterdir():
            (device / "enable").write_text(f"{opened}\n")

    def step(self, host, name):
        run = self.run_of(host, name)
        return run["step"] or 0 if run else 0

    def check_engine(self, engine):
        command, name, (h0, h1) = ENGINES[engine][0], f"train-{engine}", self.lab.hosts
        for host in self.lab.hosts:
            host.sh("chmod 0666 /dev/accel0")
        self.addCleanup(self.remove, command, name)
        self.start(engine, name)
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
        self.remove(command, name)
        for host in self.lab.hosts:
            host.wait_for(lambda h=host: self.run_of(h, name)["state"] == "exited", 30, "its end is seen")
        self.assertNotEqual(self.run_of(h1, name)["cause"], "success")

    def test_docker(self):
        scenario.wait_until(lambda: all(slices.registry(h)["state"] == "member" for h in self.lab.hosts), 90,
                            "both hosts are members")
        self.check_engine("docker")

    def test_podman(self):
        self.check_engine("podman")


if __name__ == "__main__":
    unittest.main(verbosity=2)
