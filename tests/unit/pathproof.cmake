unit_test(pathproof KNOWS base links pathproof)
unit_test(path-report KNOWS base links pathproof)
