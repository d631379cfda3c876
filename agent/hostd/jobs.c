/* SPDX-License-Identifier: Apache-2.0 */
#include "frame.h"
#include "jobs.h"
#include "local.pb-c.h"
#include "log.h"
#include "utf8.h"

/*
 * So long a question may stay open, however short MetricsInterval is: who asks anew sooner than a busy host can
 * answer never hears anything. As long as PREFLIGHT_TIME, which asks the same process.
 */
#define ANSWER_TIME (10 * USEC_PER_SEC)

struct jobs {
        sd_event *event;
        char *socket;
        usec_t since;
        const struct jobs_handlers *handlers;
        void *userdata;
        struct frame_peer *peer;
        bool asking;
        usec_t asking_since; /* boot clock */
        uint64_t asked; /* questions so far */
        struct job_list *list, *next;
};

static const struct job *find(const struct job_list *l, const char *name) {
        for (size_t i = 0; i < l->n; i++)
                if (streq(l->jobs[i].name, name))
                        return &l->jobs[i];
        return NULL;
}

/* Its process is known; or it was over before that. */
static bool has_begun(const struct job *j) {
        return j->main_pid > 0 || streq(j->state, "exited");
}

void jobs_compare(const struct job_list *old, const struct job_list *new, usec_t since,
                  const struct jobs_handlers *h, void *userdata) {
        for (size_t i = 0; i < new->n; i++) {
                const struct job *now = &new->jobs[i], *before = find(old, now->name);
                bool anew = !before || before->started_real != now->started_real,
                     ended = streq(now->state, "exited");

                if (has_begun(now) && (anew || !has_begun(before)) && now->started_real >= since)
                        h->started(now, userdata);
                if (ended && (anew || !streq(before->state, "exited")) &&
                    (!anew || now->ended_real >= since))
                        h->exited(now, userdata);
        }
}

/* A tpu-launchd that was started again knows what runs before it knows the process. */
static void keep_pid(struct job *j, const struct job_list *old) {
        const struct job *before = find(old, j->name);

        if (j->main_pid == 0 && before && before->started_real == j->started_real &&
            !streq(j->state, "exited"))
                j->main_pid = before->main_pid;
        j->last_pid = j->main_pid;
        if (j->last_pid == 0 && before && before->started_real == j->started_real)
                j->last_pid = before->last_pid;
}

static void take_job(struct job *j, const Local__Job *m) {
        *j = (struct job) {
                .started_real = m->started_real_usec,
                .ended_real = m->ended_real_usec,
                .main_pid = m->main_pid,
                .processes = m->processes,
                .restarts = m->restarts,
                .restarts_max = m->restarts_max,
                .generation = m->generation,
                .last_step = m->step_known ? (int64_t) MIN(m->last_step, (uint64_t) INT64_MAX) : -1,
        };
        utf8_copy(j->name, sizeof(j->name), m->name);
        utf8_copy(j->unit, sizeof(j->unit), m->unit);
        utf8_copy(j->state, sizeof(j->state), m->state);
        utf8_copy(j->cause, sizeof(j->cause), m->cause);
        utf8_copy(j->code, sizeof(j->code), m->code);
        utf8_copy(j->status, sizeof(j->status), m->status);
        utf8_copy(j->framework, sizeof(j->framework), m->framework);
        utf8_copy(j->malloc, sizeof(j->malloc), m->malloc);
        utf8_copy(j->user, sizeof(j->user), m->user);
        utf8_copy(j->command, sizeof(j->command), m->command);
        utf8_copy(j->intent, sizeof(j->intent), m->intent);
        utf8_copy(j->step_expression, sizeof(j->step_expression), m->step_expression);
        utf8_copy(j->why, sizeof(j->why), m->why);
        utf8_copy(j->remedy, sizeof(j->remedy), m->remedy);
}

