/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Pressure stall information: how long tasks waited for a resource (Linux,
 * Documentation/accounting/psi.rst). */
#include "look.h"

enum pressure_resource {
        PRESSURE_CPU,
        PRESSURE_MEMORY,
        PRESSURE_IO,
        PRESSURE_IRQ, /* of the host only, from kernel 6.1 on, where it was built in */
        _PRESSURE_MAX,
};
const char *pressure_resource_name(enum pressure_resource r);

struct pressure_state {
        struct source files[_PRESSURE_MAX];
};
void pressure_init(struct pressure_state *p);
void pressure_look(struct pressure_state *p, const struct look *l);
void pressure_close(struct pressure_state *p);

/* Pure: the total of the line "some" or "full", in microseconds. False: there is none. */
bool pressure_total(const char *text, const char *kind, int64_t *ret_usec);
