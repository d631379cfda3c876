unit_test(libtpu KNOWS base libtpu LIBRARIES m)
unit_test(libtpu-status KNOWS base libtpu LIBRARIES m)
target_link_options(test-libtpu PRIVATE -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc)
