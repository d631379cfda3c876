/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What is known of each check now: one entry for each (check, subject), its last finding, the finding that
 * settled it, and its health over time. Bounded: past CHECKS_MAX new checks are refused and counted. Pure;
 * time is an argument.
 *
 * Findings come in runs of a source (a probe): what a source no longer reports after a whole run is
 * forgotten.
 */
#include <jansson.h>

#include "base.h"
#include "finding.h"
#include "health.h"

#define CHECKS_MAX 256

struct check_entry {
        struct kept_finding *latest;  /* what was seen last */
        /* The last finding whose verdict is the settled one: why the check counts as it does. */
        struct kept_finding *settled;
        unsigned source, run;
};

struct check_table {
        struct check_health *health; /* n, in one piece for host_state_of() */
        struct check_entry *entries; /* n, same order */
        size_t n;
        uint64_t refused; /* findings that found no room */
        json_t *remembered; /* from before the agent's restart, and not seen again yet; NULL: nothing */
};
int check_table_init(struct check_table *t);
void check_table_clear(struct check_table *t);

/* A settled verdict that changed. to is _VERDICT_MAX when the check is no longer reported. */
struct check_change {
        enum verdict from, to; /* from is _VERDICT_MAX for a check seen for the first time */
        struct finding finding;
};

/*
 * Takes one finding of source's run number run. 1: the settled verdict changed, *ret says how; 0: it did
 * not; -ENOSPC; -ENOMEM. The first verdict of a check is a change only when it is not OK.
 */
int check_table_take(struct check_table *t, const struct health_policy *p, unsigned source, unsigned run,
                     const struct finding *f, usec_t now, struct check_change *ret);

/* After a whole run: forgets what source did not report in it. gone (may be NULL) is called for each one. */
void check_table_end_run(struct check_table *t, unsigned source, unsigned run,
                         void (*gone)(const struct check_change *c, void *userdata), void *userdata);

/* Whether something that source says was seen worse than it counts, and not often enough yet to count. */
bool check_table_worsens(const struct check_table *t, unsigned source);

/* UNKNOWN before the first finding. */
enum host_state check_table_state(const struct check_table *t);

/* The checks that count, and not as OK, as "nic.mtu eth0 FAIL, …", gravest first; cut with "…" when buf is
 * too small. Returns buf. */
const char *check_table_reasons(const struct check_table *t, char *buf, size_t size);

/*
 * What a restart of the agent in the same boot must not forget: how checks are settled, since when and how
 * often. A check that is remembered goes on from there when it is first seen, and that is no change.
 */
json_t *check_table_to_memory(const struct check_table *t); /* an array; NULL: out of memory */

/* Takes the reference over. */
void check_table_remember(struct check_table *t, json_t *memory);

/*
 * A finding in as many bytes as its texts have: a struct finding takes a kilobyte, and a host has hundreds
 * that are looked at again and again and say the same. Counted, because what was seen last mostly is what
 * settled the check.
 */

struct kept_finding {
        unsigned references;
        enum verdict verdict;
        const char *check, *subject, *found, *wanted, *source, *reason, *remedy; /* as in struct finding */
        char texts[];
};
void kept_finding_unpack(const struct kept_finding *k, struct finding *ret);
