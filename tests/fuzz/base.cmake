fuzz_target(accept KNOWS base)
