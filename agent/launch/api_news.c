/* SPDX-License-Identifier: Apache-2.0 */
/* What the runs report, to who waits for it, and to who watches. */
#include "answer.h"
#include "answer_lines.h"
#include "api_state.h"
#include "local.pb-c.h"

/* What there is now, to all who watch. */
static void send_to_watchers(struct launch_api *a) {
        for (size_t i = 0; i < WATCHERS_MAX; i++) {
                struct run_list list;

                if (!a->watchers[i])
                        continue;
                if (run_list_make(a->runs, "", frame_peer_creds(a->watchers[i])->uid, &list) == 0)
                        answer(a->watchers[i], LOCAL__KIND__KIND_RUN_LIST_REPLY, &list.reply.base);
                run_list_clear(&list);
        }
}

/* One that asked for the same generation again waits beside the first. */
static struct asker *next_started(struct launch_api *a, const struct kept_run *kept) {
        for (struct asker *w = a->askers.first; w; w = w->next)
                if (w->action == ACTION_START && w->generation == kept->generation &&
                    streq(w->name, kept->name))
                        return w;
        return NULL;
}

static void on_started(const struct kept_run *kept, int error, const struct problem *p, void *userdata) {
        struct launch_api *a = userdata;
        struct asker *w;

        while ((w = next_started(a, kept))) {
                if (error < 0)
                        answer_problem(w->peer, error, p);
                else
                        answer_run(w->peer, kept, false, w->conflicts);
                asker_free(w);
        }
        send_to_watchers(a);
}

static void on_ended(const struct kept_run *kept, void *userdata) {
        Local__StopReply reply = LOCAL__STOP_REPLY__INIT;
        struct launch_api *a = userdata;
        struct asker *w;
        struct problem p;
        int error = 0;

        reply.name = wire_text(kept->name);
        if (streq(kept->end.cause, cause_name(CAUSE_UNKILLABLE)))
                error = problem_set(&p, -EBUSY, kept->end.remedy, "run %s: %s", kept->name, kept->end.why);
        while ((w = asker_find(&a->askers, ACTION_STOP, kept->name))) {
                if (error < 0)
                        answer_problem(w->peer, error, &p);
                else
                        answer(w->peer, LOCAL__KIND__KIND_STOP_REPLY, &reply.base);
                asker_free(w);
        }
        answer_lines_ended(&a->askers, kept);
        send_to_watchers(a);
}

static void on_captured(const struct kept_run *kept, const struct capture_result *r, void *userdata) {
        struct launch_api *a = userdata;
        struct asker *w = asker_find(&a->askers, ACTION_CAPTURE, kept->name);
        struct problem p;
        int k;

        if (!w)
                return;
        k = answer_capture(w->peer, kept, r, &p);
        if (k < 0)
                answer_problem(w->peer, k, &p);
        asker_free(w);
}

static void on_running(const struct kept_run *kept, void *userdata) {
        (void) kept;
        send_to_watchers(userdata);
}

const struct runs_events api_runs_events = { .started = on_started,
                                             .running = on_running,
                                             .ended = on_ended,
                                             .captured = on_captured };
