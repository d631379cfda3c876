unit_test(allocator KNOWS launch)
unit_test(authority KNOWS launch)
unit_test(launch-api KNOWS launch)
unit_test(launch-job KNOWS launch)
