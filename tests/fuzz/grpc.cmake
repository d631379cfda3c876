fuzz_target(grpc KNOWS base grpc)
