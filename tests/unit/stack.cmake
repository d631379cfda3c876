unit_test(stack KNOWS pystack base)
