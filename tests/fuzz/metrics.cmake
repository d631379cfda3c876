fuzz_target(kmsg KNOWS base metrics)
fuzz_target(proc KNOWS base metrics LIBRARIES m)
