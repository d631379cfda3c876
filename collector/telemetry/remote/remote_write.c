/* SPDX-License-Identifier: Apache-2.0 */
#include "remote_write.h"

#include <fcntl.h>

#include "backoff.h"
#include "log.h"
#include "loop_timer.h"
#include "otlp_answer.h"
#include "remote_stream.h"
#include "utf8.h"

#define PAUSE USEC_PER_SEC /* between looks while nothing waits */
#define TIMEOUT (30 * USEC_PER_SEC)
#define ANSWER_MAX ((size_t) 1024 * 1024)
#define ANSWER_KEPT (16 * 1024)
#define WORDS_MAX 512 /* of a refusal */
#define AUTHORIZATION_MAX 900
#define HEADERS_TEXT_MAX (AUTHORIZATION_MAX + 128)

const char *remote_reason_name(enum remote_reason reason) {
        static const char *const names[_REMOTE_REASON_MAX] = {
                [REMOTE_OUT_OF_ORDER] = "out_of_order", [REMOTE_DUPLICATE] = "duplicate",
                [REMOTE_TOO_OLD] = "too_old",           [REMOTE_TOO_LARGE] = "too_large",
                [REMOTE_UNNAMED] = "unnamed",           [REMOTE_OTHER] = "other",
        };

        return names[reason];
}

static void look_again(struct remote_stream *t, usec_t in) {
        int r = in > 0 ? loop_timer_in(t->timer, in) : loop_timer_at(t->timer, 0); /* the latter: at once */

        if (r < 0)
                (void) log_warning_errno(r, "handing %s on: timer: %m", t->kind->name);
}

/* --- Given up -------------------------------------------------------------------------------------- */

static void give_up(struct remote_stream *t, enum remote_reason reason, uint64_t n, const char *words) {
        t->counters.refused[reason] += n;
        if (n > 0 && !t->said[reason])
                log_warning("handing %s on to %s: some are refused as %s, which are given up and counted: "
                            "%s",
                            t->kind->name, t->o->to->url, remote_reason_name(reason), words);
        t->said[reason] = t->said[reason] || n > 0;
}

/* The request is over: what was in it waits no more. */
static void end_request(struct remote_stream *t, bool taken) {
        const struct remote_request *q = &t->request;
        int r = t->kind->end(t, taken, clock_boot(t->o->clock));

        if (r < 0)
                t->o->failed(r, t->o->userdata); /* then it is sent once more, which does no harm */
        give_up(t, REMOTE_UNNAMED, q->unnamed,
                "no valid name, or more than " AS_TEXT(REMOTE_LABELS_MAX) " labels");
        give_up(t, REMOTE_TOO_LARGE, q->too_large, "more than 1 MiB alone");
        give_up(t, REMOTE_OTHER, q->halves, "a histogram without its sum, or without its count");
        t->ready = false;
        t->failures = 0;
        look_again(t, 0);
}

/* --- What is sent ---------------------------------------------------------------------------------- */

