#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""tpu-netcfg is told by tpu-hostd what networks carry: who may, what is refused, what stays. Needs root;
exit code 77
(skipped, with the reason) where namespaces are not permitted. The programs are those of BUILD_DIR
(build/dev)."""
import json
import os
import sys
from pathlib import Path

from namespace import run_tests
from netcfg_case import HOSTD, KIND_ERROR, NETCFG, OTHER, RUNTIME, ToldCase

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from protobuf import field  # noqa: E402  (the path comes first)

KIND_NETWORK_MTU, KIND_NETWORK_MTU_REPLY = 12, 13


def frame(*entries):
    return b"".join(field(1,
                          field(1, bytes.fromhex(mac.replace(":", ""))) + field(2, mtu) + field(3, source))
                    for mac, mtu, source in entries)


class NetworkMtu(ToldCase):
    def send(self, payload, uid=HOSTD):
        return self.tell(KIND_NETWORK_MTU, payload, uid)

    def mtus(self):
        return self.host.mtu("eth0"), self.host.mtu("eth1")

    def judged(self, nic):
        report = json.loads(self.host.run(NETCFG, "--dry-run", "--json").stdout)
        return next(f for f in report["findings"] if f["check"] == "nic.mtu" and f["subject"] == nic)

    def test_raises_at_once_and_keeps_it_over_a_restart(self):
        self.assertEqual(self.mtus(), (1460, 1460))
        kind, answer = self.send(frame((self.mac("eth0"), 8896, "metadata"),
                                       (self.mac("eth1"), 1460, "metadata")))
        self.assertEqual((kind, answer), (KIND_NETWORK_MTU_REPLY, b"\x08\x02"))
        self.wait_for(self.mtus, (8896, 1460))
        self.assertEqual(self.judged("eth0")["verdict"], "OK")
        narrow = self.judged("eth1")
        self.assertEqual(narrow["verdict"], "FAIL")
        self.assertIn("the network carries 1460 (metadata)", narrow["reason"])
        self.assertIn("--mtu=8896", narrow["remedy"])
        self.restart()
        self.host.check("ip", "link", "set", "eth0", "mtu", "1460")
        self.wait_for(self.mtus, (8896, 1460))
        self.assertEqual(oct(os.stat(self.host.path(f"{RUNTIME}/network-mtu")).st_mode & 0o777), "0o644")

    def test_one_that_is_lowered_is_followed(self):
        self.send(frame((self.mac("eth0"), 8896, "metadata")))
        self.wait_for(self.mtus, (8896, 1460))
        self.send(frame((self.mac("eth0"), 1460, "metadata")))
        self.wait_for(self.mtus, (1460, 1460))

    def test_one_that_changes_again_and_again_is_not(self):
        """Whoever owns tpu-hostd does not own the NICs."""
        for n in range(8):
            answer = self.send(frame((self.mac("eth0"), (8896, 1460)[n % 2], "metadata")))[1]
        self.assertIn(b"changed 4 times within an hour", answer)
        self.assertEqual(self.mtus(), (8896, 1460))
        self.assertIn(self.host.stderr().count("MTU of eth0"), (4, 5))  # a line less by the limit
        self.send(frame((self.mac("eth1"), 8896, "metadata")))
        self.wait_for(self.mtus, (8896, 8896))

    def test_only_root_and_hostd_may(self):
        payload = frame((self.mac("eth0"), 8896, "metadata"))
        kind, answer = self.send(payload, OTHER)
        self.assertEqual(kind, KIND_ERROR)
        self.assertIn(b"only root and the user tpu-hostd", answer)
        self.assertEqual(self.mtus(), (1460, 1460))
        self.assertFalse(os.path.exists(self.host.path(f"{RUNTIME}/network-mtu")))
        self.assertEqual(self.send(payload, 0)[0], KIND_NETWORK_MTU_REPLY)
        self.wait_for(self.mtus, (8896, 1460))

    def test_refuses_each_bad_entry_by_itself(self):
        mac = self.mac("eth0")
        bad = [(mac, 1299, "metadata"), (mac, 8897, "metadata"), (mac, 0, "metadata"),
               (mac, 0xFFFFFFFF, "m"), (mac, 8896, ""),
               (mac, 8896, "a\nb"), (mac, 8896, "x" * 64), ("42:01:0a:80:00:02", 8896, "metadata"),
               (mac[:8], 8896, "metadata"),
               (json.loads(self.host.check("ip", "-j", "link", "show", "lo"))[0]["address"], 8896,
                "metadata")]
        kind, answer = self.send(frame(*bad, (self.mac("eth1"), 8896, "metadata")))
        self.assertEqual(kind, KIND_NETWORK_MTU_REPLY)
        self.assertEqual(answer[:2], b"\x08\x01")
        self.assertIn(b"no data-centre NIC of this host has that address", answer)
        self.assertIn(b"between 1300 and 8896", answer)
        self.wait_for(self.mtus, (1460, 8896))
        self.assertEqual(self.host.stderr().count("is refused"), len(bad))

    def test_refuses_what_is_no_message(self):
        self.assertEqual(self.send(b"\xff\xff\xff")[0], KIND_ERROR)
        self.assertEqual(self.send(frame(*[(self.mac("eth0"), 8896, "m")] * 33))[0], KIND_ERROR)
        self.assertEqual(self.send(b""), (KIND_NETWORK_MTU_REPLY, b""))
        self.assertEqual(self.mtus(), (1460, 1460))

    def test_the_static_file_wins(self):
        self.send(frame((self.mac("eth0"), 8896, "metadata"), (self.mac("eth1"), 8896, "metadata")))
        self.wait_for(self.mtus, (8896, 8896))
        self.host.identity("[Identity]\nAcceleratorType=v6e-16\n[Network]\nMtu=1460\n")
        self.restart()
        self.wait_for(self.mtus, (1460, 1460))
        self.assertIn("10-test.conf", self.judged("eth0")["reason"])

    def test_another_boots_and_damaged_files_give_nothing(self):
        path = self.host.path(f"{RUNTIME}/network-mtu")
        good = f"tpu-netcfg-network-mtu 1\nboot BOOT\n{self.mac('eth0')} 8896 metadata\n"
        boot = self.host.check("cat", "/proc/sys/kernel/random/boot_id").strip()
        for content in (good, good.replace("BOOT", boot).replace("8896", "9000"),
                        good.replace("BOOT", boot) + "x", "\0", "",
                        good.replace("BOOT", boot).replace(" 1\n", " 2\n")):
            with open(path, "w", encoding="utf-8") as file:
                file.write(content)
            self.assertEqual(self.judged("eth0")["verdict"], "UNKNOWN", content)
        with open(path, "w", encoding="utf-8") as file:
            file.write(good.replace("BOOT", boot))
        self.assertEqual(self.judged("eth0")["verdict"], "FAIL")


if __name__ == "__main__":
    run_tests(NETCFG)
