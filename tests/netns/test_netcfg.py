#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""tpu-netcfg in network namespaces of its own, beside what ip and /proc say. Needs root; exit code 77
(skipped, with
the reason) where namespaces are not permitted. The programs are those of BUILD_DIR (build/dev)."""
import fcntl
import json
import os
import time

from namespace import NET_ADMIN_ONLY, NO_RIGHTS, run_tests
from netcfg_case import NETCFG, RMEM, RUNTIME, SYSCTLS, Case


class OneShot(Case):
    def test_applies_and_the_second_time_writes_nothing(self):
        done = json.loads(self.netcfg("--once", "--json").stdout)
        self.assertEqual(self.state(), (RMEM, 8896, 8896))
        self.assertEqual(done["writes"], len(done["plan"]))
        self.assertGreaterEqual(done["writes"], 3)
        self.assertEqual([self.host.sysctl(name) for name in SYSCTLS], list(SYSCTLS.values()))
        self.assertEqual(self.host.mtu("lo"), 65536)
        with self.host.monitor_links() as events:
            again = json.loads(self.netcfg("--once", "--json").stdout)
        self.assertEqual((again["writes"], again["plan"]), (0, []))
        self.assertEqual({f["verdict"] for f in again["findings"]}, {"OK"})
        self.assertEqual(events, [])

    def test_strict_reverse_path_filters_and_back(self):
        filters = [f"net.ipv4.conf.{nic}.rp_filter" for nic in ("all", "eth0", "eth1", "lo")]
        for name, value in zip(filters, "1011"):
            self.host.check("sysctl", "-qw", f"{name}={value}")
        self.netcfg("--once")
        self.assertEqual([self.host.sysctl(name) for name in filters], ["1", "2", "2", "1"])
        self.netcfg("--restore")
        self.assertEqual([self.host.sysctl(name) for name in filters], ["1", "0", "1", "1"])

    def test_which_nics_the_site_says(self):
        self.host.netcfg_conf("[Netcfg]\nIgnoreNics=*1\n")
        self.netcfg("--once")
        self.assertEqual((self.host.mtu("eth0"), self.host.mtu("eth1")), (8896, 1460))
        self.host.netcfg_conf("[Netcfg]\nNics=eth1\n")
        self.netcfg("--once")
        self.assertEqual(self.host.mtu("eth1"), 8896)
        self.host.netcfg_conf("[Netcfg]\nNics=eth1 eth9\n")
        self.assertIn("no such NIC is here; there are: eth0,eth1", self.netcfg("--once", code=1).stdout)

    def test_a_sysctl_that_no_one_may_write_is_said_and_stops_nothing(self):
        self.host.site_profile("v6e", "[Sysctl net.core.rmem_max]\nValue=1\nSource=a test\n[Mtu]\n"
                                      "Value=8896\nSource=a test\n")
        done = self.netcfg("--once", code=3)
        self.assertEqual((self.host.mtu("eth0"), self.host.mtu("eth1")), (8896, 8896))
        self.assertIn("read-only in this network namespace", done.stdout)

    def test_a_sysctl_of_another_kernel_is_said_and_stops_nothing(self):
        self.host.site_profile("v6e", "[Sysctl net.ipv4.tcp_of_tomorrow]\nValue=1\nSource=a test\n[Mtu]\n"
                                      "Value=8896\nSource=a test\n")
        done = self.netcfg("--once", code=3)
        self.assertEqual((self.host.mtu("eth0"), self.host.mtu("eth1")), (8896, 8896))
        self.assertIn("this kernel has no such sysctl", done.stdout)

    def test_dry_run_changes_nothing(self):
        done = self.netcfg("--dry-run", code=2)
        self.assertEqual(self.state(), self.before)
        self.assertIn("eth1: 1460 → 8896", done.stdout)
        self.assertFalse(os.path.exists(self.host.path(RUNTIME)))

    def test_observe_changes_nothing_and_says_what_it_would(self):
        self.host.netcfg_conf("[Netcfg]\nMode=observe\n")
        done = self.netcfg("--once", code=2)
        self.assertEqual(self.state(), self.before)
        self.assertIn("Mode=observe", done.stdout)
        self.assertIn("eth0: 1460 → 8896", done.stdout)

    def test_restore_brings_back_every_original_and_forgets(self):
        self.netcfg("--once")
        self.host.check("ip", "link", "set", "eth1", "mtu", "5000")
        self.netcfg("--once")  # the original stays the first one
        self.netcfg("--restore")
        self.assertEqual(self.state(), self.before)
        self.assertIn("Nothing to restore", self.netcfg("--restore").stdout)

    def test_a_renamed_nic_is_restored_and_a_gone_one_is_said(self):
        self.netcfg("--once")
        self.host.check("ip", "link", "set", "eth0", "down")
        self.host.check("ip", "link", "set", "eth0", "name", "dcn0")
        self.host.check("ip", "link", "del", "eth1")
        self.assertIn("2 are of NICs or routes that are gone", self.netcfg("--restore", code=1).stdout)
        self.assertEqual(self.host.mtu("dcn0"), 1460)

    def test_a_nic_that_is_away_is_restored_when_it_is_back(self):
        """It was in a container, and has its MTU from before."""
        self.netcfg("--once")
        self.host.check("ip", "link", "set", "eth1", "netns", str(self.host.wire.pid))
        self.assertIn("kept for another --restore", self.netcfg("--restore", code=1).stdout)
        self.host.on_wire("ip", "link", "set", "eth1", "netns", str(self.host.holder.pid))
        self.assertEqual(self.host.mtu("eth1"), 8896)
        self.netcfg("--restore")
        self.assertEqual(self.state(), self.before)
        self.assertIn("Nothing to restore", self.netcfg("--restore").stdout)

    def test_damaged_originals_stop_everything(self):
        self.host.check("mkdir", RUNTIME)
        self.host.check("sh", "-c",
                        f"printf 'tpu-state originals 3 00000000\\nnonsense\\n' > {RUNTIME}/originals")
        done = self.netcfg("--once", code=2)
        self.assertIn(f"{RUNTIME}/originals is damaged", done.stderr)
        self.assertEqual(self.state(), self.before)
        self.assertIn(f"{RUNTIME}/originals is damaged", self.netcfg("--restore", code=2).stderr)

    def test_originals_of_another_version_are_set_aside(self):
        self.netcfg("--once")
        self.host.check("sed", "-i", "1s/originals [0-9]*/originals 1/", f"{RUNTIME}/originals")
        done = self.netcfg("--restore")
        self.assertIn("originals.other-version", done.stderr)
        self.assertIn("Nothing to restore", done.stdout)
        self.assertIn("1460", self.host.check("cat", f"{RUNTIME}/originals.other-version"))
        self.host.check("ip", "link", "set", "eth0", "mtu", "5000")
        self.netcfg("--once")
        self.netcfg("--restore")
        self.assertEqual(self.host.mtu("eth0"), 5000)

    def test_root_gives_no_file_away(self):
        """The directory is the daemon's user's: what it put there for the lock is not made its own by
        root."""
        self.host.check("sh", "-c", f"install -d -o 65534 -g 65534 {RUNTIME}; install -m 600 /dev/null "
                                    f"/run/roots; ln /run/roots {RUNTIME}/lock")
        self.netcfg("--once", code=2)
        self.assertEqual(self.host.check("stat", "-c", "%u", "/run/roots").strip(), "0")
        self.host.check("sh", "-c", f"rm {RUNTIME}/lock; mkfifo {RUNTIME}/lock")
        self.netcfg("--restore", code=2)
        self.assertEqual(self.state(), self.before)

    def test_a_pass_that_was_not_made_is_no_success(self):
        self.netcfg("--once")
        lock = open(self.host.path(f"{RUNTIME}/lock"), "rb")
        self.addCleanup(lock.close)
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = self.netcfg("--once", code=2)
        self.assertIn("another tpu-netcfg", done.stderr)
        self.assertEqual(done.stdout, "")

    def test_show_and_check_config(self):
        shown = self.netcfg("--show-config").stdout
        self.assertRegex(shown, r"# from /etc/tpu-hostd/identity.conf.d/\S+\nMtu = 8896\n")
        self.assertIn("# from default\nMode = repair\n", shown)
        self.netcfg("--check-config")
        self.host.identity("[Identity]\nAcceleratorType=v9x-16\n[Network]\nMtu=9000\n")
        done = self.netcfg("--check-config", code=1)
        self.assertIn("Mtu=9000: must be from 1300 to 8896", done.stderr)
        self.assertIn("there is no profile for v9x-16", done.stderr)
        self.assertEqual(self.state(), self.before)

    def test_usage(self):
        for words in (["--once", "--restore"], ["--json"], ["--nonsense"], ["word"],
                      ["--root", "/tmp", "--once"],
                      ["--once", "--check-config"], ["--show-config", "--json"]):
            self.netcfg(*words, code=64)


class NoTpu(Case):
    """A machine without TPUs is not changed at all, though its network carries 8896, unless its site says
    in words what it wants."""

    def setUp(self):
        super().setUp()
        self.host.identity("[Network]\nMtu=8896\n")
        self.all = self.everything()

    def everything(self):
        """All settings of the network, as others read them; not what the kernel itself does with a new
        NIC's addresses meanwhile."""
        commands = (["sysctl", "-a", "--pattern", r"^net\."], ["ip", "-d", "link"], ["ip", "rule"],
                    ["ip", "-6", "rule"], ["ip", "-d", "route", "show", "table", "all"],
                    ["ethtool", "-k", "eth0"], ["ethtool", "-k", "eth1"])
        own = ("expires", "_probe_", "fe80:", "ff00:")
        return [sorted(line for line in self.host.run(*c).stdout.splitlines()
                       if not any(word in line for word in own)) for c in commands]

    def test_nothing_is_planned(self):
        done = self.netcfg("--dry-run")
        self.assertEqual(done.stdout.splitlines()[0], "Nothing to change: no TPU is in /sys/bus/pci, and "
                                                      "the site names no profile: nothing is set here.")
        self.assertEqual(json.loads(self.netcfg("--dry-run", "--json").stdout)["plan"], [])
        self.netcfg("--check-config")
        self.assertEqual(self.everything(), self.all)

    def test_nothing_is_changed(self):
        done = self.netcfg("--once")
        self.assertIn("no TPU is in /sys/bus/pci", done.stderr)
        self.assertEqual(self.everything(), self.all)
        self.netcfg("--restore")
        self.netcfg("--parameters")
        self.assertEqual(self.everything(), self.all)

    def test_nothing_is_repaired(self):
        daemon = self.start()
        self.assertIn("none", self.report())
        self.host.check("ip", "link", "set", "eth0", "mtu", "1400")
        time.sleep(1)
        self.assertEqual((self.host.mtu("eth0"), self.host.mtu("eth1")), (1400, 1460))
        self.host.check("ip", "link", "set", "eth0", "mtu", "1460")
        self.assertEqual(self.host.stop(daemon), 0)
        self.assertEqual(self.everything(), self.all)

    def test_a_profile_that_the_site_names(self):
        self.host.identity("[Network]\nMtu=8896\n[Identity]\nAcceleratorType=v6e-16\n")
        self.netcfg("--once")
        self.assertEqual(self.state(), (RMEM, 8896, 8896))


