fuzz_target(run-spec KNOWS model RUNS 20000)
