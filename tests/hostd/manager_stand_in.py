"""A bus of a test's own, and on it a stand-in for systemd's manager: it answers for the property SystemState, as org.freedesktop.systemd1(5) has it."""

import subprocess
import sys
import tempfile
from pathlib import Path

CONFIG = """<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN" "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig><type>system</type><listen>unix:path={path}</listen>
<policy context="default"><allow send_destination="*" eavesdrop="false"/><allow receive_sender="*"/><allow own="*"/><allow user="*"/></policy></busconfig>
"""


class Manager:
    """state: a file that says what SystemState is now. silent: it takes questions and does not answer."""

    def __init__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="bus-")
        self.state = Path(self.folder.name) / "state"
        self.state.write_text("running")
        self.address = f"unix:path={self.folder.name}/bus"
        (Path(self.folder.name) / "bus.conf").write_text(CONFIG.format(path=f"{self.folder.name}/bus"))
        self.bus = subprocess.Popen(["dbus-daemon", "--nofork", "--print-address", f"--config-file={self.folder.name}/bus.conf"], stdout=subprocess.PIPE, text=True)
        self.bus.stdout.readline()
        self.manager = subprocess.Popen([sys.executable, __file__, self.address, self.state], stdout=subprocess.PIPE, text=True)
        self.manager.stdout.readline()

    def stop(self):
        for p in (self.manager, self.bus):
            p.kill()
            p.wait(20)
            p.stdout.close()
        self.folder.cleanup()


def serve(address, state):
    import dbus.bus
    import dbus.mainloop.glib
    import dbus.service
    from gi.repository import GLib

    class Object(dbus.service.Object):
        @dbus.service.method("org.freedesktop.DBus.Properties", in_signature="ss", out_signature="v", async_callbacks=("answer", "fail"))
        def Get(self, interface, name, answer, fail):
            word = Path(state).read_text()
            if (interface, name) != ("org.freedesktop.systemd1.Manager", "SystemState"):
                fail(dbus.exceptions.DBusException("no such property"))
            elif word != "silent":
                answer(dbus.String(word))

    dbus.mainloop.glib.DBusGMainLoop(set_as_default=True)
    connection = dbus.bus.BusConnection(address)
    name = dbus.service.BusName("org.freedesktop.systemd1", connection)
    thing = Object(connection, "/org/freedesktop/systemd1")
    print("ready", flush=True)
    GLib.MainLoop().run()
    del name, thing


if __name__ == "__main__":
    serve(sys.argv[1], sys.argv[2])
