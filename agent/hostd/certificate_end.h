/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* What is to be said of a certificate as its end comes near. Pure. */
#include "base.h"
#include "finding.h"

#define CERTIFICATE_NOTICE (14 * 86400 * USEC_PER_SEC) /* or a third of its life, where that is less */

struct certificate_end {
        usec_t not_before, not_after; /* real clock */
        const char *path;             /* for the remedy */
        const char *what_then;        /* what an expired one means */
        enum verdict gravest;         /* when it is of no use now */
};

/* Sets found, verdict, and what is wrong: reason and remedy. */
void certificate_end_judge(const struct certificate_end *c, usec_t now_real, struct finding *f);
