/* SPDX-License-Identifier: Apache-2.0 */
#include "remote_write.h"

#include <fcntl.h>

#include "backoff.h"
#include "exchange.h"
#include "log.h"
#include "loop_timer.h"
#include "remote_request.h"
#include "remote_stale.h"
#include "utf8.h"

#define PAUSE USEC_PER_SEC /* between looks while nothing waits */
#define TIMEOUT (30 * USEC_PER_SEC)
#define ANSWER_MAX ((size_t) 64 * 1024)
#define ANSWER_KEPT 512 /* of a refusal's words */
#define ROWS_MAX 256
#define POINTS_MAX 5000
#define MARKERS_MAX 2000
#define MARK_EVERY (10 * USEC_PER_SEC) /* and not while much waits: what a host has not said may be here */
#define AUTHORIZATION_MAX 900
#define HEADERS "Content-Encoding: snappy\nX-Prometheus-Remote-Write-Version: 0.1.0"

struct remote_write {
        struct remote_options o;
        struct exchange *exchange;
        sd_event_source *timer;
        struct handover batch; /* what is being sent, or to be sent again */
        struct remote_request request;
        struct stale stale;
        int64_t after;    /* the next batch begins behind this row */
        bool passed;      /* something was found in this round, from the first row to the last */
        usec_t began, marked; /* boot clock: the round, and when series were last looked at that ended */
        size_t rows_max;  /* fewer after a refusal */
        unsigned failures; /* in a row */
        usec_t since;     /* boot clock: something may wait since then; 0: nothing waits */
        bool said[_REMOTE_REASON_MAX], down;
        struct remote_counters counters;
};

const char *remote_reason_name(enum remote_reason reason) {
        static const char *const names[_REMOTE_REASON_MAX] = {
                [REMOTE_OUT_OF_ORDER] = "out_of_order", [REMOTE_DUPLICATE] = "duplicate",
                [REMOTE_TOO_OLD] = "too_old",           [REMOTE_TOO_LARGE] = "too_large",
                [REMOTE_UNNAMED] = "unnamed",           [REMOTE_OTHER] = "other",
        };

        return names[reason];
}

static void look_again(struct remote_write *w, usec_t in) {
        int r = loop_timer_in(w->timer, in);

        if (r < 0)
                (void) log_warning_errno(r, "remote write: timer: %m");
}

/* --- What is sent ---------------------------------------------------------------------------------- */

static int add_series(const struct handed_series *one, void *userdata) {
        return remote_request_add(userdata, one);
}

