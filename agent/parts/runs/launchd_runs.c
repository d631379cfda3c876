/* SPDX-License-Identifier: Apache-2.0 */
#include "launchd_runs.h"

#include <assert.h>

#include "frame.h"
#include "local.pb-c.h"
#include "log.h"
#include "utf8.h"

/*
 * A question may stay open for so long, however short MetricsInterval is: whoever asks again before a
 * busy host can answer never hears anything. As long as PREFLIGHT_TIME, which asks the same process.
 */
#define ANSWER_TIME (10 * USEC_PER_SEC)

struct launchd_runs {
        sd_event *event;
        char *socket;
        usec_t since;
        const struct launchd_runs_handlers *handlers;
        void *userdata;
        struct frame_peer *peer;
        bool asking;
        usec_t asking_since; /* boot clock */
        uint64_t asked; /* questions so far */
        struct host_runs *list, *next;
};

/* Its process is known; or it was over before that. */
static bool has_started(const struct host_run *run) {
        return run->main_pid > 0 || streq(run->state, "exited");
}

void launchd_runs_compare(const struct host_runs *old, const struct host_runs *new, usec_t since,
                          const struct launchd_runs_handlers *h, void *userdata) {
        for (size_t i = 0; i < new->n; i++) {
                const struct host_run *now = &new->runs[i], *before = host_runs_find(old, now->name);
                bool other = !before || before->started_real != now->started_real,
                     ended = streq(now->state, "exited");

                if (has_started(now) && (other || !has_started(before)) && now->started_real >= since)
                        h->started(now, userdata);
                if (ended && (other || !streq(before->state, "exited")) &&
                    (!other || now->ended_real >= since))
                        h->exited(now, userdata);
        }
}

/* A restarted tpu-launchd knows that a run lives before it knows its process. */
static void keep_pid(struct host_run *run, const struct host_runs *old) {
        const struct host_run *before = host_runs_find(old, run->name);

        if (run->main_pid == 0 && before && before->started_real == run->started_real &&
            !streq(run->state, "exited"))
                run->main_pid = before->main_pid;
        run->last_pid = run->main_pid;
        if (run->last_pid == 0 && before && before->started_real == run->started_real)
                run->last_pid = before->last_pid;
}

static void take_run(struct host_run *run, const Local__Run *m) {
        *run = (struct host_run) {
                .started_real = m->started_real_usec,
                .ended_real = m->ended_real_usec,
                .main_pid = m->main_pid,
                .processes = m->processes,
                .restarts = m->restarts,
                .restarts_max = m->restarts_max,
                .generation = m->generation,
                .adopted = m->adopted,
                .last_step = m->step_known ? (int64_t) MIN(m->last_step, (uint64_t) INT64_MAX) : -1,
        };
        utf8_copy(run->name, sizeof(run->name), m->name);
        utf8_copy(run->unit, sizeof(run->unit), m->unit);
        utf8_copy(run->state, sizeof(run->state), m->state);
        utf8_copy(run->cause, sizeof(run->cause), m->cause);
        utf8_copy(run->code, sizeof(run->code), m->code);
        utf8_copy(run->status, sizeof(run->status), m->status);
        utf8_copy(run->framework, sizeof(run->framework), m->framework);
        utf8_copy(run->malloc, sizeof(run->malloc), m->malloc);
        utf8_copy(run->user, sizeof(run->user), m->user);
        utf8_copy(run->command, sizeof(run->command), m->command);
        utf8_copy(run->intent, sizeof(run->intent), m->intent);
        utf8_copy(run->step_expression, sizeof(run->step_expression), m->step_expression);
        utf8_copy(run->control_group, sizeof(run->control_group), m->control_group);
        utf8_copy(run->container, sizeof(run->container), m->container);
        utf8_copy(run->devices, sizeof(run->devices), m->devices);
        utf8_copy(run->image, sizeof(run->image), m->image);
        utf8_copy(run->why, sizeof(run->why), m->why);
        utf8_copy(run->remedy, sizeof(run->remedy), m->remedy);
        utf8_copy(run->lost_peer, sizeof(run->lost_peer), m->lost_peer);
}

