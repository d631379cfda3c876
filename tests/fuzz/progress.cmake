fuzz_target(progress KNOWS base progress LIBRARIES m)
