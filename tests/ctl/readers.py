"""What frameworks do with the environment of a run: their own readers, written anew for tests.

Jax is jax.distributed.initialize() with its clusters, Xla is torch_xla's tpu.py, Ray is Ray's
accelerators/tpu.py. Each takes the environment as a dict, and asks Metadata where the framework asks the
metadata server.
"""
import json
import re


class Metadata:
    """The metadata server: "absent" has no address, "404" no tpu-env, "stale" that of two slices."""

    def __init__(self, state):
        self.state, self.asked = state, []

    def get(self, key):
        self.asked.append(key)
        if self.state == "absent":
            raise ConnectionError(key)
        if self.state == "404":
            return None
        return {"tpu-env": {"MEGASCALE_COORDINATOR_ADDRESS": "10.9.9.9", "MEGASCALE_NUM_SLICES": "2",
                            "MEGASCALE_SLICE_ID": "1"}}.get(key)


class Jax:
    """distributed.State.initialize() without arguments, and so MaxText's own start, which calls it."""

    VERSIONS = (0, 6, 0), (0, 8, 0), (0, 8, 2), (0, 11, 1)

    def __init__(self, version, environment, metadata):
        self.version, self.environment, self.metadata = version, environment, metadata

    def of_tpu_env(self, key):
        """Does not look at TPU_SKIP_MDS_QUERY (jax#40854)."""
        if key in self.environment:
            return self.environment[key]
        return (self.metadata.get("tpu-env") or {}).get(key)

    def has_megascale(self):
        value = self.of_tpu_env("MEGASCALE_COORDINATOR_ADDRESS")
        return value is not None if self.version < (0, 6, 1) else bool(value)

    def workers(self):
        if "TPU_SKIP_MDS_QUERY" not in self.environment:
            return self.metadata.get("worker-network-endpoints").split(",")
        return (self.environment.get("TPU_PROCESS_ADDRESSES")
                or self.environment["TPU_WORKER_HOSTNAMES"]).split(",")

    def found_coordinator(self):
        host = self.workers()[0]
        if self.has_megascale():
            host = self.of_tpu_env("MEGASCALE_COORDINATOR_ADDRESS")
        port = 8476
        if self.version >= (0, 8, 1):
            port = self.environment.get("JAX_COORDINATOR_PORT", 8482)
        return f"{host.split(':')[0]}:{port}"

    def initialize(self):
        """(coordinator, number of processes, id of this one)"""
        address = self.environment.get("JAX_COORDINATOR_ADDRESS") or self.found_coordinator()
        slices = int(self.of_tpu_env("MEGASCALE_NUM_SLICES")) if self.has_megascale() else 1
        mine = int(self.of_tpu_env("MEGASCALE_SLICE_ID")) if self.has_megascale() else 0
        a_slice = len(self.workers())
        return address, slices * a_slice, mine * a_slice + int(self.environment["TPU_WORKER_ID"])


class Xla:
    """torch_xla._internal.tpu"""

    HOST_BOUNDS = {"v2-8": "1,1,1", "v2-32": "2,2,1", "v3-8": "1,1,1", "v3-32": "2,2,1"}

    def __init__(self, environment, metadata, chips):
        self.environment, self.metadata, self.chips = dict(environment), metadata, chips

    def tpu_env(self):
        e = self.environment
        if not e.get("TPU_SKIP_MDS_QUERY"):
            return self.metadata.get("tpu-env")
        return {"type": e.get("TPU_ACCELERATOR_TYPE"),
                "processes": e.get("TPU_PROCESS_BOUNDS", e.get("TPU_HOST_BOUNDS")),
                "chips": e.get("TPU_CHIPS_PER_PROCESS_BOUNDS", e.get("TPU_CHIPS_PER_HOST_BOUNDS")),
                "worker": e.get("CLOUD_TPU_TASK_ID", e.get("TPU_WORKER_ID"))}

    def version(self):
        return int(re.match(r"(?:v|tpu)(\d)", self.tpu_env()["type"]).group(1))

    @staticmethod
    def shape(text):
        size = tuple(int(n) for n in text.split(","))  # of None: AttributeError
        if len(size) != 3:
            raise ValueError(text)
        return size

    def process_bounds_size(self):
        bounds = self.environment.get("TPU_PROCESS_BOUNDS")
        if not bounds:
            return None
        x, y, z = self.shape(bounds)
        return x * y * z

    def worker_hosts(self):
        hosts = self.environment["TPU_WORKER_HOSTNAMES"].split(",")
        return hosts if len(hosts) > 1 else ["localhost"]

    def spmd(self):
        """One process per host: (which of the hosts, how many there are)."""
        return int(self.tpu_env()["worker"]), len(self.worker_hosts())

    def configure_topology(self, rank, size):
        """The environment of one process per chip."""
        e, t = dict(self.environment), self.tpu_env()
        new = self.version() >= 4
        processes = self.shape(t["processes"] if new else self.HOST_BOUNDS[t["type"]])
        chips = self.shape(t["chips"] if new else "2,2,1")
        bounds = ",".join(str(p * c) for p, c in zip(processes, chips))
        ports = range(8476, 8476 + size)
        addresses = ",".join(f"{h}:{p}" for h in self.worker_hosts() for p in ports)
        for name, value in (("TPU_CHIPS_PER_PROCESS_BOUNDS", "1,1,1"),
                            ("TPU_PROCESS_BOUNDS", bounds + ",2" if self.version() == 7 else bounds),
                            ("CLOUD_TPU_TASK_ID", str(int(t["worker"]) * size + rank)),
                            ("TPU_PROCESS_ADDRESSES", addresses),
                            ("TPU_VISIBLE_CHIPS", str(rank)),
                            ("TPU_PROCESS_PORT", str(ports[rank]))):
            e.setdefault(name, value)
        return e

    def launch(self):
        """torch_xla.launch(): the environments of the processes that it makes on this host."""
        known = self.process_bounds_size()
        size = min(self.chips, known) if known else self.chips
        if size == 1:
            return [{**{"TPU_VISIBLE_CHIPS": "0", "TPU_CHIPS_PER_PROCESS_BOUNDS": "1,1,1",
                        "TPU_PROCESS_BOUNDS": "1,1,1"}, **self.environment}]
        return [self.configure_topology(rank, size) for rank in range(size)]


