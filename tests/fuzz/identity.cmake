fuzz_target(metadata KNOWS base metadata)
fuzz_target(identity KNOWS base identity intent RUNS 4000) # each writes files
