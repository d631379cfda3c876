fuzz_target(grpc-session KNOWS base grpclocal)
