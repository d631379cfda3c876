/* SPDX-License-Identifier: Apache-2.0 */
#include <time.h>

#include "capture.h"
#include "capture_write.h"
#include "local.pb-c.h"
#include "local_call.h"

struct capture {
        struct captures *owner; /* NULL: the slot is free */
        void *token;            /* NULL: nobody waits */
        struct local_call *call; /* at work */
        sd_event_source *timer;  /* the record becomes durable within it */
        char run[64];
        char *text; /* set: the record was submitted and becomes durable */
        struct capture_result result;
};

struct captures {
        sd_event *event;
        char *socket;
        usec_t timeout;
        const struct captures_handlers *handlers;
        void *userdata;
        struct capture slots[CAPTURES_MAX];
};

static void clear(struct capture *c) {
        c->call = local_call_free(c->call);
        c->timer = sd_event_source_disable_unref(c->timer);
        free(c->text);
        *c = (struct capture) { 0 };
}

static void finish(struct capture *c, unsigned status, const char *error, const char *remedy) {
        struct captures *owner = c->owner;

        if (c->token)
                owner->handlers->finished(c->token, status, status == 200 ? &c->result : NULL, error, remedy,
                                          owner->userdata);
        clear(c);
}

static unsigned status_of_errno(int code) {
        switch (code) {
        case ENOENT:
        case ESRCH:
                return 404;
        case EPERM:
        case EACCES:
                return 403;
        case EBUSY:
        case EAGAIN:
                return CAPTURE_BUSY;
        case ETIMEDOUT:
                return 504;
        default: /* errno is not an enum of ours */
                return 502;
        }
}

static int on_timeout(sd_event_source *source, uint64_t usec, void *userdata) {
        (void) source, (void) usec;
        finish(userdata, 504, "the stacks were captured, but their record is not durable yet",
               "tpuctl status");
        return 0;
}

static int submit(struct capture *c) {
        struct captures *owner = c->owner;
        int r = sd_event_add_time_relative(owner->event, &c->timer, CLOCK_BOOTTIME, owner->timeout,
                                           USEC_PER_SEC / 4, on_timeout, c);

        if (r < 0)
                return r;
        (void) sd_event_source_set_description(c->timer, "capture-timeout");
        return owner->handlers->captured(&c->result, &c->result.seq, owner->userdata);
}

static void take_reply(struct capture *c, const Local__CaptureReply *m) {
        char text[420], why[CAPTURE_WHY_MAX];
        struct capture_text t;
        int r = capture_text_make(m->capture.data, m->capture.len, CAPTURE_TEXT_MAX, &t, why);

        if (r < 0) {
                (void) snprintf(text, sizeof(text), "tpu-launchd sent a capture that cannot be read: %s", why);
                finish(c, 502, text, "journalctl -u tpu-launchd");
                return;
        }
        c->text = t.text;
        if (t.processes == 0) {
                (void) snprintf(text, sizeof(text), "run %s: no Python process in it: %s", c->run, t.unread);
                finish(c, 404, text, "only Python processes have stacks to show");
                return;
        }
        c->result = (struct capture_result) {
                .run = c->run,
                .text = c->text,
                .taken_real = m->taken_real_usec,
                .processes = t.processes,
                .threads = t.threads,
        };
        r = submit(c);
        if (r == 0)
                return;
        (void) snprintf(text, sizeof(text), "the stacks were captured, but the spool does not take them: %s",
                        strerror(-r));
        finish(c, 503, text, "tpuctl status");
}

static void on_answer(const struct local_answer *a, void *userdata) {
        struct capture *c = userdata;
        Local__CaptureReply *m;

        if (a->no_answer) {
                finish(c, a->error == -ETIMEDOUT ? 504 : a->error == -EPROTO ? 502 : 503, a->text,
                       a->error == -ETIMEDOUT || a->error == -EPROTO ? "journalctl -u tpu-launchd" :
                                                                       "systemctl status tpu-launchd");
                return;
        }
        if (a->error < 0) {
                finish(c, status_of_errno(-a->error),
                       a->text[0] ? a->text : "tpu-launchd refused the capture", a->remedy);
                return;
        }
        m = local__capture_reply__unpack(NULL, a->len, a->data);
        c->call = local_call_free(c->call);
        if (!m) {
                finish(c, 502, "tpu-launchd sent an answer that is none", "journalctl -u tpu-launchd");
                return;
        }
        take_reply(c, m);
        local__capture_reply__free_unpacked(m, NULL);
}

int captures_new(sd_event *e, const char *socket, usec_t timeout, const struct captures_handlers *h,
                 void *userdata, struct captures **ret) {
        _cleanup_(captures_freep) struct captures *c = calloc(1, sizeof(*c));

        if (!c)
                return -ENOMEM;
        c->event = sd_event_ref(e);
        c->timeout = timeout;
        c->handlers = h;
        c->userdata = userdata;
        c->socket = strdup(socket ? socket : "");
        if (!c->socket)
                return -ENOMEM;
        *ret = TAKE_PTR(c);
        return 0;
}

struct captures *captures_free(struct captures *c) {
        if (!c)
                return NULL;
        for (size_t i = 0; i < CAPTURES_MAX; i++)
                clear(&c->slots[i]);
        sd_event_unref(c->event);
        free(c->socket);
        free(c);
        return NULL;
}

int captures_start(struct captures *c, const char *run, void *token) {
        Local__CaptureRequest m = LOCAL__CAPTURE_REQUEST__INIT;
        struct capture *slot = NULL;
        int r;

        if (c->socket[0] == 0)
                return -ENOENT;
        for (size_t i = 0; i < CAPTURES_MAX && !slot; i++)
                if (!c->slots[i].owner)
                        slot = &c->slots[i];
        if (!slot)
                return -EBUSY;
        *slot = (struct capture) { .owner = c, .token = token };
        (void) snprintf(slot->run, sizeof(slot->run), "%s", run);
        m.name = slot->run;
        r = local_call_new(c->event,
                           &(struct local_question){ "tpu-launchd", c->socket,
                                                     LOCAL__KIND__KIND_CAPTURE_REQUEST,
                                                     LOCAL__KIND__KIND_CAPTURE_REPLY, &m.base, c->timeout },
                           on_answer, slot, &slot->call);
        if (r < 0)
                clear(slot);
        return r;
}

void captures_durable(struct captures *c, uint64_t seq) {
        for (size_t i = 0; i < CAPTURES_MAX; i++)
                if (c->slots[i].owner && c->slots[i].text && c->slots[i].result.seq <= seq)
                        finish(&c->slots[i], 200, NULL, NULL);
}