/* The header lines; the file is read each time, so that a new token counts. */
static int write_headers(const struct remote_write *w, char ret[static AUTHORIZATION_MAX + 128]) {
        char value[AUTHORIZATION_MAX] = "";
        ssize_t n = 0;

        if (*w->o.to->authorization) {
                _cleanup_close_ int fd = open(w->o.to->authorization, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

                n = fd < 0 ? -1 : read(fd, value, sizeof(value) - 1);
                if (n < 0)
                        return -errno;
                value[n] = '\0';
                value[strcspn(value, "\r\n")] = '\0';
        }
        (void) snprintf(ret, AUTHORIZATION_MAX + 128, HEADERS "%s%s",
                        *value ? "\nAuthorization: " : "", value);
        return 0;
}

/* The batch as it stands. */
static int send_batch(struct remote_write *w) {
        char headers[AUTHORIZATION_MAX + 128];
        int r;

        remote_request_begin(&w->request);
        r = store_show_handover(w->o.store, &w->batch, add_series, &w->request);
        if (r >= 0)
                r = remote_request_end(&w->request);
        if (r >= 0)
                r = write_headers(w, headers);
        if (r < 0)
                return r;
        return exchange_start(w->exchange, &(struct exchange_request){ .path = "",
                                                                       .content_type =
                                                                               "application/x-protobuf",
                                                                       .header = headers,
                                                                       .body = w->request.data,
                                                                       .len = w->request.len,
                                                                       .lent = true,
                                                                       .timeout = TIMEOUT });
}

/* All that waited when the round began is handed on. 1: there are markers to send. */
static int end_round(struct remote_write *w, usec_t now) {
        int r;

        w->since = w->passed ? w->began : 0;
        w->began = now;
        w->passed = false;
        w->after = 0;
        if (now < w->marked + MARK_EVERY || (w->since > 0 && now - w->since > MARK_EVERY))
                return 0;
        w->marked = now;
        r = stale_take(&w->stale, now, MARKERS_MAX, &w->batch);
        return r < 0 ? r : w->batch.n > 0;
}

/* 1: there is a batch, of rows or of markers; 0: nothing waits. */
static int next_batch(struct remote_write *w) {
        usec_t now = clock_boot(w->o.clock);
        bool again;
        int r;

        do {
                r = store_read_handover(w->o.store, w->after, w->rows_max, POINTS_MAX, &w->batch);
                if (r < 0)
                        return r;
                if (w->batch.n_rows > 0) {
                        w->passed = true;
                        w->since = w->since > 0 ? w->since : now;
                        return 1;
                }
                again = w->passed;
                r = end_round(w, now);
        } while (r == 0 && again);
        return r;
}

static void send_next(struct remote_write *w) {
        int r = w->batch.n_rows > 0 || w->batch.n > 0 ? 1 : next_batch(w);

        if (r > 0)
                r = send_batch(w);
        else if (r == 0)
                look_again(w, PAUSE);
        if (r >= 0)
                return;
        if (!w->down)
                (void) log_warning_errno(r, "remote write to %s, tried again all the time: %m",
                                         w->o.to->url);
        w->down = true;
        look_again(w, BACKOFF_MAX);
        w->o.failed(r, w->o.userdata);
}

static int on_timer(sd_event_source *source, uint64_t at, void *userdata) {
        struct remote_write *w = userdata;

        (void) source, (void) at;
        if (!exchange_at_work(w->exchange))
                send_next(w);
        return 0;
}

/* --- What becomes of it ---------------------------------------------------------------------------- */

/* The batch is over: its rows wait no more. */
static void end_batch(struct remote_write *w) {
        int r = store_forget_handover(w->o.store, &w->batch);

        if (r < 0)
                w->o.failed(r, w->o.userdata); /* then it is sent once more, which does no harm */
        w->after = w->batch.through;
        w->batch.n = w->batch.n_rows = 0;
        w->failures = 0;
        look_again(w, 0);
}

static void count_unnamed(struct remote_write *w) {
        w->counters.refused[REMOTE_UNNAMED] += w->request.unnamed;
        if (w->request.unnamed > 0 && !w->said[REMOTE_UNNAMED])
                log_warning("remote write: series without a valid name, or with more than %d labels, are "
                            "not handed on", REMOTE_LABELS_MAX);
        w->said[REMOTE_UNNAMED] = w->said[REMOTE_UNNAMED] || w->request.unnamed > 0;
}

static void on_taken(struct remote_write *w) {
        if (w->down)
                log_info("remote write to %s works again", w->o.to->url);
        w->down = false;
        w->counters.written += w->request.samples;
        count_unnamed(w);
        if (w->batch.n_rows == 0)
                w->counters.markers += w->request.samples;
        else if (stale_learn(&w->stale, &w->batch, clock_boot(w->o.clock)) < 0)
                log_warning("out of memory: some series will not be marked as ended");
        w->rows_max = MIN(2 * w->rows_max, (size_t) ROWS_MAX);
        end_batch(w);
}

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

static void on_refused(struct remote_write *w, const struct exchange_answer *a) {
        char words[ANSWER_KEPT + 1];
        enum remote_reason reason;

        if (w->batch.n_rows > 1) {
                w->rows_max = w->batch.n_rows / 2;
                w->batch.n = w->batch.n_rows = 0; /* read again from the same place */
                look_again(w, 0);
                return;
        }
        utf8_copy_line(words, MIN(sizeof(words), a->len + 1), a->body);
        reason = reason_of(a->status, words);
        w->counters.refused[reason] += w->request.samples;
        if (!w->said[reason])
                log_warning("remote write: %s refuses samples as %s, which are given up and counted: %ld %s",
                            w->o.to->url, remote_reason_name(reason), a->status, words);
        w->said[reason] = true;
        count_unnamed(w);
        end_batch(w);
}

static void on_failed(struct remote_write *w, const struct exchange_answer *a, bool parked) {
        usec_t wait = parked ? BACKOFF_PARKED : backoff_next(w->failures++, backoff_random());

        w->counters.failures++;
        if (!w->down && a->failed)
                log_warning("remote write to %s: %s; tried again, nothing is lost", w->o.to->url, a->what);
        else if (!w->down)
                log_warning("remote write to %s: answered %ld; tried again%s, nothing is lost", w->o.to->url,
                            a->status, parked ? " once a minute" : "");
        w->down = true;
        look_again(w, MAX(wait, a->retry_after));
}

static void on_done(const struct exchange_answer *a, void *userdata) {
        struct remote_write *w = userdata;

        if (!a->failed && a->status / 100 == 2)
                on_taken(w);
        else if (!a->failed && (a->status == 400 || a->status == 413 || a->status == 422))
                on_refused(w, a);
        else
                on_failed(w, a, a->refused || (!a->failed && a->status != 429 && a->status / 100 != 5));
}

/* --- Life ------------------------------------------------------------------------------------------ */

int remote_write_new(const struct remote_options *o, struct remote_write **ret, char why[static 256]) {
        const struct exchange_options e = { .url = o->to->url,
                                            .ca = o->to->ca,
                                            .certificate = o->to->certificate,
                                            .key = o->to->key,
                                            .answer_max = ANSWER_MAX,
                                            .keep = ANSWER_KEPT,
                                            .user_agent = "tpu-collectord/" TPU_HOSTD_VERSION,
                                            .name = "remote-write",
                                            .done = on_done };
        struct exchange_options its = e;
        _cleanup_(remote_write_freep) struct remote_write *w = calloc(1, sizeof(*w));
        int r;

        (void) snprintf(why, 256, "out of memory");
        if (!w)
                return -ENOMEM;
        w->o = *o;
        w->rows_max = ROWS_MAX;
        its.userdata = w;
        r = exchange_new(o->event, &its, &w->exchange, why);
        if (r >= 0)
                r = loop_timer_new(o->event, CLOCK_BOOTTIME, 0, "remote-write", on_timer, w, &w->timer);
        if (r >= 0)
                r = loop_timer_in(w->timer, PAUSE);
        if (r < 0)
                return r;
        store_hand_over(o->store, true);
        *ret = TAKE_PTR(w);
        return 0;
}

struct remote_write *remote_write_free(struct remote_write *w) {
        if (!w)
                return NULL;
        w->exchange = exchange_free(w->exchange);
        w->timer = sd_event_source_disable_unref(w->timer);
        handover_clear(&w->batch);
        remote_request_clear(&w->request);
        stale_clear(&w->stale);
        free(w);
        return NULL;
}

void remote_write_forget(struct remote_write *w) {
        if (exchange_at_work(w->exchange))
                exchange_cancel(w->exchange);
        w->batch.n = w->batch.n_rows = 0;
        w->after = 0;
        stale_clear(&w->stale);
        look_again(w, 0);
}

const struct remote_counters *remote_write_counters(const struct remote_write *w) {
        return &w->counters;
}

usec_t remote_write_behind(const struct remote_write *w) {
        return w->since > 0 ? clock_boot(w->o.clock) - w->since : 0;
}
