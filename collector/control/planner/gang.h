/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The planner: what slices are whole, which runs go where, in which generation. Pure: it is given what hosts
 * say (members), what people want (intents) and the time, and answers with records to keep (docs/registry.md
 * is the contract of each). The collector that leads runs it.
 *
 * The whole state can be rebuilt from the records it gave out (gang_load()) and what hosts say again: who
 * takes over misses nobody before `lease` has passed.
 *
 * Bounds: GANG_* below; what is beyond is refused with words. JSON values are jansson's.
 */
#include <jansson.h>

#include "base.h"

#define GANG_MEMBERS_MAX 65536
#define GANG_SLICES_MAX 4096
#define GANG_HOSTS_MAX 4096 /* of a slice */
#define GANG_RUNS_MAX 256 /* that have not ended; of those that have, the last 64 are kept */
#define GANG_KEY_MAX 160
#define GANG_SLICE_MAX 64 /* bytes of a slice's name with its end: docs/registry.md */
#define GANG_WHY_MAX 512

struct gang_options {
        usec_t lease; /* after gang_load(): how long nobody is missed */
        usec_t last_call; /* min reached: how long more slices are waited for (30 s) */
        usec_t shrink_after; /* a slice of a run broke: how long it may come back before the run shrinks */
        usec_t grow_after; /* a slice has been ready for so long: a run below its max takes it */
        usec_t backoff_base, backoff_max; /* between restarts of a run, doubled each time without progress */
        unsigned no_progress; /* restarts in a row in which the step did not rise: the run is ended */
        bool preflight_pairs; /* a slice that is whole anew is measured before a run begins on it */
};
extern const struct gang_options gang_default_options;

struct gang;

int gang_new(const struct gang_options *o, struct gang **ret);
struct gang *gang_free(struct gang *g);
DEFINE_CLEANUP(struct gang *, gang_free)

/*
 * A record that was kept, before the first step: slot/, slice/, intent/, run/, order/, site/, capture/,
 * pairs/. -EBADMSG for one that cannot be understood (why: which, and what of it); it is then as if it were
 * not there.
 */
int gang_load(struct gang *g, const char *key, const json_t *value, usec_t now,
              char why[static GANG_WHY_MAX]);

/*
 * A host says what it is. 0: it is a member (again); -EEXIST: its worker id is another machine's (why names
 * the holder; the conflict is in the slice's record until the host stops saying it); -EBUSY: the host is
 * there as another worker; -EBADMSG: why; -E2BIG. "proved" and "given" of it are the caller's own words.
 */
int gang_say(struct gang *g, const json_t *member, usec_t now, char why[static GANG_WHY_MAX]);
/*
 * Its lease ended: its runs may go on. Or it said that it is shut down: they do not. why is "its lease
 * ended", "it was shut down". -ENOENT.
 */
int gang_gone(struct gang *g, const char *slice, unsigned worker, const char *incarnation, bool shut_down,
              const char *why, usec_t now);

/* Whether the host has the worker id, in this life. */
bool gang_is_live(const struct gang *g, const char *slice, unsigned worker, const char *incarnation);

/*
 * What people want: intent/RUN, order/HOST, site/mode, capture/SLICE, pairs/SLICE; NULL takes it back, but
 * what was measured stays (-EINVAL).
 * -EBADMSG, -EBUSY (a run of that name has not ended; captures were taken less than 5 minutes ago; something
 * runs on the slice that is to be measured), -ENOENT (no such slice),
 * -EINVAL (user root, min above max, …): why, for the caller.
 */
int gang_want(struct gang *g, const char *key, const json_t *value, usec_t now,
              char why[static GANG_WHY_MAX]);
/* The worker id is given up: the next who claims it gets it. -EBUSY while its holder lives. */
int gang_release(struct gang *g, const char *slice, unsigned worker, char why[static GANG_WHY_MAX]);

/*
 * Hosts that fail again and again, each with words why ({"h3": "2 confirmed stalls in 3 days"}), from now
 * on; NULL: none. A slice that has one is taken after those that have none, also at a restart, and the
 * run's "notes" say so. value is shared, and stays as it is.
 */
void gang_suspect(struct gang *g, const json_t *value);

/*
 * Decides. changed is called for every record that changed (value NULL: forgotten): it is to be
 * kept before it is published. Returns when to call again at the latest (USEC_INFINITY: on news).
 */
usec_t gang_step(struct gang *g, usec_t now,
                 void (*changed)(const char *key, const json_t *value, void *userdata),
                 void *userdata);

/* "SLICE/WORKER". -EBADMSG. */
int gang_slot_parse(const char *name, char slice[static GANG_SLICE_MAX], unsigned *ret);

/* A record as it stands; NULL when there is none. Borrowed until the next call. A planner of NULL has no
 * records. */
const json_t *gang_record(const struct gang *g, const char *key);
/* Whether the host (of this slice, of this name) shall know the record. */
bool gang_concerns(const struct gang *g, const char *key, const char *slice, const char *host);
/* Calls visit for every record. */
void gang_visit(const struct gang *g, void (*visit)(const char *key, const json_t *value, void *userdata),
                void *userdata);
