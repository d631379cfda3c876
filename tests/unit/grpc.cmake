unit_test(grpc-message KNOWS base grpclocal)
