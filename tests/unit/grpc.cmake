unit_test(grpc-message KNOWS base grpc LIBRARIES PkgConfig::ZLIB)
