"""docs/otelcol.yaml, as far as it can be held without the program: it is YAML, whole in itself, durable
where otelcol.md says so, and
names attributes that tpu-hostd sends and no others that would be refused."""

import re
import unittest
from pathlib import Path

try:
    import yaml
except ImportError:
    raise unittest.SkipTest("python3-yaml is not installed: tools/deps test") from None

DOCS = Path(__file__).resolve().parents[2] / "docs"
CONFIG = yaml.safe_load((DOCS / "otelcol.yaml").read_text())
KINDS = ("receivers", "processors", "exporters")
# What Managed Service for Prometheus refuses as a label of a point
# (googlemanagedprometheusexporter/README.md).
RESERVED = {"location", "cluster", "namespace", "job", "instance", "project_id"}


class Otelcol(unittest.TestCase):
    def test_everything_named_is_there_and_used(self):
        service = CONFIG["service"]
        self.assertEqual(set(service["extensions"]), set(CONFIG["extensions"]))
        for kind in KINDS:
            used = {name for pipeline in service["pipelines"].values() for name in pipeline[kind]}
            self.assertEqual(used, set(CONFIG[kind]), kind)
        self.assertEqual(set(CONFIG), {"extensions", "service", *KINDS})
        self.assertEqual(set(service["pipelines"]), {"metrics", "logs"})

    def test_an_answer_means_on_the_disk(self):
        self.assertTrue(CONFIG["extensions"]["file_storage"]["fsync"])
        self.assertFalse([p for p in CONFIG["processors"] if p.startswith("batch")])
        for pipeline in CONFIG["service"]["pipelines"].values():
            self.assertEqual(pipeline["processors"][0], "memory_limiter")
        for name in ("googlemanagedprometheus", "googlecloud"):
            exporter = CONFIG["exporters"][name]
            self.assertEqual((exporter["sending_queue"]["storage"],
                              exporter["retry_on_failure"]["max_elapsed_time"]), ("file_storage", 0))
        self.assertIn("client_ca_file", CONFIG["receivers"]["otlp"]["protocols"]["http"]["tls"])

    def test_no_label_is_reserved(self):
        rows = re.findall(r"^\| `[^`]+` \| `[^`]+` \| (?:counter|gauge|histogram) \| (?:`[^`]*` )?\| "
                          r"([^|]*?)\|", (DOCS / "metrics.md").read_text(), re.M)
        sent = {key.replace(".", "_") for keys in rows for key in re.findall(r"`([^`]+)`", keys)}
        self.assertIn("tpu_run_name", sent)
        self.assertEqual(sent & RESERVED, set())

    def test_the_page_documents_every_part(self):
        page = (DOCS / "otelcol.md").read_text()
        table = page[page.index("## Where the keys"):]
        for kind in ("extensions", *KINDS):
            for name in CONFIG[kind]:
                self.assertIn(f"`{name}`", table)


if __name__ == "__main__":
    unittest.main()
