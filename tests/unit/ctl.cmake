unit_test(ctl KNOWS base ctl)
# The whole program against a folder of fixtures and servers that stand in for the daemons.
if(TARGET tpuctl)
  add_test(NAME ctl-screens COMMAND /usr/bin/python3 ${PROJECT_SOURCE_DIR}/tests/ctl/test_ctl.py)
  set_tests_properties(ctl-screens PROPERTIES TIMEOUT 120 LABELS unit ENVIRONMENT "BUILD_DIR=${PROJECT_BINARY_DIR}")
endif()
