fuzz_target(stack-text KNOWS base stackfiles)
