/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * "--secret NAME=FILE": variables of a run whose values are read here from files, so that they stand in no
 * command line, and that tpu-launchd keeps in memory and shows to nobody.
 */
#include "local.pb-c.h"
#include "words.h"

#define RUN_SECRETS_MAX 64 /* of one run, as tpu-launchd takes them */
#define RUN_SECRETS_BYTES_MAX (64 * 1024)

struct run_secrets {
        Local__Secret items[RUN_SECRETS_MAX], *list[RUN_SECRETS_MAX];
        size_t n;
};
/* given: NAME=FILE each. The newline at a file's end is no part of the value. -errno after saying what is
 * wrong, naming the file. */
int run_secrets_read(const struct words *given, struct run_secrets *ret);
/* Overwrites the values. */
void run_secrets_clear(struct run_secrets *s);
