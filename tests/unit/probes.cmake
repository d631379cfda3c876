unit_test(probes KNOWS base links intent probes)
unit_test(probes-routes KNOWS base links intent netplan probes)
unit_test(probes-host KNOWS base links intent probes)
unit_test(probe-wire KNOWS base probes worker)
