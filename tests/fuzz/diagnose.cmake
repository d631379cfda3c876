fuzz_target(capture KNOWS base hostcapture capturewire diagnose LIBRARIES PkgConfig::JANSSON RUNS 4000)