static void take_reply(struct jobs *j, const Local__JobsReply *reply) {
        struct job_list *swap = j->list;

        j->next->n = 0;
        j->next->known = true;
        j->next->question = j->asked;
        for (size_t i = 0; i < reply->n_job && j->next->n < JOBS_MAX; i++)
                if (run_name_is_valid(reply->job[i]->name)) {
                        struct job *job = &j->next->jobs[j->next->n++];

                        take_job(job, reply->job[i]);
                        keep_pid(job, swap);
                }
        j->list = j->next;
        j->next = swap;
        jobs_compare(j->next, j->list, j->since, j->handlers, j->userdata);
        if (j->handlers->listed)
                j->handlers->listed(j->userdata);
}

static void unknown(struct jobs *j) {
        bool news = j->list->known;

        j->list->known = false;
        if (news && j->handlers->listed)
                j->handlers->listed(j->userdata);
}

static void on_frame(struct frame_peer *p, const struct frame *f, void *userdata) {
        struct jobs *j = userdata;
        Local__JobsReply *reply;

        (void) p;
        j->asking = false;
        if (f->kind != LOCAL__KIND__KIND_JOBS_REPLY) {
                unknown(j); /* refused, or an answer of another version */
                return;
        }
        reply = local__jobs_reply__unpack(NULL, f->len, f->data);
        if (!reply) {
                unknown(j);
                return;
        }
        take_reply(j, reply);
        local__jobs_reply__free_unpacked(reply, NULL);
}

static void on_closed(struct frame_peer *p, void *userdata) {
        struct jobs *j = userdata;

        (void) p;
        j->peer = NULL;
        j->asking = false;
        unknown(j);
}

static const struct frame_handlers peer_handlers = { .frame = on_frame, .closed = on_closed };

int jobs_new(sd_event *e, const char *socket, usec_t since_real, const struct jobs_handlers *h,
             void *userdata, struct jobs **ret) {
        _cleanup_(jobs_freep) struct jobs *j = calloc(1, sizeof(*j));

        if (!j)
                return -ENOMEM;
        j->event = sd_event_ref(e);
        j->since = since_real;
        j->handlers = h;
        j->userdata = userdata;
        j->list = calloc(1, sizeof(*j->list));
        j->next = calloc(1, sizeof(*j->next));
        j->socket = strdup(socket ? socket : "");
        if (!j->list || !j->next || !j->socket)
                return -ENOMEM;
        *ret = TAKE_PTR(j);
        return 0;
}

struct jobs *jobs_free(struct jobs *j) {
        if (!j)
                return NULL;
        (void) frame_peer_free(j->peer);
        sd_event_unref(j->event);
        free(j->list);
        free(j->next);
        free(j->socket);
        free(j);
        return NULL;
}

static int ask(struct jobs *j) {
        Local__JobsRequest request = LOCAL__JOBS_REQUEST__INIT;
        int r;

        request.watch = true;

        if (!j->peer) {
                r = frame_peer_connect(j->event, j->socket, &peer_handlers, j, &j->peer);
                if (r < 0)
                        return r;
        }
        return frame_peer_send(j->peer, LOCAL__KIND__KIND_JOBS_REQUEST, &request.base);
}

void jobs_refresh(struct jobs *j) {
        usec_t now = 0;
        int r;

        if (j->socket[0] == 0)
                return;
        (void) sd_event_now(j->event, CLOCK_BOOTTIME, &now); /* fails for a clock that is not there only */
        if (j->asking && now < j->asking_since + ANSWER_TIME)
                return;
        if (j->asking) {
                log_debug("%s did not answer in time", j->socket);
                j->peer = frame_peer_free(j->peer);
                unknown(j);
        }
        j->asked++;
        r = ask(j);
        j->asking = r >= 0;
        j->asking_since = now;
        if (r < 0) {
                (void) log_debug_errno(r, "%s: %m", j->socket);
                j->peer = frame_peer_free(j->peer);
                unknown(j);
        }
}

void jobs_ask(struct jobs *j) {
        if (!j->asking)
                jobs_refresh(j);
}

uint64_t jobs_asked(const struct jobs *j) {
        return j->asked;
}

const struct job_list *jobs_get(const struct jobs *j) {
        return j->list;
}

const struct job *jobs_find(const struct jobs *j, const char *name) {
        return find(j->list, name);
}
