/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What must outlive the agent, in /var/lib/tpu-hostd/health.json, mode 0600:
 *
 *   {"version": 1, "readable_from": 1, "boot_id": "…", "saved_usec": …, "state": "degraded",
 *    "orders": [{"kind": "cordon", "reason": "…", …}],
 *    "checks": [{"check": "nic.mtu", "subject": "eth0", "settled": "FAIL", "since_usec": …, "worsened": 3, …}]}
 *
 * Orders hold over boots. State and checks are of one boot: those of another are dropped, because nothing of them
 * need be so now. A version only adds; it raises readable_from to the first version that understands it when it
 * cannot help it. What this version does not know of a newer one's orders is kept and written back.
 */
#include "checks.h"
#include "orders.h"

#define HEALTH_FILE_VERSION 1
#define HEALTH_FILE_MAX (1024 * 1024)
#define HEALTH_FILE_WHY_MAX 128

struct health_memory {
        struct orders orders;
        bool same_boot;        /* the rest is valid */
        enum host_state state; /* that was told last */
        json_t *checks;        /* for check_table_remember(); NULL: none */
        unsigned bad;          /* orders and checks that could not be read, and were passed over */
};
void health_memory_clear(struct health_memory *m);

/* malloc'ed; NULL: out of memory. */
char *health_file_format(const struct orders *o, const struct check_table *t, enum host_state told,
                         const char *boot_id, usec_t now_real);
/* -EBADMSG: damaged; -EPROTONOSUPPORT: of a version that this one cannot read; both with why. -ENOMEM. */
int health_file_parse(const char *text, size_t len, const char *boot_id, struct health_memory *ret,
                      char why[static HEALTH_FILE_WHY_MAX]);
