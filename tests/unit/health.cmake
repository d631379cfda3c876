unit_test(health KNOWS base health)
