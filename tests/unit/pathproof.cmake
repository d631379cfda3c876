unit_test(pathproof KNOWS base links pathproof)
