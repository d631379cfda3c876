fuzz_target(ethtool KNOWS links base)
