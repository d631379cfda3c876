/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The test-only feed: with this file, tpu-hostd's own objects become tpu-hostd-fed, which no package holds.
 * It listens on the socket that $TPU_HOSTD_TEST_FEED names, for frames of feed.proto, and gives what they
 * hold to the agent's telemetry as the agent itself does; each is answered when the uplink says that its
 * record is durable. The linker (--wrap) puts us between the agent and its uplink and API: neither knows of
 * us.
 *
 * $TPU_HOSTD_TEST_FEED_ANSWERS=submit answers as soon as the uplink has the record: an agent that breaks its
 * promise, by which the tests show that they would notice one. $TPU_HOSTD_TEST_FEED_ALONE=1 keeps the
 * agent's own points back, so that every point that anyone counts was fed.
 */
#include <inttypes.h>

#include "bus.h"
#include "feed.pb-c.h"
#include "frame.h"
#include "http_server.h"
#include "log.h"

#define POINTS_MAX 1000
#define SERIES_TEXT_MAX 40

/* One frame that is not answered yet. */
struct waiting {
        struct waiting *next;
        struct frame_peer *peer; /* NULL: gone */
        uint64_t id, seq;
};

/* What --wrap calls has no userdata: the one place where this program's state can be is here. */
static struct feed {
        struct bus *bus; /* what the parts of the agent share */
        const struct http_server *api; /* the one that we began and end with */
        struct frame_server *server;
        struct sample_store samples;
        unsigned run;
        bool hasty, alone;
        void (*told)(enum uplink_class c, uint64_t seq, void *userdata); /* the agent's own */
        void *userdata;
        struct waiting *waiting[_UPLINK_CLASS_MAX], **last[_UPLINK_CLASS_MAX];
        enum uplink_class class; /* of the record submitted last */
        uint64_t seq;
} feed;

/* Of the same type as what they stand for: a change there does not compile here. */
extern __typeof__(bus_init) __real_bus_init, __wrap_bus_init;
extern __typeof__(uplink_new) __real_uplink_new, __wrap_uplink_new;
extern __typeof__(uplink_submit) __real_uplink_submit, __wrap_uplink_submit;
extern __typeof__(telemetry_push) __real_telemetry_push, __wrap_telemetry_push;
extern __typeof__(http_server_new) __real_http_server_new, __wrap_http_server_new;
extern __typeof__(http_server_free) __real_http_server_free, __wrap_http_server_free;

/* --- Answers ------------------------------------------------------------------------------------------- */

static void answer(struct frame_peer *p, uint64_t id, int error, enum uplink_class c, uint64_t seq) {
        Feed__Answer m = FEED__ANSWER__INIT;

        m.id = id;
        if (error < 0)
                m.error = strerror(-error);
        else {
                m.class_ = (char *) (uintptr_t) uplink_class_name(c); /* protobuf-c does not write to it */
                m.seq = seq;
        }
        if (frame_peer_send(p, FEED__KIND__KIND_ANSWER, &m.base) < 0)
                log_warning("test feed: nobody takes the answer to %" PRIu64, id);
}

/* Records of a class become durable in the order of their numbers. */
static void on_durable(enum uplink_class c, uint64_t seq, void *userdata) {
        struct waiting *w;

        (void) userdata;
        while ((w = feed.waiting[c]) && w->seq <= seq) {
                feed.waiting[c] = w->next;
                if (!w->next)
                        feed.last[c] = &feed.waiting[c];
                if (w->peer)
                        answer(w->peer, w->id, 0, c, w->seq);
                free(w);
        }
        if (feed.told)
                feed.told(c, seq, feed.userdata);
}

static void answer_later(struct frame_peer *p, uint64_t id, int submitted) {
        struct waiting *w;

        if (submitted < 0 || feed.hasty) {
                answer(p, id, submitted, feed.class, feed.seq);
                return;
        }
        w = malloc(sizeof(*w));
        if (!w)
                return; /* unanswered, which promises nothing */
        *w = (struct waiting) { .peer = p, .id = id, .seq = feed.seq };
        *feed.last[feed.class] = w;
        feed.last[feed.class] = &w->next;
}

/* --- Frames -------------------------------------------------------------------------------------------- */

static enum event_id find_event(const char *name) {
        for (size_t i = 0; i < _EVENT_MAX; i++)
                if (streq(event_def((enum event_id) i)->name, name))
                        return (enum event_id) i;
        return _EVENT_MAX;
}

static void take_event(struct frame_peer *p, const struct frame *f) {
        Feed__Event *m = feed__event__unpack(NULL, f->len, f->data);
        enum event_id id;
        int r = -EINVAL;

        if (!m)
                return;
        id = find_event(m->name);
        if (id != _EVENT_MAX && m->id <= INT64_MAX) {
                const struct otlp_attribute body[] = {
                        { .key = "fed", .number = (int64_t) m->id },
                        { .key = "sha256", .text = m->sha256 },
                        { .key = "payload", .text = m->payload },
                };

                r = telemetry_event(&feed.bus->telemetry, m->name, SEVERITY_INFO,
                                    host_now_real(feed.bus->host), body, ELEMENTSOF(body), NULL);
        }
        answer_later(p, m->id, r);
        feed__event__free_unpacked(m, NULL);
}

