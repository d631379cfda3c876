unit_test(environment KNOWS identity)
unit_test(identity KNOWS identity)
