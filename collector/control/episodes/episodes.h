/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Episodes: from the request for stacks over the captures of the hosts to the verdict. An episode begins
 * with the registry's record capture/SLICE, or with a capture that a host took for itself. It is diagnosed
 * as soon as all that were asked have answered both captures, at the latest `patience` after its last is
 * due; once more when others answer later. What is known is in the store: a restart loses nothing; and,
 * without the captures, in records of the registry: another collector answers for it, and goes on with it.
 */
#include <jansson.h>
#include <systemd/sd-event.h>

#include "clock.h"
#include "first_word.h"
#include "store_episodes.h"

#define EPISODES_SECOND_MAX  (60 * USEC_PER_SEC) /* between the captures of a round */
#define EPISODES_OPEN_MAX    64
#define EPISODES_KEPT_MAX    64 /* as records of the registry; the oldest are forgotten there */
#define EPISODES_LOOKS_MAX   4 /* verdicts about one episode, as more answer */
#define EPISODES_REPORT_TIME (60 * USEC_PER_SEC)

/* Hosts began it for themselves; the planner's names have no dot. */
static inline bool episode_is_own(const char *id) {
        return startswith(id, "own.");
}

struct episodes_options {
        sd_event *event;
        struct store *store;
        const struct clock *clock;
        const char *program,
                *database; /* what is run for a diagnosis: PROGRAM --diagnose EPISODE --database DATABASE */
        usec_t patience;  /* where nobody says how many hosts there are, half of it after the last capture */
        void (*events)(void *userdata);            /* events were stored */
        /* The record of an episode is this now (registry_keep()); NULL: forgotten. May be NULL. -errno. */
        int (*keep)(const char *id, const json_t *record, void *userdata);
        /* What was said of this start of a run from sockets alone; NULL: nothing. May be NULL. */
        const struct first_word *(*first_word)(const char *run, uint64_t generation, void *userdata);
        void (*failed)(int error, void *userdata); /* the store said no, outside of a transaction */
        void *userdata;
};

struct episodes;
/* o is copied, its texts are borrowed. Goes on with what is open in the store. */
int episodes_new(const struct episodes_options *o, struct episodes **ret);
struct episodes *episodes_free(struct episodes *e);
DEFINE_CLEANUP(struct episodes *, episodes_free)

/* The record capture/SLICE as it is now. slices: of the run's record, or the slice's own, each
 * {"slice","hosts":[{"worker","host","address"}]}; NULL: not known. */
void episodes_asked(struct episodes *e, const char *slice, const json_t *record, const json_t *slices);
/* The record episode/ID, as it is kept (NULL: gone): of another life of this program, or of another
 * collector. slices: of its run, as above. */
void episodes_kept(struct episodes *e, const char *id, const json_t *record, const json_t *slices);
/* Whether captures of this episode are wanted of this host, and of which generation of its run; 0, or less:
 * of any. Who was asked is known, or the slices that it is about. */
bool episodes_wants(struct episodes *e, const char *id, const char *slice, const char *host,
                    int64_t *ret_generation);
/* The record run/NAME: whether a stall is over, or the run. */
void episodes_run(struct episodes *e, const json_t *run);
/* Another collector leads: it goes on with them, from the records. */
void episodes_lost(struct episodes *e);
/* Captures were stored. */
void episodes_news(struct episodes *e);
