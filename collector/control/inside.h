/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* What the parts of the registry share. Inside this room only. */
#include "registry.h"

/* --- records.c: what is published to hosts ----------------------------------------------------------- */

struct record {
        struct record *newer, *older; /* by revision */
        json_t *value;                /* NULL: forgotten */
        char *text;                   /* the same as JSON; NULL: not needed yet */
        uint64_t revision, urgent;    /* of its last change, of the last that is published at once */
        char key[];
};

struct records {
        json_t *index; /* key -> json_integer of the pointer */
        struct record *newest, *oldest;
        uint64_t revision, floor; /* below the floor something was forgotten: everything is sent then */
        size_t forgotten;
};

int records_init(struct records *t);
void records_clear(struct records *t);
struct record *records_find(const struct records *t, const char *key);
/* Takes value over, NULL: forgotten. */
int records_put(struct records *t, const char *key, json_t *value, bool urgent, uint64_t revision);
const char *record_text(struct record *r); /* NULL: out of memory */
/* Whether all that changed is what can be published later: missing hosts while a slice forms, and its
 * like. */
bool record_is_urgent(const char *key, const json_t *before, const json_t *now);

/* --- answers.c ------------------------------------------------------------------------------------- */

struct view; /* what is sent to the hosts of one slice, once for all of them */

struct answers {
        struct view *views[1024];
        char epoch[17];
        unsigned lease; /* s */
        uint64_t term;
        char store[CONTROL_ID_MAX];
};
void answers_clear(struct answers *a);
/* What is kept for the hosts of a slice that is gone; one who still asks from there has it made again. */
void answers_forget(struct answers *a, const char *slice);

struct reader { /* who asks */
        const char *slice, *host;
        uint64_t since;
        bool whole; /* it has nothing yet */
};
/* There is something that is sent at once. */
bool answers_is_due(struct answers *a, const struct gang *g, const struct records *t,
                    const struct reader *w);
/* All that it does not know. Shared; one more user. NULL: out of memory. */
struct registry_body *answers_make(struct answers *a, const struct gang *g, const struct records *t,
                                   const struct reader *w);
/* One that has no records. tell: the whole member is asked for. conflict is taken over: json_null(), or who
 * has its place. */
struct registry_body *answers_without(const struct answers *a, bool tell, json_t *conflict);
/* Bodies beside other statuses than 200. NULL: out of memory, as of all of these. */
struct registry_body *body_error(const char *error, const char *remedy);
struct registry_body *body_elsewhere(const char *leader);

/* --- sessions.c ------------------------------------------------------------------------------------ */

#define WHEEL_SLOTS 64
#define WHEEL_SLOT  (250 * USEC_PER_MSEC)

struct session {
        struct session *hash_next, *sooner, *later; /* in the order of leases */
        struct session *wheel_next,
                **wheel_at; /* with those who wait as long; wheel_at NULL: it does not wait */
        char slice[64], host[64], incarnation[40];
        unsigned worker;
        usec_t expires; /* boot clock */
        void *call;     /* that waits; NULL: none */
        usec_t joined, heard; /* boot clock; heard: its last request */
        char *report;   /* what people are shown of its member, as JSON; NULL: out of memory */
        char run[64];   /* by its last figures; "": none, or not known */
        int64_t step, step_time; /* likewise, µs; -1 */
        double goodput;          /* likewise; NaN */
        struct run_checkpoint checkpoint; /* likewise */
        char doing[16];          /* likewise; "" */
        uint64_t since,
                said;   /* said: the number of what it said last, of this incarnation; 0: it gives none */
        uint64_t fresh; /* the decision about what it said, whose storing it waits for; 0: it does not */
        bool whole;
};

struct sessions {
        struct session *hash[4096], *first, *last; /* first: the lease that ends first */
        struct session *wheel[WHEEL_SLOTS];
        unsigned n, waiting;
        usec_t turned; /* slots up to this were answered */
};

