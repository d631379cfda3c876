/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <strings.h>
#include <sys/random.h>

#include "backoff.h"
#include "http_loop.h"
#include "metadata.h"

#define CONNECT_TIMEOUT (2 * USEC_PER_SEC)
#define TIMEOUT (5 * USEC_PER_SEC)
#define WAIT_GRACE (10 * USEC_PER_SEC) /* the server answers at the end of a wait, not before */
#define TRIES 3     /* of a key beside the interfaces, before the wait for changes goes on without it */
#define LONG_AWAY 8 /* failures in a row from which on the server gets one try a minute */
#define QUICK USEC_PER_SEC /* a wait that ends sooner than this was none */

struct question {
        enum { WANTED, KNOWN, PUT_OFF } state;
        unsigned tries;
        char why[METADATA_WHY_MAX]; /* it was put off, as was said */
};

struct metadata {
        struct http_loop *loop;
        struct http_transfer transfer;
        struct metadata_options options; /* its texts are not valid after metadata_new() */
        char *user_agent, *base;
        sd_event *event;
        sd_event_source *timer;
        struct curl_slist flavor; /* libcurl only reads it */
        char flavor_text[32];

        struct metadata_facts facts;
        struct question questions[_METADATA_KEY_MAX];
        enum metadata_key asked;
        bool waiting; /* the question at work is a wait for a change */
        bool news;    /* the facts are others than was told */
        usec_t asked_at;
        char etag[64]; /* empty: none to wait with */
        unsigned failures, quick;
        struct metadata_status status;

        /* the answer at work */
        char *body;
        size_t len;
        bool flavored, too_long;
        char answer_etag[64];
};

static void ask(struct metadata *m);

/* --- The address -------------------------------------------------------------------------------------- */

static bool port_is_valid(const char *text) {
        size_t n = strspn(text, "0123456789");

        return n > 0 && n <= 5 && text[n] == '\0' && atoi(text) > 0 && atoi(text) <= UINT16_MAX;
}

bool metadata_address_is_valid(const char *text) {
        struct in6_addr six;
        struct in_addr four;
        char host[64];
        const char *end = text[0] == '[' ? strchr(text, ']') : strchr(text, ':');
        const char *start = text + (text[0] == '[');
        size_t n = end ? (size_t) (end - start) : strlen(start);

        if (n >= sizeof(host) || (text[0] == '[' && !end))
                return false;
        memcpy(host, start, n);
        host[n] = '\0';
        if (inet_pton(text[0] == '[' ? AF_INET6 : AF_INET, host,
                      text[0] == '[' ? (void *) &six : (void *) &four) != 1)
                return false;
        if (!end)
                return true;
        end += text[0] == '[';
        return *end == '\0' || (*end == ':' && port_is_valid(end + 1));
}

/* --- When to ask --------------------------------------------------------------------------------------- */

static uint64_t chance(void) {
        uint64_t v = 0;

        (void) getrandom(&v, sizeof(v), GRND_NONBLOCK); /* without entropy yet: at once, a valid draw, too */
        return v;
}

static void ask_in(struct metadata *m, usec_t span) {
        if (sd_event_source_set_time_relative(m->timer, span) < 0 ||
            sd_event_source_set_enabled(m->timer, SD_EVENT_ONESHOT) < 0)
                m->status.answering = false; /* cannot happen with a timer that exists */
}

static int on_timer(sd_event_source *s, uint64_t usec, void *userdata) {
        (void) s, (void) usec;
        ask(userdata);
        return 0;
}

static void fail(struct metadata *m, const char *why) {
        char text[sizeof(m->status.why)];
        usec_t span = backoff_next(m->failures, chance());

        if (m->failures >= LONG_AWAY)
                span += BACKOFF_PARKED - BACKOFF_MAX;
        if (m->failures < UINT16_MAX)
                m->failures++;
        (void) snprintf(text, sizeof(text), "%s: %s", metadata_key_path(m->asked), why);
        m->status.answering = false;
        ask_in(m, span);
        if (streq(text, m->status.why))
                return;
        memcpy(m->status.why, text, sizeof(text));
        m->options.failed(m->status.why, m->options.userdata);
}

/* --- Answers ------------------------------------------------------------------------------------------- */

/*
 * A key that the server does not have, or answers with nonsense, or never: the wait for changes must not
 * stand still for it.
 */
static void put_off(struct metadata *m, struct question *q, const char *why) {
        char text[sizeof(m->status.why)];

        q->state = PUT_OFF;
        q->tries = 0;
        if (!streq(q->why, why)) {
                (void) snprintf(q->why, sizeof(q->why), "%s", why);
                (void) snprintf(text, sizeof(text), "%s: %s", metadata_key_path(m->asked), why);
                m->options.failed(text, m->options.userdata);
        }
        ask(m);
}

