"""One host of a lab: a Debian system with systemd as its first process, in namespaces of its own."""

import json
import os
import re
import secrets
import shutil
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from . import cgroup, network
from .boot import INIT_PATH, Boot, write_init
from .command import LabError, sh
from .guardian import full_name
from .tree import OVERLAY_OPTIONS

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
CHIPS = "usr/lib/lab/chips"


@dataclass
class Result:
    """How a command ended: exit code (255 also for death by a signal), standard output, standard error."""
    code: int
    out: str
    err: str


class Host:
    """Made by Lab. name: as the host itself knows it. number: last octet of its addresses."""

    def __init__(self, lab, name, number):
        self.lab, self.name, self.number = lab, name, number
        self.short = name if name.startswith("h") else name[0] + name.lstrip("abcdefghijklmnopqrstuvwxyz")
        self.full_name = full_name(lab.id, name)
        self.directory = lab.directory / name
        self.tree = self.directory / "tree"
        self._boot = None

    # -- life ---------------------------------------------------------------------------------------------

    def provision(self, stack, hosts_file):
        """Mounts the host's own tree over the layers and gives it a name, an identity, its neighbours."""
        for sub in ("upper", "work", "tree"):
            (self.directory / sub).mkdir(parents=True, mode=0o755)
        sh("mount", "-t", "overlay", self.full_name, "-o",
           f"lowerdir={':'.join(map(str, stack))},upperdir={self.directory}/upper,"
           f"workdir={self.directory}/work,{OVERLAY_OPTIONS}", self.tree)
        self.write("/etc/machine-id", secrets.token_hex(16) + "\n")
        self.write("/etc/hostname", self.name + "\n")
        self.write("/etc/hosts", hosts_file)
        write_init(self)

    @property
    def up(self):
        return self._boot is not None and self._boot.alive

    @property
    def leader(self):
        """The host's first process, as this machine numbers it."""
        if not self.up:
            raise LabError(f"{self.name} is not up")
        return self._boot.leader

    def start(self):
        """Begins to boot; wait_ready() waits for the end. NICs and sysctls are as after a power cycle."""
        if self.up:
            raise LabError(f"{self.name} is up already")
        self.lab.switch.plug(self.full_name, self.short, self.number)
        self._boot = Boot(self, self.lab.unified)

    def wait_ready(self, timeout=180):
        self._boot.wait_ready(timeout)

    def boot(self, timeout=180):
        """Boots the host and waits until its systemd says that it is up."""
        self.start()
        self.wait_ready(timeout)

    def poweroff(self, timeout=180):
        """Shuts down in good order, as by its power button."""
        self._boot.poweroff(timeout)
        self._off()

    def kill(self):
        """Power cut: everything in the host ends at once. What it wrote is kept, synced or not."""
        cgroup.kill(self.full_name)
        self._boot.reap()
        self._off()

    def release(self):
        """Unmounts the tree of a host that is off; returns the directory of what it changed."""
        sh("umount", self.tree)
        return self.directory / "upper"

    def abandon(self):
        """Collects what is left of a host that the guardian has ended."""
        if self._boot:
            self._boot.reap()
            self._boot = None

    def _off(self):
        # Until its NICs are gone, the kernel would go on to answer for the host.
        self.lab.switch.unplug(self.full_name, self.short)
        cgroup.kill(self.full_name)
        cgroup.remove(self.full_name)
        self._boot = None

    # -- commands -----------------------------------------------------------------------------------------

    def _enter(self):
        return ["nsenter", "-t", str(self.leader), "-m", "-p", "-n", "-i", "-u", "-C", "-r", "-w"]

    def _command(self, argv, unit, user, env, properties):
        # systemd expands $ in a command line, and $$ is how to write one.
        words = [str(a).replace("$", "$$") for a in argv]
        options = [f"--setenv={k}={v}" for k, v in (env or {}).items()]
        options += [f"--property={p}" for p in properties]
        if user:
            options.append(f"--uid={user}")
        return [*self._enter(), "systemd-run", "-q", "--pipe", "--wait", "-G", f"--unit={unit}",
                *options, "--", *words]

    def spawn(self, argv, user=None, env=None, properties=(), **streams):
        """Starts a command in the host and returns its Popen, with the unit's name as .unit."""
        unit = f"lab-{secrets.token_hex(4)}.service"
        streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE,
                   "text": True, "errors": "replace", **streams}
        process = subprocess.Popen(self._command(argv, unit, user, env, properties),
                                   env={"PATH": PATH, "LC_ALL": "C.UTF-8"}, **streams)
        process.unit = unit
        return process

    def run(self, argv, check=False, timeout=60, user=None, env=None, input=None, properties=()):
        """Runs a command in the host as a service of its own, clean environment and all.

        argv is a list; no shell is between. check: raise LabError unless the exit code is 0.
        A command that outlives timeout seconds is stopped with all its children, and LabError is raised.
        """
        stdin = {"stdin": subprocess.PIPE} if input is not None else {}
        process = self.spawn(argv, user, env, properties, **stdin)
        try:
            out, err = process.communicate(input, timeout)
        except subprocess.TimeoutExpired:
            self.stop_command(process)
            out, err = process.communicate()
            raise LabError(f"{self.name}: {' '.join(map(str, argv))}: no end within {timeout} s; it said: "
                           f"{(out + err)[-1000:]}") from None
        result = Result(process.returncode, out, err)
        if check and result.code != 0:
            raise LabError(f"{self.name}: {' '.join(map(str, argv))}: exit code {result.code}: "
                           f"{(err.strip() or out.strip())[-2000:]}")
        return result

    def sh(self, script, **options):
        """run() for a line of shell; raises LabError unless told check=False. Returns standard output."""
        return self.run(["/bin/sh", "-c", script], **{"check": True, **options}).out

    def stop_command(self, process):
        """Ends what spawn() started, with all its children."""
        if self.up:
            sh(*self._enter(), "systemctl", "kill", "--signal=KILL", process.unit, check=False)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()

    def wait_for(self, condition, timeout=10, what=None):
        """Waits until condition() is true, or the command `condition` exits 0; returns its last answer."""
        deadline = time.monotonic() + timeout
        while True:
            answer = condition() if callable(condition) else self.run(condition)
            if answer.code == 0 if isinstance(answer, Result) else answer:
                return answer
            if time.monotonic() > deadline:
                raise LabError(f"{self.name}: not within {timeout} s: {what or condition}; "
                               f"last answer: {answer}")
            time.sleep(0.05)

    # -- files and logs -----------------------------------------------------------------------------------

    def path(self, inside):
        """Returns where a path of the host is for this machine; links lead where they lead in the host."""
        root = Path(f"/proc/{self.leader}/root") if self.up else self.tree
        done, rest, links = [], [p for p in str(inside).split("/") if p not in ("", ".")], 0
        while rest:
            part = rest.pop(0)
            here = root.joinpath(*done, part)
            if part == "..":
                done = done[:-1]
            elif here.is_symlink() and links < 40 and done[:1] != ["proc"]:
                target, links = os.readlink(here), links + 1
                done = [] if target.startswith("/") else done
                rest = [p for p in target.split("/") if p not in ("", ".")] + rest
            else:
                done.append(part)
        if not self.up and done and done[0] in ("run", "tmp", "proc", "sys", "dev"):
            raise LabError(f"{inside}: {self.name} is not up, and what is there is made by booting")
        return root.joinpath(*done)

    def write(self, inside, text, mode=0o644):
        """Writes a file as root, making its directories; /run and /tmp only while the host is up."""
        path = self.path(inside)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        path.chmod(mode)

    def read(self, inside):
        return self.path(inside).read_text(errors="replace")

    def journal(self, unit=None, output="cat"):
        """Returns the journal, of one unit or whole, as journalctl -o OUTPUT prints it; up or down."""
        which = ["-u", unit] if unit else []
        directory = self.tree / "var/log/journal"
        return sh("journalctl", "-q", "--no-pager", "-o", output, "-D", directory, *which)

    def journal_records(self, unit=None):
        return [json.loads(line) for line in self.journal(unit, "json").splitlines()]

    def pid_outside(self, pid):
        """Returns what this machine calls the process that the host calls pid (for strace and the like)."""
        space = os.readlink(f"/proc/{self.leader}/ns/pid")
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                if os.readlink(entry / "ns/pid") == space:
                    if re.search(rf"^NSpid:.*\s{int(pid)}$", (entry / "status").read_text(), re.M):
                        return int(entry.name)
            except OSError:
                continue
        raise LabError(f"{self.name}: no process {pid}")

    # -- network ------------------------------------------------------------------------------------------

    def address(self, nic="eth0"):
        network.check_nic(nic)
        return network.address(nic, self.number)

    def port(self, nic):
        """Returns the name of the switch port of a NIC."""
        network.check_nic(nic)
        return network.port(self.short, nic)

    def cut(self, nic):
        """No packet passes the NIC's switch port any more; the host keeps its carrier. heal() ends it."""
        self.lab.switch.cut(self.port(nic))

    def heal(self, nic):
        """Takes the faults of cut() and lower_path_mtu() off a NIC's port."""
        self.lab.switch.heal(self.port(nic))

    # -- chips --------------------------------------------------------------------------------------------

    def bind_chips(self, fixture):
        """Gives the host the chips of a fixture: FIXTURE/sys/bus/pci and FIXTURE/sys/class/accel.

        They lie over the host's own, now if it is up and at every boot; each accelN also gets a /dev node,
        of the null device. A link in the fixture must lead to a place within these two directories.
        """
        fixture = Path(fixture)
        target = self.path("/" + CHIPS)
        for part in ("sys/bus/pci", "sys/class/accel"):
            if not (fixture / part).is_dir():
                raise LabError(f"{fixture}: no directory {part}: not a fixture with chips")
            for found in (fixture / part).rglob("*"):
                if found.is_symlink() and not found.exists():
                    raise LabError(f"{found}: leads nowhere: {os.readlink(found)}")
            shutil.rmtree(target / part, ignore_errors=True)
            shutil.copytree(fixture / part, target / part, symlinks=True)
        if self.up:
            sh(*self._enter(), INIT_PATH, "chips")
