fuzz_target(ini KNOWS base)
fuzz_target(profile KNOWS base intent)
fuzz_target(sysctl KNOWS base intent)
fuzz_target(networkmtu KNOWS base intent)
fuzz_target(originals KNOWS base links intent netplan)
fuzz_target(netlink KNOWS base links)
fuzz_target(chips KNOWS base probes RUNS 4000) # each writes files
