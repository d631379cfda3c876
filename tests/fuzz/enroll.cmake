fuzz_target(sync-answer KNOWS base enroll)
