/* SPDX-License-Identifier: Apache-2.0 */
#include "exchange.h"

#include "retry_after.h"
#include "http_loop.h"
#include "lookup.h"

#define ADDRESS_AGE (1800 * USEC_PER_SEC) /* a name is looked up anew after that, in the background */

#define AUTHORIZATION_MAX 1100 /* etcd's tokens are 30 bytes, JWT some hundred */

#define HEADERS_MAX 4

struct exchange {
        struct http_transfer transfer; /* the first member: done is given it */
        sd_event *event;
        struct exchange_options options;
        struct http_loop *loop;
        struct lookup *lookup; /* NULL: the URL has an address */
        sd_event_source *soon; /* a failure that was seen while starting */
        char failure[256];
        bool waits; /* the body waits for the name's address */
        usec_t timeout;
        char *body;
        size_t body_len;
        size_t n_headers;
        struct curl_slist headers[HEADERS_MAX], addresses; /* libcurl only reads them */
        char addresses_text[LOOKUP_TEXT_MAX], type[128], authorization[AUTHORIZATION_MAX],
                url[EXCHANGE_URL_MAX + EXCHANGE_PATH_MAX];
};

/* --- What comes back ----------------------------------------------------------------------------------- */

static size_t on_body(char *data, size_t size, size_t n, void *userdata) {
        struct exchange *x = userdata;
        size_t len = size * n;
        long status = 0;

        if (x->options.part &&
            curl_easy_getinfo(x->transfer.easy, CURLINFO_RESPONSE_CODE, &status) == CURLE_OK &&
            status == 200)
                return x->options.part(data, len, x->options.userdata) ? len : 0;
        return http_transfer_keep(data, size, n, &x->transfer);
}

static void on_done(struct http_transfer *t, const char *error) {
        struct exchange *x = (struct exchange *) t;
        struct exchange_answer a = { .failed = error, .why = "" };
        _cleanup_free_ char *answer = NULL;
        usec_t now;

        if (error) {
                a.refused = http_transfer_about_certificates(t);
                a.why = t->code == CURLE_WRITE_ERROR ? "the answer is too long" :
                        t->why[0]                    ? t->why :
                                                       error;
        } else
                (void) curl_easy_getinfo(t->easy, CURLINFO_RESPONSE_CODE, &a.status);
        if (t->retry_after[0] && sd_event_now(x->event, CLOCK_REALTIME, &now) >= 0)
                (void) backoff_parse_retry_after(t->retry_after, now, &a.retry_after); /* else: not asked for */
        a.body = answer = TAKE_PTR(t->answer); /* done may free us */
        a.len = t->len;
        t->size = 0;
        x->options.done(&a, x->options.userdata);
}

static void fail_soon(struct exchange *x, const char *why) {
        (void) snprintf(x->failure, sizeof(x->failure), "%s", why);
        x->waits = false;
        (void) sd_event_source_set_enabled(x->soon, SD_EVENT_ONESHOT); /* fails for a source without loop only */
}

static int on_soon(sd_event_source *source, void *userdata) {
        struct exchange *x = userdata;
        const struct exchange_answer a = { .failed = true, .why = x->failure };

        (void) source;
        x->options.done(&a, x->options.userdata);
        return 0;
}

/* --- What is sent -------------------------------------------------------------------------------------- */

static void add_header(struct exchange *x, struct curl_slist **at, const char *text) {
        *at = &x->headers[x->n_headers++];
        **at = (struct curl_slist){ .data = (char *) (uintptr_t) text };
}

/* What is another in each request. */
static int address_it(struct exchange *x) {
        struct curl_slist *first = NULL;
        int bad = 0;

        x->n_headers = 0;
        /* By itself libcurl asks for large bodies, and waits 1 s for those who do not answer that. */
        add_header(x, &first, "Expect:");
        add_header(x, &first->next, x->type);
        if (x->body_len >= 2 && memcmp(x->body, "\x1f\x8b", 2) == 0)
                add_header(x, &x->headers[x->n_headers - 1].next, "Content-Encoding: gzip");
        if (x->authorization[0])
                add_header(x, &x->headers[x->n_headers - 1].next, x->authorization);
        bad |= curl_easy_setopt(x->transfer.easy, CURLOPT_URL, x->url) != CURLE_OK;
        bad |= curl_easy_setopt(x->transfer.easy, CURLOPT_HTTPHEADER, x->headers) != CURLE_OK;
        return bad ? -EIO : 0;
}

static int setup(struct exchange *x) {
        const struct exchange_options *o = &x->options;
        CURL *c = x->transfer.easy;

        if (o->part && (curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, on_body) != CURLE_OK ||
                        curl_easy_setopt(c, CURLOPT_WRITEDATA, x) != CURLE_OK))
                return -EIO;
        return http_transfer_set_tls(&x->transfer, o->ca, o->certificate, o->key);
}

