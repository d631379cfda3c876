/* SPDX-License-Identifier: Apache-2.0 */
#include "launchd_call.h"

#include "frame.h"
#include "local.pb-c.h"
#include "utf8.h"

struct launchd_call {
        struct frame_peer *peer;
        sd_event_source *timer;
        uint16_t want;
        int failed; /* -errno of the start, told by the timer */
        void (*done)(const struct launchd_answer *a, void *userdata);
        void *userdata;
};

static void end(struct launchd_call *c, const struct launchd_answer *a) {
        (void) sd_event_source_set_enabled(c->timer, SD_EVENT_OFF); /* fails for a source without loop only */
        c->done(a, c->userdata); /* and c may be gone */
}

static void no_answer(struct launchd_call *c, int error) {
        char text[200];
        const struct launchd_answer a = { .error = error,
                                          .no_answer = true,
                                          .text = text,
                                          .remedy = "systemctl status tpu-launchd.socket tpu-launchd" };

        (void) snprintf(text, sizeof(text), "tpu-launchd does not answer: %s", strerror(-error));
        end(c, &a);
}

static void refused(struct launchd_call *c, const struct frame *f) {
        Local__Error *e = local__error__unpack(NULL, f->len, f->data);
        char text[400], remedy[300];
        const struct launchd_answer a = { .error = e && e->code > 0 ? -e->code : -EPROTO, .text = text, .remedy = remedy };

        utf8_copy(text, sizeof(text), e ? e->text : "tpu-launchd's answer cannot be understood");
        utf8_copy(remedy, sizeof(remedy), e ? e->remedy : "tpu-launchd --version; tpu-hostd --version");
        if (e)
                local__error__free_unpacked(e, NULL);
        end(c, &a);
}

static void on_frame(struct frame_peer *p, const struct frame *f, void *userdata) {
        struct launchd_call *c = userdata;
        const struct launchd_answer good = { .kind = f->kind, .data = f->data, .len = f->len };

        (void) p;
        if (f->kind == LOCAL__KIND__KIND_ERROR)
                refused(c, f);
        else if (f->kind != c->want)
                no_answer(c, -EPROTO);
        else
                end(c, &good);
}

static void on_closed(struct frame_peer *p, void *userdata) {
        struct launchd_call *c = userdata;

        (void) p;
        c->peer = NULL;
        no_answer(c, -ECONNRESET);
}

static const struct frame_handlers handlers = { .frame = on_frame, .closed = on_closed };

static int on_timer(sd_event_source *source, uint64_t usec, void *userdata) {
        struct launchd_call *c = userdata;

        (void) source, (void) usec;
        no_answer(c, c->failed < 0 ? c->failed : -ETIMEDOUT);
        return 0;
}

int launchd_call_new(sd_event *e, const char *socket, uint16_t kind, const ProtobufCMessage *m, uint16_t want,
                     usec_t timeout, void (*done)(const struct launchd_answer *a, void *userdata), void *userdata,
                     struct launchd_call **ret) {
        _cleanup_(launchd_call_freep) struct launchd_call *c = calloc(1, sizeof(*c));
        int r;

        if (!c)
                return -ENOMEM;
        *c = (struct launchd_call){ .want = want, .done = done, .userdata = userdata };
        r = socket && socket[0] ? frame_peer_connect(e, socket, &handlers, c, &c->peer) : -ENOENT;
        if (r >= 0)
                r = frame_peer_send(c->peer, kind, m);
        if (r < 0) {
                c->failed = r;
                timeout = 0;
        }
        r = sd_event_add_time_relative(e, &c->timer, CLOCK_BOOTTIME, timeout, 100 * USEC_PER_MSEC, on_timer, c);
        if (r < 0)
                return r;
        (void) sd_event_source_set_description(c->timer, "launchd-call");
        *ret = TAKE_PTR(c);
        return 0;
}

struct launchd_call *launchd_call_free(struct launchd_call *c) {
        if (!c)
                return NULL;
        c->timer = sd_event_source_disable_unref(c->timer);
        c->peer = frame_peer_free(c->peer);
        free(c);
        return NULL;
}
