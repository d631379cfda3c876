fuzz_target(spool KNOWS base uplink)
