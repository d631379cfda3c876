unit_test(deaths KNOWS bpfsets base)
unit_test(writers KNOWS bpfsets base)
unit_test(bpf-told KNOWS bpfsets base)

# The programs themselves in the kernel, as root, where it permits them.
if(HAVE_BPF)
  foreach(name deaths-live)
    unit_test(${name} KNOWS bpfsets base)
    target_compile_definitions(test-${name} PRIVATE LOADER="$<TARGET_FILE:tpu-hostd-bpf>")
    add_dependencies(test-${name} tpu-hostd-bpf)
  endforeach()
endif()
