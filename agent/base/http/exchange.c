/* SPDX-License-Identifier: Apache-2.0 */
#include "exchange.h"

#include <assert.h>

#include "grow.h"
#include "http_loop.h"
#include "lookup.h"
#include "texts.h"

#define ADDRESS_AGE (1800 * USEC_PER_SEC) /* a name is looked up again after that, in the background */
#define ADDRESS_DOUBT (10 * USEC_PER_SEC) /* and after a failure */
#define CONNECTION_SECONDS 1800 /* then a new one: names and certificates of the other side may have moved */

#define RETRY_AFTER_MAX ((curl_off_t) 3600) /* s: a server cannot silence a host for longer */

#define HEADER_MAX 1100 /* etcd's tokens are 30 bytes, JWT some hundred */

#define HEADERS_MAX 7

#define ADDRESS_MAX 64

struct exchange {
        struct http_transfer transfer; /* the first member: done is given it */
        sd_event *event;
        struct exchange_options options;
        struct http_loop *loop; /* its own, or options.beside's, as the lookup */
        struct lookup *lookup;  /* NULL: the URL has an address */
        struct exchange *sharing; /* the next of those that share this one's, or that this one shares with */
        sd_event_source *soon; /* a failure that was seen while starting */
        char failure[256];
        bool unnamed; /* the failure is the lookup's */
        bool waits;   /* the body waits for the name's address */
        bool careful;
        usec_t timeout;
        const char *body; /* NULL: a GET */
        char *copy, *answer; /* copy: body, unless it is lent */
        char *bearer;        /* the line that goes out; NULL: none */
        size_t body_len, received, len, size; /* len: of what was received, that is kept */
        size_t n_headers;
        struct curl_slist headers[HEADERS_MAX], addresses, to; /* libcurl only reads them */
        char to_text[ADDRESS_MAX], from_text[ADDRESS_MAX]; /* as libcurl reads them */
        char addresses_text[LOOKUP_TEXT_MAX], type[128], header[HEADER_MAX],
                url[EXCHANGE_URL_MAX + EXCHANGE_PATH_MAX];
};

/* --- What comes back ----------------------------------------------------------------------------------- */

static size_t on_body(char *data, size_t size, size_t n, void *userdata) {
        struct exchange *x = userdata;
        size_t len = size * n, kept = len;
        long status = 0;

        if (x->options.part &&
            curl_easy_getinfo(x->transfer.easy, CURLINFO_RESPONSE_CODE, &status) == CURLE_OK &&
            status == 200)
                return x->options.part(data, len, x->options.userdata) ? len : 0;
        if (len > x->options.answer_max - x->received)
                return 0; /* ends the transfer */
        x->received += len;
        if (x->options.keep > 0)
                kept = MIN(len, x->options.keep - x->len);
        if (grow(&x->answer, &x->size, x->len + kept, 1) < 0)
                return 0;
        if (kept > 0)
                memcpy(x->answer + x->len, data, kept);
        x->len += kept;
        return len;
}

static size_t on_header(char *data, size_t size, size_t n, void *userdata) {
        struct exchange *x = userdata;

        x->options.header(data, size * n, x->options.userdata);
        return size * n;
}

/* A long answer is not kept until the next one: there is seldom more than one. */
static void forget_answer(struct exchange *x) {
        free(TAKE_PTR(x->answer));
        x->received = x->len = x->size = 0;
}

/* What is known stays good meanwhile. */
static void look_up_older(struct exchange *x, usec_t age) {
        usec_t taken, now;

        if (x->lookup && lookup_answer(x->lookup, &taken) &&
            sd_event_now(x->event, CLOCK_BOOTTIME, &now) >= 0 && now > taken + age)
                (void) lookup_ask(x->lookup);
}