static int push_points(const Feed__Points *m) {
        const struct sample_origin origin = { .run = ++feed.run,
                                              .now_real = host_now_real(feed.bus->host) };
        char series[SERIES_TEXT_MAX + 12];
        struct sample s = {
                .name = "tpu.test.fed",
                .unit = "1",
                .description = "of a test",
                .kind = SAMPLE_GAUGE,
                .is_int = true,
                .keys = { "series" },
                .values = { series },
        };
        int r;

        if (m->n < 1 || m->n > POINTS_MAX || strlen(m->series) > SERIES_TEXT_MAX ||
            m->first > INT64_MAX - POINTS_MAX)
                return -EINVAL;
        sample_store_end_run(&feed.samples, 0, feed.run); /* forgets those of the last frame */
        for (uint32_t i = 0; i < m->n; i++) {
                (void) snprintf(series, sizeof(series), "%s-%u", m->series, i);
                s.i = (int64_t) (m->first + i);
                r = sample_store_take(&feed.samples, &origin, &s);
                if (r < 0)
                        return r;
        }
        return telemetry_push(&feed.bus->telemetry, &feed.samples);
}

static void take_points(struct frame_peer *p, const struct frame *f) {
        Feed__Points *m = feed__points__unpack(NULL, f->len, f->data);

        if (!m)
                return;
        answer_later(p, m->id, push_points(m));
        feed__points__free_unpacked(m, NULL);
}

static void on_frame(struct frame_peer *p, const struct frame *f, void *userdata) {
        (void) userdata;
        if (f->kind == FEED__KIND__KIND_EVENT)
                take_event(p, f);
        else if (f->kind == FEED__KIND__KIND_POINTS)
                take_points(p, f);
}

static void on_closed(struct frame_peer *p, void *userdata) {
        (void) userdata;
        for (size_t c = 0; c < _UPLINK_CLASS_MAX; c++)
                for (struct waiting *w = feed.waiting[c]; w; w = w->next)
                        if (w->peer == p)
                                w->peer = NULL;
}

static const struct frame_handlers handlers = { .frame = on_frame, .closed = on_closed };

/* --- Between the agent and its parts ------------------------------------------------------------------- */

int __wrap_uplink_new(sd_event *e, const struct uplink_options *o, struct uplink **ret) {
        struct uplink_options mine = *o;

        for (size_t c = 0; c < _UPLINK_CLASS_MAX; c++)
                feed.last[c] = &feed.waiting[c];
        feed.told = o->on_durable;
        feed.userdata = o->userdata;
        mine.on_durable = on_durable;
        feed.alone = getenv("TPU_HOSTD_TEST_FEED_ALONE") != NULL;
        return __real_uplink_new(e, &mine, ret);
}

int __wrap_uplink_submit(struct uplink *u, enum uplink_class c, const void *data, size_t len,
                         uint64_t *ret_seq) {
        int r = __real_uplink_submit(u, c, data, len, ret_seq);

        if (r >= 0) {
                feed.class = c;
                feed.seq = *ret_seq;
        }
        return r;
}

int __wrap_telemetry_push(struct telemetry *t, struct sample_store *s) {
        return feed.alone && s != &feed.samples ? 0 : __real_telemetry_push(t, s);
}

static int serve(sd_event *e, const char *path) {
        int fd = listen_socket(path, 0600), r;

        if (fd < 0)
                return fd;
        r = sample_store_init(&feed.samples);
        if (r >= 0)
                return frame_server_new(e, fd, &handlers, NULL, &feed.server);
        (void) close_fd(fd);
        return r;
}

int __wrap_bus_init(struct bus *b) {
        feed.bus = b;
        return __real_bus_init(b);
}

/*
 * The API on its Unix socket starts behind all that we need, and has taken the socket that systemd may have
 * passed.
 */
int __wrap_http_server_new(sd_event *e, const struct http_server_options *o, struct http_server **ret) {
        const char *path = getenv("TPU_HOSTD_TEST_FEED"), *answers = getenv("TPU_HOSTD_TEST_FEED_ANSWERS");
        int r = __real_http_server_new(e, o, ret);

        if (r < 0 || o->certificate)
                return r;
        if (!path) {
                log_warning("this is the test program tpu-hostd-fed, and TPU_HOSTD_TEST_FEED= is not set");
                return 0;
        }
        feed.api = *ret;
        feed.hasty = answers && streq(answers, "submit");
        r = serve(e, path);
        if (r < 0)
                return log_error_errno(r, "test feed: cannot serve %s: %m", path);
        log_warning("TEST FEED on %s: this is a test program, records may be made up%s", path,
                    feed.hasty ? " and are answered BEFORE they are durable" : "");
        return 0;
}

static void stop(void) {
        feed.server = frame_server_free(feed.server);
        for (size_t c = 0; c < _UPLINK_CLASS_MAX; c++) {
                for (struct waiting *w; (w = feed.waiting[c]);) {
                        feed.waiting[c] = w->next;
                        free(w);
                }
                feed.last[c] = &feed.waiting[c];
        }
        sample_store_clear(&feed.samples);
}

struct http_server *__wrap_http_server_free(struct http_server *a) {
        if (a && a == feed.api)
                stop();
        return __real_http_server_free(a);
}
