unit_test(ctl KNOWS base ctl)
