fuzz_target(arguments KNOWS base hostd)
