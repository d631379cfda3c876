fuzz_target(etcd KNOWS base etcd)
