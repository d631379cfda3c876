#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A person's order to observe, handed over by tpu-hostd: who may, what it keeps from being changed, over
restarts and boots,
and what ends it. Needs root; exit code 77 (skipped, with the reason) where namespaces are not permitted."""
import json
import os
import sys
import time
from pathlib import Path

from namespace import run_tests
from netcfg_case import HOSTD, KIND_ERROR, NETCFG, OTHER, RUNTIME, STATE, ToldCase

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from protobuf import field  # noqa: E402  (the path comes first)
from state_file import content_of, text_of  # noqa: E402

KIND_OBSERVE, KIND_OBSERVE_REPLY = 14, 15
REPAIR = b""  # Observe {observe = false}; the default is not on the wire
OTHER_BOOT = "00000000-0000-4000-8000-000000000000"


def observe(until=0):
    return field(1, 1) + (field(2, int(until * 1e6)) if until else b"")


class Observe(ToldCase):
    network_mtu = 8896

    def setUp(self):
        super().setUp()
        self.assertEqual(self.mtus(), (8896, 8896))

    def mtus(self):
        return self.host.mtu("eth0"), self.host.mtu("eth1")

    def order(self, payload, mode, uid=HOSTD):
        self.assertEqual(self.tell(KIND_OBSERVE, payload, uid), (KIND_OBSERVE_REPLY, field(1, mode)))

    def lower(self):
        self.host.check("ip", "link", "set", "eth0", "mtu", "1460")

    def start_over(self, boot=True):
        """The daemon once more; after a boot, /run is empty and the boot has another name."""
        self.host.stop(self.host.processes.pop())
        self.said = self.host.stderr()
        if boot:
            self.host.check("sh", "-c", f"rm -f {RUNTIME}/*")
            self.rewrite(lambda text: text.replace(self.host.check("cat",
                                                                   "/proc/sys/kernel/random/boot_id").strip(), OTHER_BOOT))
        self.lower()
        self.start()

    def rewrite(self, change, whole=True):
        """whole: with the checksum of what it says then."""
        path = Path(self.host.path(f"{STATE}/observe"))
        if path.exists():
            path.write_text(text_of("observe", change(content_of(path))) if whole
                            else change(path.read_text()))

    def kept(self):
        return [os.path.exists(self.host.path(f"{folder}/observe")) for folder in (STATE, RUNTIME)]

    def test_only_root_and_hostd_may(self):
        self.assertEqual(self.tell(KIND_OBSERVE, observe(), OTHER)[0], KIND_ERROR)
        self.assertEqual(self.tell(KIND_OBSERVE, b"\xff\xff")[0], KIND_ERROR)
        self.assertEqual(self.kept(), [False, False])
        self.order(observe(), "observe", 0)

    def test_over_a_restart_until_it_is_taken_back(self):
        self.order(observe(), "observe")
        self.start_over(boot=False)
        self.assertEqual(self.mtus(), (1460, 8896))
        self.order(REPAIR, "repair")  # what is wrong is set before the answer
        self.assertEqual(self.mtus(), (8896, 8896))
        self.assertEqual(self.kept(), [False, False])

    def test_over_a_boot_from_the_first_pass_on(self):
        self.order(observe(), "observe")
        self.start_over()
        self.assertEqual(self.mtus(), (1460, 8896))
        self.assertIn("tpuctl mode", self.report())
        said = self.netcfg("--once", code=2).stdout  # a one-shot heeds it, too, and says whose it is
        self.assertIn("Would change, but for an order to observe", said)
        self.assertNotIn("Mode=observe", said)
        self.assertEqual(json.loads(self.netcfg("--once", "--json", code=2).stdout)["mode"], "observe")
        self.start_over(boot=False)  # and so does another start of this boot
        self.assertEqual(self.mtus(), (1460, 8896))
        self.order(REPAIR, "repair")
        self.assertEqual(self.mtus(), (8896, 8896))
        self.start_over()
        self.assertEqual(self.mtus(), (8896, 8896))

    def test_one_that_ended_meanwhile_is_not_obeyed(self):
        self.order(observe(time.time() + 1), "observe")
        time.sleep(1.1)
        self.start_over()
        self.assertEqual(self.mtus(), (8896, 8896))
        # a late event of the NICs may have been a look
        self.assertIn("has ended", self.said + self.host.stderr())
        self.assertEqual(self.kept(), [False, False])

    def test_its_end_comes_while_it_runs(self):
        end = time.time() + 4
        self.order(observe(end), "observe")
        self.lower()
        self.assertEqual(self.host.mtu("eth0"), 1460)
        time.sleep(max(0, end + 0.1 - time.time()))
        # the next look, which comes every 30 s by itself
        self.host.check("ip", "link", "set", "lo", "mtu", "65535")
        self.wait_for(self.mtus, (8896, 8896))

    def test_another_end_stands_in_for_the_first(self):
        self.order(observe(time.time() + 1), "observe")
        self.order(observe(time.time() + 1000), "observe")
        time.sleep(1.1)
        self.start_over()
        self.assertEqual(self.mtus(), (1460, 8896))

    def test_without_hostd_it_ends_within_the_hour(self):
        self.order(observe(), "observe")
        self.start_over()
        with open(self.host.path(f"{STATE}/observe"), encoding="utf-8") as file:
            text = file.read()
        heard, until = int(text.split()[8]), int(text.split()[10])
        self.assertEqual(until - heard, 3600 * 1000000)
        self.rewrite(lambda t: t.replace(f"until {until}", f"until {heard}"))  # the hour is over
        self.start_over(boot=False)
        self.assertEqual(self.mtus(), (8896, 8896))
        self.order(observe(), "observe")  # hostd is back: now it has no end again
        with open(self.host.path(f"{STATE}/observe"), encoding="utf-8") as file:
            self.assertIn("\nuntil 0\n", file.read())

    def test_a_damaged_file_holds_back_and_is_said(self):
        self.order(observe(), "observe")
        self.rewrite(lambda text: text[:30], whole=False)
        self.start_over(boot=False)
        self.assertEqual(self.mtus(), (1460, 8896))
        self.assertIn(f"{STATE}/observe cannot be read", self.host.stderr())
        self.order(REPAIR, "repair")
        self.assertEqual(self.mtus(), (8896, 8896))

    def test_an_empty_file_holds_back(self):
        self.host.check("sh", "-c", f"install -o 65534 /dev/null {RUNTIME}/observe")
        self.start_over(boot=False)
        self.assertEqual(self.mtus(), (1460, 8896))

    def test_without_a_state_directory_it_holds_for_this_boot(self):
        self.host.check("chown", "root:root", STATE)
        self.order(observe(), "observe")
        self.assertEqual(self.kept(), [False, True])
        self.assertIn("the next boot will not know", self.host.stderr())

    def test_the_configured_mode_is_not_overruled(self):
        self.host.stop(self.host.processes.pop())
        self.host.netcfg_conf("[Netcfg]\nMode=observe\n")
        self.start()
        self.order(REPAIR, "observe")
        self.lower()
        self.host.check(NETCFG, "--check-config")
        self.assertIn("Mode=observe", self.report())
        self.assertEqual(self.mtus(), (1460, 8896))


if __name__ == "__main__":
    run_tests(NETCFG)
