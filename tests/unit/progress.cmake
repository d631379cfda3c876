unit_test(progress KNOWS base progress LIBRARIES m)
