/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Where a program is that only tpu-hostd starts: beside tpu-hostd, as in a build, else where it is
 * installed. Parts that do not know each other have such programs.
 */
#include <limits.h>

#include "base.h"

/* 0, or -errno: of the installed one, whose path ret then is. */
int private_program_find(const char *name, char ret[static PATH_MAX]);
