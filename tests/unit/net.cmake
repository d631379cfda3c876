unit_test(flows KNOWS base metrics net LIBRARIES m)
