#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""tpu-netcfg as a daemon: repairs at once, leaves fights alone, is killed, steps aside. Needs root; exit
code 77 (skipped, with
the reason) where namespaces are not permitted. The programs are those of BUILD_DIR (build/dev)."""
import signal
import sys
import time

from namespace import run_tests
from netcfg_case import DRIFT, KIND_ERROR, NETCFG, RMEM, RUNTIME, SYSCTLS, Case

# Turns each sysctl named from 0 to 1 or back, and prints how many milliseconds until it is as before.
SYSCTL_DRIFT = """
import sys, time
for name in sys.argv[1:]:
    path = '/proc/sys/' + name.replace('.', '/')
    wanted = open(path).read().strip()
    start = time.monotonic()
    open(path, 'w').write('10'[int(wanted)])
    while open(path).read().strip() != wanted and time.monotonic() < start + 10:
        pass
    print(f'{(time.monotonic() - start) * 1000:.2f}' if open(path).read().strip() == wanted else 'never')
"""


class Daemon(Case):
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

    def test_a_strict_reverse_path_filter_is_repaired_at_once(self):
        """The kernel reports it by netlink: no file of each NIC is watched, and nothing waits for 30 s."""
        self.start()
        begin = time.monotonic()
        for _ in range(2):
            for nic in ("eth1", "all"):
                self.host.check("sysctl", "-qw", f"net.ipv4.conf.{nic}.rp_filter=1")
            self.wait_for(lambda: max(int(self.host.sysctl(f"net.ipv4.conf.{nic}.rp_filter"))
                                      for nic in ("all", "eth1")), 2)
        self.assertLess(time.monotonic() - begin, 25)
        self.assertNotIn("contested", self.report())

    def test_a_fight_over_a_sysctl_is_left_alone(self):
        self.start()
        for _ in range(2):
            self.assertNotIn("never", self.host.check("/usr/bin/python3", "-c", SYSCTL_DRIFT,
                                                      "net.ipv4.tcp_no_metrics_save"))
        self.assertIn("never", self.host.check("/usr/bin/python3", "-c", SYSCTL_DRIFT,
                                               "net.ipv4.tcp_no_metrics_save"))
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
        # others are still repaired
        self.assertNotIn("never", self.host.check("/usr/bin/python3", "-c", DRIFT, "1400", "eth1"))

    def fight(self, setting, words):
        """Three changes by a script: the third is left alone. Waits for it."""
        for _ in range(3):
            self.host.check(*words)
            time.sleep(0.3)
        self.wait_for(lambda: f"\t{setting}\t" in self.contested(), True)
        self.assertIn("contested since", self.report())

    def contested(self):
        return self.host.run("cat", f"{RUNTIME}/contested").stdout

    def test_once_ends_a_contest_and_a_later_single_change_is_repaired(self):
        self.start()
        for setting, words, right in (
                ("net.ipv4.tcp_no_metrics_save", ("sysctl", "-qw", "net.ipv4.tcp_no_metrics_save=0"),
                 lambda: self.host.sysctl("net.ipv4.tcp_no_metrics_save") == "1"),
                ("eth0", ("ip", "link", "set", "eth0", "mtu", "1400"),
                 lambda: self.host.mtu("eth0") == 8896)):
            with self.subTest(setting):
                self.fight(setting, words)
                self.assertFalse(right())
                self.assertEqual(len(self.contested().splitlines()), 3, self.contested())
                self.netcfg("--once")
                self.assertTrue(right())
                self.assertEqual(self.contested(), "")
                self.wait_for(lambda: "contested" in self.report(), False)
                self.host.check(*words)
                self.wait_for(right, True)
                self.assertEqual(self.contested(), "")
        self.assertIn("tcp_no_metrics_save is no longer contested: tpu-netcfg --once has set it",
                      self.host.stderr())

    def test_a_contest_that_cannot_be_written_down_goes_on(self):
        self.start()
        self.host.check("chown", "root:root", RUNTIME)
        for _ in range(3):
            self.host.check("ip", "link", "set", "eth0", "mtu", "1400")
            time.sleep(0.3)
        for n in range(3):  # passes: what the file does not have was not taken out of it
            self.host.check("ip", "link", "set", "eth1", "alias", str(n))
            time.sleep(0.1)
        self.assertEqual(self.host.mtu("eth0"), 1400)
        self.assertNotIn("no longer contested", self.host.stderr())
        self.assertEqual(self.host.stderr().count("contested cannot be written"), 1, self.host.stderr())
        self.give_runtime()
        self.host.check("ip", "link", "set", "eth1", "alias", "written")
        self.wait_for(lambda: "\teth0\t" in self.contested(), True)
        self.assertEqual(self.host.stderr().count("eth0 is contested"), 1)

    def test_the_other_side_is_tried_once_and_then_left(self):
        """Someone who changes it three times and no more: right again after some 15 s, without a person."""
        self.start()
        self.fight("eth0", ("ip", "link", "set", "eth0", "mtu", "1400"))
        self.assertEqual(self.host.mtu("eth0"), 1400)
        start = time.monotonic()
        self.wait_for(lambda: self.host.mtu("eth0"), 8896)
        print(f"tried {time.monotonic() - start:.0f} s after the contest began", file=sys.stderr)
        self.host.check("ip", "link", "set", "eth0", "mtu", "1400")  # it answers: left alone
        time.sleep(0.5)
        self.assertEqual(self.host.mtu("eth0"), 1400)
        self.assertEqual(self.host.stderr().count("is contested"), 1)
        self.assertEqual(self.contested().splitlines()[2].split("\t")[5], "4")

    def test_a_flood_of_changes_leaves_the_journal_readable(self):
        self.start()
        before = len(self.host.stderr().splitlines())
        names = [*SYSCTLS, "net.ipv4.tcp_rmem"]
        for turn in range(15):
            for name in names:
                self.host.run("sysctl", "-qw", f"{name}={'0 0' if 'range' in name else 1 + turn % 2}")
            self.host.check("ip", "link", "set", "eth0", "mtu", str(1400 + turn))
            self.host.check("ip", "link", "set", "eth1", "mtu", str(1400 + turn))
            time.sleep(0.2)
        self.assertLessEqual(len(self.host.stderr().splitlines()) - before, 10, self.host.stderr())

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
        self.host.check("sh", "-c",
                        "for i in $(seq 500); do ip link set eth1 alias $i; done; ip link set eth0 mtu 1460")
        self.wait_for(lambda: self.host.mtu("eth0"), 8896)


if __name__ == "__main__":
    run_tests(NETCFG)