static void on_done(struct http_transfer *t, const char *error) {
        struct exchange *x = (struct exchange *) t;
        struct exchange_answer a = { .failed = error, .why = "", .what = "" };
        _cleanup_free_ char *answer = NULL;
        curl_off_t seconds = 0;
        char *type = NULL;

        if (error) {
                a.refused = http_transfer_about_certificates(t);
                a.cut_off = t->code == CURLE_SEND_ERROR;
                a.unsent = t->code == CURLE_COULDNT_CONNECT || t->code == CURLE_COULDNT_RESOLVE_HOST ||
                           t->code == CURLE_COULDNT_RESOLVE_PROXY;
                a.what = t->code == CURLE_WRITE_ERROR ? "the answer is too long" : error;
                a.why = t->code != CURLE_WRITE_ERROR && t->why[0] ? t->why : a.what;
                if (!a.refused)
                        look_up_older(x, ADDRESS_DOUBT);
        } else {
                (void) curl_easy_getinfo(t->easy, CURLINFO_RESPONSE_CODE, &a.status);
                (void) curl_easy_getinfo(t->easy, CURLINFO_CONTENT_TYPE, &type);
                /* else: 0, not asked for */
                (void) curl_easy_getinfo(t->easy, CURLINFO_RETRY_AFTER, &seconds);
        }
        a.content_type = type;
        a.retry_after = (usec_t) MIN(MAX(seconds, (curl_off_t) 0), RETRY_AFTER_MAX) * USEC_PER_SEC;
        a.body = answer = TAKE_PTR(x->answer); /* done may start the next one */
        a.len = x->len;
        x->received = x->len = x->size = 0;
        x->options.done(&a, x->options.userdata);
}

static void fail_soon(struct exchange *x, bool unnamed, const char *why) {
        (void) snprintf(x->failure, sizeof(x->failure), "%s", why);
        x->unnamed = unnamed;
        x->waits = false;
        /* fails for a source without loop only */
        (void) sd_event_source_set_enabled(x->soon, SD_EVENT_ONESHOT);
}

static int on_soon(sd_event_source *source, void *userdata) {
        struct exchange *x = userdata;
        const struct exchange_answer a = {
                .failed = true, .unsent = true, .unnamed = x->unnamed, .why = x->failure, .what = x->failure
        };

        (void) source;
        x->options.done(&a, x->options.userdata);
        return 0;
}

/* --- What is sent -------------------------------------------------------------------------------------- */

static void add_header(struct exchange *x, const char *text) {
        struct curl_slist *last = &x->headers[x->n_headers++];

        assert(x->n_headers <= HEADERS_MAX);
        *last = (struct curl_slist){ .data = (char *) (uintptr_t) text };
        if (x->n_headers > 1)
                last[-1].next = last;
}

/* What is another in each request. */
static int address_it(struct exchange *x) {
        CURL *c = x->transfer.easy;
        int bad = 0;

        x->n_headers = 0;
        /* By itself libcurl asks for large bodies, and waits 1 s for those who do not answer that. */
        add_header(x, x->careful ? "Expect: 100-continue" : "Expect:");
        if (x->body)
                add_header(x, x->type);
        if (x->body && x->body_len >= 2 && memcmp(x->body, "\x1f\x8b", 2) == 0)
                add_header(x, "Content-Encoding: gzip");
        for (char *line = x->header, *next; *line && x->n_headers < HEADERS_MAX - 1; line = next) {
                next = line + strcspn(line, "\n");
                if (*next)
                        *next++ = '\0';
                add_header(x, line);
        }
        if (x->bearer) /* the last, which has its place */
                add_header(x, x->bearer);
        bad |= curl_easy_setopt(c, CURLOPT_URL, x->url) != CURLE_OK;
        bad |= curl_easy_setopt(c, CURLOPT_HTTPHEADER, x->headers) != CURLE_OK;
        if (!x->body)
                return bad || curl_easy_setopt(c, CURLOPT_HTTPGET, 1L) != CURLE_OK ? -EIO : 0;
        bad |= curl_easy_setopt(c, CURLOPT_POST, 1L) != CURLE_OK;
        bad |= curl_easy_setopt(c, CURLOPT_POSTFIELDS, x->body) != CURLE_OK;
        bad |= curl_easy_setopt(c, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t) x->body_len) != CURLE_OK;
        return bad ? -EIO : 0;
}

/* NULL and not "": libcurl would look for a file without a name. */
static const char *path_or_null(const char *path) {
        return path && *path ? path : NULL;
}

