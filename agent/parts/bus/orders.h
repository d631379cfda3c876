/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What people ordered for this host, each with reason, author and, where it has one, end:
 *   cordon   no new run should start here (tpuctl run refuses); the runs that are here go on
 *   drain    as cordon, and the runs that are here are waited for: drained when none is left
 *   observe  the agents watch and change nothing
 *   silence  a check, a group of checks ("nic"), or one subject of them does not count for the host's state
 * One of each kind, and one silence for each (check, subject). Orders do not change what checks say. Pure;
 * time is an argument.
 *
 * The end is a real time, because it holds over boots. In the boot that the order is from it is counted on
 * the boot clock, so that a clock that jumps ends nothing early.
 */
#include <jansson.h>

#include "base.h"
#include "clock.h"
#include "finding.h"
#include "host.h"

#define ORDERS_MAX 64
#define ORDER_REASON_MAX 200
#define ORDER_SPAN_MAX (366 * 24 * 3600 * USEC_PER_SEC) /* an end is at most so far away */

enum order_kind { ORDER_CORDON, ORDER_DRAIN, ORDER_OBSERVE, ORDER_SILENCE, _ORDER_KIND_MAX };
const char *order_kind_name(enum order_kind k); /* "cordon", … */

struct order {
        enum order_kind kind;
        char check[sizeof(((struct finding *) NULL)->check)];     /* of a silence, else empty */
        char subject[sizeof(((struct finding *) NULL)->subject)]; /* of a silence; empty: every one */
        char reason[ORDER_REASON_MAX];
        char by[256];        /* "root (login alice)", or the URI of a certificate */
        usec_t since, until; /* real clock; until is 0: until a person ends it */
        usec_t since_boot;   /* boot clock of that boot */
        char boot_id[BOOT_ID_MAX];
        bool drained; /* of a drain: that the last run ended was reported */
};

struct orders {
        struct order items[ORDERS_MAX];
        size_t n;
};

/* Now, on the clocks of an order. */
struct order_time {
        usec_t boot, real;
        const char *boot_id;
};

/* NULL: there is none. */
struct order *orders_find(struct orders *o, enum order_kind k);
/* What silences a check; the most exact one. */
const struct order *orders_silence_of(const struct orders *o, const char *check, const char *subject);
/* Whether a silence of (check, subject) would be about this one. */
bool order_silences(const struct order *s, const char *check, const char *subject);

/* Takes it, in place of the one of the same kind (and check and subject). -ENOSPC. */
int orders_set(struct orders *o, const struct order *new);
/* Takes one out: 1 and *ret, or 0 when there is none. */
int orders_end(struct orders *o, enum order_kind k, const char *check, const char *subject,
               struct order *ret);
/* Takes one out whose end has come: 1 and *ret, or 0. */
int orders_expire(struct orders *o, const struct order_time *now, struct order *ret);

/* As it is on disk. NULL: out of memory. */
json_t *orders_to_json(const struct orders *o);
/* What cannot be read as an order is counted. */
unsigned orders_from_json(struct orders *o, const json_t *list);

/* {reason, by, since, until}, for a silence {check, subject} too: docs/api.md. New reference. */
json_t *order_to_public_json(const struct order *o);
/* "cordoned by root until 2026-11-21T10:00:00Z: bad cable" */
const char *order_text(const struct order *o, char *buf, size_t size);
/* Of all but silences: "cordoned by root: bad cable; …"; empty: nothing is ordered. Returns buf. */
const char *orders_text(const struct orders *l, char *buf, size_t size);
/* "2026-11-21T10:00:00Z" or "no end". */
const char *order_until_text(const struct order *o, char buf[static CLOCK_TEXT_MAX]);

/* Text of a person: not empty, UTF-8 without control characters, shorter than ORDER_REASON_MAX. -EINVAL,
 * -E2BIG. */
int order_check_reason(const char *text);
