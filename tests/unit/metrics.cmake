unit_test(kernel-log KNOWS base metrics)
unit_test(metrics KNOWS base metrics LIBRARIES m)
target_compile_definitions(test-metrics PRIVATE DOCS="${PROJECT_SOURCE_DIR}/docs")
target_link_options(test-metrics PRIVATE -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc)
