/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* System calls by name: those of x86-64 that a thread can wait in (asm/unistd_64.h). */
#include "base.h"

#define SYSCALL_NAME_MAX 32

/* "read"; of one that is not in the list its number, "system call 451". */
const char *syscall_name(long number, char buf[static SYSCALL_NAME_MAX]);
