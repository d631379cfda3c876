unit_test(flow-events KNOWS base metrics net LIBRARIES m)
unit_test(flows KNOWS base metrics net LIBRARIES m)
unit_test(debts KNOWS base metrics net debts LIBRARIES m)
unit_test(own-part KNOWS base metrics net pace LIBRARIES m)
