#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""tpu-netcfg is told by tpu-hostd what networks carry: who may, what is refused, what stays. Needs root; exit code 77
(skipped, with the reason) where namespaces are not permitted. The programs are those of BUILD_DIR (build/dev)."""
import json
import os
import sys
from pathlib import Path

from namespace import NET_ADMIN_ONLY, run_tests
from netcfg_case import NETCFG, RUNTIME, Case

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from protobuf import field  # noqa: E402  (the path comes first)

HOSTD, OTHER = 4711, 4712
KIND_ERROR, KIND_NETWORK_MTU, KIND_NETWORK_MTU_REPLY, KIND_OBSERVE, KIND_OBSERVE_REPLY = 1, 12, 13, 14, 15
OBSERVE, REPAIR = b"\x08\x01", b""  # Observe {observe = true}; the default is not on the wire

# Runs in the host as the caller: connects, sends the frame, prints the answer's kind and payload.
SEND = """
import socket, struct, sys
s = socket.socket(socket.AF_UNIX)
s.settimeout(10)
s.connect(sys.argv[1])
data = bytes.fromhex(sys.argv[3])
s.sendall(struct.pack('<IHH', len(data), 1, int(sys.argv[2])) + data)
f = s.makefile('rb')
n, _, kind = struct.unpack('<IHH', f.read(8))
print(kind, f.read(n).hex())
"""


def frame(*entries):
    return b"".join(field(1, field(1, bytes.fromhex(mac.replace(":", ""))) + field(2, mtu) + field(3, source))
                    for mac, mtu, source in entries)


class NetworkMtu(Case):
    network_mtu = 0

    def setUp(self):
        super().setUp()
        with open(f"{self.host.tree}/etc/passwd", "w", encoding="utf-8") as file:
            file.write(f"root:x:0:0::/root:/bin/sh\nodd line\ntpu-hostd:x:{HOSTD}:{HOSTD}::/:/bin/false\n")
        self.start()

    def restart(self):
        self.host.stop(self.host.processes.pop())
        self.host.start(*NET_ADMIN_ONLY, NETCFG)

    def mac(self, nic):
        return json.loads(self.host.check("ip", "-j", "link", "show", nic))[0]["address"]

    def send(self, payload, uid=HOSTD, kind=KIND_NETWORK_MTU):
        out = self.host.check("setpriv", f"--reuid={uid}", "--clear-groups", "/usr/bin/python3", "-c", SEND, f"{RUNTIME}/netcfg.sock",
                              str(kind), payload.hex())
        kind, _, data = out.strip().partition(" ")
        return int(kind), bytes.fromhex(data)

    def mtus(self):
        return self.host.mtu("eth0"), self.host.mtu("eth1")

    def judged(self, nic):
        report = json.loads(self.host.run(NETCFG, "--dry-run", "--json").stdout)
        return next(f for f in report["findings"] if f["check"] == "nic.mtu" and f["subject"] == nic)

    def test_raises_at_once_and_keeps_it_over_a_restart(self):
        self.assertEqual(self.mtus(), (1460, 1460))
        kind, answer = self.send(frame((self.mac("eth0"), 8896, "metadata"), (self.mac("eth1"), 1460, "metadata")))
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
        self.assertEqual(self.host.stderr().count("MTU of eth0"), 5)
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
        bad = [(mac, 1299, "metadata"), (mac, 8897, "metadata"), (mac, 0, "metadata"), (mac, 0xFFFFFFFF, "m"), (mac, 8896, ""),
               (mac, 8896, "a\nb"), (mac, 8896, "x" * 64), ("42:01:0a:80:00:02", 8896, "metadata"), (mac[:8], 8896, "metadata"),
               (json.loads(self.host.check("ip", "-j", "link", "show", "lo"))[0]["address"], 8896, "metadata")]
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

    def test_an_order_to_observe(self):
        """Told by tpu-hostd: nothing is changed any more, over a restart, too; taken back, what is wrong is set at once."""
        self.assertEqual(self.send(OBSERVE, OTHER, KIND_OBSERVE)[0], KIND_ERROR)
        self.assertEqual(self.send(b"\xff\xff", HOSTD, KIND_OBSERVE)[0], KIND_ERROR)
        self.assertEqual(self.send(OBSERVE, HOSTD, KIND_OBSERVE), (KIND_OBSERVE_REPLY, field(1, "observe")))
        self.send(frame((self.mac("eth0"), 8896, "metadata")))
        self.restart()
        self.assertEqual(self.mtus(), (1460, 1460))
        self.assertEqual(self.send(REPAIR, HOSTD, KIND_OBSERVE), (KIND_OBSERVE_REPLY, field(1, "repair")))
        self.assertEqual(self.mtus(), (8896, 1460))

    def test_the_configured_mode_is_not_overruled(self):
        self.host.stop(self.host.processes.pop())
        folder = f"{self.host.tree}/etc/tpu-hostd/netcfg.conf.d"
        os.makedirs(folder, exist_ok=True)
        with open(f"{folder}/50-mode.conf", "w", encoding="utf-8") as file:
            file.write("[Netcfg]\nMode=observe\n")
        self.host.start(*NET_ADMIN_ONLY, NETCFG)
        self.assertEqual(self.send(REPAIR, HOSTD, KIND_OBSERVE), (KIND_OBSERVE_REPLY, field(1, "observe")))
        self.send(frame((self.mac("eth0"), 8896, "metadata")))
        self.assertEqual(self.mtus(), (1460, 1460))

    def test_another_boots_and_damaged_files_give_nothing(self):
        path = self.host.path(f"{RUNTIME}/network-mtu")
        good = f"tpu-netcfg-network-mtu 1\nboot BOOT\n{self.mac('eth0')} 8896 metadata\n"
        boot = self.host.check("cat", "/proc/sys/kernel/random/boot_id").strip()
        for content in (good, good.replace("BOOT", boot).replace("8896", "9000"), good.replace("BOOT", boot) + "x", "\0", "",
                        good.replace("BOOT", boot).replace(" 1\n", " 2\n")):
            with open(path, "w", encoding="utf-8") as file:
                file.write(content)
            self.assertEqual(self.judged("eth0")["verdict"], "UNKNOWN", content)
        with open(path, "w", encoding="utf-8") as file:
            file.write(good.replace("BOOT", boot))
        self.assertEqual(self.judged("eth0")["verdict"], "FAIL")


if __name__ == "__main__":
    run_tests(NETCFG)