static void trouble(struct metadata *m, int error, const char *why) {
        struct question *q = &m->questions[m->asked];

        if (m->asked != METADATA_NICS && (error != -EAGAIN || ++q->tries >= TRIES))
                put_off(m, q, why);
        else
                fail(m, why);
}

/* The next question: at once, unless the server answers waits without waiting. */
static void go_on(struct metadata *m) {
        uint64_t now = 0;

        if (!m->waiting) {
                ask(m);
                return;
        }
        for (size_t k = 0; k < ELEMENTSOF(m->questions); k++)
                if (m->questions[k].state == PUT_OFF)
                        m->questions[k].state = WANTED;
        (void) sd_event_now(m->event, CLOCK_MONOTONIC, &now);
        if (now - m->asked_at >= QUICK) {
                m->quick = 0;
                ask(m);
                return;
        }
        ask_in(m, QUICK + backoff_next(m->quick, chance()));
        if (m->quick < UINT16_MAX)
                m->quick++;
}

static void tell(struct metadata *m) {
        if (m->news)
                m->options.changed(&m->facts, m->options.userdata);
        m->news = false;
}

static void take(struct metadata *m, const struct metadata_answer *a) {
        struct question *q = &m->questions[m->asked];
        struct metadata_facts fresh = m->facts;
        char why[METADATA_WHY_MAX] = "";
        int r = metadata_take(&fresh, m->asked, a, why);

        if (r < 0) {
                trouble(m, r, why);
                return;
        }
        m->failures = 0;
        q->state = KNOWN;
        q->tries = 0;
        q->why[0] = '\0';
        if (m->asked == METADATA_NICS) {
                memcpy(m->etag, m->answer_etag, sizeof(m->etag));
                m->status.known = true;
                m->status.answering = true;
                m->status.why[0] = '\0';
        }
        m->news = m->news || !metadata_facts_equal(&fresh, &m->facts);
        m->facts = fresh;
        if (m->asked == METADATA_NICS) /* these are waited for; the rest is told together */
                tell(m);
        go_on(m);
}

static void on_done(struct http_transfer *t, const char *error) {
        struct metadata *m = (struct metadata *) ((char *) t - offsetof(struct metadata, transfer));
        struct metadata_answer a = { .flavored = m->flavored, .body = m->body, .len = m->len };
        char *type = NULL;

        if (error) {
                trouble(m, -EAGAIN, m->too_long ? "the answer is too long" : error);
                return;
        }
        (void) curl_easy_getinfo(t->easy, CURLINFO_RESPONSE_CODE, &a.status);
        (void) curl_easy_getinfo(t->easy, CURLINFO_CONTENT_TYPE, &type);
        a.content_type = type;
        take(m, &a);
}

