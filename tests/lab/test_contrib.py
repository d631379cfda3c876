#!/usr/bin/python3
"""The examples in contrib/ by those they are for: Packer, cloud-init, Ansible and Slurm out of their Debian
packages, on booted hosts without network.

Capitals in the files are put in, nothing else is changed. With FULL=1; else scripts are only read, by
sh -n. Needs root and the packages in build/debs; TPU_HOSTD_DEBS names another folder.
"""

import os
import re
import shutil
import subprocess
import sys
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
sys.path.insert(0, str(HERE))

from lab import Lab                                       # noqa: E402  (the path comes first)
from lab.check import check                               # noqa: E402
from lab.prepare import debs_layer                        # noqa: E402
from lab.tree import apt_layer                            # noqa: E402
import scenario                                           # noqa: E402

CONTRIB = HERE.parents[1] / "contrib"
TOOLS = "packer cloud-init ansible-core python3-apt slurmctld slurmd slurm-client munge".split()
PACKAGES, ENDPOINT = "/srv/packages", "http://collector.example:4318"
GCLOUD = f"""#!/bin/sh
[ "$1 $2 $3" = "storage cp gs://site/tpu-hostd/*.deb" ] || exit 1
cp {PACKAGES}/*.deb "$4"
"""
SLURM = """ClusterName=lab
SlurmctldHost=h3
SlurmUser=root
StateSaveLocation=/var/lib/slurm/ctld
SlurmdSpoolDir=/var/lib/slurm/d
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SlurmdTimeout=30
Prolog=/etc/slurm/prolog.d/50-tpu-hostd.sh
NodeName=h3 CPUs=1 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES State=UP
"""


class Read(unittest.TestCase):
    def test_shell(self):
        scripts = sorted(CONTRIB.glob("**/*.sh"))
        self.assertEqual(len(scripts), 3)
        for script in scripts:
            with self.subTest(script.name):
                done = subprocess.run(["sh", "-n", script], capture_output=True, text=True, check=False)
                self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_each_is_in_the_table(self):
        """And none is named that is not there; a role is one."""
        table = (CONTRIB / "README.md").read_text()
        for file in CONTRIB.glob("**/*"):
            name = str(file.relative_to(CONTRIB))
            if file.is_file() and "/roles/" not in name and name != "README.md":
                self.assertIn(f"`{name}`", table)


