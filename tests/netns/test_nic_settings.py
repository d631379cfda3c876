#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Features, private flags and packet sizes of NICs, set, watched and restored by tpu-netcfg. Needs root;
exit code 77 (skipped, with
the reason) where namespaces are not permitted. The programs are those of BUILD_DIR (build/dev)."""
import json
import sys
import time

from namespace import NO_RIGHTS, run_tests
from netcfg_case import NETCFG, RUNTIME, Case

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
    while not active(nic) and time.monotonic() < start + 10:
        pass
    print(f'{(time.monotonic() - start) * 1000:.2f}' if active(nic) else 'never')
"""


class NicSettings(Case):
    """Features and packet sizes, as ethtool(8) and ip(8) see them."""
    NOCACHE = "tx-nocache-copy"

    def features(self, nic):
        lines = self.host.check("ethtool", "-k", nic).splitlines()[1:]
        return dict(line.strip().split(": ") for line in lines)

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
        before = self.features("eth0"), self.features("eth1")
        self.netcfg("--once")
        with open(self.host.path(f"{RUNTIME}/originals"), encoding="utf-8") as file:
            self.assertIn(" tx-nocache-copy\toff\n", file.read())
        self.host.check("ip", "link", "set", "eth1", "down")
        self.host.check("ip", "link", "set", "eth1", "name", "dcn1")
        self.netcfg("--restore")
        self.assertEqual((self.features("eth0"), self.features("dcn1")), before)

    def test_what_a_driver_does_not_offer_is_no_fault(self):
        self.host.site_profile("v6e", "[Feature rx-lro]\nValue=on\nSource=a test\n"
                                      "[PrivateFlag gve some-flag]\nValue=on\nSource=a test\n"
                                      "[Feature tx-of-tomorrow]\nValue=on\nSource=a test\n")
        self.host.identity("[Identity]\nAcceleratorType=v6e-16\n[Network]\nMtu=1460\n")
        findings = self.findings("--once", code=3)
        self.assertEqual(findings["nic.feature", "eth0 rx-lro"]["verdict"], "OK")
        self.assertIn("off, fixed by veth", findings["nic.feature", "eth0 rx-lro"]["found"])
        self.assertEqual(findings["nic.feature", "eth0 tx-of-tomorrow"]["verdict"], "UNKNOWN")
        self.assertNotIn(("nic.private_flag", "eth0 some-flag"), findings)  # gve's, and this is none

    def test_a_feature_that_the_kernel_holds_back(self):
        self.host.check("ethtool", "-K", "eth0", "tx-tcp-segmentation", "off")
        self.host.check("ethtool", "-K", "eth0", "tx-checksum-ip-generic", "off")
        # it says that it could not: the kernel keeps the wish
        self.host.run("ethtool", "-K", "eth0", "tx-tcp-segmentation", "on")
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
        self.give_runtime()
        self.netcfg("--once", code=2, prefix=NO_RIGHTS)
        self.assertEqual((self.features("eth0"), self.state()), before)

    def test_repaired_at_once_with_one_write(self):
        self.start()
        times = self.drift("eth0", "eth1", "eth0")
        print(f"feature drift to repair: {', '.join(times)} ms", file=sys.stderr)
        self.assertNotIn("never", times)
        self.host.check("ethtool", "-K", "eth1", self.NOCACHE, "off")  # over netlink this time
        self.wait_for(lambda: self.features("eth1")[self.NOCACHE], "on")
        time.sleep(0.3)  # our own writes are told on the same socket: none may lead to another
        # the first pass, and two
        self.assertEqual(self.host.stderr().count(f"eth1 {self.NOCACHE}: off → on"), 3)

    def test_a_flap_and_a_new_nic(self):
        self.start()
        self.host.check("ip", "link", "set", "eth0", "down")
        self.host.check("ethtool", "-K", "eth0", self.NOCACHE, "off")
        self.host.check("ip", "link", "set", "eth0", "up")
        self.wait_for(lambda: self.features("eth0")[self.NOCACHE], "on")
        self.host.add_nic("eth2", 1460)
        self.wait_for(lambda: self.features("eth2")[self.NOCACHE], "on")

    def test_a_fight_is_left_alone(self):
        self.start()
        self.assertEqual([t for _ in range(2) for t in self.drift("eth0") if t == "never"], [])
        self.assertEqual(self.drift("eth0"), ["never"])
        self.assertIn("contested", self.report())
        self.assertEqual(self.features("eth1")[self.NOCACHE], "on")
        self.assertNotIn("never", self.drift("eth1"))

    def test_other_notifications_wake_nobody(self):
        daemon = self.start()

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
        self.assertGreater(quiet, 0)  # one that is woken by these is woken each time
        self.host.check("ethtool", "-K", "eth0", "rx-gro", "on")
        self.wait_for(lambda: reads() != before, True)


if __name__ == "__main__":
    run_tests(NETCFG)
