#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""tpu-netcfg --netns: a container's own network namespace beside its host's. Needs root; exit code 77
(skipped, with
the reason) where namespaces are not permitted. The programs are those of BUILD_DIR (build/dev)."""
import glob
import json

from namespace import NET_ADMIN_ONLY, UNPRIVILEGED, hold, run_tests
from netcfg_case import NETCFG, RMEM, RUNTIME, Case

NAME = "/run/netns/c"


class Container(Case):
    """c's eth0 is a veth whose other end, c-eth0, is in the host, at 8896 both of them but for c's own
    side."""

    def setUp(self):
        super().setUp()
        self.inner = self.hold_container()
        self.host.check("sh", "-c",
                        f"mkdir -p /run/netns; touch {NAME}; mount --bind /proc/{self.inner}/ns/net {NAME}")
        self.veth("eth0")
        self.host.check("ip", "link", "set", "c-eth0", "mtu", "8896")
        self.inside("sysctl", "-qw", "net.ipv4.tcp_rmem=4096 131072 6291456")
        self.netcfg("--once")  # the host's own NICs first
        self.rmem = self.sysctl("net.ipv4.tcp_rmem")

    def hold_container(self):
        # /proc and /sys read-only in a mount namespace of its own, as a container engine leaves them
        script = ("mount --make-rprivate /; mount -t proc -o ro proc /proc; mount -o remount,bind,ro /sys; "
                  "ip link set lo up; echo ready; exec sleep infinity")
        holder = hold(self.host.command("unshare", "--net", "--mount", "--pid", "--fork", "--kill-child",
                                        "sh", "-c", script))
        with open(f"/proc/{holder.pid}/task/{holder.pid}/children", encoding="ascii") as file:
            inner = int(file.read().split()[0])
        self.host.processes.append(holder)
        return inner

    def veth(self, name):
        self.host.check("ip", "link", "add", f"c-{name}", "mtu", "1460", "type", "veth", "peer", "name",
                        name, "mtu", "1460", "netns", str(self.inner))
        self.inside("ip", "link", "set", name, "up")
        self.host.check("ip", "link", "set", f"c-{name}", "up")

    def inside(self, *words):
        return self.host.check("nsenter", f"--net={NAME}", *words)

    def inner_mtu(self, nic="eth0"):
        return json.loads(self.inside("ip", "-j", "link", "show", nic))[0]["mtu"]

    def sysctl(self, name):
        return " ".join(self.inside("cat", "/proc/sys/" + name.replace(".", "/")).split())

    def inner_state(self):
        return self.sysctl("net.ipv4.tcp_rmem"), self.inner_mtu()

    def inner_report(self, *words, code=0):
        return json.loads(self.netcfg("--netns", NAME, "--json", *words, code=code).stdout)

    def finding(self, report, check, subject):
        return next(f for f in report["findings"] if (f["check"], f["subject"]) == (check, subject))

    def originals(self):
        return sorted(glob.glob(self.host.path(f"{RUNTIME}/netns-*/originals")))


class OneShot(Container):
    def test_only_the_container_is_changed_and_restored(self):
        self.host.check("sysctl", "-qw", "net.ipv4.tcp_rmem=4096 131072 6000000")
        hosts = self.state()
        self.assertEqual(self.inner_report("--dry-run", code=2)["writes"], 0)
        self.assertEqual((self.inner_state(), self.originals()), ((self.rmem, 1460), []))
        done = self.inner_report()
        self.assertEqual(self.inner_state(), (RMEM, 8896))
        self.assertEqual(done["writes"], len(done["plan"]))
        self.assertGreater(done["writes"], 1)
        self.assertEqual(self.inner_report()["writes"], 0)
        self.assertEqual(self.state(), hosts)
        self.assertEqual(len(self.originals()), 1)
        self.netcfg("--netns", NAME, "--restore")
        self.assertEqual((self.inner_state(), self.originals()), ((self.rmem, 1460), []))
        self.assertEqual(self.state(), hosts)
        self.netcfg("--restore")
        self.assertEqual(self.state(), self.before)

    def test_proc_pid_and_its_read_only_proc_do_not_matter(self):
        self.assertNotEqual(self.host.run("nsenter", "-t", str(self.inner), "-m", "-n", "sysctl", "-qw",
                                          "net.ipv4.tcp_rmem=1 2 3").returncode, 0)
        self.netcfg("--netns", f"/proc/{self.inner}/ns/net")
        self.assertEqual(self.inner_state(), (RMEM, 8896))
        self.netcfg("--netns", NAME, "--restore")  # the same namespace by another name
        self.assertEqual(self.inner_state(), (self.rmem, 1460))

    def test_a_later_namespace_has_no_part_in_it(self):
        self.netcfg("--netns", NAME)
        before = self.originals()
        self.inner = self.hold_container()
        self.host.check("sh", "-c", f"umount {NAME}; mount --bind /proc/{self.inner}/ns/net {NAME}")
        self.inside("sysctl", "-qw", "net.ipv4.tcp_rmem=4096 131072 5000000")
        self.netcfg("--netns", NAME, code=3)  # it has no NIC
        self.assertEqual(self.sysctl("net.ipv4.tcp_rmem"), RMEM)
        self.assertEqual(len(self.originals()), len(before) + 1)
        self.netcfg("--netns", NAME, "--restore")
        self.assertEqual((self.sysctl("net.ipv4.tcp_rmem"), self.originals()),
                         ("4096 131072 5000000", before))

    def test_the_hosts_daemon_is_not_disturbed(self):
        self.netcfg("--restore")
        self.host.check("rm", "-r", RUNTIME)
        self.give_runtime()
        daemon = self.host.start(*NET_ADMIN_ONLY, NETCFG)
        self.netcfg("--netns", NAME)
        self.netcfg("--netns", NAME, "--restore")
        self.host.check("ip", "link", "set", "eth0", "mtu", "1460")
        self.wait_for(lambda: self.host.mtu("eth0"), 8896)  # a restored container is no restored host
        self.assertEqual(self.inner_state(), (self.rmem, 1460))
        self.assertEqual(self.host.stop(daemon), 0)

    def test_names_of_the_hosts_nics_mean_nothing_there(self):
        self.host.netcfg_conf("[Netcfg]\nNics=eth1\nIgnoreNics=eth0\n")
        self.netcfg("--netns", NAME)
        self.assertEqual(self.inner_mtu(), 8896)

    def test_routes(self):
        self.host.netcfg_conf("[Netcfg]\nRtoMin=routes\n")
        self.inside("ip", "addr", "add", "10.77.0.2/24", "dev", "eth0")
        self.netcfg("--netns", NAME)
        self.assertIn("rto_min lock 5ms", self.inside("ip", "route"))
        self.netcfg("--netns", NAME, "--restore")
        self.assertNotIn("rto_min", self.inside("ip", "route"))


class Mtu(Container):
    """What carries the container's packets on the host bounds it; a NIC is never above that."""

    def nic(self, report):
        return self.finding(report, "nic.mtu", "eth0")

    def test_the_other_end(self):
        self.host.check("ip", "link", "set", "c-eth0", "mtu", "1500")
        found = self.nic(self.inner_report(code=1))
        self.assertEqual((self.inner_mtu(), found["verdict"], found["wanted"]), (1500, "WARN", "8896"))
        self.assertIn("c-eth0 of the host, which carries 1500", found["reason"])
        self.assertIn("com.docker.network.driver.mtu", found["remedy"])

    def test_the_bridge(self):
        self.host.check("ip", "link", "add", "br0", "mtu", "1500", "type", "bridge")
        self.host.check("ip", "link", "set", "c-eth0", "master", "br0")
        self.host.check("ip", "link", "set", "br0", "mtu", "1500")
        self.assertIn("br0 of the host, which carries 1500", self.nic(self.inner_report(code=1))["reason"])
        self.assertEqual(self.inner_mtu(), 1500)

    def test_the_hosts_own_nic(self):
        self.host.check("ip", "link", "set", "eth1", "mtu", "1460")
        self.assertIn("eth1 of the host, which carries 1460", self.nic(self.inner_report(code=1))["reason"])
        self.assertEqual(self.inner_mtu(), 1460)

    def test_above_what_carries_it_is_lowered(self):
        self.inside("ip", "link", "set", "eth0", "mtu", "8896")
        self.host.check("ip", "link", "set", "c-eth0", "mtu", "1500")
        found = self.nic(self.inner_report("--dry-run", code=2))
        self.assertEqual((found["verdict"], found["remedy"]), ("FAIL", f"tpu-netcfg --netns {NAME}"))
        self.inner_report(code=1)
        self.assertEqual(self.inner_mtu(), 1500)

    def test_the_networks_own(self):
        self.host.identity("[Identity]\nAcceleratorType=v6e-16\n[Network]\nMtu=1460\n")
        found = self.nic(self.inner_report(code=2))
        self.assertIn("the network carries 1460", found["reason"])
        self.assertEqual(self.inner_mtu(), 1460)

    def test_without_a_known_network_the_hosts_nics_say_it(self):
        self.host.identity("[Identity]\nAcceleratorType=v6e-16\n")
        self.assertEqual(self.nic(self.inner_report())["verdict"], "OK")
        self.assertEqual(self.inner_mtu(), 8896)

    def test_another_end_in_a_third_namespace_says_nothing(self):
        self.host.check("ip", "link", "set", "c-eth0", "netns", str(self.host.wire.pid))
        found = self.nic(self.inner_report(code=1))
        self.assertIn("is not known: never raised", found["reason"])
        self.assertEqual(self.inner_mtu(), 1460)

    def test_a_macvlan_of_a_host_nic(self):
        self.inside("ip", "link", "del", "eth0")
        self.host.check("ip", "link", "add", "mv0", "link", "eth1", "type", "macvlan", "mode", "bridge")
        self.host.check("ip", "link", "set", "mv0", "netns", str(self.inner))
        self.inside("ip", "link", "set", "mv0", "name", "eth0", "mtu", "1460")
        self.assertEqual(self.nic(self.inner_report())["verdict"], "OK")
        self.assertEqual(self.inner_mtu(), 8896)

    def test_what_is_inside_only_is_no_data_nic(self):
        self.inside("ip", "link", "add", "in0", "type", "veth", "peer", "name", "in1")
        self.inside("ip", "link", "add", "br0", "type", "bridge")
        self.assertEqual([f["subject"] for f in self.inner_report()["findings"] if f["check"] == "nic.mtu"],
                         ["eth0"])


