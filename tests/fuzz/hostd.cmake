fuzz_target(health-file KNOWS base hostd RUNS 4000) # each has a table of checks
fuzz_target(api KNOWS base hostd RUNS 3000) # each is a connection
