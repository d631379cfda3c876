fuzz_target(path-answer KNOWS base links pathproof)
fuzz_target(path-words KNOWS base links pathproof)
fuzz_target(path-proof KNOWS base links pathproof)
