unit_test(net-rows KNOWS base bpfnet)
unit_test(flows KNOWS base metrics net LIBRARIES m)
