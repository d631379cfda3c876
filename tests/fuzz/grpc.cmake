fuzz_target(grpc KNOWS base grpc)
fuzz_target(grpc-streams KNOWS base grpc)
