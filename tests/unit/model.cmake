unit_test(check-words KNOWS base model)
unit_test(events KNOWS base model)
unit_test(run-keys KNOWS runspec)
