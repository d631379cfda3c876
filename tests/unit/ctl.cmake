unit_test(ctl KNOWS base ctl)
unit_test(peer-agents KNOWS base ctl)
unit_test(run-spec KNOWS base ctl)
