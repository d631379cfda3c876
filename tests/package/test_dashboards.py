#!/usr/bin/python3
"""contrib/monitoring/grafana: the query of every panel is asked of a Prometheus that scraped a real agent
with a run, and a collector, by the rules of contrib/monitoring; each must give data. So must the expressions
of docs/metrics.md. Chips and the machine are stand-ins. Nothing here renders Grafana: its own types check
the form (npm, @grafana/schema)."""

import json
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
FOLDER = SOURCE / "contrib/monitoring/grafana"
sys.path[:0] = [str(SOURCE / "tests" / name) for name in ("wire", "hostd", "libtpu")]
try:
    import peers
    import test_scrape
    from agent import RUN, STEP, WRONG, Hostd
    from around import free_port, wait_until
    from libtpu_stand_in import StandIn
except ImportError as e:
    raise unittest.SkipTest(f"{e}: tools/deps test") from None

BOARDS = {f.stem: json.loads(f.read_text()) for f in sorted(FOLDER.glob("*.json"))}
VARIABLES = {"$slice": "v6e-a", "$run": RUN[1], "$host": "h0", "$__rate_interval": "20s"}
# What stands still on the stand-ins' machine divides by nothing.
NOT_A_NUMBER = {"Share of segments sent again", "Transfers between slices, mean",
                "What share of the host's segments is sent again?"}
# What counts the connections of a real kernel has no stand-in: the names alone are compared.
NOT_HERE = re.compile(r"\btpu_net_\w+")


def queries(board):
    """[(panel, query)] of a board, its variables filled in."""
    found = [(p["title"], t["expr"]) for p in board["panels"] for t in p["targets"]]
    for name, value in VARIABLES.items():
        found = [(title, text.replace(name, value)) for title, text in found]
    return found


def documented():
    """[(question, expression)] of docs/metrics.md."""
    return re.findall(r"^\| ([^|]+\?) \| `([^`]+)`", (SOURCE / "docs/metrics.md").read_text(), re.MULTILINE)


class Form(unittest.TestCase):
    def test_what_grafana_needs(self):
        self.assertEqual(set(BOARDS), {"fleet", "slice", "run", "host"})
        for name, board in BOARDS.items():
            self.assertEqual(board["uid"], f"tpu-{name}")
            ids = [p["id"] for p in board["panels"]]
            self.assertEqual(len(ids), len(set(ids)), name)
            taken = set()
            for p in board["panels"]:
                g = p["gridPos"]
                cells = {(x, y) for x in range(g["x"], g["x"] + g["w"])
                         for y in range(g["y"], g["y"] + g["h"])}
                self.assertFalse(taken & cells or g["x"] + g["w"] > 24, f"{name}: {p['title']} overlaps")
                taken |= cells
            text = json.dumps(board)
            used = set(re.findall(r"\$(slice|run|host)\b", text))
            self.assertEqual(used, {v["name"] for v in board["templating"]["list"]} - {"datasource"}, name)

    def test_headings(self):
        """What a panel says of itself leads into on-call.md."""
        headings = re.findall(r"^## (.+)$", (SOURCE / "docs/on-call.md").read_text(), re.MULTILINE)
        anchors = {re.sub(r"[^\w -]", "", h).strip().lower().replace(" ", "-") for h in headings}
        led = re.findall(r"on-call\.md#([\w-]+)", json.dumps(BOARDS))
        self.assertGreater(len(led), 20)
        self.assertEqual(set(led) - anchors, set())

    def test_names_of_what_has_no_data_here(self):
        rows = {name: set(re.findall(r"`([^`]+)`", keys.replace(".", "_"))) for name, keys in re.findall(
            r"^\| `[^`]+` \| `(tpu_net_\w+)` \|[^|]*\|[^|]*\| ([^|]*) \|",
            (SOURCE / "docs/metrics.md").read_text(), re.MULTILINE)}
        labels, seen = set().union(*rows.values()), 0
        for text in [q for b in BOARDS.values() for _, q in queries(b)] + [q for _, q in documented()]:
            for name in set(NOT_HERE.findall(text)) - labels:
                self.assertIn(name, rows)
                used = {w.strip() for words in re.findall(r"by \(([^)]*)\)", text) for w in words.split(",")}
                self.assertLessEqual(used - {"tpu_worker_id"}, rows[name], text)
                seen += 1
        self.assertGreaterEqual(seen, 3)

    def test_types(self):
        try:
            modules = peers.npm("@grafana/schema@13.2.3", "typescript@5.9.3", small=True)
        except peers.Missing as e:
            self.skipTest(str(e))
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "node_modules").symlink_to(modules)

            def check(boards):
                text = "import { type Dashboard, ThresholdsMode } from '@grafana/schema';\n"
                for name, board in boards.items():
                    one = json.dumps(board).replace('"absolute"', "ThresholdsMode.Absolute")  # an enum
                    text += f"export const {name}: Dashboard = {one};\n"
                pathlib.Path(folder, "boards.ts").write_text(text)
                return subprocess.run(
                    ["node", modules / "typescript/bin/tsc", "--noEmit", "--skipLibCheck", "--strict",
                     "--target", "esnext", "--module", "esnext", "--moduleResolution", "bundler",
                     "boards.ts"],
                    cwd=folder, capture_output=True, text=True, timeout=300, check=False)

            done = check(BOARDS)
            self.assertEqual(done.returncode, 0, done.stdout[:3000])
            bad = json.loads(json.dumps(BOARDS["run"]))
            bad["panels"][0]["gridPos"]["h"] = "tall"
            self.assertNotEqual(check({"run": bad}).returncode, 0)


