unit_test(ctl KNOWS base ctl)
unit_test(redact KNOWS base ctl)
unit_test(run-lines KNOWS base ctl)
