/* SPDX-License-Identifier: Apache-2.0 */
#include "local_call.h"

#include "backoff.h"
#include "local.pb-c.h"
#include "log.h"
#include "loop_timer.h"
#include "utf8.h"

#define TELLING_TIME (10 * USEC_PER_SEC)

struct local_call {
        struct frame_peer *peer;
        sd_event_source *timer;
        const char *program;
        uint16_t want;
        int failed; /* -errno of the start, reported by the timer */
        void (*done)(const struct local_answer *a, void *userdata);
        void *userdata;
};

static void end_call(struct local_call *c, const struct local_answer *a) {
        /* fails for a source without loop only */
        (void) sd_event_source_set_enabled(c->timer, SD_EVENT_OFF);
        c->done(a, c->userdata); /* and c may be gone */
}

static void no_answer(struct local_call *c, int error) {
        char text[200], remedy[120];
        const struct local_answer a = { .error = error, .no_answer = true, .text = text, .remedy = remedy };

        (void) snprintf(text, sizeof(text), "%s does not answer: %s", c->program, strerror(-error));
        (void) snprintf(remedy, sizeof(remedy), "systemctl status %s.socket %s", c->program, c->program);
        end_call(c, &a);
}

static void refused(struct local_call *c, const struct frame *f) {
        Local__Error *e = local__error__unpack(NULL, f->len, f->data);
        char text[400], remedy[300];
        const struct local_answer a = {
                .error = e && e->code > 0 ? -e->code : -EPROTO, .text = text, .remedy = remedy
        };

        if (e) {
                utf8_copy(text, sizeof(text), e->text);
                utf8_copy(remedy, sizeof(remedy), e->remedy);
        } else {
                (void) snprintf(text, sizeof(text), "%s's answer cannot be understood", c->program);
                (void) snprintf(remedy, sizeof(remedy), "%s --version", c->program);
        }
        if (e)
                local__error__free_unpacked(e, NULL);
        end_call(c, &a);
}

static void on_frame(struct frame_peer *p, const struct frame *f, void *userdata) {
        struct local_call *c = userdata;
        _cleanup_close_ int fd = frame_peer_take_fd(p);
        const struct local_answer good = { .kind = f->kind, .data = f->data, .len = f->len, .fd = &fd };

        if (f->kind == LOCAL__KIND__KIND_ERROR)
                refused(c, f);
        else if (f->kind != c->want)
                no_answer(c, -EPROTO);
        else
                end_call(c, &good);
}

static void on_closed(struct frame_peer *p, void *userdata) {
        struct local_call *c = userdata;

        (void) p;
        c->peer = NULL;
        no_answer(c, -ECONNRESET);
}

static const struct frame_handlers handlers = { .frame = on_frame, .closed = on_closed };

static int on_timer(sd_event_source *source, uint64_t usec, void *userdata) {
        struct local_call *c = userdata;

        (void) source, (void) usec;
        no_answer(c, c->failed < 0 ? c->failed : -ETIMEDOUT);
        return 0;
}

int local_call_new(sd_event *e, const struct local_question *q,
                   void (*done)(const struct local_answer *a, void *userdata), void *userdata,
                   struct local_call **ret) {
        _cleanup_(local_call_freep) struct local_call *c = calloc(1, sizeof(*c));
        int r;

        if (!c)
                return -ENOMEM;
        *c = (struct local_call){
                .program = q->program, .want = q->want, .done = done, .userdata = userdata
        };
        r = q->socket && q->socket[0] ? frame_peer_connect(e, q->socket, &handlers, c, &c->peer) : -ENOENT;
        if (r >= 0)
                r = frame_peer_send(c->peer, q->kind, q->message);
        c->failed = MIN(r, 0);
        r = loop_timer_new(e, CLOCK_BOOTTIME, 100 * USEC_PER_MSEC, q->program, on_timer, c, &c->timer);
        if (r >= 0)
                r = loop_timer_in(c->timer, c->failed ? 0 : q->timeout);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(c);
        return 0;
}

struct local_call *local_call_free(struct local_call *c) {
        if (!c)
                return NULL;
        c->timer = sd_event_source_disable_unref(c->timer);
        c->peer = frame_peer_free(c->peer);
        free(c);
        return NULL;
}

/* --- Repeated until it is answered --------------------------------------------------------------------- */

static void try_telling(struct local_telling *t);

static int on_again(sd_event_source *s, uint64_t usec, void *userdata) {
        (void) s, (void) usec;
        try_telling(userdata);
        return 0;
}

static void retry_telling(struct local_telling *t, int error) {
        t->call = local_call_free(t->call);
        if (t->failures == 0)
                (void) log_warning_errno(error, "%s (%s) cannot be sent %s: %m; it is tried again",
                                         t->program, t->socket, t->what);
        /* Fails only when the loop ends. */
        (void) loop_timer_in(t->again, backoff_next(t->failures, backoff_random()));
        if (t->failures < UINT16_MAX)
                t->failures++;
}

static void on_told(const struct local_answer *a, void *userdata) {
        struct local_telling *t = userdata;
        struct local_call *mine;

        if (a->no_answer) {
                retry_telling(t, a->error);
                return;
        }
        t->failures = 0;
        mine = TAKE_PTR(t->call); /* the handler may start the next, or give t up */
        t->answered(t, a);
        (void) local_call_free(mine);
}

static void try_telling(struct local_telling *t) {
        int r = t->ask(t);

        if (r < 0)
                retry_telling(t, r);
}

int local_telling_ask(struct local_telling *t, uint16_t kind, const ProtobufCMessage *m, uint16_t want) {
        return local_call_new(t->event,
                              &(struct local_question){ t->program, t->socket, kind, want, m, TELLING_TIME },
                              on_told, t, &t->call);
}

void local_telling_stop(struct local_telling *t) {
        t->call = local_call_free(t->call);
        (void) sd_event_source_set_enabled(t->again, SD_EVENT_OFF);
}

void local_telling_start(struct local_telling *t, const char *what) {
        local_telling_stop(t);
        t->what = what;
        t->failures = 0;
        try_telling(t);
}

int local_telling_init(sd_event *e, const char *socket, struct local_telling *t) {
        int r;

        t->socket = strdup(socket);
        if (!t->socket)
                return -ENOMEM;
        t->event = sd_event_ref(e);
        r = loop_timer_new(e, CLOCK_BOOTTIME, 100 * USEC_PER_MSEC, t->program, on_again, t, &t->again);
        return r;
}

void local_telling_clear(struct local_telling *t) {
        t->call = local_call_free(t->call);
        t->again = sd_event_source_disable_unref(t->again);
        t->event = sd_event_unref(t->event);
        free(TAKE_PTR(t->socket));
}