class Refused(Container):
    def assert_refused(self, path, text, *words, code=2):
        done = self.netcfg("--netns", path, *words, code=code)
        self.assertIn(f"--netns {path}: ", done.stderr)
        self.assertIn(text, done.stderr)
        self.assertEqual(done.stdout, "")
        self.assertEqual((self.inner_state(), self.originals()), ((self.rmem, 1460), []))

    def test_what_is_no_network_namespace(self):
        self.host.check("mkfifo", "/run/fifo")
        self.assert_refused("/run/netns/nobody", "no such file")
        self.assert_refused("/proc/2147483647/ns/net", "the process ended")
        self.assert_refused("c", "has to begin with /")
        self.assert_refused("/run/fifo", "not a namespace")
        self.assert_refused("/dev/null", "not a namespace")
        self.assert_refused(f"/proc/{self.inner}/ns/mnt", "but not a network namespace")
        self.assert_refused("/run/netns/nobody", "no such file", "--dry-run", code=3)

    def test_one_that_is_gone(self):
        self.host.check("touch", "/run/netns/gone")
        self.assert_refused("/run/netns/gone", "no longer one")

    def test_the_hosts_own(self):
        for words in ([], ["--restore"], ["--dry-run"]):
            self.assert_refused("/proc/self/ns/net", "leave --netns out", *words,
                                code=3 if words == ["--dry-run"] else 2)

    def test_without_rights(self):
        for prefix in (UNPRIVILEGED, NET_ADMIN_ONLY):
            for path in (NAME, f"/proc/{self.inner}/ns/net"):
                done = self.netcfg("--netns", path, code=2, prefix=prefix)
                self.assertIn("this needs root", done.stderr)
        self.assertEqual((self.inner_state(), self.originals()), ((self.rmem, 1460), []))

    def test_a_planted_symlink_is_not_followed(self):
        self.netcfg("--netns", NAME)
        self.netcfg("--netns", NAME, "--restore")
        kept = self.host.check("sh", "-c", f"ls -d {RUNTIME}/netns-*").strip()
        self.host.check("sh", "-c", f"rm -r {kept}; mkdir /run/elsewhere; ln -s /run/elsewhere {kept}")
        self.assertIn(f"{kept}: ", self.netcfg("--netns", NAME, code=2).stderr)
        self.assertEqual(self.inner_state(), (self.rmem, 1460))
        self.assertEqual(self.host.check("ls", "/run/elsewhere"), "")

    def test_usage(self):
        for words in (["--check-config"], ["--show-config"], ["--root", "/run", "--dry-run"],
                      ["--once", "--restore"]):
            self.netcfg("--netns", NAME, *words, code=64)


del Container  # it has no tests of its own

if __name__ == "__main__":
    run_tests(NETCFG)
