/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The query arguments of a call, checked before the call is made: one that it does not know is an error that
 * names it (a misspelt until= would make an order last for ever), and so is one given twice. Pure.
 */
#include "base.h"

#define ARGUMENTS_MAX 4 /* of one call */
#define ARGUMENTS_WHY_MAX 160

struct arguments {
        const char *allowed[ARGUMENTS_MAX]; /* names; unused ones NULL */
        unsigned seen;                      /* bit i: allowed[i] was given */
        char why[ARGUMENTS_WHY_MAX];
};

/* Takes one argument as it came, any bytes. -EINVAL with why, which is valid UTF-8. */
int arguments_take(struct arguments *a, const char *key);

/* A whole number up to most, digits alone. -EINVAL. */
int argument_number(const char *value, uint64_t most, uint64_t *ret);
