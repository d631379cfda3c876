/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Whether ld.so could load a library at all: what its ELF header says (elf(5)). */
#include "base.h"
#include "host.h"

#define ELF_WHY_MAX 96

/*
 * Whether path is an ELF64 x86-64 shared object. 0, or -errno with the reason in why: -ENOENT when it is not
 * there, -ENOEXEC when it is something else.
 */
int elf_check_library(const struct host *h, const char *path, char why[static ELF_WHY_MAX]);