/* The header lines; the file is read each time, so that a new token counts. */
static int write_headers(const struct remote_stream *t, char ret[static HEADERS_TEXT_MAX]) {
        const char *fixed = t->kind->headers;
        char value[AUTHORIZATION_MAX] = "";
        ssize_t n = 0;

        if (*t->o->to->authorization) {
                _cleanup_close_ int fd = open(t->o->to->authorization, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

                n = fd < 0 ? -1 : read(fd, value, sizeof(value) - 1);
                if (n < 0)
                        return -errno;
                value[n] = '\0';
                value[strcspn(value, "\r\n")] = '\0';
        }
        (void) snprintf(ret, HEADERS_TEXT_MAX, "%s%s%s%s", fixed, *fixed && *value ? "\n" : "",
                        *value ? "Authorization: " : "", value);
        return 0;
}

static int send_request(struct remote_stream *t) {
        char headers[HEADERS_TEXT_MAX];
        int r = write_headers(t, headers);

        if (r < 0)
                return r;
        return exchange_start(t->exchange, &(struct exchange_request){ .path = t->kind->path,
                                                                       .content_type =
                                                                               "application/x-protobuf",
                                                                       .header = headers,
                                                                       .body = t->request.data,
                                                                       .len = t->request.len,
                                                                       .lent = true,
                                                                       .timeout = TIMEOUT });
}

static void send_next(struct remote_stream *t) {
        int r = t->ready ? 1 : t->kind->next(t, clock_boot(t->o->clock));

        t->ready = r > 0;
        if (r > 0 && t->request.len == 0) { /* nothing of it can be sent */
                end_request(t, false);
                return;
        }
        if (r > 0)
                r = send_request(t);
        else if (r == 0)
                look_again(t, PAUSE);
        if (r >= 0)
                return;
        if (!t->down)
                (void) log_warning_errno(r, "handing %s on to %s, tried again all the time: %m",
                                         t->kind->name, t->o->to->url);
        t->down = true;
        look_again(t, BACKOFF_MAX);
        t->o->failed(r, t->o->userdata);
}

static int on_timer(sd_event_source *source, uint64_t at, void *userdata) {
        struct remote_stream *t = userdata;

        (void) source, (void) at;
        if (!exchange_at_work(t->exchange))
                send_next(t);
        return 0;
}

/* --- What becomes of it ---------------------------------------------------------------------------- */

/* By the words of Prometheus and of those who speak as it does. */
static enum remote_reason reason_of(long status, const char *words) {
        if (strstr(words, "out of order") || strstr(words, "out-of-order"))
                return REMOTE_OUT_OF_ORDER;
        if (strstr(words, "duplicate"))
                return REMOTE_DUPLICATE;
        if (strstr(words, "too old") || strstr(words, "out of bounds") || strstr(words, "too far"))
                return REMOTE_TOO_OLD;
        return status == 413 ? REMOTE_TOO_LARGE : REMOTE_OTHER;
}

static void on_taken(struct remote_stream *t, uint64_t rejected, const char *words) {
        uint64_t n = MIN(rejected, (uint64_t) t->request.samples);

        if (t->down)
                log_info("handing %s on to %s works again", t->kind->name, t->o->to->url);
        t->down = false;
        t->counters.written += t->request.samples - n;
        give_up(t, reason_of(200, words), n, words);
        t->max = MIN(2 * t->max, t->kind->most);
        end_request(t, true);
}

/* In halves, until what is refused is alone. */
static void on_refused(struct remote_stream *t, long status, const char *words) {
        if (t->kind->halve(t)) {
                t->ready = false;
                look_again(t, 0);
                return;
        }
        give_up(t, reason_of(status, words), t->request.samples, words);
        end_request(t, false);
}

static void on_failed(struct remote_stream *t, const struct exchange_answer *a, bool parked,
                      const char *words) {
        usec_t wait = parked ? BACKOFF_PARKED : backoff_next(t->failures++, backoff_random());

        t->counters.failures++;
        if (!t->down && a->failed)
                log_warning("handing %s on to %s: %s; tried again, nothing is lost", t->kind->name,
                            t->o->to->url, a->what);
        else if (!t->down)
                log_warning("handing %s on to %s: answered %ld; tried again%s, nothing is lost: %s",
                            t->kind->name, t->o->to->url, a->status, parked ? " once a minute" : "", words);
        t->down = true;
        look_again(t, MAX(wait, a->retry_after));
}

static enum answer judge_status(long status) {
        if (status / 100 == 2)
                return ANSWER_DONE;
        if (status == 400 || status == 413 || status == 422)
                return ANSWER_REFUSED;
        return status == 429 || status / 100 == 5 ? ANSWER_RETRY : ANSWER_PARKED;
}

/* words: the answer's own. */
static enum answer judge(const struct remote_stream *t, const struct exchange_answer *a,
                         uint64_t *ret_rejected, char words[static WORDS_MAX]) {
        char text[ANSWER_TEXT_MAX] = "", body[WORDS_MAX - 32];
        enum answer verdict;

        /* some answer 204 */
        if (t->kind->otlp && (a->status == 200 || a->status / 100 != 2))
                verdict = answer_judge(a->status, a->content_type, a->body, a->len, ret_rejected, text);
        else
                verdict = judge_status(a->status);
        utf8_copy_line(body, MIN(sizeof(body), a->len + 1), a->body);
        if (t->kind->otlp && (a->status == 200 || (a->content_type && strstr(a->content_type, "protobuf"))))
                (void) snprintf(words, WORDS_MAX, "%s", text);
        else
                (void) snprintf(words, WORDS_MAX, "%ld %s", a->status, body);
        return verdict;
}

static void on_done(const struct exchange_answer *a, void *userdata) {
        struct remote_stream *t = userdata;
        char words[WORDS_MAX] = "";
        uint64_t rejected = 0;

        if (a->failed) {
                on_failed(t, a, a->refused, words);
                return;
        }
        switch (judge(t, a, &rejected, words)) {
        case ANSWER_DONE:
        case ANSWER_PARTIAL:
                on_taken(t, rejected, words);
                break;
        case ANSWER_REFUSED:
                on_refused(t, a->status, words);
                break;
        case ANSWER_RETRY:
                on_failed(t, a, false, words);
                break;
        case ANSWER_PARKED:
                on_failed(t, a, true, words);
                break;
        }
}

/* --- A stream ------------------------------------------------------------------------------------------ */

static struct remote_stream *stream_free(struct remote_stream *t) {
        if (!t)
                return NULL;
        t->exchange = exchange_free(t->exchange);
        t->timer = sd_event_source_disable_unref(t->timer);
        handover_clear(&t->points.batch);
        stale_clear(&t->points.stale);
        remote_request_clear(&t->request);
        free(t);
        return NULL;
}
DEFINE_CLEANUP(struct remote_stream *, stream_free)

/* beside: another stream's exchange, or NULL. o is borrowed. -EINVAL with why: no URL; -ENOMEM, -errno. */
static int stream_new(const struct remote_options *o, const struct remote_kind *kind,
                      struct exchange *beside, struct remote_stream **ret, char why[static 256]) {
        _cleanup_(stream_freep) struct remote_stream *t = calloc(1, sizeof(*t));
        struct exchange_options e = { .url = o->to->url,
                                      .ca = o->to->ca,
                                      .certificate = o->to->certificate,
                                      .key = o->to->key,
                                      .beside = beside,
                                      .answer_max = ANSWER_MAX,
                                      .keep = ANSWER_KEPT,
                                      .user_agent = "tpu-collectord/" TPU_HOSTD_VERSION,
                                      .name = "remote-write",
                                      .done = on_done };
        int r;

        (void) snprintf(why, 256, "out of memory");
        if (!t)
                return -ENOMEM;
        t->kind = kind;
        t->o = o;
        t->max = kind->most;
        e.userdata = t;
        r = exchange_new(o->event, &e, &t->exchange, why);
        if (r >= 0)
                r = loop_timer_new(o->event, CLOCK_BOOTTIME, 0, "remote-write", on_timer, t, &t->timer);
        if (r >= 0)
                r = loop_timer_in(t->timer, PAUSE);
        if (r < 0)
                return r;
        kind->forget(t);
        *ret = TAKE_PTR(t);
        return 0;
}

static void forget_stream(struct remote_stream *t) {
        if (exchange_at_work(t->exchange))
                exchange_cancel(t->exchange);
        t->ready = false;
        t->kind->forget(t);
        look_again(t, 0);
}

/* --- All of them ----------------------------------------------------------------------------------- */

struct remote_write {
        struct remote_options o;
        struct remote_stream *streams[_REMOTE_WHAT_MAX]; /* NULL: that is not handed on */
};

int remote_write_new(const struct remote_options *o, struct remote_write **ret, char why[static 256]) {
        const struct remote_kind *const kinds[_REMOTE_WHAT_MAX] = {
                [REMOTE_POINTS] = o->to->otlp ? &remote_kind_points : &remote_kind_samples,
                [REMOTE_EVENTS] = o->to->otlp ? &remote_kind_events : NULL,
                [REMOTE_LINES] = o->to->otlp ? &remote_kind_lines : NULL,
        };
        _cleanup_(remote_write_freep) struct remote_write *w = calloc(1, sizeof(*w));
        int r;

        (void) snprintf(why, 256, "out of memory");
        if (!w)
                return -ENOMEM;
        w->o = *o;
        for (size_t i = 0; i < ELEMENTSOF(kinds); i++) {
                struct exchange *beside = i > 0 ? w->streams[0]->exchange : NULL;

                if (!kinds[i])
                        continue;
                r = stream_new(&w->o, kinds[i], beside, &w->streams[i], why);
                if (r < 0)
                        return r;
        }
        store_hand_over(o->store, true);
        *ret = TAKE_PTR(w);
        return 0;
}

struct remote_write *remote_write_free(struct remote_write *w) {
        if (!w)
                return NULL;
        for (size_t i = _REMOTE_WHAT_MAX; i > 0; i--) /* the first has the connections of the others */
                w->streams[i - 1] = stream_free(w->streams[i - 1]);
        free(w);
        return NULL;
}

void remote_write_forget(struct remote_write *w) {
        for (size_t i = 0; i < _REMOTE_WHAT_MAX; i++)
                if (w->streams[i])
                        forget_stream(w->streams[i]);
}

const struct remote_counters *remote_write_counters(const struct remote_write *w, enum remote_what what) {
        static const struct remote_counters none;

        return w->streams[what] ? &w->streams[what]->counters : &none;
}

int remote_write_waiting(const struct remote_write *w, enum remote_what what, uint64_t *ret) {
        uint64_t n = 0;
        int r = 0;

        if (what != REMOTE_POINTS && w->streams[what])
                r = store_records_waiting(w->o.store, what == REMOTE_EVENTS ? HANDED_EVENTS : HANDED_LINES,
                                          &n);
        if (r == 0)
                *ret = n;
        return r;
}

usec_t remote_write_behind(const struct remote_write *w) {
        usec_t now = clock_boot(w->o.clock), behind = 0;

        for (size_t i = 0; i < _REMOTE_WHAT_MAX; i++)
                if (w->streams[i] && w->streams[i]->since > 0)
                        behind = MAX(behind, now - w->streams[i]->since);
        return behind;
}
