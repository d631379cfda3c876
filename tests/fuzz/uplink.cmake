fuzz_target(ledger KNOWS base uplink)
fuzz_target(spool KNOWS base uplink)
fuzz_target(uplink-answer KNOWS base uplink)
