"""The true path, shared by path.py (tests) and the demo: hosts of one slice with a collector, and what may
be asked of them.

Whatever is checked is read by someone outside our programs: `ip`, /proc, systemctl, the training's own log,
the collector's
database file. Our programs' answers stand beside that, never instead of it.
"""

import ast
import json
import re
import sqlite3
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from lab import Lab, LabError  # noqa: E402

HERE = Path(__file__).resolve().parent
TOP = HERE.parents[1]
TRAINING = HERE / "training" / "train.py"
CHIPS = TOP / "tests" / "fixtures" / "machine-v6e-4t"
WANTED_RMEM = "4096 41943040 314572800"
WANTED_MTU = 8896
AGENTS = ("tpu-hostd", "tpu-netcfg", "tpu-launchd")
DATABASE = "/var/lib/tpu-collectord/collector.db"
STEP = re.compile(r"completed step: (\d+), seconds: ([0-9.]+)")


def debs(folder=None):
    """Returns (host's .deb, collector's .deb) of the last tools/deb."""
    folder = Path(folder or TOP / "build" / "debs")
    found = [sorted(folder.glob(f"{name}_*.deb")) for name in ("tpu-hostd", "tpu-collector")]
    if not all(found):
        raise LabError(f"no packages in {folder}: run tools/deb first")
    return found[0][-1], found[1][-1]


def configure(host, n_hosts, network_mtu):
    """What a site would bake into its image and its instance templates."""
    if host.name == "collector":
        host.write("/etc/tpu-hostd/collectord.conf.d/10-site.conf",
                   "[Collector]\nListenOtlp=0.0.0.0:4318\nListenApi=0.0.0.0:9471\nInsecureListen=yes\n")
        return
    collector = host.lab_collector_address
    index = int(host.name[1:])
    names = ",".join(f"h{i}" for i in range(n_hosts))
    host.write("/etc/tpu-hostd/identity.conf.d/10-site.conf",
               f"[Identity]\nSliceName=lab\nAcceleratorType=v6e-{4 * n_hosts}\n"
               f"MachineType=ct6e-standard-4t\n"
               f"Topology={ {1: '2x2', 2: '2x4', 4: '4x4'}[n_hosts] }\nWorkerId={index}\n"
               f"WorkerHostnames={names}\nChips=4\n"
               f"\n[Network]\nMtu={network_mtu}\n")
    host.write("/etc/tpu-hostd/hostd.conf.d/10-site.conf",
               f"[Hostd]\nEndpoint=http://{collector}:4318\nMetricsInterval=2s\n\n"
               "[Registry]\nKind=collector\n")
    host.write("/etc/tpu-hostd/tpuctl.conf.d/10-site.conf", f"[Ctl]\nCollector=http://{collector}:9471\n")
    host.write("/srv/train.py", TRAINING.read_text(), 0o755)
    host.bind_chips(CHIPS)


def slice_lab(n_hosts, folder=None, unified=False, network_mtu=WANTED_MTU, masked=()):
    """A lab of n hosts of one slice and a collector, all installed from the packages; use it in a with
    statement.

    network_mtu: what the site says that its network carries. masked: units of the hosts that do not start.
    """
    host_deb, collector_deb = debs(folder)

    def before_boot(host):
        host.lab_collector_address = host.lab.collector.address("eth0")
        configure(host, n_hosts, network_mtu)
        for unit_name in masked if host.name != "collector" else ():
            host.path(f"/etc/systemd/system/{unit_name}").symlink_to("/dev/null")

    return Lab(hosts=n_hosts, debs=[host_deb], collector=[collector_deb], before_boot=before_boot,
               unified=unified)


# --- Observers outside our programs
# ----------------------------------------------------------------------------


def link(host, nic):
    return json.loads(host.sh(f"ip -j link show {nic}"))[0]


def tcp_rmem(host):
    return " ".join(host.sh("cat /proc/sys/net/ipv4/tcp_rmem").split())


def unit(host, name, *properties):
    """Returns systemd's own view of a unit as a dict."""
    out = host.sh(f"systemctl show {name} -p {','.join(properties)}")
    return dict(line.split("=", 1) for line in out.splitlines() if "=" in line)


