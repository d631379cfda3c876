fuzz_target(metadata KNOWS base metadata)