static size_t on_body(char *data, size_t size, size_t n, void *userdata) {
        struct metadata *m = userdata;
        size_t len = size * n;

        m->too_long = len > METADATA_BODY_MAX - m->len;
        if (m->too_long)
                return 0; /* ends the transfer */
        memcpy(m->body + m->len, data, len);
        m->len += len;
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
        struct metadata *m = userdata;
        const char *value;
        size_t len = 0;

        value = header_value(data, size * n, "metadata-flavor:", &len);
        if (value)
                m->flavored = len == strlen("Google") && memcmp(value, "Google", len) == 0;
        value = header_value(data, size * n, "etag:", &len);
        /* it goes back in a URL: nothing there may mean more than itself */
        if (value && len < sizeof(m->answer_etag)) {
                memcpy(m->answer_etag, value, len);
                m->answer_etag[len] = '\0';
                if (m->answer_etag[strspn(m->answer_etag,
                                          "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                          "0123456789-_.")])
                        m->answer_etag[0] = '\0';
        }
        return size * n;
}

/* --- Questions ----------------------------------------------------------------------------------------- */

static int prepare(struct metadata *m) {
        const struct http_options o = { .user_agent = m->user_agent,
                                        .connect_timeout = CONNECT_TIMEOUT,
                                        .timeout = TIMEOUT };
        int r = http_transfer_prepare(&m->transfer, &o), bad = 0;
        CURL *c = m->transfer.easy;

        if (r <= 0)
                return r;
        bad |= curl_easy_setopt(c, CURLOPT_HTTPGET, 1L) != CURLE_OK;
        bad |= curl_easy_setopt(c, CURLOPT_HTTPHEADER, &m->flavor) != CURLE_OK;
        bad |= curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, on_body) != CURLE_OK;
        bad |= curl_easy_setopt(c, CURLOPT_WRITEDATA, m) != CURLE_OK;
        bad |= curl_easy_setopt(c, CURLOPT_HEADERFUNCTION, on_header) != CURLE_OK;
        bad |= curl_easy_setopt(c, CURLOPT_HEADERDATA, m) != CURLE_OK;
        if (bad)
                http_transfer_drop(&m->transfer);
        return bad ? -EIO : 0;
}

/* Which key, and whether to wait for its change. */
static void pick(struct metadata *m) {
        m->waiting = true;
        m->asked = METADATA_NICS;
        for (enum metadata_key k = 0; k < _METADATA_KEY_MAX && m->waiting; k++)
                if (m->questions[k].state == WANTED) {
                        m->asked = k;
                        m->waiting = false;
                }
}

static int start(struct metadata *m) {
        usec_t wait = m->options.wait;
        char query[128] = "", url[512];
        int r;

        if (m->waiting)
                (void) snprintf(query, sizeof(query),
                                "&wait_for_change=true&last_etag=%s&timeout_sec=%" PRIu64, m->etag,
                                wait / USEC_PER_SEC);
        (void) snprintf(url, sizeof(url), "%s%s%s", m->base, metadata_key_path(m->asked), query);
        r = prepare(m);
        if (r == 0)
                r = http_transfer_set_timeout(&m->transfer, m->waiting ? wait + WAIT_GRACE : TIMEOUT);
        if (r == 0 && curl_easy_setopt(m->transfer.easy, CURLOPT_URL, url) != CURLE_OK)
                r = -ENOMEM;
        m->len = 0;
        m->flavored = m->too_long = false;
        m->answer_etag[0] = '\0';
        (void) sd_event_now(m->event, CLOCK_MONOTONIC, &m->asked_at);
        return r < 0 ? r : http_transfer_start(&m->transfer);
}

static void ask(struct metadata *m) {
        int r;

        pick(m);
        if (m->waiting)
                tell(m);
        if (m->waiting && !m->etag[0]) { /* a server that gives none is asked anew now and then */
                m->questions[METADATA_NICS].state = WANTED;
                for (size_t k = 0; k < ELEMENTSOF(m->questions); k++)
                        m->questions[k].state =
                                m->questions[k].state == PUT_OFF ? WANTED : m->questions[k].state;
                ask_in(m, m->options.wait);
                return;
        }
        r = start(m);
        if (r < 0)
                fail(m, strerror(-r));
}

/* --- Life ---------------------------------------------------------------------------------------------- */

static int set_up(struct metadata *m, const struct metadata_options *o) {
        int r;

        m->user_agent = strdup(o->user_agent);
        m->body = malloc(METADATA_BODY_MAX);
        if (!m->user_agent || !m->body)
                return -ENOMEM;
        if (asprintf(&m->base, "http://%s/computeMetadata/v1/", o->address) < 0) {
                m->base = NULL;
                return -ENOMEM;
        }
        (void) snprintf(m->flavor_text, sizeof(m->flavor_text), "Metadata-Flavor: Google");
        m->flavor.data = m->flavor_text;
        m->transfer.done = on_done;
        r = http_loop_new(m->event, "metadata", &m->loop);
        if (r < 0)
                return r;
        http_loop_add(m->loop, &m->transfer);
        r = sd_event_add_time_relative(m->event, &m->timer, CLOCK_BOOTTIME, 0, 0, on_timer, m);
        if (r < 0)
                return r;
        (void) sd_event_source_set_description(m->timer, "metadata");
        return 0;
}

int metadata_new(sd_event *e, const struct metadata_options *o, struct metadata **ret) {
        _cleanup_(metadata_freep) struct metadata *m = NULL;
        int r;

        if (!metadata_address_is_valid(o->address))
                return -EINVAL;
        m = calloc(1, sizeof(*m));
        if (!m)
                return -ENOMEM;
        m->event = sd_event_ref(e);
        m->options = *o;
        if (m->options.wait == 0)
                m->options.wait = METADATA_WAIT;
        r = set_up(m, o);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(m);
        return 0;
}

struct metadata *metadata_free(struct metadata *m) {
        if (!m)
                return NULL;
        m->loop = http_loop_free(m->loop);
        m->timer = sd_event_source_disable_unref(m->timer);
        m->event = sd_event_unref(m->event);
        free(m->user_agent);
        free(m->base);
        free(m->body);
        free(m);
        return NULL;
}

void metadata_get_status(const struct metadata *m, struct metadata_status *ret) {
        *ret = m->status;
}
