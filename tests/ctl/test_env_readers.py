#!/usr/bin/python3
"""tpuctl env, as the frameworks' own readers read it (readers.py)."""
import json
import subprocess
import unittest

from ctl_case import Ctl, TPUCTL
from readers import Jax, Metadata, Ray, Xla

# accelerator type, topology, machine type, hosts, chips of one
SLICES = (
    ("v2-8", "2x2", None, 1, 4), ("v2-32", "4x4", None, 4, 4), ("v3-8", "2x2", None, 1, 4),
    ("v3-32", "4x4", None, 4, 4), ("v4-8", "2x2x1", "ct4p-hightpu-4t", 1, 4),
    ("v4-32", "2x2x4", "ct4p-hightpu-4t", 4, 4), ("v5litepod-1", "1x1", "ct5lp-hightpu-1t", 1, 1),
    ("v5litepod-4", "2x2", "ct5lp-hightpu-4t", 1, 4), ("v5litepod-8", "2x4", "ct5lp-hightpu-8t", 1, 8),
    ("v5litepod-16", "4x4", "ct5lp-hightpu-4t", 4, 4), ("v5p-8", "2x2x1", "ct5p-hightpu-4t", 1, 4),
    ("v5p-32", "2x2x4", "ct5p-hightpu-4t", 4, 4), ("v6e-1", "1x1", "ct6e-standard-1t", 1, 1),
    ("v6e-4", "2x2", "ct6e-standard-4t", 1, 4), ("v6e-8", "2x4", "ct6e-standard-8t", 1, 8),
    ("v6e-8", "2x4", "ct6e-standard-4t", 2, 4), ("v6e-32", "4x8", "ct6e-standard-4t", 8, 4),
    ("tpu7x-8", "2x2x1", "tpu7x-standard-4t", 1, 4), ("tpu7x-64", "2x4x4", "tpu7x-standard-4t", 8, 4),
)
STATES = "absent", "404", "stale"