static int send_body(struct exchange *x) {
        const struct http_options o = { .user_agent = x->options.user_agent,
                                        .connect_timeout = EXCHANGE_CONNECT_TIMEOUT,
                                        .timeout = x->timeout,
                                        .answer_max = x->options.answer_max,
                                        .posts = true };
        struct http_transfer *t = &x->transfer;
        usec_t taken, now = 0;
        const char *known = x->lookup ? lookup_answer(x->lookup, &taken) : NULL;
        int r = http_transfer_prepare(t, &o);

        x->waits = false;
        if (r > 0)
                r = setup(x);
        if (r >= 0)
                r = address_it(x);
        if (r < 0) {
                http_transfer_drop(t);
                return r;
        }
        if (known && sd_event_now(x->event, CLOCK_BOOTTIME, &now) >= 0 && now > taken + ADDRESS_AGE)
                (void) lookup_ask(x->lookup); /* what is known stays good */
        (void) snprintf(x->addresses_text, sizeof(x->addresses_text), "%s", known ? known : "");
        x->addresses.data = x->addresses_text;
        if (curl_easy_setopt(t->easy, CURLOPT_RESOLVE, known ? &x->addresses : NULL) != CURLE_OK ||
            curl_easy_setopt(t->easy, CURLOPT_URL, x->url) !=
                    CURLE_OK || /* curl keeps a copy: of a path before this one */
            curl_easy_setopt(t->easy, CURLOPT_POSTFIELDS, x->body) != CURLE_OK ||
            curl_easy_setopt(t->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t) x->body_len) != CURLE_OK)
                return -EIO;
        r = http_transfer_set_timeout(t, x->timeout);
        return r < 0 ? r : http_transfer_start(t);
}

static void on_looked_up(const char *error, void *userdata) {
        struct exchange *x = userdata;
        usec_t taken;
        int r;

        if (!x->waits)
                return;
        if (!lookup_answer(x->lookup, &taken)) {
                fail_soon(x, error ? error : "the name cannot be looked up");
                return;
        }
        r = send_body(x);
        if (r < 0)
                fail_soon(x, strerror(-r));
}

int exchange_start(struct exchange *x, const struct exchange_request *q) {
        size_t address = strlen(x->options.url);
        char *mine;
        usec_t taken;
        int r;

        if (exchange_at_work(x))
                return -EBUSY;
        while (address > 0 && x->options.url[address - 1] == '/')
                address--;
        if (address >= EXCHANGE_URL_MAX || strlen(q->path) >= EXCHANGE_PATH_MAX)
                return -ENAMETOOLONG;
        mine = malloc(q->len + 1);
        if (!mine)
                return -ENOMEM;
        memcpy(mine, q->body, q->len);
        free(x->body);
        x->body = mine;
        x->body_len = q->len;
        x->timeout = q->timeout;
        (void) snprintf(x->url, sizeof(x->url), "%.*s%s", (int) address, x->options.url, q->path);
        (void) snprintf(x->type, sizeof(x->type), "Content-Type: %.100s",
                        q->content_type ? q->content_type : "application/json");
        (void) snprintf(x->authorization, sizeof(x->authorization), "%s%s",
                        q->authorization ? "Authorization: " : "", q->authorization ? q->authorization : "");
        if (!x->lookup || lookup_answer(x->lookup, &taken))
                return send_body(x);
        r = lookup_ask(x->lookup);
        x->waits = r >= 0;
        return r;
}

bool exchange_at_work(const struct exchange *x) {
        int on = SD_EVENT_OFF;

        (void) sd_event_source_get_enabled(x->soon, &on); /* fails for a source without loop only */
        return x->waits || x->transfer.at_work || on != SD_EVENT_OFF;
}

void exchange_cancel(struct exchange *x) {
        x->waits = false;
        (void) sd_event_source_set_enabled(x->soon, SD_EVENT_OFF); /* as above */
        http_transfer_cancel(&x->transfer);
}

void exchange_renew(struct exchange *x) {
        http_loop_renew(x->loop);
}

/* --- Life ---------------------------------------------------------------------------------------------- */

static int complain(char why[static 256], const char *url, const char *what) {
        (void) snprintf(why, 256, "'%.160s' %s", url, what);
        return -EINVAL;
}

static int take_url(struct exchange *x, const char *url, char why[static 256]) {
        const struct lookup_options o = { .done = on_looked_up, .userdata = x };
        int r;

        if (!startswith(url, "http://") && !startswith(url, "https://"))
                return complain(why, url, "is no http:// or https:// URL");
        if (memchr(url, '@', strlen(url)))
                return complain(why, url, "holds a user or password: certificates say who we are");
        r = lookup_new_for_url(x->event, url, &o, &x->lookup);
        return r == -EINVAL ? complain(why, url, "is no URL with a host") : r;
}

int exchange_new(sd_event *e, const struct exchange_options *o, struct exchange **ret, char why[static 256]) {
        _cleanup_(exchange_freep) struct exchange *x = calloc(1, sizeof(*x));
        int r;

        (void) snprintf(why, 256, "out of memory");
        if (!x)
                return -ENOMEM;
        x->event = sd_event_ref(e);
        x->options = *o;
        x->transfer.done = on_done;
        r = sd_event_add_defer(e, &x->soon, on_soon, x);
        if (r >= 0)
                r = sd_event_source_set_enabled(x->soon, SD_EVENT_OFF);
        if (r < 0)
                return r;
        (void) sd_event_source_set_description(x->soon, o->name);
        r = take_url(x, o->url, why);
        if (r >= 0)
                r = http_loop_new(e, o->name, &x->loop);
        if (r < 0)
                return r;
        http_loop_add(x->loop, &x->transfer);
        *ret = TAKE_PTR(x);
        return 0;
}

struct exchange *exchange_free(struct exchange *x) {
        if (!x)
                return NULL;
        x->loop = http_loop_free(x->loop);
        x->lookup = lookup_free(x->lookup);
        x->soon = sd_event_source_disable_unref(x->soon);
        x->event = sd_event_unref(x->event);
        free(x->body);
        free(x);
        return NULL;
}