static void take_reply(struct launchd_runs *runs, const Local__RunListReply *reply) {
        struct host_runs *swap = runs->list;

        assert(runs->asked > 0); /* nobody answers what was not asked */
        runs->next->n = 0;
        runs->next->known = true;
        runs->next->question = runs->asked;
        for (size_t i = 0; i < reply->n_run && runs->next->n < HOST_RUNS_MAX; i++)
                if (run_name_is_valid(reply->run[i]->name)) {
                        struct host_run *run = &runs->next->runs[runs->next->n++];

                        take_run(run, reply->run[i]);
                        keep_pid(run, swap);
                }
        runs->list = runs->next;
        runs->next = swap;
        launchd_runs_compare(runs->next, runs->list, runs->since, runs->handlers, runs->userdata);
        runs->handlers->listed(runs->userdata);
}

static void forget_list(struct launchd_runs *runs) {
        bool news = runs->list->known;

        runs->list->known = false;
        if (news)
                runs->handlers->listed(runs->userdata);
}

static void on_frame(struct frame_peer *p, const struct frame *f, void *userdata) {
        struct launchd_runs *runs = userdata;
        Local__RunListReply *reply;

        (void) p;
        runs->asking = false;
        if (f->kind != LOCAL__KIND__KIND_RUN_LIST_REPLY) {
                forget_list(runs); /* refused, or an answer of another version */
                return;
        }
        reply = local__run_list_reply__unpack(NULL, f->len, f->data);
        if (!reply) {
                forget_list(runs);
                return;
        }
        take_reply(runs, reply);
        local__run_list_reply__free_unpacked(reply, NULL);
}

static void on_closed(struct frame_peer *p, void *userdata) {
        struct launchd_runs *runs = userdata;

        (void) p;
        runs->peer = NULL;
        runs->asking = false;
        forget_list(runs);
}

static const struct frame_handlers peer_handlers = { .frame = on_frame, .closed = on_closed };

int launchd_runs_new(sd_event *e, const char *socket, usec_t since_real,
                     const struct launchd_runs_handlers *h, void *userdata, struct launchd_runs **ret) {
        _cleanup_(launchd_runs_freep) struct launchd_runs *runs = calloc(1, sizeof(*runs));

        if (!runs)
                return -ENOMEM;
        runs->event = sd_event_ref(e);
        runs->since = since_real;
        runs->handlers = h;
        runs->userdata = userdata;
        runs->list = calloc(1, sizeof(*runs->list));
        runs->next = calloc(1, sizeof(*runs->next));
        runs->socket = strdup(socket ? socket : "");
        if (!runs->list || !runs->next || !runs->socket)
                return -ENOMEM;
        *ret = TAKE_PTR(runs);
        return 0;
}

struct launchd_runs *launchd_runs_free(struct launchd_runs *runs) {
        if (!runs)
                return NULL;
        (void) frame_peer_free(runs->peer);
        sd_event_unref(runs->event);
        free(runs->list);
        free(runs->next);
        free(runs->socket);
        free(runs);
        return NULL;
}

static int send_question(struct launchd_runs *runs) {
        Local__RunListRequest request = LOCAL__RUN_LIST_REQUEST__INIT;
        int r;

        request.watch = true;
        if (!runs->peer) {
                r = frame_peer_connect(runs->event, runs->socket, &peer_handlers, runs, &runs->peer);
                if (r < 0)
                        return r;
        }
        return frame_peer_send(runs->peer, LOCAL__KIND__KIND_RUN_LIST_REQUEST, &request.base);
}

void launchd_runs_refresh(struct launchd_runs *runs) {
        usec_t now = 0;
        int r;

        if (runs->socket[0] == 0)
                return;
        (void) sd_event_now(runs->event, CLOCK_BOOTTIME, &now); /* fails for an unknown clock only */
        if (runs->asking && now < runs->asking_since + ANSWER_TIME)
                return;
        if (runs->asking) {
                log_debug("%s did not answer in time", runs->socket);
                runs->peer = frame_peer_free(runs->peer);
                forget_list(runs);
        }
        runs->asked++;
        r = send_question(runs);
        runs->asking = r >= 0;
        runs->asking_since = now;
        if (r < 0) {
                (void) log_debug_errno(r, "%s: %m", runs->socket);
                runs->peer = frame_peer_free(runs->peer);
                forget_list(runs);
        }
}

void launchd_runs_ask(struct launchd_runs *runs) {
        if (!runs->asking)
                launchd_runs_refresh(runs);
}

uint64_t launchd_runs_asked(const struct launchd_runs *runs) {
        return runs->asked;
}

const struct host_runs *launchd_runs_get(const struct launchd_runs *runs) {
        return runs->list;
}
