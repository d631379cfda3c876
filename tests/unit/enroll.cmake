unit_test(sync-answer KNOWS base enroll)
unit_test(etcd-slice KNOWS base enroll gang)
unit_test(etcd-patience KNOWS base httploop enroll)