@unittest.skipUnless(os.environ.get("FULL"), "takes minutes: with FULL=1")
class Run(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        missing = [f"{name}: {reason}" for name, reason in check() if reason]
        if missing:
            raise unittest.SkipTest("this machine does not permit a lab: " + "; ".join(missing))
        deb, _ = scenario.debs(os.environ.get("TPU_HOSTD_DEBS"))
        cls.debs = [deb, *deb.parent.glob("tpuctl_*.deb")]
        layer = apt_layer("contrib", debs_layer(cls.debs).parent, "install", *TOOLS)
        cls.lab = Lab(hosts=4, debs=layer, before_boot=cls.before_boot)
        cls.lab.start()
        cls.addClassCleanup(cls.lab.stop)
        cls.host, cls.ansible, cls.cloud, cls.slurm = cls.lab.hosts

    @classmethod
    def before_boot(cls, host):
        host.write("/etc/cloud/cloud-init.disabled", "")  # until the test starts it by hand
        host.path(PACKAGES).mkdir(parents=True)
        for deb in cls.debs:
            shutil.copy(deb, host.path(PACKAGES))
        shutil.copytree(CONTRIB, host.path("/srv/contrib"))

    def put_in(self, host, file, **names):
        path = host.path(f"/srv/contrib/{file}")
        text = path.read_text()
        for name, value in names.items():
            self.assertIn(name, text)
            text = text.replace(name, value)
        path.write_text(text)

    def install(self, host):
        host.sh(f"DEBIAN_FRONTEND=noninteractive apt-get -q -y install {PACKAGES}/*.deb", timeout=300)

    def in_force(self, host):
        """What tpu-hostd says of its configuration, as it runs."""
        self.assertEqual(scenario.unit(host, "tpu-hostd.service", "ActiveState")["ActiveState"], "active")
        return [e["url"] for e in scenario.ctl_json(host, "uplink")["endpoints"]][:1]

    def pid(self, host):
        return scenario.unit(host, "tpu-hostd.service", "MainPID")["MainPID"]

    def test_packer(self):
        """Debian's Packer has the builder in it, and does not know the block that newer ones want."""
        folder = self.host.path("/srv/contrib/packer")
        (folder / "plugins.pkr.hcl").unlink()
        done = self.host.run(["packer", "validate", "-var", "project=p", "-var", f"folder={PACKAGES}",
                              "/srv/contrib/packer"], env={"HOME": "/root"})
        self.assertEqual(done.code, 0, done.out + done.err)

    def test_startup_script(self):
        """At the first boot, at the next one, and with another endpoint."""
        host, script = self.host, "startup-script/tpu-startup.sh"
        host.write("/usr/local/bin/gcloud", GCLOUD, 0o755)
        self.put_in(host, script, COLLECTOR="collector.example", BUCKET="site")
        host.run(["sh", f"/srv/contrib/{script}"], check=True, timeout=300)
        self.assertEqual(self.in_force(host), [ENDPOINT])
        pid = self.pid(host)
        host.run(["sh", f"/srv/contrib/{script}"], check=True)
        self.assertEqual(self.pid(host), pid)
        self.put_in(host, script, **{"collector.example": "other.example"})
        host.run(["sh", f"/srv/contrib/{script}"], check=True)
        self.assertEqual(self.in_force(host), ["http://other.example:4318"])
        self.assertNotEqual(self.pid(host), pid)
        self.assertEqual(host.sh("find /etc/tpu-hostd -type f").split(),
                         ["/etc/tpu-hostd/hostd.conf.d/20-startup.conf"])

    def test_ansible(self):
        host = self.ansible
        host.sh("useradd alice")

        def play(endpoint):
            done = host.run(["ansible-playbook", "-i", "localhost,", "-c", "local", "-e",
                             f"tpu_hostd_folder={PACKAGES}", "-e", f"tpu_hostd_endpoint={endpoint}", "-e",
                             "tpu_hostd_users=alice", "site.yaml"], timeout=300,
                            properties=["WorkingDirectory=/srv/contrib/ansible"],
                            env={"HOME": "/root", "LC_ALL": "C.UTF-8"})
            self.assertEqual(done.code, 0, done.out[-3000:] + done.err)
            return int(re.search(r"localhost .* changed=(\d+)", done.out)[1])

        self.assertGreater(play(ENDPOINT), 3)
        self.assertEqual(self.in_force(host), [ENDPOINT])
        self.assertIn("Start = alice", host.sh("tpu-launchd --show-config"))
        pid = self.pid(host)
        self.assertEqual(play(ENDPOINT), 0)
        self.assertEqual(self.pid(host), pid)
        self.assertEqual(play("http://other.example:4318"), 2)  # the file and the restart
        self.assertEqual(self.in_force(host), ["http://other.example:4318"])

    def test_cloud_init(self):
        host = self.cloud
        host.sh("useradd alice")
        self.install(host)
        self.put_in(host, "cloud-init/user-data.yaml", COLLECTOR="collector.example", USER="alice")
        host.sh("rm /etc/cloud/cloud-init.disabled; mkdir -p /var/lib/cloud/seed/nocloud && "
                "cp /srv/contrib/cloud-init/user-data.yaml /var/lib/cloud/seed/nocloud/user-data && "
                "echo 'instance-id: i-1' >/var/lib/cloud/seed/nocloud/meta-data && "
                "printf 'datasource_list: [NoCloud]\\nlocale: false\\n' >/etc/cloud/cloud.cfg.d/99-lab.cfg")
        host.sh("cloud-init schema --config-file /srv/contrib/cloud-init/user-data.yaml")
        host.sh("cloud-init init --local; cloud-init init; cloud-init modules --mode=config; "
                "cloud-init modules --mode=final", timeout=300, check=False)
        status = host.run(["cloud-init", "status", "--long"])
        self.assertNotIn("error", status.out, host.sh("tail -n 40 /var/log/cloud-init.log"))
        self.assertEqual(self.in_force(host), [ENDPOINT])
        self.assertIn("Start = alice", host.sh("tpu-launchd --show-config"))

    def test_slurm(self):
        """A job runs on a node without a FAIL; a node with one is drained, and the job waits."""
        host = self.slurm
        self.install(host)
        host.sh("install -D -m 755 /srv/contrib/slurm/prolog.sh /etc/slurm/prolog.d/50-tpu-hostd.sh; "
                "mkdir -p /var/lib/slurm/ctld /var/lib/slurm/d")
        host.write("/etc/slurm/slurm.conf", SLURM)
        host.sh("systemctl restart munge slurmctld slurmd")
        host.wait_for(lambda: "idle" in host.sh("sinfo -h -o %T"), 60, "an idle node")
        self.assertNotEqual(host.run(["tpuctl", "check"]).code, 2)
        self.assertEqual(host.run(["srun", "hostname"], timeout=120).out.strip(), "h3")

        host.write("/etc/tpu-hostd/identity.conf.d/10-site.conf",
                   "[Identity]\nAcceleratorType=v6e-4\nMachineType=ct6e-standard-4t\nTopology=2x2\n"
                   "WorkerId=0\nWorkerHostnames=h3\nChips=4\n")
        self.assertEqual(host.run(["tpuctl", "check"]).code, 2)
        job = host.sh("sbatch --parsable --wrap hostname").strip()
        host.wait_for(lambda: "drain" in host.sh("sinfo -h -o %T"), 60, "a drained node")
        self.assertRegex(host.sh("sinfo -h -R -o %E"), r"tpu-hostd: tpu\.")
        self.assertIn(host.sh(f"squeue -h -o %T -j {job}").strip(), ("PENDING", "CONFIGURING"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
