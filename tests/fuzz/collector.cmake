fuzz_target(otlp-ingest KNOWS base ingest)
fuzz_target(samples KNOWS base store)
# Modules of the program, which is no room.
fuzz_target(inflate KNOWS base packing)
fuzz_target(arguments KNOWS base httpserver LIBRARIES PkgConfig::GNUTLS)
target_sources(fuzz-arguments PRIVATE ${PROJECT_SOURCE_DIR}/collector/receive/capture_words.c)
target_include_directories(fuzz-arguments PRIVATE ${PROJECT_SOURCE_DIR}/collector/receive)
fuzz_target(gateway KNOWS base etcdgateway)
