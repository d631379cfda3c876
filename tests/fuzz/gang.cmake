fuzz_target(gang KNOWS base gang RUNS 3000) # each is a history
