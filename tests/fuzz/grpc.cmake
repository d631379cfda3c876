fuzz_target(grpc KNOWS base grpclocal)
