/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * A header for one function, which runs in a process of its own and knows no other episode: the diagnosis of
 * one episode out of its captures in the database. tpu-collectord --diagnose does it, so that a large merge
 * holds nobody up and hostile bytes are read where nothing else is.
 */
#include <stdio.h>

#include "base.h"

#define REPORT_MAX ((size_t) 16 * 1024 * 1024) /* bytes of JSON; a longer one goes without its tree */

/* Prints docs/diagnose.md's JSON with "captures" and "unusable" (how many) beside it. -ENOENT: no such
 * episode; why. */
int episode_report(const char *database, const char *episode, FILE *f, char why[static 256]);