def training_steps(host, run):
    """Returns [(step, seconds)] as the training itself wrote them into the journal."""
    log = host.journal(f"tpu-run-{run}.service")
    return [(int(m[1]), float(m[2])) for m in STEP.finditer(log)]


def last_step(host, run):
    steps = training_steps(host, run)
    return steps[-1][0] if steps else -1


def wait_step(host, run, beyond, timeout=60):
    """Waits until the training's own log shows a step above `beyond`; returns it."""
    return host.wait_for(lambda: (s := last_step(host, run)) > beyond and s, timeout,
                         f"the training's log of {run} beyond step {beyond}")


def query(lab, sql, *arguments):
    """Asks the collector's database file, read-only, without the collector."""
    path = f"{lab.collector.tree}{DATABASE}"  # not through /proc/PID/root: SQLite resolves links itself
    connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=10)
    try:
        return connection.execute(sql, arguments).fetchall()
    finally:
        connection.close()


def latest_metrics(lab, host):
    """Returns the newest point of each series of a host, as the collector's API gives them: the database
    packs them by the push."""
    script = "import sys, urllib.request as u; sys.stdout.write(u.urlopen(sys.argv[1]).read().decode())"
    url = f"http://127.0.0.1:9471/api/v1/hosts/{host.name}"
    done = lab.collector.run(["python3", "-c", script, url])
    return json.loads(done.out)["metrics"] if done.code == 0 else []  # not heard of yet: 404


def events(lab, host, name):
    """Returns the bodies of a host's events of that name in the collector's database, newest first."""
    return [body for body, in query(lab, "SELECT body FROM events JOIN hosts ON hosts.id = events.host "
                                         "WHERE hosts.name = ? AND events.name = ? ORDER BY events.id DESC",
                                    host.name, name)]


def functions_of(script):
    """Returns {function's name: (first line, last line)} of a Python source, methods as Class.method."""
    found = {}

    def visit(node, prefix):
        for child in ast.iter_child_nodes(node):
            if isinstance(child, (ast.FunctionDef, ast.ClassDef)):
                name = prefix + child.name
                if isinstance(child, ast.FunctionDef):
                    found[name] = (child.lineno, child.end_lineno)
                visit(child, name + ".")

    visit(ast.parse(Path(script).read_text()), "")
    return found


# --- Our programs' answers
# -----------------------------------------------------------------------------------------


def ctl(host, *words, check=True, user=None, timeout=60):
    return host.run(["tpuctl", *words], check=check, user=user, timeout=timeout)


def ctl_json(host, *words, user=None):
    return json.loads(ctl(host, *words, "--json", user=user, check=False).out)


def start_training(host, run="train", steps=100000, extra=()):
    return ctl(host, "run", "--name", run, "--framework", "plain", "--malloc", "tcmalloc", *extra,
               "--env", "GLOO_SOCKET_IFNAME=eth0", "--", "/usr/bin/python3", "/srv/train.py", str(steps))


def kill_agents(host):
    """SIGKILL to the main process of each of our daemons on the host; returns the pids that were killed."""
    killed = {}
    for name in AGENTS:
        pid = int(unit(host, f"{name}.service", "MainPID")["MainPID"])
        if pid:
            host.sh(f"kill -KILL {pid}")
            killed[name] = pid
    return killed


def frames_in(text, path="/srv/train.py"):
    """Returns [(line, function)] of a stack's text that lie in the training script, innermost first."""
    return [(int(m[1]), m[2]) for m in re.finditer(rf'File "{re.escape(path)}", line (\d+), in (\S+)', text)]


def wrong_frames(frames):
    """Returns the frames that the training script cannot have: no such function, or the line is not in
    it."""
    functions = functions_of(TRAINING)
    lines = len(TRAINING.read_text().splitlines())
    return [(line, name) for line, name in frames
            if not (name == "<module>" and 1 <= line <= lines)
            and not (name in functions and functions[name][0] <= line <= functions[name][1])]


def wait_until(condition, timeout, what):
    """Waits until condition() is true and returns its answer."""
    deadline = time.monotonic() + timeout
    while not (answer := condition()):
        if time.monotonic() > deadline:
            raise LabError(f"not within {timeout} s: {what}")
        time.sleep(0.1)
    return answer
