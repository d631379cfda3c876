fuzz_target(stack KNOWS pystack base)
fuzz_target(cxx-name KNOWS pystack base)
fuzz_target(core KNOWS pystack base)
