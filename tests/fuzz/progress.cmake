fuzz_target(progress KNOWS base progress LIBRARIES m)
fuzz_target(run-log KNOWS base progress LIBRARIES m)
