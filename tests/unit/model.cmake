unit_test(events KNOWS base model)
