unit_test(etcd-message KNOWS base etcd)
