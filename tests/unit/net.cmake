unit_test(net-rows KNOWS base bpfnet)
