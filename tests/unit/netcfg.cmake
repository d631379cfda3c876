unit_test(links KNOWS base links)
unit_test(intent KNOWS base links intent)
unit_test(netplan KNOWS base links intent netplan)
unit_test(routes KNOWS base links)
