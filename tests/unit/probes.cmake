unit_test(probes KNOWS base links intent probes)
