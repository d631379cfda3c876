"""One emulated machine: QEMU without KVM (which hangs where the tests run), driven over QMP and by a
shell inside."""

import contextlib
import json
import os
import socket
import subprocess
import time

from lab.command import LabError

QEMU = "qemu-system-x86_64"
# for the processors to stop; one that has not yet sees a disk that fails, and must not lie either
RESET_SECONDS = 0.1
# what is emulated on a busy machine may stand still for a minute: no time limit decides a test
PATIENCE = 900


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Shell:
    """The machine's own shell, on a connection that it made."""

    def __init__(self, connection):
        self.connection, self.file, self.n = connection, connection.makefile("rb"), 0

    def run(self, script, timeout=PATIENCE):
        """Returns what the lines printed; LabError unless the last one exits 0."""
        self.n += 1
        mark = f"--end {self.n} "
        self.connection.settimeout(timeout)
        self.connection.sendall(f"{{ {script}\n}} 2>&1; result=$?; echo; echo '{mark}'$result\n".encode())
        out = b""
        while not (line := self.file.readline()).startswith(mark.encode()):
            if not line:
                raise LabError(f"the machine is gone; before: {out.decode(errors='replace')[-500:]}")
            out += line
        if line.split()[-1] != b"0":
            raise LabError(f"{script}: {out.decode(errors='replace')[-2000:]}")
        return out.decode(errors="replace").removesuffix("\n")

    def close(self):
        self.file.close()
        self.connection.close()


class Machine:
    """Powers up with start(). forwards: {port inside: port on our loopback}. Everything is in folder."""

    def __init__(self, folder, kernel, initrd, devices, append="", forwards=None, memory=256):
        self.folder, self.process, self.shell, self.qmp_file = folder, None, None, None
        self.console = folder / "console.log"
        self.control = socket.create_server(("127.0.0.1", 0))
        port = self.control.getsockname()[1]
        forward = "".join(f",hostfwd=tcp:127.0.0.1:{ours}-:{inside}" for inside,
                          ours in (forwards or {}).items())
        self.command = [
            "setpriv", "--pdeathsig", "KILL", QEMU, "-accel", "tcg,thread=multi", "-cpu", "max", "-M", "q35",
            "-m", str(memory), "-smp", "1",
            "-nodefaults", "-no-user-config", "-display", "none", "-chardev",
            f"file,id=console,path={self.console},append=on",
            "-serial", "chardev:console", "-qmp", f"unix:{folder}/qmp,server=on,wait=off",
            "-kernel", str(kernel), "-initrd", str(initrd), "-append",
            f"console=ttyS0 panic=-1 no_timer_check net.ifnames=0 vm.control={port} {append}",
            "-netdev", f"user,id=user0{forward}", *devices]

    def start(self):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.folder / "qmp")
        with open(self.folder / "qemu.log", "ab") as log:
            self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        end = time.monotonic() + PATIENCE
        self.qmp_socket = socket.socket(socket.AF_UNIX)
        while True:
            try:
                self.qmp_socket.connect(str(self.folder / "qmp"))
                break
            except OSError:
                if self.process.poll() is not None or time.monotonic() > end:
                    raise LabError(f"{QEMU}: {(self.folder / 'qemu.log').read_text()[-2000:]}") from None
                time.sleep(0.02)
        self.qmp_socket.settimeout(PATIENCE)
        self.qmp_file = self.qmp_socket.makefile("rb")
        self.qmp_file.readline()  # greeting
        self.qmp("qmp_capabilities")

    def qmp(self, command, meanwhile=None, event=None):
        """Gives a command; calls meanwhile(), then waits for the answer and for the event, if one is
        named."""
        self.qmp_socket.sendall(json.dumps({"execute": command}).encode() + b"\n")
        if meanwhile:
            meanwhile()
        wanted = {"return", event} - {None}
        while wanted:
            said = json.loads(self.qmp_file.readline())
            if "error" in said:
                raise LabError(f"QMP {command}: {said['error']}")
            wanted -= {"return"} if "return" in said else {said.get("event")}

    def wait_shell(self, patience=PATIENCE):
        """Waits until the machine has booted; returns its shell, which is also .shell. LabError: it did
        not."""
        self.control.settimeout(1)
        end = time.monotonic() + patience
        while True:
            try:
                self.shell = Shell(self.control.accept()[0])
                return self.shell
            except TimeoutError:
                if self.process.poll() is not None or time.monotonic() > end:
                    raise LabError(f"the machine did not boot: "
                                   f"{self.console.read_text(errors='replace')[-3000:]}") from None

    def _let_go(self):
        for held in (self.shell, self.qmp_file, self.qmp_socket):
            if held:
                held.close()
        self.shell = self.qmp_file = None

    def kill(self):
        """SIGKILL: the machine ends between two instructions."""
        if self.process:
            self.process.kill()
            self.process.wait()
            self._let_go()
        self.process = None

    def reset(self, release):
        """The reset button. QEMU stops the processors, then waits for what it had asked the disk for;
        release() ends that wait."""
        self.qmp("system_reset", lambda: (time.sleep(RESET_SECONDS), release()), "RESET")
        if self.shell:
            self.shell.close()
        self.shell = None

    def wait_off(self, timeout=PATIENCE):
        self.process.wait(timeout)
        self._let_go()
        self.process = None

    def close(self):
        self.kill()
        self.control.close()
