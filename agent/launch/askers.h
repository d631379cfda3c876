/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Who waits for an answer about a run. Each hangs on its connection, and goes with it. */
#include "authority.h"
#include "frame.h"
#include "kept_run.h"
#include "lines.h"

struct asker {
        struct asker *next;
        struct askers *owner;
        struct frame_peer *peer;
        enum action action;
        char name[RUN_NAME_MAX + 1];
        uint64_t generation; /* of a start */
        char **conflicts;
        struct question *question; /* what is found out first; its action is then _ACTION_MAX */
        /* Of ACTION_LINES. */
        struct runs *runs;
        struct lines *lines; /* being read */
        uid_t reader;
        bool over;  /* the run had ended before they were, or is not known any more */
        bool again; /* some of them were given before */
};

struct askers {
        struct asker *first;
};

/* NULL without memory. */
struct asker *asker_new(struct askers *all, struct frame_peer *peer, enum action action,
                          const char *name);
void asker_free(struct asker *w);
/* The next one that waits for this; the caller answers and frees it. */
struct asker *asker_find(const struct askers *all, enum action action, const char *name);
/* All of them, when the connections are gone. */
void askers_clear(struct askers *all);
