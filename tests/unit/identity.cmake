unit_test(environment KNOWS identity)
unit_test(identity KNOWS identity)
unit_test(topology KNOWS identity)
unit_test(metadata KNOWS base metadata)
