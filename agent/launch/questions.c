/* SPDX-License-Identifier: Apache-2.0 */
#include "questions.h"

#include <assert.h>

/* --- Who waits -------------------------------------------------------------------------------------- */

static void asker_drop(struct asker *w) {
        (void) strings_free(w->conflicts);
        (void) lines_free(w->lines);
        free(w);
}

struct asker *asker_new(struct askers *all, struct frame_peer *peer, enum action action, const char *name) {
        struct asker *w = calloc(1, sizeof(*w));

        if (!w)
                return NULL;
        w->owner = all;
        w->peer = peer;
        w->action = action;
        (void) snprintf(w->name, sizeof(w->name), "%s", name);
        w->next = all->first;
        all->first = w;
        frame_peer_set_state(peer, w);
        return w;
}

void asker_free(struct asker *w) {
        for (struct asker **p = &w->owner->first; *p; p = &(*p)->next)
                if (*p == w) {
                        *p = w->next;
                        break;
                }
        frame_peer_set_state(w->peer, NULL);
        asker_drop(w);
}

struct asker *asker_find(const struct askers *all, enum action action, const char *name) {
        for (struct asker *w = all->first; w; w = w->next)
                if (w->action == action && streq(w->name, name))
                        return w;
        return NULL;
}

void askers_clear(struct askers *all) {
        while (all->first) {
                struct asker *w = all->first;

                all->first = w->next;
                asker_drop(w);
        }
}

/* --- Questions -------------------------------------------------------------------------------------- */

/* Of this user: its own, or a free one. NULL: too many others have some. */
static struct question_share *find_share(struct questions *all, uid_t uid) {
        struct question_share *free_one = NULL;

        if (uid == 0)
                return &all->root;
        for (size_t i = 0; i < QUESTION_USERS; i++) {
                if (all->shares[i].n > 0 && all->shares[i].uid == uid)
                        return &all->shares[i];
                if (all->shares[i].n == 0)
                        free_one = &all->shares[i];
        }
        if (free_one)
                free_one->uid = uid;
        return free_one;
}

static int refuse_question(uid_t uid, bool others, struct problem *p) {
        char remedy[64];

        (void) snprintf(remedy, sizeof(remedy), "ps -o pid,stat,wchan:30,comm -C tpu-launchd");
        if (others)
                return problem_set(p, -EBUSY, remedy, "questions of %d other users have no answer yet",
                                   QUESTION_USERS);
        return problem_set(p, -EBUSY, remedy,
                           "%d questions of user %u have no answer yet: does the user database or a mount "
                           "hang?",
                           QUESTIONS_OF_A_USER, (unsigned) uid);
}

static void on_answer(int result, const char *answer, size_t len, void *userdata) {
        struct question *q = userdata;

        q->child = child_free(q->child);
        q->done(q, result, answer, len);
}

int question_new(struct questions *all, struct askers *askers, struct frame_peer *peer,
                 const struct frame *f, void *userdata, struct question **ret, struct problem *p) {
        struct question *q = calloc(1, sizeof(*q));

        if (!q)
                return problem_no_memory(p);
        *q = (struct question){ .all = all, .frame = *f, .bytes = malloc(f->len + 1), .peer = peer,
                                .userdata = userdata };
        q->asker = q->bytes ? asker_new(askers, peer, _ACTION_MAX, "") : NULL;
        if (!q->asker) {
                free(q->bytes);
                free(q);
                return problem_no_memory(p);
        }
        memcpy(q->bytes, f->data, f->len);
        q->frame.data = q->bytes;
        q->asker->question = q;
        *ret = q;
        return 0;
}

int question_start(struct question *q, struct child_work work, question_done_t done, struct problem *p) {
        uid_t uid = frame_peer_creds(q->peer)->uid;
        struct question_share *share = find_share(q->all, uid);
        int r;

        assert(!q->child);
        if (!share || share->n >= (uid == 0 ? QUESTIONS_OF_ROOT : QUESTIONS_OF_A_USER))
                return refuse_question(uid, !share, p);
        work.done = on_answer;
        work.userdata = q;
        work.there = &share->n;
        q->done = done;
        r = child_start(q->all->event, &work, &q->child);
        return r < 0 ? problem_set(p, r, "try again", "no process can be made: %s", strerror(-r)) : 0;
}

void question_release(struct question *q) {
        if (q->asker)
                asker_free(TAKE_PTR(q->asker));
}

struct question *question_free(struct question *q) {
        if (!q)
                return NULL;
        q->child = child_free(q->child);
        question_release(q);
        request_result_clear(&q->result);
        explicit_bzero(q->bytes, q->frame.len); /* it may hold secrets */
        free(q->bytes);
        free(q);
        return NULL;
}
