#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""tpu-netcfg in network namespaces of its own, beside what ip and /proc say. Needs root; exit code 77 (skipped, with
the reason) where namespaces are not permitted. The programs are those of BUILD_DIR (build/dev)."""
import fcntl
import json
import os
import signal
import subprocess
import sys
import time
import unittest

from namespace import NET_ADMIN_ONLY, NO_RIGHTS, Host, NotPermitted

SOURCE = os.path.realpath(os.path.join(os.path.dirname(__file__), "../.."))
NETCFG = os.path.join(os.path.realpath(os.environ.get("BUILD_DIR", os.path.join(SOURCE, "build/dev"))), "netcfg/tpu-netcfg")
RMEM = "4096 41943040 314572800"
SYSCTLS = {"net.ipv4.tcp_slow_start_after_idle": "0", "net.ipv4.tcp_no_metrics_save": "1", "net.core.somaxconn": "4096",
           "net.ipv4.tcp_max_syn_backlog": "4096", "net.ipv4.tcp_mtu_probing": "0"}
RUNTIME = "/run/tpu-netcfg"
KIND_ERROR, KIND_REPORT_REQUEST, KIND_REPORT = 1, 10, 11

# Lowers the MTU of each NIC named, one after the other, and prints how many milliseconds until it is back.
DRIFT = """
import fcntl, socket, struct, sys, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
def mtu(nic):
    return struct.unpack('16sI', fcntl.ioctl(s, 0x8921, struct.pack('16sI', nic.encode(), 0))[:20])[1]
for nic in sys.argv[2:]:
    start = time.monotonic()
    fcntl.ioctl(s, 0x8922, struct.pack('16sI', nic.encode(), int(sys.argv[1])))
    while mtu(nic) != 8896 and time.monotonic() < start + 5:
        pass
    print(f'{(time.monotonic() - start) * 1000:.2f}' if mtu(nic) == 8896 else 'never')
"""

# Turns each sysctl named from 0 to 1 or back, and prints how many milliseconds until it is as before.
SYSCTL_DRIFT = """
import sys, time
for name in sys.argv[1:]:
    path = '/proc/sys/' + name.replace('.', '/')
    wanted = open(path).read().strip()
    start = time.monotonic()
    open(path, 'w').write('10'[int(wanted)])
    while open(path).read().strip() != wanted and time.monotonic() < start + 2:
        pass
    print(f'{(time.monotonic() - start) * 1000:.2f}' if open(path).read().strip() == wanted else 'never')
"""

# Turns the feature of each NIC named off, by ioctl, and prints how many milliseconds until it is on again.
FEATURE_DRIFT = """
import array, fcntl, socket, struct, sys, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
def ethtool(nic, data):
    buffer = array.array('B', data)
    fcntl.ioctl(s, 0x8946, struct.pack('16sP8x', nic.encode(), buffer.buffer_info()[0]))
    return buffer.tobytes()