class Parameters(Case):
    """The parameter of a module, which root alone may write. It is a file of the test's own here."""
    FILE = "/sys/module/tcp_cubic/parameters/hystart_detect"

    def setUp(self):
        super().setUp()
        self.set("3")

    def set(self, value):
        self.host.check("sh", "-c", f"echo {value} >{self.FILE}")

    def value(self):
        return self.host.check("cat", self.FILE).strip()

    def test_the_units_start_sets_it_and_nothing_else(self):
        self.give_runtime()
        self.assertIn("parameter tcp_cubic.hystart_detect: 3 → 2", self.netcfg("--parameters").stderr)
        self.assertEqual((self.value(), self.state()), ("2", self.before))
        self.netcfg("--parameters", "--json", code=64)
        self.netcfg("--restore")
        self.assertEqual(self.value(), "3")
        self.netcfg("--parameters")  # the unit's next start leaves alone what a person restored
        self.assertEqual(self.value(), "3")

    def test_the_daemon_leaves_it_to_root_and_root_brings_it_back(self):
        daemon = self.start()
        self.assertIn("tcp_cubic.hystart_detect", self.report())
        self.assertEqual((self.value(), self.host.mtu("eth0")), ("3", 8896))
        self.host.stop(daemon)
        self.netcfg("--once")
        self.assertEqual(self.value(), "2")
        self.netcfg("--restore")
        self.assertEqual((self.value(), self.state()), ("3", self.before))

    def test_not_where_it_is_not_wanted(self):
        self.host.netcfg_conf("[Netcfg]\nMode=observe\n")
        self.netcfg("--parameters")
        self.host.netcfg_conf("[Netcfg]\nIgnoreSettings=tcp_cubic.*\n")
        self.netcfg("--parameters")
        self.host.netcfg_conf("")
        self.host.identity("")  # no TPU
        self.netcfg("--parameters")
        self.assertEqual(self.value(), "3")

    def test_originals_name_no_other_module(self):
        self.netcfg("--once")
        self.host.check("sed", "-i", "s/tcp_cubic/kvm/", f"{RUNTIME}/originals")
        self.assertIn("damaged", self.netcfg("--restore", code=2).stderr)


