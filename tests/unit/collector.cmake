unit_test(collector-store KNOWS base store LIBRARIES PkgConfig::SQLITE)
unit_test(collector-ingest KNOWS base ingest)
unit_test(collector-series KNOWS base store LIBRARIES PkgConfig::SQLITE)
unit_test(collector-registry KNOWS base gang store registry)
