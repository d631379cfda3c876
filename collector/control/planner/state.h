/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What the planner holds in memory. Inside this room only; the contract is gang.h. JSON values that stand in
 * a record are never altered: a changed one is a new one, so that records may share them.
 */
#include "gang.h"
#include "member_part.h"
#include "pair_rounds.h"
#include "run_spec.h"
#include "texts.h"

#define NAME_MAX_HOST GANG_SLICE_MAX
#define NAME_MAX_RUN  42
#define TEXT_MAX      256
#define LIST_MAX      16 /* sentences in waits_for; entries in unlike, twins and conflicts */

/* --- Hosts ----------------------------------------------------------------------------------------- */

/* What must be alike in a slice and across the slices of a run. One of each key, counted. */
struct gang_fingerprint {
        struct gang_fingerprint *next; /* in its bucket */
        unsigned users, count;         /* count: of those just looked at */
        json_t *parts;
        struct fingerprint_key {
                char digest[129], accelerator[64], topology[64]; /* filled up with NULs */
        } key;
};

struct gang_host_run { /* a host's part in a run, as it says */
        char name[NAME_MAX_RUN];
        uint64_t generation;
        enum part_state state;
        char cause[40], code[24], status[24];
        char image[65]; /* prepared, in a container: which one its image is there; empty: not said */
        int64_t step; /* -1: not known */
        usec_t step_time; /* how long a step takes it; 0: not known */
        unsigned asked;   /* the question whose answer step is (struct gang_watch) */
        char *detail;     /* NULL: none */
        usec_t suspected; /* since when the host suspects that it stalls; 0: it does not */
        usec_t since;     /* the last sign of progress before; 0: not known */
        char *suspicion;  /* why, in words; NULL: not said */
        bool may_be_pause; /* the suspicion is known, and nobody is asked for stacks yet */
};

enum notice { NOTICE_NONE, NOTICE_PREEMPTION, NOTICE_MAINTENANCE };

struct claim { /* another machine that says it is this worker */
        json_t *host, *id, *address;
        usec_t since, last;
};

/* A worker id of a slice, whoever has it. */
struct slot {
        unsigned worker;
        bool held;           /* a machine has it: host, id, address are its */
        bool proved;         /* its host was proved by a certificate: none of another host gets the id */
        bool live, presumed; /* presumed: live before this planner was loaded, and not heard yet */
        bool shut_down;      /* when not live: it said so, its runs have ended with it */
        char *hint; /* of one that was never heard: its name or address, as others say; NULL: nobody does */
        json_t *host, *id, *address, *incarnation, *before; /* before: the incarnation in front of it */
        json_t *machine; /* its machine id while it is live; NULL: not said */
        json_t *entry,
                *place; /* as in the slice's record (roster, or missing) and in a run's; NULL: to be made */
        usec_t since;   /* when not live: missing since */
        char *why;
        unsigned hosts;
        struct gang_fingerprint *fingerprint;
        bool unfit, observe, runs_unknown; /* runs_unknown: it cannot say now; runs is what it said before */
        enum notice notice;
        char *reasons, *orders;
        json_t *pairs; /* what it measured last, as it says; NULL: nothing */
        struct gang_host_run *runs, *local; /* local: that the registry did not start */
        size_t n_runs, n_local;
        struct claim claim; /* host NULL: none */
};

struct gang_run;

#define SLOTS_OF_HOST 64 /* worker ids that one host holds at most, of all slices, or claims of others */
/* Of a slice that forms so many of the hosts that were never heard are in its record, and four for each that
 * was: what a host says of its size costs nothing. */
#define SLOTS_NAMED 64

enum slice_state { SLICE_FORMING, SLICE_READY };

struct slice_measured { /* the bandwidth of its pairs: pairs.h */
        uint64_t generation; /* of the slice then; 0: it never was */
        usec_t at, until;    /* until 0: it is not being measured now */
};

struct slice {
        char name[NAME_MAX_HOST];
        uint64_t generation;
        enum slice_state state;
        usec_t since;
        usec_t empty_since; /* 0: somebody is in it */
        unsigned hosts;     /* 0: nobody said how many */
        struct slot **slots; /* by worker id; NULL: nobody was heard or named: slot_at() */
        unsigned n_slots, live, presumed;
        bool dirty, bump, claimed; /* bump: a new generation is due; claimed: a slot has a claim */
        bool left; /* a slot was given up: where none is held it is forgotten at once */
        json_t *unlike;
        struct gang_fingerprint *fingerprint; /* of most; NULL: not known */
        char *obstacle;      /* why no run may be started on it though it is whole; NULL: none */
        usec_t fit_since;    /* ready and without obstacle; 0: it is not */
        struct gang_run *run;     /* that has it */
        const struct slot *suspect; /* choose.c: its first host that fails again and again; NULL: none */
        bool local_said;          /* a host has said something of its local runs since it was looked at */
        usec_t local_stalled;     /* since when hosts suspect that theirs stalls; 0: none does */
        struct slice_measured measured;
};

