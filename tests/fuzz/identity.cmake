fuzz_target(metadata KNOWS base identity metadata)
fuzz_target(tpu-env KNOWS base identity metadata)
fuzz_target(endpoints KNOWS base identity metadata)
fuzz_target(identity KNOWS base identity intent RUNS 4000) # each writes files
