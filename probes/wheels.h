/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Apart from its one user, the probe of fingerprints, so that a test can give it folders: Python packages
 * found on disk by their dist-info folders, without starting any Python: NAME-VERSION.dist-info with
 * METADATA (Python packaging, "Recording installed projects"), below the usual library directories: system,
 * /usr/local, /opt/NAME and homes, as far as they can be read.
 */
#include "base.h"
#include "host.h"

#define WHEELS_MAX 64

struct wheel {
        const char *package; /* static, one of those looked for */
        char version[48];
        char directory[160];
};

struct wheels {
        struct wheel items[WHEELS_MAX];
        size_t n;
        bool more;            /* there were more */
        unsigned directories; /* that were read */
};

/* packages: ended by NULL, names as in METADATA, lower case with '_' for '-'. Never fails. */
void wheels_find(const struct host *h, const char *const packages[], struct wheels *ret);
