/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Where a program is that only tpu-hostd starts: beside tpu-hostd, as in a build, else where it is installed. */
#include <limits.h>

#include "base.h"

/* 0, or -errno: of the installed one, whose path ret then is. */
int private_program_find(const char *name, char ret[static PATH_MAX]);
