unit_test(progress KNOWS base progress LIBRARIES m)
unit_test(step-lines KNOWS base progress LIBRARIES m)
unit_test(suspicion KNOWS base progress LIBRARIES m)
unit_test(rhythm-random KNOWS base progress LIBRARIES m)
