"""A training that people start by hand in a container of a lab's host: engines without a registry, an image
made of the host's own Python, and one rank a host that holds the chip. Nothing of ours starts it. Hosts must
be booted with `unified=True`.
"""

PODMAN_TOOLS = ("podman", "crun", "runc", "conmon", "netavark", "iptables", "catatonit")
# This kernel has no controller of pids, and crun wants to raise a limit that no host of a lab may raise.
CONFIGURATION = "[containers]\npids_limit=0\n[engine]\nruntime=\"runc\"\n"
IMAGE = ("tar -C / -ch --exclude=dist-packages --exclude=test usr/bin/python3 usr/lib/python3.11 "
         "$(ldd /usr/bin/python3 | grep -o '/lib[^ ]*' | cut -c2-)")
# With a file's name it begins when that file is there.
PROGRAM = '''
import os, socket, sys, time
while len(sys.argv) > 4 and not os.path.exists(sys.argv[4]):
    time.sleep(0.5)
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
PODMAN = ("podman", 7402, "localhost/py:1", ["--log-driver", "k8s-file", "--init"])


def configure(host):
    """Before it boots."""
    host.write("/srv/loop.py", PROGRAM)
    host.write("/etc/containers/containers.conf", CONFIGURATION)


def place(*engines):
    """A line of shell: where engines keep images. A host's own root is an overlay, and no other can lie on
    it."""
    return "".join(f"mkdir -p /var/lib/{name}; mount -t tmpfs -o mode=711,size=1g tmpfs /var/lib/{name};"
                   for name in engines)


def prepare_podman(host):
    """The image, made where it is used: no registry is asked."""
    host.sh("systemctl stop podman.socket; umask 022;" + place("containers") +
            "rm -rf /run/containers/storage /run/libpod; chmod 0666 /dev/accel0;"
            f"{IMAGE} >/var/tmp/py.tar && podman import -q /var/tmp/py.tar {PODMAN[2]} &&"
            "rm /var/tmp/py.tar", timeout=120)


def start(engine, name, hosts, *when):
    """One rank on each of two hosts, as user 1000; the chip is opened at once, or when a file is there."""
    command, port, image, options = engine
    for rank, host in enumerate(hosts):
        host.run([command, "run", "-d", "--name", name, "--network", "host", "--user", "1000:1000",
                  "--device", "/dev/accel0", "-v", "/srv:/srv:ro", *options, image,
                  "/usr/bin/python3", "/srv/loop.py", str(rank), hosts[1 - rank].name, str(port), *when],
                 check=True, timeout=60, properties=("KillMode=process",))  # conmon outlives podman
        if not when:
            mark(host, 1)


def remove(engine, name, hosts):
    for host in hosts:
        host.sh(f"{engine[0]} rm -f {name}", timeout=60, check=False)
        mark(host, 0)


def start_unit(name, hosts, *when):
    """Where there is no engine: the same as a unit of somebody's own."""
    for rank, host in enumerate(hosts):
        host.sh(f"chmod 0666 /dev/accel0; systemd-run -q --unit={name} --uid=1000 "
                f"python3 /srv/loop.py {rank} {hosts[1 - rank].name} 7403 {' '.join(when)}")


def remove_unit(name, hosts):
    for host in hosts:
        host.sh(f"systemctl kill -s KILL {name}; systemctl reset-failed {name}", check=False)
        mark(host, 0)


def mark(host, opened):
    """The number that vfio-pci raises when a chip is opened; a node of the null device has none, and the
    nodes of a container are not the host's, which are watched."""
    for device in host.path("/sys/bus/pci/devices").iterdir():
        (device / "enable").write_text(f"{opened}\n")