GSTRINGS, GFEATURES, SFEATURES, FEATURES = 0x1b, 0x3a, 0x3b, 4
names = ethtool('lo', struct.pack('III', GSTRINGS, FEATURES, 0) + bytes(8192))[12:]
bit = [names[i:i + 32].rstrip(bytes(1)) for i in range(0, 4096, 32)].index(sys.argv[1].encode())
def active(nic):
    data = ethtool(nic, struct.pack('II', GFEATURES, 2) + bytes(32))
    return struct.unpack_from('II', data, 8 + 16 * (bit // 32) + 4)[1] >> bit % 32 & 1
for nic in sys.argv[2:]:
    assert active(nic)
    blocks = [(1 << bit % 32 if n == bit // 32 else 0, 0) for n in range(2)]
    start = time.monotonic()
    ethtool(nic, struct.pack('II', SFEATURES, 2) + b''.join(struct.pack('II', *b) for b in blocks))
    while not active(nic) and time.monotonic() < start + 2:
        pass
    print(f'{(time.monotonic() - start) * 1000:.2f}' if active(nic) else 'never')
"""


def new_host(network_mtu=8896, **arguments):
    host = Host(os.path.join(SOURCE, "netcfg/profiles"), **arguments)
    network = f"[Network]\nMtu={network_mtu}\n" if network_mtu else ""
    host.identity(f"[Identity]\nAcceleratorType=v6e-16\n{network}")
    return host


class Case(unittest.TestCase):
    network_mtu = 8896

    def setUp(self):
        self.host = new_host(self.network_mtu)
        self.addCleanup(self.host.close)
        self.before = self.state()

    def state(self):
        return self.host.sysctl("net.ipv4.tcp_rmem"), self.host.mtu("eth0"), self.host.mtu("eth1")

    def netcfg(self, *words, code=0, prefix=()):
        done = self.host.run(*prefix, NETCFG, *words)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done

    def wait_for(self, what, wanted, seconds=5):
        end = time.monotonic() + seconds
        while what() != wanted and time.monotonic() < end:
            time.sleep(0.01)
        self.assertEqual(what(), wanted)


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

    def test_a_sysctl_that_no_one_may_write_is_said_and_stops_nothing(self):
        self.host.site_profile("v6e", "[Sysctl net.core.rmem_max]\nValue=1\nSource=a test\n[Mtu]\nValue=8896\nSource=a test\n")
        done = self.netcfg("--once", code=3)
        self.assertEqual((self.host.mtu("eth0"), self.host.mtu("eth1")), (8896, 8896))
        self.assertIn("read-only in this network namespace", done.stdout)

    def test_a_sysctl_of_another_kernel_is_said_and_stops_nothing(self):
        self.host.site_profile("v6e", "[Sysctl net.ipv4.tcp_of_tomorrow]\nValue=1\nSource=a test\n[Mtu]\nValue=8896\nSource=a test\n")
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

    def test_damaged_originals_stop_everything(self):
        self.host.check("mkdir", RUNTIME)
        self.host.check("sh", "-c", f"printf 'tpu-netcfg-originals 1\\nnonsense\\n' > {RUNTIME}/originals")
        done = self.netcfg("--once", code=2)
        self.assertIn(f"{RUNTIME}/originals:2", done.stderr)
        self.assertEqual(self.state(), self.before)
        self.assertIn(f"{RUNTIME}/originals:2", self.netcfg("--restore", code=2).stderr)

    def test_root_gives_no_file_away(self):
        """The directory is the daemon's user's: what it put there for the lock is not made its own by root."""
        self.host.check("sh", "-c", f"install -d -o 65534 -g 65534 {RUNTIME}; install -m 600 /dev/null /run/roots; ln /run/roots {RUNTIME}/lock")
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
        self.assertIn("Mtu=9000: the MTU of a network is between 1300 and 8896", done.stderr)
        self.assertIn("there is no profile for v9x-16", done.stderr)
        self.assertEqual(self.state(), self.before)

    def test_usage(self):
        for words in (["--once", "--restore"], ["--json"], ["--nonsense"], ["word"], ["--root", "/tmp", "--once"],
                      ["--once", "--check-config"], ["--show-config", "--json"]):
            self.netcfg(*words, code=64)


class Rights(Case):
    def assert_refused(self, done, subject):
        self.assertIn(subject, done.stderr)
        self.assertIn("nothing was changed", done.stderr)
        self.assertEqual(self.state(), self.before)
        self.assertFalse(os.path.exists(self.host.path(f"{RUNTIME}/originals")))

    def test_net_admin_of_an_own_user_is_enough(self):
        self.host.check("install", "-d", "-o", "65534", "-g", "65534", RUNTIME)
        self.netcfg("--once", prefix=NET_ADMIN_ONLY)
        self.assertEqual(self.state(), (RMEM, 8896, 8896))
        self.netcfg("--restore", prefix=NET_ADMIN_ONLY)
        self.assertEqual(self.state(), self.before)

    def test_without_rights(self):
        self.host.check("install", "-d", "-o", "65534", "-g", "65534", RUNTIME)
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
        self.assertIn("gcloud compute networks update NETWORK --mtu=8896", done.stdout)

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
        for words in (["addr", "add", "10.10.0.10/24", "dev", "eth0"], ["addr", "add", "10.10.1.10/24", "dev", "eth1"],
                      ["-6", "addr", "add", "fd00::10/64", "dev", "eth0", "nodad"], ["route", "add", "default", "via", "10.10.0.1"],
                      ["route", "add", "10.20.0.0/16", "via", "10.10.1.1", "metric", "77", "mtu", "lock", "1400"],
                      ["-6", "route", "add", "default", "via", "fd00::1"],
                      ["route", "add", "10.30.0.0/16", "nexthop", "via", "10.10.0.1", "nexthop", "via", "10.10.1.1", "weight", "3"],
                      ["link", "add", "br0", "type", "bridge"], ["link", "set", "br0", "up"], ["addr", "add", "10.99.0.1/24", "dev", "br0"],
                      ["route", "add", "10.98.0.0/24", "dev", "br0"]):
            self.host.check("ip", *words)

    def routes(self):
        return "".join(line.strip() + "\n" for family in "46" for line in self.host.check("ip", f"-{family}", "route").splitlines()
                       if "fe80::" not in line)

    def right(self, text):
        return [line for line in text.splitlines() if "rto_min lock 5ms" in line]

    def test_every_data_route_and_no_other_and_back(self):
        before = self.routes()
        self.netcfg("--once")
        after = self.routes()
        self.assertEqual(len(self.right(after)), 7, after)
        self.assertNotIn("rto_min", "".join(line for line in after.splitlines() if "br0" in line))
        self.assertIn("metric 77 mtu lock 1400 rto_min lock 5ms", after)
        self.assertEqual(after.replace(" rto_min lock 5ms", ""), before)
        self.assertEqual(json.loads(self.netcfg("--once", "--json").stdout)["plan"], [])
        self.netcfg("--restore")
        self.assertEqual(self.routes(), before)
        self.assertEqual(self.state(), self.before)

    def test_kept_when_a_dhcp_client_replaces_a_route(self):
        self.host.check("install", "-d", "-o", "65534", "-g", "65534", RUNTIME)
        self.host.start(*NET_ADMIN_ONLY, NETCFG)
        for words in (["route", "replace", "default", "via", "10.10.0.1", "proto", "dhcp"],
                      ["-6", "route", "replace", "default", "via", "fd00::1"], ["route", "add", "10.40.0.0/16", "via", "10.10.1.1"]):
            self.host.check("ip", *words)
            self.wait_for(lambda: len(self.right(self.routes())), len([line for line in self.routes().splitlines() if "br0" not in line and "nexthop" not in line]))
        self.assertIn("default via 10.10.0.1 dev eth0 proto dhcp rto_min lock 5ms", self.routes())

    def test_a_route_with_a_lifetime_is_left_alone_and_said(self):
        self.host.check("ip", "-6", "route", "add", "fd00:9::/64", "via", "fd00::1", "expires", "1000")
        self.assertIn("would lose its lifetime", self.netcfg("--once", code=1).stdout)
        self.assertIn("expires", self.host.check("ip", "-6", "route", "show", "fd00:9::/64"))


class NicSettings(Case):
    """Features and packet sizes, as ethtool(8) and ip(8) see them."""
    NOCACHE = "tx-nocache-copy"

    def features(self, nic):
        lines = self.host.check("ethtool", "-k", nic).splitlines()[1:]
        return dict(line.strip().split(": ") for line in lines)

    def sizes(self, nic):
        """This ip may be too old to know those of IPv4: all by name from its details."""
        words = self.host.check("ip", "-d", "link", "show", nic).split()
        return {name: int(words[words.index(name) + 1]) for name in ("gso_max_size", "gro_max_size")}

    def daemon(self):
        self.host.check("install", "-d", "-o", "65534", "-g", "65534", RUNTIME)
        return self.host.start(*NET_ADMIN_ONLY, NETCFG)

    def report(self):
        return self.host.ask(f"{RUNTIME}/netcfg.sock", KIND_REPORT_REQUEST)[1].decode(errors="replace")

    def drift(self, *nics):
        return self.host.check("/usr/bin/python3", "-c", FEATURE_DRIFT, self.NOCACHE, *nics).split()

    def findings(self, *words, code=0):
        done = json.loads(self.netcfg(*words, "--json", code=code).stdout)
        return {(f["check"], f["subject"]): f for f in done["findings"]}

    def test_set_on_every_nic_and_no_other_feature_changes(self):
        before = self.features("eth0")
        self.assertEqual(before[self.NOCACHE], "off")
        findings = self.findings("--once")
        for nic in ("eth0", "eth1"):
            self.assertEqual(self.features(nic), {**before, self.NOCACHE: "on"})
            self.assertEqual(findings["nic.feature", f"{nic} {self.NOCACHE}"]["found"], "on")

    def test_restored_after_a_rename(self):
        for name, value in (("gso_max_size", "30000"), ("gro_max_size", "20000")):
            self.host.check("ip", "link", "set", "eth1", name, value)
        before = self.features("eth0"), self.features("eth1"), self.sizes("eth1")
        self.netcfg("--once")
        self.assertEqual(self.sizes("eth1"), {"gso_max_size": 65536, "gro_max_size": 65536})
        with open(self.host.path(f"{RUNTIME}/originals"), encoding="utf-8") as file:
            self.assertIn(" off tx-nocache-copy\n", file.read())
        self.host.check("ip", "link", "set", "eth1", "down")
        self.host.check("ip", "link", "set", "eth1", "name", "dcn1")
        self.netcfg("--restore")
        self.assertEqual((self.features("eth0"), self.features("dcn1"), self.sizes("dcn1")), before)

    def test_the_limit_of_ipv4_stays_when_that_of_all_is_set(self):
        def ipv4():
            return [f["found"] for (check, nic), f in self.findings("--dry-run", code=2).items()
                    if nic == "eth0" and check == "nic.gso_ipv4_max_size"]

        self.host.netcfg_conf("[Netcfg]\nIgnoreSettings=gro_*\n")
        self.host.check("ip", "link", "set", "eth0", "gso_max_size", "30000")  # the kernel's IPv4 limit follows
        if ipv4() == ["not offered by this kernel"]:
            self.skipTest("this kernel has one limit for all families")
        self.assertEqual(ipv4(), ["30000"])
        self.netcfg("--once")
        self.host.check("ip", "link", "set", "eth0", "mtu", "1460")
        self.assertEqual(ipv4(), ["65536"])
        self.netcfg("--restore")
        self.assertEqual((self.sizes("eth0")["gso_max_size"], ipv4()), (30000, ["30000"]))

    def test_what_a_driver_does_not_offer_is_no_fault(self):
        self.host.site_profile("v6e", "[Feature rx-lro]\nValue=on\nSource=a test\n"
                                      "[PrivateFlag gve some-flag]\nValue=on\nSource=a test\n"
                                      "[Feature tx-of-tomorrow]\nValue=on\nSource=a test\n"
                                      "[Link gso_max_size]\nValue=524280\nSource=a test\n")
        self.host.identity("[Identity]\nAcceleratorType=v6e-16\n[Network]\nMtu=1460\n")
        findings = self.findings("--once", code=3)
        self.assertEqual(findings["nic.feature", "eth0 rx-lro"]["verdict"], "OK")
        self.assertIn("off, fixed by veth", findings["nic.feature", "eth0 rx-lro"]["found"])
        self.assertEqual(findings["nic.feature", "eth0 tx-of-tomorrow"]["verdict"], "UNKNOWN")
        self.assertNotIn(("nic.private_flag", "eth0 some-flag"), findings)  # gve's, and this is none
        self.assertEqual(findings["nic.gso_max_size", "eth1"]["found"], "524280")

    def test_a_feature_that_the_kernel_holds_back(self):
        self.host.check("ethtool", "-K", "eth0", "tx-tcp-segmentation", "off")
        self.host.check("ethtool", "-K", "eth0", "tx-checksum-ip-generic", "off")
        self.host.run("ethtool", "-K", "eth0", "tx-tcp-segmentation", "on")  # it says that it could not: the kernel keeps the wish
        self.host.site_profile("v6e", "[Feature tx-tcp-segmentation]\nValue=on\nSource=a test\n")
        found = self.findings("--once", code=1)["nic.feature", "eth0 tx-tcp-segmentation"]
        self.assertEqual((found["verdict"], found["found"]), ("WARN", "off"))
        self.assertIn("another feature that it needs", found["reason"])

    def test_left_alone_where_the_site_says_so_and_when_observing(self):
        before = self.features("eth0")
        self.host.netcfg_conf("[Netcfg]\nIgnoreSettings=tx-nocache-*\n")
        self.assertNotIn(("nic.feature", f"eth0 {self.NOCACHE}"), self.findings("--once"))
        self.assertEqual(self.features("eth0"), before)
        self.host.netcfg_conf("[Netcfg]\nMode=observe\n")
        found = self.findings("--once", code=2)["nic.feature", f"eth0 {self.NOCACHE}"]
        self.assertEqual((found["verdict"], found["found"], found["wanted"]), ("FAIL", "off", "on"))
        self.assertEqual(self.features("eth0"), before)

    def test_no_right_changes_nothing(self):
        before = self.features("eth0"), self.state()
        self.host.check("install", "-d", "-o", "65534", "-g", "65534", RUNTIME)
        self.netcfg("--once", code=2, prefix=NO_RIGHTS)
        self.assertEqual((self.features("eth0"), self.state()), before)

    def test_repaired_at_once_with_one_write(self):
        self.daemon()
        times = self.drift("eth0", "eth1", "eth0")
        print(f"feature drift to repair: {', '.join(times)} ms", file=sys.stderr)
        self.assertNotIn("never", times)
        self.host.check("ethtool", "-K", "eth1", self.NOCACHE, "off")  # over netlink this time
        self.wait_for(lambda: self.features("eth1")[self.NOCACHE], "on")
        time.sleep(0.3)  # our own writes are told on the same socket: none may lead to another
        self.assertEqual(self.host.stderr().count(f"eth1 {self.NOCACHE}: off → on"), 3)  # the first pass, and two

    def test_a_flap_and_a_new_nic(self):
        self.daemon()
        self.host.check("ip", "link", "set", "eth0", "down")
        self.host.check("ethtool", "-K", "eth0", self.NOCACHE, "off")
        self.host.check("ip", "link", "set", "eth0", "up")
        self.wait_for(lambda: self.features("eth0")[self.NOCACHE], "on")
        self.host.add_nic("eth2", 1460)
        self.wait_for(lambda: self.features("eth2")[self.NOCACHE], "on")

    def test_a_fight_is_left_alone(self):
        self.daemon()
        self.assertEqual([t for _ in range(2) for t in self.drift("eth0") if t == "never"], [])
        self.assertEqual(self.drift("eth0"), ["never"])
        self.assertIn("contested", self.report())
        self.assertEqual(self.features("eth1")[self.NOCACHE], "on")
        self.assertNotIn("never", self.drift("eth1"))

    def test_other_notifications_wake_nobody(self):
        daemon = self.daemon()

        def reads():
            with open(f"/proc/{daemon.pid}/io", encoding="ascii") as file:
                return [line for line in file if line.startswith("syscr")]

        quiet = 0
        for count in "212121":  # a link has events of its own, of which some come late: not every time
            time.sleep(0.3)
            before = reads()
            self.host.check("ethtool", "-L", "eth0", "rx", count)
            time.sleep(0.3)
            quiet += reads() == before
        self.assertGreater(quiet, 2)
        self.host.check("ethtool", "-K", "eth0", "rx-gro", "on")
        self.wait_for(lambda: reads() != before, True)


class Gateway(Case):
    """The NIC of the only default route: no change that costs the host its gateway stays."""

    def setUp(self):
        super().setUp()
        self.host.on_wire("ip", "addr", "add", "10.10.0.1/24", "dev", "p-eth0")
        self.host.check("ip", "addr", "add", "10.10.0.10/24", "dev", "eth0")
        self.host.check("ip", "route", "add", "default", "via", "10.10.0.1")

    def lose_the_gateway_after(self, answers):
        self.host.on_wire("nft", f"add table arp t; add chain arp t i {{ type filter hook input priority 0; }}; "
                                 f"add rule arp t i arp operation request limit rate over 1/day burst {answers} packets drop")

    def neighbour(self):
        return self.host.check("ip", "neigh", "show", "10.10.0.1", "dev", "eth0")

    def test_one_that_answers(self):
        start = time.monotonic()
        self.netcfg("--once")
        self.assertEqual(self.state(), (RMEM, 8896, 8896))
        self.assertIn("REACHABLE", self.neighbour())
        self.assertLess(time.monotonic() - start, 1)

    def test_one_that_is_known_and_stale(self):
        mac = json.loads(subprocess.run(["nsenter", "-t", str(self.host.wire.pid), "-n", "ip", "-j", "link", "show", "p-eth0"],
                                        check=True, capture_output=True).stdout)[0]["address"]
        self.host.check("ip", "neigh", "replace", "10.10.0.1", "lladdr", mac, "dev", "eth0", "nud", "stale")
        self.netcfg("--once")
        self.assertIn("REACHABLE", self.neighbour())
        self.assertEqual(self.state(), (RMEM, 8896, 8896))

    def test_one_of_ipv6(self):
        self.host.check("ip", "route", "del", "default")
        self.host.on_wire("ip", "addr", "add", "fd00::1/64", "dev", "p-eth0", "nodad")
        self.host.check("ip", "addr", "add", "fd00::10/64", "dev", "eth0", "nodad")
        self.host.check("ip", "-6", "route", "add", "default", "via", "fd00::1")
        # The kernel solicits from a link-local address only, and only once no one else turned out to have it.
        self.wait_for(lambda: self.host.check("ip", "-6", "addr", "show", "tentative"), "")
        self.netcfg("--once")
        self.assertIn("REACHABLE", self.host.check("ip", "neigh", "show", "fd00::1", "dev", "eth0"))
        self.assertEqual(self.state(), (RMEM, 8896, 8896))

    def test_one_that_does_not_answer_before(self):
        self.host.on_wire("ip", "link", "set", "p-eth0", "arp", "off")
        done = self.netcfg("--once", code=2)
        self.assertEqual((self.host.mtu("eth0"), self.host.mtu("eth1")), (1460, 8896))
        self.assertIn("does not answer, so a change could not be verified", done.stdout)

    def test_one_that_does_not_answer_after(self):
        self.lose_the_gateway_after(1)
        done = self.netcfg("--once", code=2)
        self.assertEqual((self.host.mtu("eth0"), self.host.mtu("eth1")), (1460, 8896))
        self.assertIn("taken back", done.stdout)
        self.assertIn("MTU of eth0: 1460 → 8896 was taken back", done.stderr)

    def test_the_daemon_tries_it_once(self):
        self.lose_the_gateway_after(1)
        self.host.check("install", "-d", "-o", "65534", "-g", "65534", RUNTIME)
        self.host.start(*NET_ADMIN_ONLY, NETCFG)
        with self.host.monitor_links() as events:
            self.host.check("ip", "link", "set", "eth1", "mtu", "1460")
            self.wait_for(lambda: self.host.mtu("eth1"), 8896)
        self.assertEqual([line for line in events if " eth0" in line], [])
        self.assertEqual(self.host.mtu("eth0"), 1460)

    def test_with_another_default_route_nothing_is_asked(self):
        self.host.on_wire("ip", "link", "set", "p-eth0", "arp", "off")
        self.host.check("ip", "addr", "add", "10.10.1.10/24", "dev", "eth1")
        self.host.check("ip", "route", "add", "default", "via", "10.10.1.1", "metric", "9")
        self.netcfg("--once")
        self.assertEqual(self.state(), (RMEM, 8896, 8896))


class Daemon(Case):
    def setUp(self):
        super().setUp()
        self.host.check("install", "-d", "-o", "65534", "-g", "65534", RUNTIME)

    def start(self):
        return self.host.start(*NET_ADMIN_ONLY, NETCFG)

    def report(self):
        kind, payload = self.host.ask(f"{RUNTIME}/netcfg.sock", KIND_REPORT_REQUEST)
        self.assertEqual(kind, KIND_REPORT)
        return payload.decode(errors="replace")

    def test_applies_repairs_and_stops(self):
        daemon = self.start()
        self.assertEqual(self.state(), (RMEM, 8896, 8896))
        times = self.host.check("/usr/bin/python3", "-c", DRIFT, "1460", "eth0", "eth1").split()
        print(f"drift to repair: {', '.join(times)} ms", file=sys.stderr)
        self.assertNotIn("never", times)
        self.assertIn("repair", self.report())
        self.assertEqual(self.host.ask(f"{RUNTIME}/netcfg.sock", 20)[0], KIND_ERROR)
        self.assertEqual(self.host.stop(daemon), 0)
        self.assertEqual(self.state(), (RMEM, 8896, 8896))

    def test_a_sysctl_is_repaired_at_once(self):
        self.start()
        times = self.host.check("/usr/bin/python3", "-c", SYSCTL_DRIFT, *list(SYSCTLS)[:2]).split()
        print(f"sysctl drift to repair: {', '.join(times)} ms", file=sys.stderr)
        self.assertNotIn("never", times)

    def test_a_fight_over_a_sysctl_is_left_alone(self):
        self.start()
        for _ in range(2):
            self.assertNotIn("never", self.host.check("/usr/bin/python3", "-c", SYSCTL_DRIFT, "net.ipv4.tcp_no_metrics_save"))
        self.assertIn("never", self.host.check("/usr/bin/python3", "-c", SYSCTL_DRIFT, "net.ipv4.tcp_no_metrics_save"))
        self.assertIn("contested", self.report())

    def test_a_new_nic_is_set(self):
        self.start()
        self.host.add_nic("eth2", 1460)
        self.wait_for(lambda: self.host.mtu("eth2"), 8896)

    def test_a_fight_is_left_alone(self):
        self.start()
        for _ in range(2):
            self.assertNotIn("never", self.host.check("/usr/bin/python3", "-c", DRIFT, "1400", "eth0"))
        self.host.check("ip", "link", "set", "eth0", "mtu", "1400")
        time.sleep(1)
        self.assertEqual(self.host.mtu("eth0"), 1400)
        self.assertIn("contested", self.report())
        self.assertEqual(self.host.stderr().count("is contested"), 1)
        self.assertNotIn("never", self.host.check("/usr/bin/python3", "-c", DRIFT, "1400", "eth1"))  # others are still repaired

    def test_sigkill_leaves_the_settings_and_a_restart_the_originals(self):
        self.assertEqual(self.host.stop(self.start(), signal.SIGKILL), -signal.SIGKILL)
        self.assertEqual(self.state(), (RMEM, 8896, 8896))
        daemon = self.start()
        self.assertIn("repair", self.report())
        self.assertEqual(self.host.stop(daemon), 0)
        self.netcfg("--restore")
        self.assertEqual(self.state(), self.before)

    def test_steps_aside_after_restore_until_once(self):
        daemon = self.start()
        self.netcfg("--restore")
        time.sleep(0.5)
        self.assertEqual(self.state(), self.before)
        self.assertIn("restored by hand", self.report())
        self.host.stop(daemon)
        self.start()  # a restart does not end it
        self.assertEqual(self.state(), self.before)
        self.netcfg("--once")
        self.assertEqual(self.state(), (RMEM, 8896, 8896))
        self.assertNotIn("never", self.host.check("/usr/bin/python3", "-c", DRIFT, "1460", "eth0"))

    def test_many_link_events(self):
        self.start()
        self.host.check("sh", "-c", "for i in $(seq 500); do ip link set eth1 alias $i; done; ip link set eth0 mtu 1460")
        self.wait_for(lambda: self.host.mtu("eth0"), 8896)


if __name__ == "__main__":
    if not os.access(NETCFG, os.X_OK):
        sys.exit(f"{NETCFG} is missing: build first, or set BUILD_DIR")
    try:
        new_host().close()
    except NotPermitted as refused:
        print(f"SKIP: {refused}")
        sys.exit(77)
    unittest.main(verbosity=2)
