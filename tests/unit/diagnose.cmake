unit_test(capture KNOWS base hostcapture capturewire LIBRARIES PkgConfig::JANSSON)
unit_test(diagnose KNOWS base hostcapture diagnose)
unit_test(pace KNOWS base diagnose pace)
unit_test(diagnose-laws KNOWS base hostcapture capturewire diagnose LIBRARIES PkgConfig::JANSSON)