/* --- Runs ------------------------------------------------------------------------------------------ */

enum run_state { RUN_WAITING, RUN_PREPARING, RUN_RUNNING, RUN_STOPPING, RUN_ENDED, _RUN_STATE_MAX };
enum run_outcome {
        OUTCOME_NONE,
        OUTCOME_SUCCESS,
        OUTCOME_FAILED,
        OUTCOME_STOPPED,
        OUTCOME_REFUSED,
        OUTCOME_LATE,
        _OUTCOME_MAX
};
/* What follows when all have stopped. */
enum run_then { THEN_NOTHING, THEN_AGAIN, THEN_RESTART /* counted */, THEN_STOPPED, THEN_FAILED, _THEN_MAX };

struct gang_intent {
        json_t *value;   /* as it stands in the records */
        Run__Spec *spec; /* what it says of the run: name, min and max are set, and the port */
        char serial[TEXT_MAX];
        bool stop;
};

/* While a host of a run is missing: what the others know of whether it goes on (missing.c). */
struct gang_watch {
        usec_t began;   /* 0: nobody is missing */
        unsigned lost;  /* how many */
        unsigned number; /* of the question; never the same twice */
        char host[NAME_MAX_HOST]; /* who is asked; empty: nobody */
        usec_t asked, answered;   /* the last question; the last answer, 0: none yet */
        bool open;                /* the last question has no answer yet */
        int64_t step;             /* of that answer */
        usec_t quiet;             /* since when no step is seen; 0: the last answer had a higher one */
};

struct gang_run {
        struct gang_intent intent;
        enum run_state state;
        uint64_t generation;
        usec_t since, deadline; /* deadline 0: none */
        char why[GANG_WHY_MAX];
        json_t *slices;      /* as in the record: those it has, or had last */
        json_t *coordinator; /* NULL: none yet */
        unsigned restarts;
        json_t *waits_for, *history;
        json_t *notes; /* suspects that its choice met, what its hosts warned of when they were prepared */
        json_t *over; /* what a planner before this one heard of ends on missing hosts; NULL: nothing */
        unsigned n_over; /* such hosts as in the record */
        enum run_outcome outcome;
        char cause[40], blame[2 * NAME_MAX_HOST];
        int64_t step, step_shown; /* the highest that was seen; as in the record */
        /* What the planner keeps for itself in the record's "planner": */
        enum run_then then;
        bool refused;
        unsigned idle, refusals; /* restarts in a row without a higher step; refused preflights in a row */
        int64_t from_step;
        usec_t not_before, last_call; /* last_call 0: not begun */
        bool taken_back;              /* the intent is gone */
        bool dirty;
        usec_t silent_since; /* a host that is there says nothing of it; 0: none */
        usec_t unsure_since; /* some ended it with success, of a missing one it is not known; 0: no */
        struct gang_watch watch;
        usec_t stalled;      /* since when hosts suspect so without a break; 0: none does */
};

struct gang {
        struct gang_options o;
        usec_t now, loaded;    /* loaded 0: nothing was */
        struct slice **slices; /* by name */
        size_t n_slices, slices_size, n_members;
        struct gang_run **runs; /* as they came */
        size_t n_runs, runs_size;
        struct gang_fingerprint *fingerprints[1024];
        json_t *machines;          /* machine id -> how many live slots have it */
        json_t *suspects;          /* gang_suspect() */
        json_t *records, *pending; /* key -> value; pending: null when forgotten */
        usec_t rounds_at;          /* when captures were asked for last, and how often at once */
        unsigned rounds;
};

/* Of two answers the error. Both are worked out, once. */
static inline int worse(int a, int b) {
        return a < b ? a : b;
}

/* --- records.c: records, texts --------------------------------------------------------------------- */

