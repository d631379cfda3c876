fuzz_target(libtpu KNOWS base libtpu LIBRARIES m)
fuzz_target(grpc-session KNOWS base grpclocal)
