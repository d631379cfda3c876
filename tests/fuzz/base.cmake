fuzz_target(accept KNOWS base)
fuzz_target(state-file KNOWS base)
fuzz_target(frame KNOWS base frame proto_local)
