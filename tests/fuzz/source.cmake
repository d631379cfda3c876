fuzz_target(rules KNOWS base links intent netplan)
