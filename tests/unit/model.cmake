unit_test(run-keys KNOWS model)
