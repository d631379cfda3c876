"""Two collectors over an etcd of three members, for labs: configured before boot, started by the lab,
asked who leads."""

import shutil
from pathlib import Path

import scenario

PORTS = [23790, 23791, 23792]
# In memory: an etcd whose disk is slow loses its leader now and then, which these tests do by themselves.
UNIT = """[Service]
ExecStart=/usr/bin/etcd --name m%i --data-dir /dev/shm/etcd-%i --listen-client-urls http://0.0.0.0:2379%i --advertise-client-urls http://{own}:2379%i \
 --listen-peer-urls http://0.0.0.0:2389%i --initial-advertise-peer-urls http://{own}:2389%i --initial-cluster {cluster} --initial-cluster-state new \
 --auto-compaction-retention=1h --logger zap --log-level error
[Install]
WantedBy=multi-user.target
"""


def missing():
    """Why there can be no such lab here, or None."""
    return (None if shutil.which("etcd") and shutil.which("etcdctl")
            else "etcd is not installed: tools/deps test")


def places(lab):
    """The address of each member of etcd: the first collector's machine has two, so that the second one's
    death costs no quorum."""
    first, second = (c.address("eth0") for c in lab.collectors)
    return [first, first, second]


def etcd_urls(lab):
    return [f"http://{address}:{port}" for address, port in zip(places(lab), PORTS)]


def configure(host):
    """A collector before it boots."""
    lab, own = host.lab, host.address("eth0")
    host.write("/etc/tpu-hostd/collectord.conf.d/10-site.conf",
               "[Collector]\nListenOtlp=0.0.0.0:4318\nListenApi=0.0.0.0:9471\nInsecureListen=yes\n"
               f"[Control]\nStore=etcd\nEtcd={' '.join(etcd_urls(lab))}\nAgentsUrl=http://{own}:4318\n"
               f"PeopleUrl=http://{own}:9471\n")
    cluster = ",".join(f"m{i}=http://{address}:{23890 + i}" for i, address in enumerate(places(lab)))
    host.write("/etc/systemd/system/etcd@.service", UNIT.format(own=own, cluster=cluster))
    for program in ("etcd", "etcdctl"):
        host.write(f"/usr/bin/{program}", Path(shutil.which(program)).read_bytes(), 0o755)


def start_etcd(lab):
    for i, address in enumerate(places(lab)):
        host = next(c for c in lab.collectors if c.address("eth0") == address)
        host.sh(f"systemctl start etcd@{i}")
    leader(lab)


def leads(collector):
    """Whether this collector answers people itself; the other one sends them on (307), or knows of no
    leader (503)."""
    script = ("import http.client as h; c = h.HTTPConnection('127.0.0.1', 9471, timeout=5); "
              "c.request('GET', '/api/v1/runs'); "
              "print(c.getresponse().status)")
    return collector.run(["python3", "-c", script]).out.strip() == "200"


def leader(lab, but=None):
    """Waits until a collector leads (another one than `but`), and returns it."""
    return scenario.wait_until(lambda: next((c for c in lab.collectors if c is not but and leads(c)), None),
                               60, "a collector leads")
