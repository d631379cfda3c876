#!/usr/bin/python3
"""The page of a real tpu-collectord in a browser: what a person sees of a run that stalls, on a desktop and
on a phone, light and dark, by keyboard alone. BUILD_DIR names the build; SHOTS where pictures go;
FULL=1 PICTURES=1 makes those of page.md again."""

import os
import pathlib
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import world  # noqa: E402
from page_case import PageCase, SHOTS  # noqa: E402
from world import BLAMED, RUN, World  # noqa: E402

FULL = os.environ.get("FULL") == "1"  # both sizes in both schemes; else each once
VIEWS = {
    "fleet": ("#/fleet", "16 hosts"),
    "run": (f"#/run/{RUN}", f"Run {RUN}"),
    "slice": ("#/slice/s1", "Slice s1: 8 hosts"),
    "host": ("#/host/s0-3", "the route to the peers"),
}


class Page(PageCase):
    def setUp(self):
        super().setUp()
        self.world = World()
        self.addCleanup(self.world.close)
        self.world.start()
        self.world.past()

    def picture(self, name):
        time.sleep(0.4)  # what was drawn is on the screen
        self.browser.picture(str(SHOTS / f"{name}.png"))
        if os.environ.get("PICTURES") and name.startswith(("fleet-desktop", "stall-desktop")):  # of page.md
            self.browser.picture(str(world.TOP / f"docs/pictures/{name}.webp"))

    def test_a_stall(self):
        b = self.browser
        b.size("desktop")
        self.show(self.world.url, "#/fleet", "16 hosts: 16 stepping")
        self.named("image", "16 hosts by slice")
        stored = self.world.stall()
        began = time.monotonic()
        self.says("1 suspect, 15 stalled")
        print(f"verdict on the screen {time.monotonic() - began:.1f} s after it could be read")
        sentence = stored["summary"].replace("`", "")
        self.says(sentence)
        self.named("link", "s1, worker 5")
        self.says("Last checkpoint", "5 min ago")
        views = {**VIEWS, "stall": (f"#/stall/{stored['episode']}", "Who waits for whom")}
        for size, schemes in (
            (("desktop", ("light", "dark")), ("phone", ("light", "dark")))
            if FULL
            else (("desktop", ("light",)), ("phone", ("dark",)))
        ):
            for scheme in schemes:
                for name, (view, words) in views.items():
                    b.size(size, scheme, "reduce" if size == "phone" else "no-preference")
                    self.show(self.world.url, view, words)
                    if name == "run":
                        self.says("Last checkpoint", "5 min ago, step 18,000, took 31 s, 203 steps since")
                        b.until("document.querySelector('.u-wrap')", "a chart")
                    self.fit_for_all(f"{name} {size} {scheme}")
                    self.picture(f"{name}-{size}-{scheme}")
                self.by_keyboard(sentence)
        self.assertEqual(
            {u for u in b.requests if not u.startswith((self.world.url, "about:", "data:"))}, set()
        )
        self.of_the_stall(views["stall"][0], sentence)
        self.it_goes_on()

    def by_keyboard(self, sentence):
        """From / the sentence is one Enter away, and the host's name with it."""
        b = self.browser
        self.show(self.world.url, "", "1 suspect")
        for _ in range(6):
            b.key("Tab")
            if b.run("document.activeElement.hash?.startsWith('#/stall/') ?? false"):
                break
        self.assertIn("#/stall/", b.run("document.activeElement.hash"))
        b.key("Enter")
        self.says("Who waits for whom", sentence, BLAMED)
        self.assertEqual(b.run("document.activeElement.id"), "main")
        # and the host by the table: its first row is the odd one
        self.show(self.world.url, "", "1 suspect")
        b.run("document.querySelector('.long tbody a').focus()")
        b.key("ArrowDown")
        b.key("ArrowUp")
        self.assertEqual(b.run("document.activeElement.textContent"), BLAMED)
        b.key("Enter")
        self.says(f"Host {BLAMED}")

    def of_the_stall(self, view, sentence):
        b = self.browser
        b.size("desktop")
        self.show(self.world.url, view, "Who waits for whom")
        self.says(
            "all-reduce",
            "read_record",
            f"tpuctl fleet cordon {BLAMED}",
            "tpuctl diagnose",
            "What else happened, on one time line",
            "38 segments sent again",
        )
        self.named("image", "15 ranks wait in all-reduce wait for s1-5")
        self.named("image", "Merged stacks of 16 hosts. Odd frames: ")
        self.named("table", "Hosts by score")
        self.named("table", "Segments sent again, from host to peer")
        self.assertIn(sentence, b.run("document.querySelector('.lead strong').textContent"))

    def it_goes_on(self):
        """What the collector says next replaces what stood there, without a reload; then it is away."""
        b = self.browser
        self.show(self.world.url, "#/fleet", "1 suspect")
        self.world.stands = False
        self.world.step0 += 1
        for h in self.world.hosts:
            with h.lock:
                for key in ("suspected", "suspicion"):
                    h.parts[RUN].pop(key, None)
                h.changed = True
        self.says("16 hosts: 16 stepping")
        self.world.collector.stop()
        self.says("The collector does not answer (no connection). The last known,", "16 hosts: 16 stepping")
        self.assertEqual(b.run("document.getElementById('fresh').className"), "away")


if __name__ == "__main__":
    unittest.main()
