unit_test(sync-answer KNOWS base enroll)
