fuzz_target(otlp-ingest KNOWS base ingest)
