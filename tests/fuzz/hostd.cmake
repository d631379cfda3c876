fuzz_target(container-log KNOWS runs)
fuzz_target(health-file KNOWS base orderspart RUNS 4000) # each has a table of checks
