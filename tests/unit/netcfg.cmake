unit_test(links KNOWS base links)
unit_test(intent KNOWS base links intent)
unit_test(netplan KNOWS base links intent netplan)

# Needs root and namespaces; says why and is counted as skipped where they are not permitted.
if(TARGET tpu-netcfg)
  add_test(NAME netns-netcfg COMMAND /usr/bin/python3 ${PROJECT_SOURCE_DIR}/tests/netns/test_netcfg.py)
  set_tests_properties(netns-netcfg PROPERTIES
    ENVIRONMENT "BUILD_DIR=${PROJECT_BINARY_DIR};PYTHONDONTWRITEBYTECODE=1" TIMEOUT 300 LABELS netns SKIP_RETURN_CODE 77)
endif()