#define why_set(why, ...) ((void) text_fail(why, GANG_WHY_MAX, 0, __VA_ARGS__))
/* The same; returns r. */
#define why_fail(why, r, ...) text_fail(why, GANG_WHY_MAX, r, __VA_ARGS__)
/* A text that was cut, and may end inside a character. NULL: out of memory. */
json_t *cut_text_json(const char *text);
/* Puts a value, which is taken over, in the place of another one. NULL: all stays, -ENOMEM. */
int replace_value(json_t **at, json_t *value);
/* Sets the record when it changed; takes value over, NULL: forgotten. -ENOMEM. */
int record_put(struct gang *g, const char *key, json_t *value);
int record_putf(struct gang *g, json_t *value, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
bool name_is_host(const char *name);
/* A member of an object: -EBADMSG with why when it is there and of another kind, or beyond max. */
int get_text(const json_t *v, const char *key, size_t max, const char **ret, char why[static GANG_WHY_MAX]);
int get_number(const json_t *v, const char *key, int64_t min, int64_t max, int64_t fallback, int64_t *ret,
               char why[static GANG_WHY_MAX]);
/* The value has "v":1 or more, and is an object. */
int check_version(const json_t *v, const char *what, char why[static GANG_WHY_MAX]);
/* "since 05:00:00Z" of the day, for sentences. */
const char *time_text(usec_t t, char buf[static 32]);
bool site_observes(const struct gang *g);
/* The order of this kind for a host; NULL: none. */
const json_t *host_order(const struct gang *g, const char *host, const char *kind);

/* --- fingerprints.c --------------------------------------------------------------------------------- */

int gang_fingerprint_take(struct gang *g, const json_t *member, struct gang_fingerprint **ret,
                          char why[static GANG_WHY_MAX]);
struct gang_fingerprint *gang_fingerprint_drop(struct gang *g, struct gang_fingerprint *p);
/* Who of the slice is unlike the most; sets fingerprint and unlike. -ENOMEM. */
int slice_compare(struct slice *s);
/* In words, how b differs from a: "libtpu 0.0.39, others 0.0.41". */
void gang_fingerprint_difference(const struct gang_fingerprint *found, const struct gang_fingerprint *others,
                                 char ret[static TEXT_MAX]);

/* --- slice_table.c, slots.c, slices.c, slice_load.c ------------------------------------------------ */

/* The machine id of a live slot, until it is not live any more. -ENOMEM. */
int slot_take_machine(struct gang *g, struct slot *s, const char *machine);
/* Whether another slot is held by the same id, which then identifies neither. */
bool slot_shares_id(const struct gang *g, const struct slot *s);
/* Of a slice's record: who of it has the machine id of another live host. NULL: no memory. */
json_t *slice_twins(const struct gang *g, const struct slice *s);
void slot_clear(struct gang *g, struct slot *s);
/* What its last life said of itself. Not of its runs: one that has ended has ended, and others may go on. */
void slot_forget_words(struct gang *g, struct slot *s);
void slot_clear_claim(struct claim *c);
void slot_changed(struct slot *s); /* its parts in records are to be made again */
/* "h2 (10.0.0.3)" */
const char *slot_text(const struct slot *s, char buf[static 160]);
struct gang_host_run *slot_run(const struct slot *s, const char *name);
json_t *slot_place(struct slot *s); /* borrowed; NULL: out of memory */

struct slice *slice_find(const struct gang *g, const char *name);
int slice_make(struct gang *g, const char *name, struct slice **ret, char why[static GANG_WHY_MAX]);
int slice_slot(struct slice *s, unsigned worker, struct slot **ret);
/* Below n_slots; one of whom nobody was heard is never altered. */
static inline struct slot *slot_at(const struct slice *s, size_t worker) {
        static const struct slot nobody;

        return s->slots[worker] ? s->slots[worker] : (struct slot *) (uintptr_t) &nobody;
}
/* How many worker ids it holds; the last of them, where there is one. */
unsigned slots_of_host(const struct gang *g, const char *host, struct slice **ret_slice,
                       unsigned *ret_worker);
struct slice *slice_free(struct gang *g, struct slice *s);
void slices_of_host_dirty(struct gang *g, const char *host);
int slice_load(struct gang *g, const char *name, const json_t *v, char why[static GANG_WHY_MAX]);
int slot_load(struct gang *g, const char *slice, unsigned worker, const json_t *v,
              char why[static GANG_WHY_MAX]);
int slot_put(struct gang *g, const struct slice *s, const struct slot *slot);
/* Who is missed, generations, records of all that changed. Returns when it has to be called again. */
int slices_step(struct gang *g, usec_t *ret_next);
/* The first of a slice who is not there, in words. */
bool slice_missing_text(const struct slice *s, char ret[static TEXT_MAX]);
/* Since when it is not whole, and whether a machine that is missing said that it would go. */
usec_t slice_broken_since(const struct slice *s, bool *ret_leaving);

/* --- intents.c, runs.c, choose.c, run_record.c ----------------------------------------------------- */

void intent_clear(struct gang_intent *i);
/* NULL: taken back. */
int intent_want(struct gang *g, const char *name, const json_t *v, usec_t now,
                char why[static GANG_WHY_MAX]);
int intent_restore(struct gang *g, const char *name, const json_t *v, char why[static GANG_WHY_MAX]);

/* As its intent has it, else as the planner's options do. */
usec_t run_shrink_after(const struct gang *g, const struct gang_run *r);
usec_t run_grow_after(const struct gang *g, const struct gang_run *r);
usec_t run_last_call(const struct gang *g, const struct gang_run *r);

struct gang_run *gang_run_find(const struct gang *g, const char *name);
struct gang_run *gang_run_free(struct gang_run *r);
int run_load(struct gang *g, const char *name, const json_t *v, char why[static GANG_WHY_MAX]);
json_t *run_record(const struct gang *g, const struct gang_run *r);
/* The ends of its generation on hosts that are missing: "SLICE/WORKER" to what they said. */
json_t *run_over(const struct gang *g, const struct gang_run *r);
int run_restore_over(struct gang *g, struct gang_run *r);
int runs_step(struct gang *g, usec_t *ret_next);
bool run_has_slice(const struct gang_run *r, const char *slice);
bool run_knows_slice(const json_t *run, const char *slice);

/*
 * Which slices a waiting run takes: 1: these; 0: not yet, *ret_next says when to look again; waits_for of
 * the run says for whom.
 */
struct choice {
        struct slice **slices;
        size_t n;
};
int run_choose(struct gang *g, struct gang_run *r, usec_t *ret_next, struct choice *ret);
/* --- images.c -------------------------------------------------------------------------------------- */

/* Whether the hosts of a run mean one image by its name, as far as they say. *ret_unlike is as it was where
 * they do; else a sentence for each host that has another than most, as for waits_for. -ENOMEM. */
int run_compare_images(const struct gang *g, const struct gang_run *r, json_t **ret_unlike);

/* Whether a slice of the intent that the run does not have has been fit for long enough. */
struct slice *run_grows(struct gang *g, struct gang_run *r, usec_t *ret_next);
/* One sentence more, LIST_MAX at most. */
int waits_add(json_t *list, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* --- transitions.c: from one state of a run to the next. -ENOMEM ----------------------------------- */

/* No host is missing any more: what the hosts were asked for (missing.h) is forgotten. */
void run_evidence_clear(struct gang_run *r);
void run_enter(struct gang_run *r, enum run_state state, usec_t now);
/* Takes waits over; NULL is out of memory. */
int run_set_waits(struct gang_run *r, json_t *waits);
int run_end(struct gang_run *r, enum run_outcome outcome, usec_t now);
/* Back to waiting, with a new deadline. */
int run_wait_again(struct gang_run *r, usec_t now);
int gang_run_stop(struct gang_run *r, enum run_then then, usec_t now);
/* How long to wait after the n-th failure in a row; 0: not. */
usec_t run_backoff(const struct gang *g, unsigned n);
/* A new generation on these slices. */
int run_begin(struct gang *g, struct gang_run *r, const struct choice *c);

/* --- said.c: the record member/ as a host says it, checked ----------------------------------------- */

#define MEMBER_RUNS_MAX    16
#define MEMBER_ADDRESS_MAX 8
#define MEMBER_PAIRS_MAX (PAIR_ROUNDS_MAX * PAIR_NICS_MAX)

struct said { /* texts and values are the member's own */
        const char *slice, *host, *id, *machine, *incarnation, *state, *reasons, *orders, *notice;
        unsigned worker, hosts;
        bool proved, given; /* by a certificate; the slot by the site (registry.h: gives) */
        bool observe, runs_unknown; /* runs_unknown: it does not know (yet) what runs there */
        const json_t *address, *next; /* next: of the workers after it, names or addresses */
        const json_t *pairs; /* what it measured of its pairs last; NULL: nothing */
        struct gang_host_run *runs, *local; /* local: that the registry did not start */
        size_t n_runs, n_local;
};

/* -EBADMSG with why, -ENOMEM. */
int said_parse(const json_t *member, struct said *ret, char why[static GANG_WHY_MAX]);
void said_clear(struct said *s);
/* A part in a run. -EBADMSG with why, -ENOMEM. */
int host_run_parse(const json_t *v, struct gang_host_run *ret, char why[static GANG_WHY_MAX]);
struct gang_host_run *host_runs_free(struct gang_host_run *runs, size_t n);
