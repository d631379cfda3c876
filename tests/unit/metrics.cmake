unit_test(kernel-log KNOWS base metrics)
unit_test(run-look KNOWS base probes metrics)
unit_test(metrics KNOWS base metrics LIBRARIES m)
target_link_options(test-metrics PRIVATE -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc)