/* Of any name and port of the URL, to this address; and from that one, which is no NIC's name. */
static int set_ends(struct exchange *x) {
        const struct exchange_options *o = &x->options;
        bool six = o->to && strchr(o->to, ':');
        int bad = 0;

        if (o->to) {
                (void) snprintf(x->to_text, sizeof(x->to_text), "::%s%.50s%s:", six ? "[" : "", o->to,
                                six ? "]" : "");
                x->to.data = x->to_text;
                bad |= curl_easy_setopt(x->transfer.easy, CURLOPT_CONNECT_TO, &x->to) != CURLE_OK;
        }
        if (o->from) {
                (void) snprintf(x->from_text, sizeof(x->from_text), "host!%.50s", o->from);
                bad |= curl_easy_setopt(x->transfer.easy, CURLOPT_INTERFACE, x->from_text) != CURLE_OK;
        }
        return bad;
}

static int setup(struct exchange *x) {
        const struct exchange_options *o = &x->options;
        CURL *c = x->transfer.easy;
        int bad = set_ends(x);

        bad |= curl_easy_setopt(c, CURLOPT_TCP_KEEPALIVE, 1L) != CURLE_OK;
        bad |= curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, on_body) != CURLE_OK;
        bad |= curl_easy_setopt(c, CURLOPT_WRITEDATA, x) != CURLE_OK;
        if (o->header) { /* data without a function would send headers to on_body() */
                bad |= curl_easy_setopt(c, CURLOPT_HEADERFUNCTION, on_header) != CURLE_OK;
                bad |= curl_easy_setopt(c, CURLOPT_HEADERDATA, x) != CURLE_OK;
        }
        if (path_or_null(o->ca)) /* else the system's authorities */
                bad |= curl_easy_setopt(c, CURLOPT_CAINFO, o->ca) != CURLE_OK;
        bad |= curl_easy_setopt(c, CURLOPT_CRLFILE, path_or_null(o->crl)) != CURLE_OK;
        bad |= curl_easy_setopt(c, CURLOPT_SSLCERT, path_or_null(o->certificate)) != CURLE_OK;
        bad |= curl_easy_setopt(c, CURLOPT_SSLKEY, path_or_null(o->key)) != CURLE_OK;
#if LIBCURL_VERSION_NUM >= 0x075000
        bad |= curl_easy_setopt(c, CURLOPT_MAXLIFETIME_CONN, (long) CONNECTION_SECONDS) != CURLE_OK;
#endif
        return bad ? -EIO : 0;
}

static int send_body(struct exchange *x) {
        const struct http_options o = { .user_agent = x->options.user_agent,
                                        .proxy = x->options.proxy,
                                        .connect_timeout = x->options.connect_timeout > 0 ?
                                                                   x->options.connect_timeout :
                                                                   EXCHANGE_CONNECT_TIMEOUT,
                                        .timeout = x->timeout };
        struct http_transfer *t = &x->transfer;
        usec_t taken;
        const char *known = x->lookup ? lookup_answer(x->lookup, &taken) : NULL;
        int r = http_transfer_prepare(t, &o);

        x->waits = false;
        if (r > 0)
                r = setup(x);
        if (r < 0) {
                http_transfer_drop(t);
                return r;
        }
        look_up_older(x, ADDRESS_AGE);
        (void) snprintf(x->addresses_text, sizeof(x->addresses_text), "%s", known ? known : "");
        x->addresses.data = x->addresses_text;
        r = address_it(x);
        if (r == 0 && curl_easy_setopt(t->easy, CURLOPT_RESOLVE, known ? &x->addresses : NULL) != CURLE_OK)
                r = -EIO;
        if (r == 0)
                r = http_transfer_set_timeout(t, x->timeout);
        return r < 0 ? r : http_transfer_start(t);
}

static void on_looked_up(const char *error, void *userdata) {
        usec_t taken;

        for (struct exchange *x = userdata; x; x = x->sharing) {
                int r;

                if (!x->waits)
                        continue;
                if (!lookup_answer(x->lookup, &taken)) {
                        fail_soon(x, true, error ? error : "the name cannot be looked up");
                        continue;
                }
                r = send_body(x);
                if (r < 0)
                        fail_soon(x, false, strerror(-r));
        }
}

static void forget_bearer(struct exchange *x) {
        if (x->bearer)
                explicit_bzero(x->bearer, strlen(x->bearer));
        free(TAKE_PTR(x->bearer));
}

/* As it is now: it may change before all of the request is out. In the clear it would be everybody's. */
static int take_bearer(struct exchange *x) {
        const struct exchange_bearer *b = x->options.bearer;

        forget_bearer(x);
        if (!b || !b->header[0] || !startswith(x->options.url, "https://"))
                return 0;
        x->bearer = strdup(b->header);
        return x->bearer ? 0 : -ENOMEM;
}

