#!/usr/bin/python3
"""contrib/monitoring: promtool checks the rules and the scrape configuration and runs a case for each alert;
each metric is one that our programs have, each runbook a heading of docs/on-call.md."""

import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

import yaml

SOURCE = pathlib.Path(__file__).resolve().parents[2]
FOLDER = SOURCE / "contrib/monitoring"


def promtool(*words):
    return subprocess.run(["promtool", *words], capture_output=True, text=True, timeout=60)


@unittest.skipUnless(
    shutil.which("promtool") or os.environ.get("GATE"), "no promtool here: tools/deps test installs it"
)
class Monitoring(unittest.TestCase):
    def setUp(self):
        groups = yaml.safe_load((FOLDER / "rules.yaml").read_text())["groups"]
        self.rules = [r for g in groups for r in g["rules"]]
        self.alerts = {r["alert"]: r for r in self.rules if "alert" in r}

    def test_promtool(self):
        for words in (
            ("check", "rules", FOLDER / "rules.yaml"),
            ("test", "rules", FOLDER / "rules-test.yaml"),
        ):
            r = promtool(*map(str, words))
            self.assertEqual(r.returncode, 0, r.stdout + r.stderr)

    def test_it_would_fail(self):
        """A rule that never fires is noticed."""
        with tempfile.TemporaryDirectory() as folder:
            shutil.copy(FOLDER / "rules-test.yaml", folder)
            text = (
                (FOLDER / "rules.yaml")
                .read_text()
                .replace("(tpu_check_verdict) >= 3", "(tpu_check_verdict) >= 4")
            )
            pathlib.Path(folder, "rules.yaml").write_text(text)
            self.assertEqual(promtool("test", "rules", f"{folder}/rules-test.yaml").returncode, 1)

    def test_each_alert_has_a_case(self):
        cases = [
            (a["alertname"], bool(a["exp_alerts"]))
            for t in yaml.safe_load((FOLDER / "rules-test.yaml").read_text())["tests"]
            for a in t["alert_rule_test"]
        ]
        self.assertEqual(set(cases), {(name, fires) for name in self.alerts for fires in (True, False)})

    def test_runbooks(self):
        headings = re.findall(r"^## (.+)$", (SOURCE / "docs/on-call.md").read_text(), re.MULTILINE)
        anchors = {re.sub(r"[^\w -]", "", h).strip().lower().replace(" ", "-") for h in headings}
        for name, rule in self.alerts.items():
            notes = rule["annotations"]
            self.assertEqual(set(notes), {"summary", "command", "runbook_url"}, name)
            self.assertIn(notes["runbook_url"].partition("#")[2], anchors, name)

    def test_no_label_is_reserved(self):
        """Managed Service for Prometheus refuses these (googlemanagedprometheusexporter/README.md)."""
        rows = re.findall(r"^\| `[^`]+` \| `[^`]+` \| (?:counter|gauge|histogram) \| (?:`[^`]*` )?\| "
                          r"([^|]*?)\|", (SOURCE / "docs/metrics.md").read_text(), re.MULTILINE)
        sent = {key.replace(".", "_") for keys in rows for key in re.findall(r"`([^`]+)`", keys)}
        self.assertIn("tpu_run_name", sent)
        self.assertEqual(
            sent & {"location", "cluster", "namespace", "job", "instance", "project_id"}, set()
        )

    def test_metrics_are_ours(self):
        known = set(re.findall(r"`(\w+)` \| (?:gauge|counter)", (SOURCE / "docs/metrics.md").read_text()))
        known |= {
            f"{n}_{end}"
            for n in re.findall(r"`(\w+)` \| histogram", (SOURCE / "docs/metrics.md").read_text())
            for end in ("sum", "count", "bucket")
        }
        known |= set(re.findall(r"`(tpu_collectord_\w+)`", (SOURCE / "docs/metrics.md").read_text()))
        recorded = {r["record"] for r in self.rules if "record" in r}
        for rule in self.rules:
            text = re.sub(r"\{[^}]*\}|\b(?:by|on) \([^)]*\)", "", rule["expr"])
            for name in re.findall(r"\btpu[\w:]+", text):
                self.assertIn(name, known | recorded, rule)

    def test_scrape(self):
        with tempfile.TemporaryDirectory() as folder:
            text = (FOLDER / "scrape.yaml").read_text().replace("/etc/prometheus/tpu", folder)
            shutil.copy(FOLDER / "rules.yaml", folder)
            for name in ("ca.crt", "prometheus.crt", "prometheus.key"):
                pathlib.Path(folder, name).touch()
            pathlib.Path(folder, "hosts.yaml").write_text("- targets: ['h0:9470']\n")
            pathlib.Path(folder, "prometheus.yaml").write_text(text)
            r = promtool("check", "config", "--syntax-only", f"{folder}/prometheus.yaml")
            self.assertEqual(r.returncode, 0, r.stdout + r.stderr)


if __name__ == "__main__":
    unittest.main()
