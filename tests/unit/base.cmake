unit_test(base KNOWS base)
unit_test(config KNOWS base)
unit_test(frame KNOWS base frame proto_local)
