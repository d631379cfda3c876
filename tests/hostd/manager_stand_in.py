"""A bus of a test's own, and on it a stand-in for systemd's manager, as org.freedesktop.systemd1(5) has it:
it answers for the property SystemState, and
starts, stops and forgets transient services, of which it knows what tpu-launchd asks for. A service is one
process with its group of processes."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

CONFIG = """<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN" "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig><type>system</type><listen>unix:path={path}</listen>
<policy context="default"><allow send_destination="*" eavesdrop="false"/><allow receive_sender="*"/><allow own="*"/><allow user="*"/></policy></busconfig>
"""


TOOL = "/usr/sbin/tpu-launchd"  # what a run's unit names


class Manager:
    """state: a file that says what SystemState is now. silent: it takes questions and does not answer. root,
    tool: the machine of the services, and which
    program stands for tpu-launchd in them. forgetful: a file; while it is there, ExecStopPost= is not
    run."""

    def __init__(self, root="", tool=""):
        self.folder = tempfile.TemporaryDirectory(prefix="bus-")
        self.state = Path(self.folder.name) / "state"
        self.state.write_text("running")
        self.address = f"unix:path={self.folder.name}/bus"
        (Path(self.folder.name) / "bus.conf").write_text(CONFIG.format(path=f"{self.folder.name}/bus"))
        self.forgetful = Path(self.folder.name) / "forgetful"
        self.bus = subprocess.Popen(["dbus-daemon", "--nofork", "--print-address",
                                     f"--config-file={self.folder.name}/bus.conf"], stdout=subprocess.PIPE,
                                    text=True)
        self.bus.stdout.readline()
        self.manager = subprocess.Popen([sys.executable, __file__, self.address, self.state, self.forgetful,
                                         root, tool], stdout=subprocess.PIPE, text=True)
        self.manager.stdout.readline()

    def stop(self):
        for p in (self.manager, self.bus):
            p.kill()
            p.wait(20)
            p.stdout.close()
        self.folder.cleanup()


NAME = "org.freedesktop.systemd1"
MANAGER = NAME + ".Manager"
PATH = "/org/freedesktop/systemd1"


def path_of(unit):
    """sd_bus_path_encode(3)."""
    return PATH + "/unit/" + "".join(c if c.isalnum() else f"_{ord(c):02x}" for c in unit)


class Unit:
    """A service that runs. properties: what it was started with."""

    def __init__(self, name, properties, root, tool):
        self.name, self.properties, self.root, self.tool = name, properties, Path(root), tool
        self.killed = self.process = None
        self.group = f"/tpu.slice/tpu-run.slice/{properties['Slice']}/{name}"
        self.secrets = None

    def command(self, words):
        assert words[0] == TOOL, words
        return [self.tool, "--root", str(self.root), *map(str, words[1:])]

    def start(self):
        environment = {"PATH": os.environ["PATH"]}
        for name, path in self.properties.get("LoadCredential", ()):
            self.secrets = tempfile.mkdtemp(prefix="credentials-")
            shutil.copy(f"{self.root}{path}", f"{self.secrets}/{name}")
            environment["CREDENTIALS_DIRECTORY"] = self.secrets
        self.process = subprocess.Popen(self.command(self.properties["ExecStart"][0][1]), env=environment,
                                        stdin=subprocess.DEVNULL, start_new_session=True)
        procs = Path(f"{self.root}/sys/fs/cgroup{self.group}/cgroup.procs")
        procs.parent.mkdir(parents=True, exist_ok=True)
        procs.write_text(f"{self.process.pid}\n")

    def kill(self, number):
        try:
            os.killpg(self.process.pid, number)
        except ProcessLookupError:
            pass

    def end(self, status, record):
        """As systemd.exec(5) tells ExecStopPost= of it."""
        if os.WIFEXITED(status):
            code, word = "exited", str(os.WEXITSTATUS(status))
            result = "success" if word == "0" else "exit-code"
        else:
            code, word = "killed", signal.Signals(os.WTERMSIG(status)).name[3:]
            result = "timeout" if self.killed else "success" if word in ("HUP", "INT", "TERM",
                                                                         "PIPE") else "signal"
        shutil.rmtree(f"{self.root}/sys/fs/cgroup{self.group}")
        if self.secrets:
            shutil.rmtree(self.secrets)
        for _, words, _ in self.properties.get("ExecStopPost", ()) if record else ():
            subprocess.run(self.command(words), env={"SERVICE_RESULT": result, "EXIT_CODE": code,
                                                     "EXIT_STATUS": word}, check=True)


def serve(address, state, forgetful, root, tool):
    import dbus.bus
    import dbus.mainloop.glib
    import dbus.service
    from gi.repository import GLib

    units = {}

    def gone(name):
        return dbus.exceptions.DBusException(f"Unit {name} not loaded.", name=NAME + ".NoSuchUnit")

    class Object(dbus.service.Object):
        @dbus.service.method("org.freedesktop.DBus.Properties", in_signature="ss", out_signature="v",
                             async_callbacks=("answer", "fail"))
        def Get(self, interface, name, answer, fail):
            word = Path(state).read_text()
            if (interface, name) != (MANAGER, "SystemState"):
                fail(dbus.exceptions.DBusException("no such property"))
            elif word != "silent":
                answer(dbus.String(word))

        @dbus.service.signal(MANAGER, signature="uoss")
        def JobRemoved(self, number, job, unit, result):
            pass

        @dbus.service.signal(MANAGER, signature="so")
        def UnitRemoved(self, unit, path):
            pass

        @dbus.service.method(MANAGER)
        def Subscribe(self):
            pass

        @dbus.service.method(MANAGER, in_signature="s", out_signature="o")
        def GetUnit(self, name):
            if name not in units:
                raise gone(name)
            return path_of(name)

        @dbus.service.method(MANAGER, in_signature="ssa(sv)a(sa(sv))", out_signature="o")
        def StartTransientUnit(self, name, mode, properties, aux):
            if name in units:
                raise dbus.exceptions.DBusException(f"Unit {name} already exists.",
                                                    name=NAME + ".UnitExists")
            u = Unit(str(name), {str(k): v for k, v in properties}, root, tool)
            u.start()
            units[name] = u
            u.object = UnitObject(connection, path_of(name))
            u.object.unit = u
            GLib.child_watch_add(GLib.PRIORITY_DEFAULT, u.process.pid, self.ended, u)
            GLib.idle_add(self.JobRemoved, 1, PATH + "/job/1", name, "done")
            return PATH + "/job/1"

        def ended(self, pid, status, u):
            u.end(status, not Path(forgetful).exists())
            del units[u.name]
            u.object.remove_from_connection()
            self.UnitRemoved(u.name, path_of(u.name))

        def of_slice(self, name):
            found = [u for u in units.values() if name in (u.name, u.properties["Slice"])]
            if not found:
                raise gone(name)
            return found[0]

        @dbus.service.method(MANAGER, in_signature="ss", out_signature="o")
        def StopUnit(self, name, mode):
            u = self.of_slice(name)
            u.kill(signal.SIGTERM)
            GLib.timeout_add(int(u.properties["TimeoutStopUSec"]) // 1000, self.timeout, u)
            return PATH + "/job/2"

        def timeout(self, u):
            if u.name in units:
                u.killed = True
                u.kill(signal.SIGKILL)

        @dbus.service.method(MANAGER, in_signature="ssi")
        def KillUnit(self, name, whom, number):
            u = self.of_slice(name)
            if whom == "main":
                os.kill(u.process.pid, number)
            else:
                u.kill(number)

    class UnitObject(dbus.service.Object):
        @dbus.service.method("org.freedesktop.DBus.Properties", in_signature="ss", out_signature="v")
        def Get(self, interface, name):
            return {"ActiveState": dbus.String("active"), "MainPID": dbus.UInt32(self.unit.process.pid),
                    "ControlGroup": dbus.String(self.unit.group),
                    "Job": dbus.Struct((dbus.UInt32(0), dbus.ObjectPath("/")), signature="uo")}[name]

    dbus.mainloop.glib.DBusGMainLoop(set_as_default=True)
    connection = dbus.bus.BusConnection(address)
    name = dbus.service.BusName(NAME, connection)
    thing = Object(connection, PATH)
    print("ready", flush=True)
    GLib.MainLoop().run()
    del name, thing


if __name__ == "__main__":
    serve(*sys.argv[1:])
