unit_test(sync-answer KNOWS base enroll)
unit_test(sync-course KNOWS base httploop enroll)
unit_test(registry KNOWS base enroll LIBRARIES PkgConfig::SYSTEMD PkgConfig::JANSSON Threads::Threads)
