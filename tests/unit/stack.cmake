unit_test(stack KNOWS pystack base)
add_test(NAME stack-python COMMAND /usr/bin/python3 ${PROJECT_SOURCE_DIR}/tests/stack/test_stack.py -v)
set_tests_properties(stack-python PROPERTIES TIMEOUT 180 LABELS stack ENVIRONMENT "BUILD_DIR=${PROJECT_BINARY_DIR}")
