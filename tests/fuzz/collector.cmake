fuzz_target(otlp-ingest KNOWS base ingest)
fuzz_target(samples KNOWS base store)
# Modules of the program, which is no room.
fuzz_target(inflate KNOWS base packing)
fuzz_target(query KNOWS base httpserver LIBRARIES PkgConfig::GNUTLS)
target_sources(fuzz-query PRIVATE ${PROJECT_SOURCE_DIR}/collector/capture_words.c ${PROJECT_SOURCE_DIR}/collector/query.c)
target_include_directories(fuzz-query PRIVATE ${PROJECT_SOURCE_DIR}/collector)
fuzz_target(collector-http KNOWS base httpserver RUNS 3000 LIBRARIES PkgConfig::MICROHTTPD PkgConfig::SYSTEMD PkgConfig::GNUTLS) # each is a connection
target_sources(fuzz-collector-http PRIVATE ${PROJECT_SOURCE_DIR}/collector/query.c)
target_include_directories(fuzz-collector-http PRIVATE ${PROJECT_SOURCE_DIR}/collector)
fuzz_target(gateway KNOWS base etcdgateway)
