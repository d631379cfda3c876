"""OpenTelemetry's own Python SDK as a sender, run by test_senders.py with PYTHONPATH: send.py none|gzip
URL HOST. Exits 0 when all was taken."""

import sys

from opentelemetry._logs import LogRecord, SeverityNumber
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource


def main(compression, url, host):
    how = {"none": Compression.NoCompression, "gzip": Compression.Gzip}[compression]
    resource = Resource({"host.name": host, "service.name": "sdk"})
    reader = PeriodicExportingMetricReader(OTLPMetricExporter(url + "/v1/metrics", compression=how),
                                           export_interval_millis=3600000)
    provider = MeterProvider([reader], resource=resource)
    meter = provider.get_meter("wire", "7")
    meter.create_counter("requests", unit="{request}").add(41,
                                                           {"path": "/a", "ok": True, "n": 3, "share": 0.5})
    meter.create_up_down_counter("open").add(-7)
    meter.create_gauge("load").set(0.1, {"näme": "grüße"})
    latency = meter.create_histogram("latency", unit="s", explicit_bucket_boundaries_advisory=[1, 2, 5])
    for value in (0.25, 1.5, 1.75, 9):
        latency.record(value)
    logs = LoggerProvider(resource=resource)
    logs.add_log_record_processor(BatchLogRecordProcessor(OTLPLogExporter(url + "/v1/logs",
                                                                          compression=how)))
    logger = logs.get_logger("wire")
    logger.emit(LogRecord(timestamp=1_700_000_000_000_000_000, severity_number=SeverityNumber.WARN,
                          severity_text="WARN", event_name="an.event",
                          body={"text": "hällo", "list": [1, "two", {"three": 3.5}], "yes": True},
                          attributes={"a.b": "c", "n": 12345678901, "list": ["x", "y"]}))
    logger.emit(LogRecord(timestamp=1_700_000_001_000_000_000, severity_number=SeverityNumber.ERROR,
                          body="only text"))
    ok = provider.force_flush() and logs.force_flush()
    provider.shutdown()
    logs.shutdown()
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
