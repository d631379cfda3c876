unit_test(stack KNOWS pystack base)
unit_test(stack-memory KNOWS pystack base)
unit_test(task-stacks KNOWS taskstacks base)
unit_test(cxx-name KNOWS pystack base)
