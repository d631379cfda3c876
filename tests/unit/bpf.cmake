unit_test(deaths KNOWS bpfread base)
if(HAVE_BPF) # the programs themselves in the kernel: as root, where it permits them
  unit_test(deaths-live KNOWS bpfread base LIBRARIES PkgConfig::BPF deaths_program)
endif()