class Ray:
    """ray._private.accelerators.tpu, on a node whose device folder shows so many chips."""

    TYPES = "v2", "v3", "v4", "v5p", "v5litepod", "v6e", "v7x"
    ONE_CORE = "v5litepod", "v6e"
    LABEL = re.compile(r"[a-zA-Z0-9]([a-zA-Z0-9_.-]{0,61}[a-zA-Z0-9])?")

    def __init__(self, environment, metadata, chips):
        self.environment, self.metadata, self.chips = dict(environment), metadata, chips

    def detected(self, variable, key):
        return self.environment.get(variable) or self.metadata.get(key)

    def pod(self):
        pod = self.detected("TPU_ACCELERATOR_TYPE", "accelerator-type")
        if not re.fullmatch(r"(v|tpu)\d+[a-zA-Z]*-\d+", pod):
            raise ValueError(pod)
        pod = re.sub("^tpu", "v", pod)
        if not pod.startswith(self.TYPES):
            raise ValueError(f"{pod} is none of {self.TYPES}")
        return pod

    def workers(self):
        """How many hosts it expects the slice to have."""
        pod = self.pod()
        a_host = self.chips * (1 if pod.startswith(self.ONE_CORE) else 2)
        return -(-int(pod.split("-")[1]) // a_host)

    def resources(self):
        name = self.detected("TPU_NAME", "instance-id")
        worker = int(self.detected("TPU_WORKER_ID", "agent-worker-number"))
        return {"TPU": self.chips, name: 1, **({f"TPU-{self.pod()}-head": 1} if worker == 0 else {})}

    def labels(self):
        labels = {"ray.io/accelerator-type": "TPU-" + self.pod().split("-")[0].upper(),
                  "ray.io/tpu-pod-type": self.pod(), "ray.io/tpu-topology": self.environment["TPU_TOPOLOGY"],
                  "ray.io/tpu-worker-id": str(int(self.detected("TPU_WORKER_ID", "agent-worker-number"))),
                  "ray.io/tpu-slice-name": self.detected("TPU_NAME", "instance-id")}
        self.check_labels(labels)
        return labels

    def check_labels(self, labels):
        for name, value in labels.items():
            if not self.LABEL.fullmatch(value):
                raise ValueError(f"{name}={value}")

    def start(self, words):
        """`ray start` with the arguments that it is given: (resources, labels)"""
        given = dict(w.split("=", 1) for w in words.split(" ") if "=" in w)
        resources = json.loads(given["--resources"])
        if {"CPU", "GPU", "memory", "object_store_memory"} & resources.keys():
            raise ValueError(resources)
        labels = dict(l.split("=") for l in given["--labels"].split(","))
        self.check_labels(labels)
        return resources, labels

    def worker(self, chips):
        """The environment of a worker process that asked for the chips of this list."""
        e = dict(self.environment)
        if e.get("RAY_EXPERIMENTAL_NOSET_TPU_VISIBLE_CHIPS"):
            return e
        if len(chips) == self.chips:
            e.pop("TPU_CHIPS_PER_HOST_BOUNDS", None)
            e.pop("TPU_HOST_BOUNDS", None)
            return e
        e["TPU_VISIBLE_CHIPS"] = ",".join(map(str, chips))
        if len(chips) in (1, 2):
            e["TPU_CHIPS_PER_HOST_BOUNDS"] = f"1,{len(chips)},1"
            e["TPU_HOST_BOUNDS"] = "1,1,1"
        return e
