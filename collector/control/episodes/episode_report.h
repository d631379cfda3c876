/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The diagnosis of one episode out of its captures in the database: what tpu-collectord --diagnose does, in a process
 * of its own, so that a large merge holds nobody up and hostile bytes are read where nothing else is.
 */
#include <stdio.h>

#include "base.h"

#define REPORT_MAX ((size_t) 16 * 1024 * 1024) /* bytes of JSON; a longer one goes without its tree */

/* Prints docs/diagnose.md's JSON with "captures" and "unusable" (how many) beside it. -ENOENT: no such episode; why. */
int episode_report(const char *database, const char *episode, FILE *f, char why[static 256]);
