/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * A finding in as many bytes as its texts have: a struct finding takes a kilobyte, and a host has hundreds that are
 * looked at again and again and say the same. Counted, because what was seen last mostly is what settled the check.
 */
#include "finding.h"

struct kept_finding {
        unsigned references;
        enum verdict verdict;
        const char *check, *subject, *found, *wanted, *source, *reason, *remedy; /* as in struct finding */
        char texts[];
};

/* NULL: out of memory. */
struct kept_finding *kept_finding_new(const struct finding *f);
struct kept_finding *kept_finding_ref(struct kept_finding *k);
/* Takes NULL; returns NULL. */
struct kept_finding *kept_finding_unref(struct kept_finding *k);
/* Whether k says what f says, verdict and every text. */
bool kept_finding_says(const struct kept_finding *k, const struct finding *f);
void kept_finding_unpack(const struct kept_finding *k, struct finding *ret);