static int take_body(struct exchange *x, const struct exchange_request *q) {
        free(TAKE_PTR(x->copy));
        x->body = q->body;
        x->body_len = q->len;
        if (q->lent || !q->body)
                return 0;
        x->copy = malloc(q->len + 1);
        if (!x->copy)
                return -ENOMEM;
        memcpy(x->copy, q->body, q->len);
        x->body = x->copy;
        return 0;
}

int exchange_start(struct exchange *x, const struct exchange_request *q) {
        size_t address = strlen(x->options.url);
        usec_t taken;
        int r;

        if (exchange_at_work(x))
                return -EBUSY;
        while (address > 0 && x->options.url[address - 1] == '/')
                address--;
        if (address >= EXCHANGE_URL_MAX || strlen(q->path) >= EXCHANGE_PATH_MAX ||
            (q->header && strlen(q->header) >= HEADER_MAX))
                return -ENAMETOOLONG;
        if (x->options.bearer && x->options.bearer->awaited && startswith(x->options.url, "https://")) {
                fail_soon(x, false, "the instance token of this host is awaited");
                return 0;
        }
        r = take_body(x, q);
        if (r == 0)
                r = take_bearer(x);
        if (r < 0)
                return r;
        x->timeout = q->timeout;
        x->careful = q->careful;
        (void) snprintf(x->url, sizeof(x->url), "%.*s%s", (int) address, x->options.url, q->path);
        (void) snprintf(x->type, sizeof(x->type), "Content-Type: %.100s",
                        q->content_type ? q->content_type : "application/json");
        (void) snprintf(x->header, sizeof(x->header), "%s", q->header ? q->header : "");
        forget_answer(x);
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
        forget_answer(x);
}

void exchange_renew(struct exchange *x) {
        http_loop_renew(x->loop);
}

/* --- Life ---------------------------------------------------------------------------------------------- */

static int refuse_url(char why[static 256], const char *url, const char *what) {
        return text_fail(why, 256, -EINVAL, "'%.160s' %s", url, what);
}

static int check_url(const char *url, char why[static 256]) {
        if (!startswith(url, "http://") && !startswith(url, "https://"))
                return refuse_url(why, url, "is no http:// or https:// URL");
        if (strchr(url, '@'))
                return refuse_url(why, url, "holds a user or password: certificates say who we are");
        return strlen(url) < EXCHANGE_URL_MAX ? 0 : refuse_url(why, url, "is too long");
}

/* url: who is connected to. */
static int look_for(struct exchange *x, const char *url, char why[static 256]) {
        int r = lookup_new(x->event, url, on_looked_up, x, &x->lookup);

        return r == -EINVAL ? refuse_url(why, url, "is no URL with a host") : r;
}

int exchange_new(sd_event *e, const struct exchange_options *o, struct exchange **ret,
                 char why[static 256]) {
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
        r = check_url(o->url, why);
        if (r >= 0 && !o->beside && !o->to)
                r = look_for(x, o->proxy ? o->proxy : o->url, why);
        if (r >= 0 && !o->beside)
                r = http_loop_new(e, o->name, &x->loop);
        if (r < 0)
                return r;
        if (o->beside) {
                x->loop = o->beside->loop;
                x->lookup = o->beside->lookup;
                x->sharing = o->beside->sharing;
                o->beside->sharing = x;
        }
        http_loop_add(x->loop, &x->transfer);
        *ret = TAKE_PTR(x);
        return 0;
}

struct exchange *exchange_free(struct exchange *x) {
        struct exchange *at = x ? x->options.beside : NULL;

        if (!x)
                return NULL;
        if (x->loop)
                http_loop_remove(x->loop, &x->transfer);
        if (at) {
                while (at && at->sharing != x)
                        at = at->sharing;
                if (at) /* else it was not finished */
                        at->sharing = x->sharing;
        } else {
                assert(!x->sharing);
                x->loop = http_loop_free(x->loop);
                x->lookup = lookup_free(x->lookup);
        }
        x->soon = sd_event_source_disable_unref(x->soon);
        x->event = sd_event_unref(x->event);
        free(x->copy);
        free(x->answer);
        forget_bearer(x);
        free(x);
        return NULL;
}
