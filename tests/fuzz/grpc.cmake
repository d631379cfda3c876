fuzz_target(grpc KNOWS base grpc)
fuzz_target(grpc-session KNOWS base grpc)
