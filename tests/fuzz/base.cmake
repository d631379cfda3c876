fuzz_target(state-file KNOWS base)
fuzz_target(machine-state KNOWS base)
fuzz_target(frame KNOWS base frame proto_local)
# each is a connection
fuzz_target(api KNOWS base httpserver RUNS 3000 LIBRARIES PkgConfig::MICROHTTPD PkgConfig::SYSTEMD
  PkgConfig::GNUTLS)
fuzz_target(instance-token KNOWS base tlsfiles)
