/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Pure, and fuzzed: what must outlive the agent, in the state file (state_file.h)
 * /var/lib/tpu-hostd/health.json, mode 0600:
 *
 *   {"boot_id": "…", "saved_usec": …, "state": "degraded",
 *    "orders": [{"kind": "cordon", "reason": "…", …}],
 *    "checks": [{"check": "nic.mtu", "subject": "eth0", "settled": "FAIL", "since_usec": …, …}]}
 *
 * Orders hold over boots. State and checks are of one boot: those of another are dropped, because nothing of
 * them need be so now.
 */
#include "checks.h"
#include "orders.h"
#include "state_file.h"

extern const struct state_format health_file;

struct health_memory {
        struct orders orders;
        bool same_boot;        /* the rest is valid */
        enum host_state state; /* that was reported last */
        json_t *checks;        /* for check_table_remember(); NULL: none */
        unsigned bad;          /* orders and checks that could not be read, and were passed over */
};
void health_memory_clear(struct health_memory *m);

/* malloc'ed; NULL: out of memory. */
char *health_file_format(const struct orders *o, const struct check_table *t, enum host_state told,
                         const char *boot_id, usec_t now_real);
/* -EBADMSG with why: not such a text; -ENOMEM. */
int health_file_parse(const char *text, size_t len, const char *boot_id, struct health_memory *ret,
                      char why[static STATE_FILE_WHY_MAX]);