class Rights(Case):
    def assert_refused(self, done, subject):
        self.assertIn(subject, done.stderr)
        self.assertIn("nothing was changed", done.stderr)
        self.assertEqual(self.state(), self.before)
        self.assertFalse(os.path.exists(self.host.path(f"{RUNTIME}/originals")))

    def test_net_admin_of_an_own_user_is_enough(self):
        self.give_runtime()
        self.netcfg("--once", prefix=NET_ADMIN_ONLY)
        self.assertEqual(self.state(), (RMEM, 8896, 8896))
        self.netcfg("--restore", prefix=NET_ADMIN_ONLY)
        self.assertEqual(self.state(), self.before)

    def test_without_rights(self):
        self.give_runtime()
        self.assert_refused(self.netcfg("--once", code=2, prefix=NO_RIGHTS), "net.ipv4.tcp_rmem")
        self.assert_refused(self.netcfg(code=2, prefix=NO_RIGHTS), "net.ipv4.tcp_rmem")  # the daemon

    def test_root_without_net_admin_sets_no_sysctl_either(self):
        without = ["setpriv", "--bounding-set=-net_admin", "--inh-caps=-net_admin"]
        self.assert_refused(self.netcfg("--once", code=2, prefix=without), "feature of eth0 tx-nocache-copy")

    def test_read_only_sysctls_leave_the_mtu_alone(self):
        self.host.check("mount", "--bind", "/proc/sys", "/proc/sys")
        self.host.check("mount", "-o", "remount,bind,ro", "/proc/sys")
        self.assert_refused(self.netcfg("--once", code=2), "net.ipv4.tcp_rmem")