class Data(test_scrape.Prometheus):
    test_scrapes = test_documented = None  # test_scrape.py has those

    def test_each_panel_has_data(self):
        c = self.collector()
        state = c.folder / "libtpu.json"
        state.write_text("{}")
        chips = StandIn([free_port()], state, 4)
        self.addCleanup(chips.stop)
        h = Hostd(self.addCleanup, f"http://127.0.0.1:{c.otlp}", host="h0")
        h.config.write_text(h.config.read_text() + f"[Libtpu]\nPorts={chips.ports[0]}\n")
        line = h.journal()
        h.launchd()
        h.rmem(WRONG)  # a check that warns
        h.start()
        forward = test_scrape.Forwarder(h.api)
        self.addCleanup(forward.close)
        relabel = [{"target_label": "instance", "replacement": "h0"}]
        self.start({"tpu-hostd": forward.port, "tpu-collectord": c.port}, relabel={"tpu-hostd": relabel},
                   rule_files=[str(SOURCE / "contrib/monitoring/rules.yaml")])
        questions = {**{name: queries(board) for name, board in BOARDS.items()}, "metrics.md": documented()}
        self.assertGreater(len(questions["metrics.md"]), 5)
        step, last = 0, None
        end = time.monotonic() + 600  # sanitized, on a busy machine
        while True:
            line(STEP.format(step))
            step += 1
            time.sleep(0.5)
            missing = [f"{name}: {title}: {text}" for name, asked in questions.items()
                       for title, text in asked
                       if not self.has_data(title, text) and not NOT_HERE.search(text)] \
                if step % 20 == 0 else None
            if missing == []:
                break
            last = missing or last
            self.assertLess(time.monotonic(), end, "no data:\n" + "\n".join(last or []))

    def has_data(self, title, text):
        found = self.query(text)
        return bool(found) and (title in NOT_A_NUMBER or any(v != "NaN" for _, v in found))

    def test_a_panel_without_data_is_found(self):
        self.start({"tpu-collectord": self.collector().port})
        wait_until(lambda: self.query('up{job="tpu-collectord"} == 1'), 60, "a scrape")
        self.assertTrue(self.has_data("", "tpu_collectord_registry_leads"))
        self.assertFalse(self.has_data("", "tpu_run_step_number"))
        self.assertFalse(self.has_data("", "0 * tpu_collectord_run_line_bytes / 0"))


if __name__ == "__main__":
    unittest.main()
