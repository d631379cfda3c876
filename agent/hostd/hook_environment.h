/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The environment of one hook call, as execve() takes it. Pure.
 */
#include "base.h"

/* A list for hook_offer(): adds KEY=value; false when out of memory or full. */
#define HOOK_ENVIRONMENT_MAX 40
bool hook_environment_add(char **list, const char *key, const char *value);
void hook_environment_free(char **list);