class Readers(Ctl):
    environment = None

    def write(self, a_slice, worker, **more):
        accelerator, topology, machine, hosts, _ = a_slice
        names = more.pop("hosts", [f"10.0.{i}.1" for i in range(hosts)])
        fields = {"SliceName": "slice-a", "AcceleratorType": accelerator, "Topology": topology,
                  "MachineType": machine, "WorkerId": worker, "WorkerHostnames": ",".join(names), **more}
        text = "".join(f"{k}={v}\n" for k, v in fields.items() if v is not None)
        (self.root / "etc/tpu-hostd/identity.conf.d/10-site.conf").write_text("[Identity]\n" + text)

    def env(self, *words, shell=None):
        """shell: the environment of the command, which counts on this machine, not for another root."""
        root = ["--config", "/dev/null"] if shell else ["--root", self.root]
        done = subprocess.run([TPUCTL, *root, "env", "--json", *words], capture_output=True, text=True,
                              timeout=60, env={"PATH": "/usr/bin:/bin", **(shell or {})}, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return {v["name"]: v["value"] for v in json.loads(done.stdout)["environment"]}

    def jax(self, environment, coordinator, count, mine):
        """What every version computes, whatever the metadata server says, which nobody asks."""
        for version in Jax.VERSIONS:
            for state in STATES:
                metadata = Metadata(state)
                jax = Jax(version, environment, metadata)
                self.assertEqual(jax.initialize(), (coordinator, count, mine))
                self.assertEqual(metadata.asked, [])
        self.assertIn("MEGASCALE_NUM_SLICES", environment)  # axlearn's health check raises without it


class OfJax(Readers):
    def test_every_worker_of_every_machine(self):
        for a_slice in SLICES:
            for worker in range(a_slice[3]):
                with self.subTest(a_slice=a_slice, worker=worker):
                    self.write(a_slice, worker)
                    self.jax(self.env("--framework", "jax"), "10.0.0.1:8476", a_slice[3], worker)

    def test_who_reads_half_of_it_asks(self):
        """The readers of this test do ask, and go wrong, where a variable is missing."""
        self.write(SLICES[9], 2)
        whole = self.env("--framework", "jax")
        for name in ("MEGASCALE_COORDINATOR_ADDRESS", "MEGASCALE_NUM_SLICES", "MEGASCALE_SLICE_ID"):
            metadata = Metadata("absent")
            half = {k: v for k, v in whole.items() if k != name}
            self.assertRaises(ConnectionError, Jax((0, 8, 2), half, metadata).initialize)
            self.assertTrue(metadata.asked)
        bare = {k: v for k, v in whole.items() if not k.startswith("MEGASCALE_")}
        self.assertEqual(Jax((0, 8, 2), bare, Metadata("stale")).initialize()[1:], (8, 6))

    def test_two_slices(self):
        for mine in range(2):
            for worker in range(4):
                self.write(SLICES[9], worker, Slices=2, SliceId=mine, Coordinator="10.8.0.1:8080")
                environment = self.env("--framework", "jax")
                self.jax(environment, "10.8.0.1:8476", 8, 4 * mine + worker)
                self.assertEqual(environment["MEGASCALE_PORT"], "8081")
        self.write(SLICES[14], 0, Slices=2, SliceId=1, Coordinator="10.8.0.1", WorkerId=None,
                   WorkerHostnames=None)
        self.jax(self.env("--framework", "jax"), "10.8.0.1:8476", 2, 1)

    def test_ipv6(self):
        self.write(SLICES[15], 1, hosts=["fd00::1", "fd00::2"])
        self.jax(self.env("--framework", "jax"), "[fd00::1]:8476", 2, 1)

    def test_a_port_of_the_user(self):
        self.write(SLICES[9], 1)
        done = self.expect(["env", "--json", "--framework", "jax", "JAX_COORDINATOR_PORT=9000"], 0).stdout
        self.jax({v["name"]: v["value"] for v in json.loads(done)["environment"]}, "10.0.0.1:9000", 4, 1)

    def test_gke_with_process_addresses(self):
        shell = {"TPU_PROCESS_ADDRESSES": "w-0.svc:8471,w-1.svc:8471", "TPU_WORKER_ID": "1",
                 "TPU_ACCELERATOR_TYPE": "tpu7x-16", "TPU_TOPOLOGY": "2x2x2"}
        environment = self.env("--framework", "jax", shell=shell)
        self.assertEqual(environment["TPU_WORKER_HOSTNAMES"], "w-0.svc,w-1.svc")
        self.jax({**shell, **environment}, "w-0.svc:8476", 2, 1)


class OfTorchXla(Readers):
    def test_spmd_and_launch(self):
        for a_slice in SLICES:
            for worker in {0, a_slice[3] - 1}:
                with self.subTest(a_slice=a_slice, worker=worker):
                    self.write(a_slice, worker)
                    self.xla(self.env("--framework", "torch_xla"), a_slice, worker)

    def xla(self, environment, a_slice, worker):
        accelerator, topology, _, hosts, chips = a_slice
        metadata = Metadata("absent")
        xla = Xla(environment, metadata, chips)
        self.assertEqual(xla.spmd(), (worker, hosts))
        processes = xla.launch()
        self.assertEqual(len(processes), chips)
        whole = ",".join((topology.split("x") + ["1"])[:3])
        for rank, process in enumerate(processes):
            self.assertEqual(process["TPU_VISIBLE_CHIPS"], str(rank))
            self.assertEqual(process["TPU_CHIPS_PER_PROCESS_BOUNDS"], "1,1,1")
            self.assertEqual(process["TPU_PROCESS_BOUNDS"], whole + ",2" * accelerator.startswith("tpu7x"))
            self.assertEqual(process.get("CLOUD_TPU_TASK_ID", "0"), str(worker * chips + rank))
        self.assertEqual(metadata.asked, [])

    def test_per_chip_is_what_launch_makes(self):
        for a_slice in SLICES:
            accelerator, _, _, hosts, chips = a_slice
            self.write(a_slice, hosts - 1)
            if accelerator.startswith("tpu7x"):
                done = self.expect(["env", "--framework", "torch_xla", "--chip", "0"], 64, stdout="")
                self.assertIn("one process per chip on tpu7x", done.stderr)
                continue
            with self.subTest(a_slice=a_slice):
                ours = self.env("--framework", "torch_xla", "--chip", str(chips - 1))
                self.assertIsNotNone(Xla(ours, Metadata("absent"), chips).process_bounds_size())
                if chips > 1:
                    theirs = Xla(self.env("--framework", "torch_xla"), Metadata("absent"),
                                 chips).configure_topology(chips - 1, chips)
                    self.assertEqual({k: ours[k] for k in theirs if k not in ("XLA_USE_SPMD",)},
                                     {k: v for k, v in theirs.items() if k != "XLA_USE_SPMD"})


class OfRay(Readers):
    def test_start_is_what_ray_detects(self):
        for a_slice in SLICES:
            for worker in {0, a_slice[3] - 1}:
                with self.subTest(a_slice=a_slice, worker=worker):
                    self.write(a_slice, worker)
                    environment = self.env("--framework", "ray")
                    metadata = Metadata("absent")
                    ray = Ray(environment, metadata, a_slice[4])
                    self.assertEqual(ray.start(environment["TPU_RAY_START"]),
                                     (ray.resources(), ray.labels()))
                    self.assertEqual(ray.workers(), a_slice[3])
                    self.assertEqual(metadata.asked, [])

    def test_jax_in_a_worker_that_has_the_host(self):
        for a_slice in SLICES:
            with self.subTest(a_slice=a_slice):
                worker = a_slice[3] - 1
                self.write(a_slice, worker)
                environment = Ray(self.env("--framework", "ray"), Metadata("absent"), a_slice[4]).worker(
                    range(a_slice[4]))
                self.jax(environment, "10.0.0.1:8476", a_slice[3], worker)

    def test_torch_xla_in_a_worker_that_has_the_host(self):
        for a_slice in SLICES:
            if a_slice[3] == 1:
                continue
            with self.subTest(a_slice=a_slice):
                self.write(a_slice, 1)
                ray = Ray(self.env("--framework", "ray"), Metadata("absent"), a_slice[4])
                xla = Xla(ray.worker(range(a_slice[4])), Metadata("absent"), a_slice[4])
                self.assertEqual(xla.spmd(), (1, a_slice[3]))
                self.assertEqual(len(xla.launch()), a_slice[4])

    def test_on_one_host(self):
        """A worker has some of the chips; with all, launch() needs what tpuctl(1) says of runtime_env."""
        self.write(SLICES[14], 0)
        ray = Ray(self.env("--framework", "ray"), Metadata("absent"), 8)
        self.assertEqual(ray.worker([3])["TPU_VISIBLE_CHIPS"], "3")
        self.assertEqual(ray.worker([3])["TPU_HOST_BOUNDS"], "1,1,1")
        self.assertRaises(AttributeError, Xla(ray.worker(range(8)), Metadata("absent"), 8).launch)
        ray.environment["RAY_EXPERIMENTAL_NOSET_TPU_VISIBLE_CHIPS"] = "1"
        self.assertEqual(len(Xla(ray.worker(range(8)), Metadata("absent"), 8).launch()), 8)


class Names(Readers):
    def test_aliases(self):
        for alias, a_slice in (("v5e-16", SLICES[9]), ("v7x-8", SLICES[17]), ("v6e-032", SLICES[16])):
            self.write((alias, *a_slice[1:]), 0)
            environment = self.env("--framework", "ray")
            self.assertEqual(environment["TPU_ACCELERATOR_TYPE"], a_slice[0])
            Ray(environment, Metadata("absent"), a_slice[4]).labels()

    def test_names_that_ray_refuses(self):
        for name in ("TPU", "CPU", "GPU", "memory", "object_store_memory", "-a", "a.", "_"):
            self.write(SLICES[9], 0, SliceName=name)
            done = self.expect(["identity"], 0)
            self.assertIn(f"10-site.conf:2: SliceName={name}: not a slice's name: ", done.stderr)
            done = self.expect(["env", "--framework", "ray"], 0).stdout
            self.assertNotIn("TPU_NAME", done)
            self.assertNotIn("tpu-slice-name", done)


if __name__ == "__main__":
    unittest.main()