class Network1460(Case):
    network_mtu = 1460

    def test_is_never_exceeded(self):
        done = self.netcfg("--once", code=2)
        self.assertEqual(self.state(), (RMEM, 1460, 1460))
        self.assertIn("the network carries 1460", done.stdout)
        self.assertIn("--mtu=8896", done.stdout)

    def test_a_nic_above_it_is_lowered(self):
        self.host.check("ip", "link", "set", "eth0", "mtu", "8896")
        self.netcfg("--once", code=2)
        self.assertEqual(self.host.mtu("eth0"), 1460)


class NetworkNotKnown(Case):
    network_mtu = None

    def test_no_mtu_is_touched(self):
        done = self.netcfg("--once", code=3)
        self.assertEqual(self.state(), (RMEM, 1460, 1460))
        self.assertIn("identity.conf.d", done.stdout)


class Routes(Case):
    """Kernels before 6.11: the least retransmission time is each route's own."""

    def setUp(self):
        super().setUp()
        self.host.netcfg_conf("[Netcfg]\nRtoMin=routes\nSourceRouting=no\n")
        self.host.on_wire("ip", "addr", "add", "10.10.0.1/24", "dev", "p-eth0")
        for words in (["addr", "add", "10.10.0.10/24", "dev", "eth0"],
                      ["addr", "add", "10.10.1.10/24", "dev", "eth1"],
                      ["-6", "addr", "add", "fd00::10/64", "dev", "eth0", "nodad"],
                      ["route", "add", "default", "via", "10.10.0.1"],
                      ["route", "add", "10.20.0.0/16", "via", "10.10.1.1", "metric", "77", "mtu", "lock",
                       "1400"],
                      ["-6", "route", "add", "default", "via", "fd00::1"],
                      ["route", "add", "10.30.0.0/16", "nexthop", "via", "10.10.0.1", "nexthop", "via",
                       "10.10.1.1", "weight", "3"],
                      ["link", "add", "br0", "type", "bridge"], ["link", "set", "br0", "up"],
                      ["addr", "add", "10.99.0.1/24", "dev", "br0"],
                      ["route", "add", "10.98.0.0/24", "dev", "br0"]):
            self.host.check("ip", *words)

    def routes(self):
        return "".join(line.strip() + "\n" for family in "46"
                       for line in self.host.check("ip", f"-{family}", "route").splitlines()
                       if "fe80::" not in line)

    def right(self, text):
        return [line for line in text.splitlines() if "rto_min lock 5ms" in line]

    def test_every_data_route_and_no_other_and_back(self):
        before = self.routes()
        self.netcfg("--once", code=1)  # route.mtu warns of the one with mtu 1400
        after = self.routes()
        self.assertEqual(len(self.right(after)), 7, after)
        self.assertNotIn("rto_min", "".join(line for line in after.splitlines() if "br0" in line))
        self.assertIn("metric 77 mtu lock 1400 rto_min lock 5ms", after)
        self.assertEqual(after.replace(" rto_min lock 5ms", ""), before)
        self.assertEqual(json.loads(self.netcfg("--once", "--json", code=1).stdout)["plan"], [])
        self.netcfg("--restore")
        self.assertEqual(self.routes(), before)
        self.assertEqual(self.state(), self.before)

    def test_kept_when_a_dhcp_client_replaces_a_route(self):
        self.start()
        for words in (["route", "replace", "default", "via", "10.10.0.1", "proto", "dhcp"],
                      ["-6", "route", "replace", "default", "via", "fd00::1"],
                      ["route", "add", "10.40.0.0/16", "via", "10.10.1.1"]):
            self.host.check("ip", *words)
            self.wait_for(lambda: len(self.right(self.routes())),
                          len([line for line in self.routes().splitlines() if "br0" not in line
                               and "nexthop" not in line]))
        self.assertIn("default via 10.10.0.1 dev eth0 proto dhcp rto_min lock 5ms", self.routes())

    def test_one_with_a_gateway_that_is_beside_no_nic_any_more(self):
        """The kernel refuses it with the error that is also ours for a gateway that does not answer."""
        self.host.check("ip", "addr", "del", "10.10.1.10/24", "dev", "eth1")
        findings = json.loads(self.netcfg("--once", "--json", code=2).stdout)["findings"]
        self.assertEqual([f["reason"] for f in findings if f["subject"].startswith("10.30.0.0/16 ")],
                         ["could not be set: Network is unreachable"])

    def test_a_route_with_a_lifetime_is_left_alone_and_said(self):
        self.host.check("ip", "-6", "route", "add", "fd00:9::/64", "via", "fd00::1", "expires", "1000")
        self.assertIn("would lose its lifetime", self.netcfg("--once", code=1).stdout)
        self.assertIn("expires", self.host.check("ip", "-6", "route", "show", "fd00:9::/64"))


if __name__ == "__main__":
    run_tests(NETCFG)
