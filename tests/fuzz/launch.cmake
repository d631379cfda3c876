fuzz_target(run-request KNOWS base launch proto_local)
fuzz_target(run-file KNOWS base launch RUNS 4000) # each is a file
