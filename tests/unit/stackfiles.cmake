unit_test(stack-text KNOWS base stackfiles)
unit_test(stack-folder KNOWS base stackfiles)
