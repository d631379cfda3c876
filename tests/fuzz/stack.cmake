fuzz_target(stack KNOWS pystack base)
