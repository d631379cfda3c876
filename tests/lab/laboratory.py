"""A lab: N booted hosts on a switch, made for one test or one person and gone afterwards."""

import os
import subprocess
import time
from pathlib import Path

from . import guardian, network
from .command import LabError
from .host import Host
from .prepare import debs_layer
from .tree import Layer, prune, say

FIRST_NUMBER = 10
COLLECTOR_NUMBER = 100
COLLECTOR = "collector"
INOTIFY = Path("/proc/sys/fs/inotify/max_user_instances")
INSTANCES = 4096  # of root, on all hosts of all labs: a host takes about 12, and Debian permits 128


class Lab:
    """Boots hosts h0, h1, …, and collectors (collector, collector2, …) if `collector` is given; use it in a
    with statement.

    debs, collector: paths of the .debs that the hosts, and the collector, have installed by apt; or a Layer.
    before_boot: called with each Host before it boots, to write its configuration.
    unified: hosts see cgroup version 2 only, as TPU images do.
    debs_of: {name of a host: paths}, for hosts that have others than debs.
    """

    def __init__(self, hosts=2, debs=(), collector=None, unified=False, before_boot=None, debs_of=None,
                 collectors=1):
        if not 0 <= hosts <= COLLECTOR_NUMBER - FIRST_NUMBER:
            raise LabError(f"{hosts} hosts: a lab has 0 to {COLLECTOR_NUMBER - FIRST_NUMBER}")
        others = debs_of or {}
        self._wanted = {f"h{i}": (FIRST_NUMBER + i, others.get(f"h{i}", debs)) for i in range(hosts)}
        for i in range(collectors if collector is not None else 0):
            self._wanted[COLLECTOR + (str(i + 1) if i else "")] = (COLLECTOR_NUMBER + i, collector)
        self.unified, self._before_boot = unified, before_boot
        self.hosts, self.collectors, self.every = [], [], []
        self.boot_seconds = None
        self._guardian = self._pipe = None

    @property
    def collector(self):
        """The first one, or None."""
        return self.collectors[0] if self.collectors else None

    @classmethod
    def on_layer(cls, layer):
        """A lab of one host on a given layer: how the next layer is made."""
        return cls(hosts=1, debs=layer)

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.stop()

    def start(self):
        """Boots everything; on failure nothing is left. boot_seconds is the time without building layers."""
        for error in guardian.sweep()[1]:
            say(f"cannot clean up after a lab that was killed: {error}")
        layers = {name: debs if isinstance(debs, Layer) else debs_layer(debs)
                  for name, (_, debs) in self._wanted.items()}
        leases = [lease for layer in layers.values() for lease in layer.leases()]
        if int(INOTIFY.read_text()) < INSTANCES:
            INOTIFY.write_text(str(INSTANCES))
        began = time.monotonic()
        self.id, self.directory, lock = guardian.register(list(self._wanted))
        self._guardian, self._pipe = guardian.start(self.directory, [lock, *leases])
        for held in (lock, *leases):
            held.close()
        try:
            self._make(layers)
        except BaseException:
            self.stop()
            raise
        self.boot_seconds = time.monotonic() - began
        prune()

    def _make(self, layers):
        self.switch = network.Switch(guardian.full_name(self.id, "switch"))
        self.switch.start()
        self.every = [Host(self, name, number) for name, (number, _) in self._wanted.items()]
        self.collectors = [h for h in self.every if h.name.startswith(COLLECTOR)]
        self.hosts = [h for h in self.every if h not in self.collectors]
        names = self._hosts_file()
        for host in self.every:
            host.provision(layers[host.name].stack(), names)
            if self._before_boot:
                self._before_boot(host)
            host.start()
        for host in self.every:
            host.wait_ready()

    def _hosts_file(self):
        lines = ["127.0.0.1 localhost", "::1 localhost"]
        for host in self.every:
            lines.append(f"{host.address('eth0')} {host.name}")
            lines.append(f"{host.address('eth1')} {host.name}-eth1")
        return "\n".join(lines) + "\n"

    def lower_path_mtu(self, host, nic, mtu, way="both"):
        """Packets of more than mtu bytes vanish at the NIC's port until host.heal(): both ways, or those
        to or from the host."""
        running = [h.full_name for h in self.every if h.up]
        self.switch.lower_path_mtu(host.port(nic), mtu, running, way)

    def spoil(self, one, other, nic, percent):
        """So many percent of the TCP packets between two hosts' NICs vanish, both ways, and nobody
        else's; 0: none any more."""
        self.switch.spoil(one.port(nic), other.port(nic), percent)

    def drop(self, pairs):
        """What one host sends to another vanishes, on both NICs, for each pair (from, to); []: no more."""
        self.switch.drop([(one.port(nic), other.port(nic)) for one, other in pairs for nic in network.NICS])

    def dropped(self, host=None, nic="eth0"):
        """Returns how many packets faults dropped: a NIC's lowered path MTU, or without host all cuts."""
        return self.switch.dropped().get(host.port(nic) if host else "cut", 0)

    def stop(self):
        """Ends all hosts at once and removes every trace of the lab. May be called twice."""
        if self._guardian is None:
            return
        os.write(self._pipe, b".")
        os.close(self._pipe)
        process, self._guardian = self._guardian, None
        try:
            code = process.wait(60)
        except subprocess.TimeoutExpired:
            code = "still busy after 60 s"
        for host in self.every:
            host.abandon()
        if code != 0:
            log = self.directory / "guardian.log"
            said = log.read_text(errors="replace") if log.exists() else ""
            raise LabError(f"cleaning up lab {self.id} failed ({code}): {said.strip()}; "
                           "run tests/lab/lab clean as root")
