/* SPDX-License-Identifier: Apache-2.0 */
#include "answer_lines.h"

#include "adopted.h"
#include "answer.h"
#include "run_words.h"

/* Another start follows that of a run over slices, under the same name. */
static bool is_over(const struct kept_run *kept) {
        return kept && kept->state == LAUNCH_EXITED && kept->generation == 0;
}

static int find_reader(const struct runs *r, const struct caller *c, const char *name, uid_t *ret,
                       struct problem *p) {
        const struct kept_run *kept = runs_find(r, name);
        int k;

        if (c->reads_journal || !kept || kept->uid == c->uid) {
                *ret = c->reads_journal ? LINES_OF_ALL : c->uid;
                return 0;
        }
        k = problem_set(p, -EACCES, "sudo tpuctl logs NAME",
                        "run %s is of user %s: user %s may not read its lines", kept->name, kept->user,
                        c->name);
        return problem_fill(p, k, kept->name, 0);
}

static int check_room(const struct askers *all, const struct caller *c, struct problem *p) {
        unsigned n = 0, own = 0;

        for (const struct asker *w = all->first; w; w = w->next) {
                n += w->lines != NULL;
                own += w->lines && w->reader == c->uid;
        }
        if (n < READERS_MAX && (own < READERS_OF_A_USER_MAX || c->uid == 0))
                return 0;
        return problem_set(p, -EBUSY, "end one that follows a run, or try again",
                           "the lines of runs are being read by %u others already", n);
}

/* Why nothing more comes, or that there is no such run. */
static int fill_reply(const struct asker *w, Local__LinesReply *reply, char *ended, size_t size,
                      struct problem *p) {
        const struct kept_run *kept = runs_find(w->runs, w->name);

        if (!kept && reply->text.len == 0 && !w->again)
                return no_such_run(w->runs, w->name, p);
        if (!kept && reply->text.len == 0)
                (void) snprintf(ended, size, "it is no longer known here");
        if (kept && w->over && reply->text.len == 0)
                (void) snprintf(ended, size, "%s%s%s", kept->end.cause,
                                kept->end.status[0] && !streq(kept->end.status, "0") ? " " : "",
                                streq(kept->end.status, "0") ? "" : kept->end.status);
        reply->ended = ended;
        return 0;
}

static void on_lines(Local__LinesReply *reply, int error, void *userdata) {
        struct asker *w = userdata;
        char *given = reply ? reply->ended : NULL, ended[128] = "";
        struct problem p;

        if (error < 0)
                (void) problem_set(&p, error, "see: journalctl -b -u tpu-launchd",
                                   "run %s: its lines cannot be read: %s", w->name, strerror(-error));
        else
                error = fill_reply(w, reply, ended, sizeof(ended), &p);
        if (error < 0)
                answer_problem(w->peer, error, &p);
        else
                answer(w->peer, LOCAL__KIND__KIND_LINES_REPLY, &reply->base);
        if (reply)
                reply->ended = given;
        asker_free(w);
}

/* At once: a small file of ours. */
static int answer_words(struct runs *r, struct frame_peer *peer, const Local__LinesRequest *q,
                        struct problem *p) {
        Local__LinesReply reply = LOCAL__LINES_REPLY__INIT;
        _cleanup_free_ char *text = NULL;
        size_t len = 0;
        int k;

        if (!runs_find(r, q->name))
                return no_such_run(r, q->name, p);
        k = run_words(r, q->name, q->kept, &text, &len);
        if (k == -ENOENT)
                return problem_set(p, k, "tpuctl logs NAME", "run %s: nothing of it was kept (%.16s)",
                                   q->name, q->kept);
        if (k < 0)
                return problem_set(p, k, "see: journalctl -b -u tpu-launchd",
                                   "run %s: what was kept of it (%.16s) cannot be read: %s", q->name,
                                   q->kept, strerror(-k));
        reply.text = (ProtobufCBinaryData){ .data = (uint8_t *) text, .len = len };
        answer(peer, LOCAL__KIND__KIND_LINES_REPLY, &reply.base);
        return 0;
}

int answer_lines(struct askers *all, sd_event *e, const struct host *h, struct runs *r,
                 struct frame_peer *peer, const struct caller *c, const Local__LinesRequest *q,
                 struct problem *p) {
        struct lines_of of = { .host = h, .name = q->name, .last = q->last, .after = q->after,
                               .wait = q->wait_usec };
        const struct kept_run *kept = runs_find(r, q->name);
        struct asker *w;
        int k;

        if (!run_name_is_valid(q->name))
                return problem_set(p, -EINVAL, "tpuctl runs", "'%.64s' is no name of a run", q->name);
        k = find_reader(r, c, q->name, &of.uid, p);
        if (k == 0 && kept && kept->held)
                return adopted_refuse_lines(kept, p);
        if (k == 0 && q->kept[0])
                return answer_words(r, peer, q, p);
        if (k == 0)
                k = check_room(all, c, p);
        if (k < 0)
                return k;
        w = asker_new(all, peer, ACTION_LINES, q->name);
        if (!w)
                return problem_no_memory(p);
        w->runs = r;
        w->reader = c->uid;
        w->again = q->after && q->after[0];
        w->over = !kept || is_over(kept);
        if (w->over)
                of.wait = MIN(of.wait, LINES_GATHER);
        k = lines_new(e, &of, on_lines, w, &w->lines);
        if (k == 0)
                return 0;
        asker_free(w);
        return problem_set(p, k, "try again", "run %s: its lines cannot be read: %s", q->name, strerror(-k));
}

void answer_lines_ended(struct askers *all, const struct kept_run *kept) {
        for (struct asker *w = all->first, *next; w; w = next) {
                int k;

                next = w->next;
                if (w->action != ACTION_LINES || !streq(w->name, kept->name) || !is_over(kept))
                        continue;
                w->over = true;
                k = lines_hurry(w->lines);
                if (k < 0)
                        on_lines(NULL, k, w);
        }
}
