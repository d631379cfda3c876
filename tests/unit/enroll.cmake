unit_test(sync-answer KNOWS base enroll)
unit_test(sync-course KNOWS base httploop enroll)
