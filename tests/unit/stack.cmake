unit_test(stack KNOWS pystack base)
unit_test(stack-memory KNOWS pystack base)
