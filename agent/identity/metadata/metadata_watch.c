/* SPDX-License-Identifier: Apache-2.0 */
#include <sys/random.h>

#include "backoff.h"
#include "metadata_facts.h"
#include "metadata_reply.h"
#include "metadata_watch.h"

#define TIMEOUT    (5 * USEC_PER_SEC)
#define WAIT_GRACE (10 * USEC_PER_SEC) /* the server answers at the end of a wait, not before */
#define LONG_AWAY  8 /* failures in a row from which on the server gets one try a minute */
#define QUICK      USEC_PER_SEC /* a wait that ends sooner than this was none */

struct metadata_watch {
        struct http_transfer transfer;
        struct metadata_reply reply;
        struct metadata_watch_options options; /* its texts are not valid after metadata_watch_new() */
        const char *user_agent;
        char *url;
        char name[32], body[METADATA_WATCH_VALUE_MAX], etag[METADATA_ETAG_MAX];
        sd_event_source *timer;
        uint64_t hash; /* of the value that was told */
        bool told, waiting;
        usec_t asked_at, absent; /* absent: until the next look for a key that the server does not have; 0: it has it */
        unsigned failures, quick;
};

static uint64_t chance(void) {
        uint64_t v = 0;

        (void) getrandom(&v, sizeof(v), GRND_NONBLOCK); /* without entropy yet: at once, a valid draw, too */
        return v;
}

static void ask_in(struct metadata_watch *w, usec_t span) {
        /* neither can fail with a timer that exists */
        (void) sd_event_source_set_time_relative(w->timer, span);
        (void) sd_event_source_set_enabled(w->timer, SD_EVENT_ONESHOT);
}

static void fail(struct metadata_watch *w) {
        usec_t span = backoff_next(w->failures, chance());

        if (w->failures >= LONG_AWAY)
                span += BACKOFF_PARKED - BACKOFF_MAX;
        w->failures = MIN(w->failures + 1, (unsigned) UINT16_MAX);
        w->etag[0] = '\0';
        ask_in(w, span);
}

static void ask(struct metadata_watch *w) {
        usec_t wait = w->options.wait;
        char url[768], query[128] = "";

        w->waiting = w->etag[0];
        if (w->waiting)
                (void) snprintf(query, sizeof(query), "%cwait_for_change=true&last_etag=%s&timeout_sec=%" PRIu64,
                                strchr(w->url, '?') ? '&' : '?', w->etag, wait / USEC_PER_SEC);
        (void) snprintf(url, sizeof(url), "%s%s", w->url, query);
        (void) sd_event_now(w->options.event, CLOCK_MONOTONIC, &w->asked_at);
        if (metadata_reply_ask(&w->reply, &w->transfer, w->user_agent, url,
                               w->waiting ? wait + WAIT_GRACE : TIMEOUT) < 0)
                fail(w);
}

static int on_timer(sd_event_source *s, uint64_t usec, void *userdata) {
        (void) s, (void) usec;
        ask(userdata);
        return 0;
}

static void tell(struct metadata_watch *w) {
        char value[METADATA_WATCH_VALUE_MAX + 1];
        size_t n = MIN(w->reply.len, sizeof(w->body));

        if (w->told && w->hash == w->reply.hash)
                return;
        memcpy(value, w->body, n);
        while (n > 0 && strchr(" \t\r\n", value[n - 1]) && value[n - 1])
                n--;
        value[n] = '\0';
        for (size_t i = 0; i < n; i++)
                if (value[i] < 0x20 || value[i] > 0x7e)
                        value[i] = strchr("\t\r\n", value[i]) && value[i] ? ' ' : '?';
        w->told = true;
        w->hash = w->reply.hash;
        w->options.changed(value, w->options.userdata);
}

/* The next question: a wait; where the server does not wait, after a while. */
static void go_on(struct metadata_watch *w) {
        uint64_t now = 0;

        w->failures = 0;
        w->absent = 0;
        memcpy(w->etag, w->reply.etag, sizeof(w->etag));
        (void) sd_event_now(w->options.event, CLOCK_MONOTONIC, &now);
        if (!w->etag[0])
                ask_in(w, w->options.wait);
        else if (!w->waiting || now - w->asked_at >= QUICK) {
                w->quick = 0;
                ask(w);
        } else {
                ask_in(w, QUICK + backoff_next(w->quick, chance()));
                w->quick = MIN(w->quick + 1, (unsigned) UINT16_MAX);
        }
}

static void on_done(struct http_transfer *t, const char *error) {
        struct metadata_watch *w =
                (struct metadata_watch *) ((char *) t - offsetof(struct metadata_watch, transfer));
        struct metadata_answer a = { .flavored = w->reply.flavored,
                                     .body = w->body,
                                     .len = MIN(w->reply.len, sizeof(w->body)) };
        char *type = NULL, why[METADATA_WHY_MAX];
        int r;

        if (error) {
                fail(w);
                return;
        }
        (void) curl_easy_getinfo(t->easy, CURLINFO_RESPONSE_CODE, &a.status);
        (void) curl_easy_getinfo(t->easy, CURLINFO_CONTENT_TYPE, &type);
        a.content_type = type;
        r = metadata_answer_check(&a, why);
        if (r == -ENOENT) {
                w->etag[0] = '\0';
                w->absent = MIN(MAX(w->absent * 2, METADATA_ABSENT_FIRST), METADATA_ABSENT_MAX);
                ask_in(w, w->absent);
        } else if (r < 0)
                fail(w);
        else {
                tell(w);
                go_on(w);
        }
}

int metadata_watch_new(const struct metadata_watch_options *o, struct metadata_watch **ret) {
        struct metadata_watch *w = calloc(1, sizeof(*w));
        int r;

        if (!w)
                return -ENOMEM;
        w->options = *o;
        w->user_agent = o->user_agent;
        if (w->options.wait == 0)
                w->options.wait = METADATA_WATCH_WAIT;
        metadata_reply_init(&w->reply, w->body, sizeof(w->body));
        w->transfer.done = on_done;
        (void) snprintf(w->name, sizeof(w->name), "%s", o->name);
        w->url = strdup(o->url);
        r = w->url ? sd_event_add_time_relative(o->event, &w->timer, CLOCK_BOOTTIME, 0, 0, on_timer, w) :
                     -ENOMEM;
        if (r < 0) {
                free(w->url);
                free(w);
                return r;
        }
        (void) sd_event_source_set_description(w->timer, w->name);
        http_loop_add(o->loop, &w->transfer);
        *ret = w;
        return 0;
}

struct metadata_watch *metadata_watch_free(struct metadata_watch *w) {
        if (!w)
                return NULL;
        w->timer = sd_event_source_disable_unref(w->timer);
        free(w->url);
        free(w);
        return NULL;
}
