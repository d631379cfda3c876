/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What tpu-launchd's loop never does itself: it asks no user database, and it opens no path that somebody
 * else names. Either may hang (a directory server that is away, a mount whose server is gone, a FUSE file
 * system of a user's own), and the loop has everybody's runs. A process of its own does it, without
 * capabilities and within a time limit (who.h).
 *
 * Such a process may be one that nothing ends (state D). Each counts for the user who asked, until it is
 * gone: who has too many is refused, and others are not.
 */
#include "authority.h"
#include "child.h"
#include "frame.h"
#include "kept_run.h"
#include "lines.h"
#include "request.h"

/* Who waits for an answer about a run. Each hangs on its connection, and goes with it. */
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
struct asker *asker_new(struct askers *all, struct frame_peer *peer, enum action action, const char *name);
void asker_free(struct asker *w);
/* The next one that waits for this; the caller answers and frees it. */
struct asker *asker_find(const struct askers *all, enum action action, const char *name);
/* All of them, when the connections are gone. */
void askers_clear(struct askers *all);

#define QUESTION_WHO_TIMEOUT (4 * USEC_PER_SEC)  /* both together: less than tpu-hostd waits */
#define QUESTION_LOOK_TIMEOUT (5 * USEC_PER_SEC)
#define QUESTIONS_OF_A_USER 8 /* at a time: more than tpu-hostd has */
#define QUESTIONS_OF_ROOT 16
#define QUESTION_USERS 12 /* who have any at a time; processes in all: TasksMax= of our unit */

struct question_share {
        uid_t uid;
        unsigned n;
};
/* Of one loop, as long as it runs. */
struct questions {
        sd_event *event;
        struct question_share shares[QUESTION_USERS], root;
};

struct question;
/* error: 0, -ETIMEDOUT, or why it came to nothing. The answer is there until it returns; it frees. */
typedef void (*question_done_t)(struct question *q, int error, const char *answer, size_t len);

struct question {
        void *userdata;
        struct frame_peer *peer;
        struct frame frame; /* that asks, kept */
        struct who who; /* once it is known */
        struct request_result result; /* of a start, as far as it is known */
        /* Its own. */
        struct asker *asker;
        struct questions *all;
        struct child *child;
        uint8_t *bytes;
        question_done_t done;
};

/* One of a caller, with the frame that it came in. -ENOMEM with p. */
int question_new(struct questions *all, struct askers *askers, struct frame_peer *peer,
                 const struct frame *f, void *userdata, struct question **ret, struct problem *p);
/* A process that does this, once the one before has answered. work: name, timeout, max, run, data. -EBUSY,
 * -errno with p. */
int question_start(struct question *q, struct child_work work, question_done_t done, struct problem *p);
/* The connection waits no more; the rest stays. */
void question_release(struct question *q);
/* The connection waits no more; its process is ended. */
struct question *question_free(struct question *q);
