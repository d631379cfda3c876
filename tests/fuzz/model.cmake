fuzz_target(run-spec KNOWS runspec RUNS 20000)
