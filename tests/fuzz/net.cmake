fuzz_target(flows KNOWS base links net LIBRARIES m RUNS 6000) # each is three dumps
