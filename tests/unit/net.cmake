unit_test(flow-events KNOWS base metrics net LIBRARIES m)
unit_test(flows KNOWS base metrics net LIBRARIES m)
