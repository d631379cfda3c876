fuzz_target(metadata KNOWS base metadata)
fuzz_target(identity KNOWS base identity intent)