struct session *sessions_find(const struct sessions *t, const char *slice, unsigned worker);
int sessions_add(struct sessions *t, const char *slice, unsigned worker, struct session **ret);
struct session *sessions_drop(struct sessions *t, struct session *s);
void sessions_renew(struct sessions *t, struct session *s, usec_t expires);
/* span is at most REGISTRY_WAIT_MAX. */
void sessions_wait(struct sessions *t, struct session *s, void *call, usec_t now, usec_t span);
void *sessions_take_call(struct sessions *t, struct session *s);
/* One whose time is up, in any order; NULL: none. */
struct session *sessions_due(struct sessions *t, usec_t now);
/* When the next lease or the next waiting ends. */
usec_t sessions_next(const struct sessions *t);

/* --- story.c: what is worth an event --------------------------------------------------------------- */

/* Inside a transaction. The record as it was (NULL: none) and as it is. */
int story_store(struct store *s, const char *key, const json_t *before, const json_t *now_value, usec_t now,
                bool *ret_stored);

/* --- hosts.c: what people are shown of hosts; figures ---------------------------------------------- */

/* What was said of the host; its figures (a list, or NULL). */
void hosts_take_member(struct session *s, const json_t *member);
void hosts_take_figures(struct registry *r, struct session *s, const json_t *figures);

#define REGISTRY_OWN "episode/" /* records of the collector's own */

/* --- leading.c, registry.c, registry_life.c: all of it, each above the one before ---------------------- */

struct registry {
        struct control_registry_options o;
        struct control_store *control;
        struct gang *gang; /* NULL: this collector does not lead, and all below is empty */
        struct records records;
        struct answers answers;
        struct sessions sessions;
        struct registry_counters counters;
        json_t *kept;              /* key -> value: all that is stored */
        json_t *pending, *sending; /* key -> value or null: decided; being stored, NULL: nothing is */
        uint64_t decided, covers, stored; /* decisions: how many; up to which sending and stored hold them */
        struct waiter *waiters;
        bool events; /* the batch has some */
        /* the collector's own records were loaded, and published() does not have them yet */
        bool own_loaded;
        sd_event_source *timer;
        bool undecided;                  /* something was said since the last decision */
        usec_t decide_at, gang_at, cost; /* boot clock; cost of the last decision */
        bool failing;
        struct clock_steady time; /* registry_now() */
};

static inline usec_t registry_boot_now(const struct registry *r) {
        return clock_boot(r->o.clock);
}

static inline unsigned registry_lease_seconds(const struct registry *r) {
        return (unsigned) (r->o.lease / USEC_PER_SEC);
}

static inline usec_t registry_wait_max(const struct registry *r) {
        return MIN(r->o.lease / 2, REGISTRY_WAIT_MAX);
}

/* The planner's clock. */
usec_t registry_now(struct registry *r);
struct waiter { /* for a decision to be stored */
        struct waiter *next;
        uint64_t decision;
        void (*done)(int error, void *userdata);
        void *userdata;
};
/* Calls and forgets those whose decision is stored; with an error: all. */
void registry_call_waiters(struct registry *r, int error);
/* Those who wait for an answer get it: why, or NULL: who leads now. */
void registry_answer_all(struct registry *r, const char *why);
/* All that was known is forgotten, whether it was stored or not. */
void registry_forget_all(struct registry *r);
/* This collector leads no more: hosts are sent elsewhere, and all is forgotten. */
void registry_lose_lead(struct registry *r, const char *why);
/* control_events */
void registry_wrote(int error, void *userdata);
int registry_store_story(void *userdata);
/* What hosts are never sent need not be remembered for them. */
bool registry_is_published(const char *key);
int registry_on_timer(sd_event_source *source, uint64_t at, void *userdata);
/* The timer stands at what is due next. */
void registry_arm(struct registry *r);
/* Something was said: it is decided about with what comes within REGISTRY_TOGETHER. */
void registry_decide_soon(struct registry *r);
/* The member is gone: its lease ended, or it says so. */
void registry_drop(struct registry *r, struct session *s, bool shut_down);
