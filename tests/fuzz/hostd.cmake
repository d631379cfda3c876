fuzz_target(health-file KNOWS base hostd RUNS 4000) # each has a table of checks
