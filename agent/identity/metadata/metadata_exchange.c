/* SPDX-License-Identifier: Apache-2.0 */
#include "fnv.h"
#include "metadata_exchange.h"

#include <strings.h>
#include <sys/random.h>

#include "backoff.h"

#define TIMEOUT         (5 * USEC_PER_SEC)
#define WAIT_GRACE      (10 * USEC_PER_SEC) /* the server answers at the end of a wait, not before */
#define LONG_AWAY       8 /* failures in a row from which on the server gets one try a minute */
#define QUICK           USEC_PER_SEC /* a wait that ends sooner than this was none */
#define CONNECT_TIMEOUT (2 * USEC_PER_SEC)

static size_t on_body(char *data, size_t size, size_t n, void *userdata) {
        struct exchange *x = userdata;
        size_t len = size * n;

        x->too_long = len > METADATA_BODY_MAX - x->len;
        if (x->too_long)
                return 0; /* ends the transfer */
        if (x->len < x->size)
                memcpy(x->body + x->len, data, MIN(len, x->size - x->len));
        x->hash = fnv(x->hash, data, len);
        x->len += len;
        return len;
}

/* The value of a header line of that name ("etag:"), trimmed; NULL when it is another one's. */
static const char *header_value(const char *line, size_t len, const char *name, size_t *ret_len) {
        size_t at = strlen(name);

        if (len < at || strncasecmp(line, name, at) != 0)
                return NULL;
        while (at < len && (line[at] == ' ' || line[at] == '\t'))
                at++;
        while (len > at && strchr(" \t\r\n", line[len - 1]) && line[len - 1])
                len--;
        *ret_len = len - at;
        return line + at;
}

static size_t on_header(char *data, size_t size, size_t n, void *userdata) {
        struct exchange *x = userdata;
        const char *value;
        size_t len = 0;

        value = header_value(data, size * n, "metadata-flavor:", &len);
        if (value)
                x->flavored = len == strlen("Google") && memcmp(value, "Google", len) == 0;
        value = header_value(data, size * n, "etag:", &len);
        /* it goes back in a URL: nothing there may mean more than itself */
        if (value && len < sizeof(x->etag)) {
                memcpy(x->etag, value, len);
                x->etag[len] = '\0';
                if (x->etag[strspn(x->etag,
                                   "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.")])
                        x->etag[0] = '\0';
        }
        return size * n;
}

static int prepare(struct exchange *x) {
        const struct http_options o = { .user_agent = x->user_agent,
                                        .connect_timeout = CONNECT_TIMEOUT,
                                        .timeout = CONNECT_TIMEOUT };
        int done = http_transfer_prepare(&x->transfer, &o), bad = 0;
        CURL *c = x->transfer.easy;

        if (done <= 0)
                return done;
        bad |= curl_easy_setopt(c, CURLOPT_HTTPGET, 1L) != CURLE_OK;
        bad |= curl_easy_setopt(c, CURLOPT_HTTPHEADER, &x->flavor) != CURLE_OK;
        bad |= curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, on_body) != CURLE_OK;
        bad |= curl_easy_setopt(c, CURLOPT_WRITEDATA, x) != CURLE_OK;
        bad |= curl_easy_setopt(c, CURLOPT_HEADERFUNCTION, on_header) != CURLE_OK;
        bad |= curl_easy_setopt(c, CURLOPT_HEADERDATA, x) != CURLE_OK;
        if (bad)
                http_transfer_drop(&x->transfer);
        return bad ? -EIO : 0;
}

int exchange_ask(struct exchange *x, const char *url, usec_t wait) {
        char full[768], query[128] = "";
        int r = prepare(x);

        x->waiting = wait > 0;
        if (x->waiting)
                (void) snprintf(query, sizeof(query), "%cwait_for_change=true&last_etag=%s&timeout_sec=%" PRIu64,
                                strchr(url, '?') ? '&' : '?', x->known, wait / USEC_PER_SEC);
        (void) snprintf(full, sizeof(full), "%s%s", url, query);
        (void) sd_event_now(x->event, CLOCK_MONOTONIC, &x->asked_at);
        if (r == 0)
                r = http_transfer_set_timeout(&x->transfer, x->waiting ? wait + WAIT_GRACE : TIMEOUT);
        if (r == 0 && curl_easy_setopt(x->transfer.easy, CURLOPT_URL, full) != CURLE_OK)
                r = -ENOMEM;
        x->len = 0;
        x->hash = FNV_BEGIN;
        x->flavored = x->too_long = false;
        x->etag[0] = '\0';
        return r < 0 ? r : http_transfer_start(&x->transfer);
}

/* --- When to ask --------------------------------------------------------------------------------------- */

static uint64_t chance(void) {
        uint64_t v = 0;

        (void) getrandom(&v, sizeof(v), GRND_NONBLOCK); /* without entropy yet: at once, a valid draw, too */
        return v;
}

void exchange_in(struct exchange *x, usec_t span) {
        /* neither can fail with a timer that exists */
        (void) sd_event_source_set_time_relative(x->timer, span);
        (void) sd_event_source_set_enabled(x->timer, SD_EVENT_ONESHOT);
}

void exchange_retry(struct exchange *x) {
        usec_t span = backoff_next(x->failures, chance());

        if (x->failures >= LONG_AWAY)
                span += BACKOFF_PARKED - BACKOFF_MAX;
        x->failures = MIN(x->failures + 1, (unsigned) UINT16_MAX);
        exchange_in(x, span);
}

void exchange_go_on(struct exchange *x) {
        uint64_t now = 0;

        (void) sd_event_now(x->event, CLOCK_MONOTONIC, &now);
        if (x->waiting && now - x->asked_at < QUICK) {
                exchange_in(x, QUICK + backoff_next(x->quick, chance()));
                x->quick = MIN(x->quick + 1, (unsigned) UINT16_MAX);
                return;
        }
        if (x->waiting)
                x->quick = 0;
        x->due(x);
}

/* --- Life ---------------------------------------------------------------------------------------------- */

static int on_timer(sd_event_source *s, uint64_t usec, void *userdata) {
        struct exchange *x = userdata;

        (void) s, (void) usec;
        x->due(x);
        return 0;
}

static void on_done(struct http_transfer *t, const char *error) {
        struct exchange *x = (struct exchange *) ((char *) t - offsetof(struct exchange, transfer));
        struct metadata_answer a = { .flavored = x->flavored, .body = x->body, .len = MIN(x->len, x->size) };
        char *type = NULL;

        if (!error) {
                (void) curl_easy_getinfo(t->easy, CURLINFO_RESPONSE_CODE, &a.status);
                (void) curl_easy_getinfo(t->easy, CURLINFO_CONTENT_TYPE, &type);
                a.content_type = type;
        }
        x->answered(x, &a, error && x->too_long ? "the answer is too long" : error);
}

int exchange_init(struct exchange *x, sd_event *e, struct http_loop *loop, const char *name) {
        int r = sd_event_add_time_relative(e, &x->timer, CLOCK_BOOTTIME, 0, 0, on_timer, x);

        if (r < 0)
                return r;
        (void) sd_event_source_set_description(x->timer, name);
        x->event = e;
        (void) snprintf(x->flavor_text, sizeof(x->flavor_text), "Metadata-Flavor: Google");
        x->flavor.data = x->flavor_text;
        x->transfer.done = on_done;
        http_loop_add(loop, &x->transfer);
        return 0;
}

void exchange_clear(struct exchange *x) {
        x->timer = sd_event_source_disable_unref(x->timer);
}
