/* SPDX-License-Identifier: Apache-2.0 */
#include <curl/curl.h>
#include <fcntl.h>
#include <strings.h>
#include <sys/random.h>

#include "certificate_fetch.h"
#include "child.h"
#include "durable.h"
#include "endpoint.h"
#include "http_loop.h"

enum stage { STAGE_IDLE, STAGE_TOKEN, STAGE_ADDRESS, STAGE_SIGN, STAGE_STORE };

/* One of the two exchanges: with the metadata server, then with the authority. */
struct exchange {
        struct http_transfer transfer; /* the first member: done is given it */
        struct certificate_fetch *fetch;
        struct curl_slist header;
        char *body;
        size_t len;
        bool flavored, too_long;
};

struct certificate_fetch {
        struct endpoint authority; /* the first member: its look-up gives it back */
        sd_event *event;
        struct certificate_fetch_options options;
        char *texts[8];
        struct http_loop *loop;
        struct exchange token, sign;
        struct child *child;
        enum stage stage;
        char *key, *csr, *question, *file; /* of the request at work */
        char addresses[LOOKUP_TEXT_MAX];
        struct curl_slist address_list;
        usec_t retry_boot;
        unsigned failures;
        uint64_t draw; /* for this certificate's time of renewal */
        char error[CERTIFICATE_WHY_MAX + 300];
};

static uint64_t chance(void) {
        uint64_t v = 0;

        (void) getrandom(&v, sizeof(v),
                         GRND_NONBLOCK); /* without entropy yet: 0, which is a valid draw, too */
        return v;
}

static void forget_request(struct certificate_fetch *f) {
        if (f->key)
                explicit_bzero(f->key, strlen(f->key));
        if (f->file)
                explicit_bzero(f->file, strlen(f->file));
        if (f->question)
                explicit_bzero(f->question, strlen(f->question));
        free(TAKE_PTR(f->key));
        free(TAKE_PTR(f->csr));
        free(TAKE_PTR(f->question));
        free(TAKE_PTR(f->file));
}

static void finish(struct certificate_fetch *f, const char *error) {
        usec_t now = 0, span = CERTIFICATE_RETRY;

        (void) sd_event_now(f->event, CLOCK_BOOTTIME, &now);
        for (unsigned i = 0; i < f->failures && span < CERTIFICATE_RETRY_MAX; i++)
                span *= 2;
        f->stage = STAGE_IDLE;
        f->draw = chance();
        f->retry_boot = now + f->draw % (MIN(span, CERTIFICATE_RETRY_MAX) + 1);
        f->failures = error ? MIN(f->failures + 1, 1000u) : 0;
        if (error != f->error)
                (void) snprintf(f->error, sizeof(f->error), "%s", error ? error : "");
        forget_request(f);
        f->options.done(error ? f->error : NULL, f->options.userdata);
}

static void fail(struct certificate_fetch *f, const char *who, const char *why) {
        (void) snprintf(f->error, sizeof(f->error), "%.180s: %.200s", who, why);
        finish(f, f->error);
}

/* --- The file ------------------------------------------------------------------------------------------ */

/* In the child. */
static int store(int fd, const void *data) {
        const struct certificate_fetch *f = data;
        const char *slash = strrchr(f->options.file, '/');
        _cleanup_free_ char *folder = NULL;
        _cleanup_close_ int dir_fd = -1;

        (void) fd;
        folder = strndup(f->options.file, MAX((size_t) (slash - f->options.file), (size_t) 1));
        if (!folder)
                return -ENOMEM;
        dir_fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        return dir_fd < 0 ? -errno : durable_write(dir_fd, slash + 1, f->file, strlen(f->file), 0600);
}

static void on_stored(int result, const char *answer, size_t len, void *userdata) {
        struct certificate_fetch *f = userdata;

        (void) answer, (void) len;
        f->child = child_free(f->child);
        if (result < 0)
                fail(f, f->options.file, strerror(-result));
        else
                finish(f, NULL);
}

static void begin_store(struct certificate_fetch *f) {
        const struct child_work w = { .name = "certificate-store", .timeout = CERTIFICATE_FETCH_TIMEOUT,
                                      .run = store, .data = f, .done = on_stored, .userdata = f };
        int r;

        f->stage = STAGE_STORE;
        r = child_start(f->event, &w, &f->child);
        if (r < 0)
                fail(f, f->options.file, strerror(-r));
}

/* --- The exchanges ------------------------------------------------------------------------------------- */

static size_t on_body(char *data, size_t size, size_t n, void *userdata) {
        struct exchange *x = userdata;
        size_t len = size * n;

        if (len > CERTIFICATE_ANSWER_MAX - x->len) {
                x->too_long = true;
                return 0; /* ends the transfer */
        }
        memcpy(x->body + x->len, data, len);
        x->len += len;
        return len;
}

static size_t on_header(char *data, size_t size, size_t n, void *userdata) {
        static const char flavor[] = "Metadata-Flavor: Google";
        struct exchange *x = userdata;

        if (size * n >= sizeof(flavor) - 1 && strncasecmp(data, flavor, sizeof(flavor) - 1) == 0)
                x->flavored = true;
        return size * n;
}

static int prepare(struct certificate_fetch *f, struct exchange *x, const char *header, const char *proxy) {
        const struct http_options o = { .user_agent = f->options.user_agent, .proxy = proxy,
                                        .connect_timeout = CERTIFICATE_FETCH_TIMEOUT / 3,
                                        .timeout = CERTIFICATE_FETCH_TIMEOUT };
        CURL *c;
        int bad = 0;

        x->len = 0;
        x->flavored = x->too_long = false;
        if (!x->body)
                x->body = malloc(CERTIFICATE_ANSWER_MAX);
        if (!x->body || http_transfer_prepare(&x->transfer, &o) < 0)
                return -ENOMEM;
        c = x->transfer.easy;
        x->header.data = (char *) (uintptr_t) header; /* libcurl only reads it */
        bad |= curl_easy_setopt(c, CURLOPT_HTTPHEADER, &x->header) != CURLE_OK;
        bad |= curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, on_body) != CURLE_OK;
        bad |= curl_easy_setopt(c, CURLOPT_WRITEDATA, x) != CURLE_OK;
        bad |= curl_easy_setopt(c, CURLOPT_HEADERFUNCTION, on_header) != CURLE_OK;
        bad |= curl_easy_setopt(c, CURLOPT_HEADERDATA, x) != CURLE_OK;
        bad |= curl_easy_setopt(c, CURLOPT_SSLVERSION, (long) CURL_SSLVERSION_TLSv1_2) != CURLE_OK;
        return bad ? -ENOMEM : 0;
}

static void ask_authority(struct certificate_fetch *f) {
        struct exchange *x = &f->sign;
        CURL *c;
        int r, bad = 0;

        f->stage = STAGE_SIGN;
        r = prepare(f, x, "Content-Type: application/json", f->options.proxy);
        if (r == 0) {
                c = x->transfer.easy;
                bad |= curl_easy_setopt(c, CURLOPT_URL, f->options.url) != CURLE_OK;
                bad |= curl_easy_setopt(c, CURLOPT_POSTFIELDS, f->question) != CURLE_OK;
                bad |= curl_easy_setopt(c, CURLOPT_POSTFIELDSIZE, (long) strlen(f->question)) != CURLE_OK;
                bad |= curl_easy_setopt(c, CURLOPT_RESOLVE, f->addresses[0] ? &f->address_list : NULL) !=
                       CURLE_OK;
                if (f->options.ca_file)
                        bad |= curl_easy_setopt(c, CURLOPT_CAINFO, f->options.ca_file) != CURLE_OK;
                r = bad ? -ENOMEM : http_transfer_start(&x->transfer);
        }
        if (r < 0)
                fail(f, f->options.url, strerror(-r));
}

static void on_signed(struct http_transfer *t, const char *error) {
        struct exchange *x = (struct exchange *) t;
        struct certificate_fetch *f = x->fetch;
        char why[CERTIFICATE_WHY_MAX] = "";
        long status = 0;
        usec_t now = 0;

        if (error) {
                fail(f, f->options.url, x->too_long ? "the answer is too long" : t->why[0] ? t->why : error);
                return;
        }
        (void) curl_easy_getinfo(t->easy, CURLINFO_RESPONSE_CODE, &status);
        (void) sd_event_now(f->event, CLOCK_REALTIME, &now);
        if (certificate_take(status, x->body, x->len, f->key, now, &f->file, why) < 0)
                fail(f, f->options.url, why);
        else
                begin_store(f);
}

static void find_authority(struct certificate_fetch *f) {
        const char *addresses = NULL;
        int r;

        f->stage = STAGE_ADDRESS;
        r = endpoint_addresses(&f->authority, &addresses);
        if (r == 0)
                return; /* on_resolved() goes on */
        if (r < 0) {
                fail(f, f->options.url, strerror(-r));
                return;
        }
        (void) snprintf(f->addresses, sizeof(f->addresses), "%s", addresses ? addresses : "");
        f->address_list.data = f->addresses;
        ask_authority(f);
}

static void on_resolved(const char *error, void *userdata) {
        struct certificate_fetch *f = userdata; /* the endpoint is its first member */

        if (f->stage != STAGE_ADDRESS)
                return;
        if (error)
                fail(f, f->options.url, error);
        else
                find_authority(f);
}

/* --- The token ----------------------------------------------------------------------------------------- */

static void on_token(struct http_transfer *t, const char *error) {
        static const char who[] = "the metadata server's identity token";
        struct exchange *x = (struct exchange *) t;
        struct certificate_fetch *f = x->fetch;
        _cleanup_free_ char *token = NULL;
        long status = 0;
        char why[64];

        if (error) {
                fail(f, who, x->too_long ? "the answer is too long" : error);
                return;
        }
        (void) curl_easy_getinfo(t->easy, CURLINFO_RESPONSE_CODE, &status);
        while (x->len > 0 && strchr(" \r\n", x->body[x->len - 1]))
                x->len--;
        if (status != 200 || !x->flavored || !certificate_token_ok(x->body, x->len)) {
                (void) snprintf(why, sizeof(why),
                                status == 404 ? "HTTP 404: has this VM a service account?"
                                              : "HTTP %ld, and no token",
                                status);
                fail(f, who, why);
                return;
        }
        token = strndup(x->body, x->len);
        if (token && certificate_request(f->options.name, &f->key, &f->csr) == 0)
                f->question = certificate_question(f->csr, token);
        explicit_bzero(x->body, x->len);
        if (token)
                explicit_bzero(token, strlen(token));
        if (!f->question)
                fail(f, "a key", "cannot be made");
        else
                find_authority(f);
}

static void ask_token(struct certificate_fetch *f) {
        _cleanup_free_ char *url = NULL;
        char *audience;
        int r;

        f->stage = STAGE_TOKEN;
        r = prepare(f, &f->token, "Metadata-Flavor: Google", NULL);
        audience = r == 0 ? curl_easy_escape(f->token.transfer.easy, f->options.audience, 0) : NULL;
        if (!audience || asprintf(&url,
                                  "http://%s/computeMetadata/v1/instance/service-accounts/default/"
                                  "identity?audience=%s&format=full",
                                  f->options.metadata, audience) < 0)
                url = NULL;
        curl_free(audience);
        if (!url)
                r = -ENOMEM;
        else if (curl_easy_setopt(f->token.transfer.easy, CURLOPT_URL, url) != CURLE_OK)
                r = -EINVAL;
        else
                r = http_transfer_start(&f->token.transfer);
        if (r < 0)
                fail(f, "the metadata server's identity token", strerror(-r));
}

/* --- Life ---------------------------------------------------------------------------------------------- */

void certificate_fetch_look(struct certificate_fetch *f, usec_t now_real, usec_t not_before,
                            usec_t not_after) {
        usec_t life = not_after > not_before ? not_after - not_before : 0, now = 0;
        usec_t due = life > 0 ? not_before + life / 100 * 60 + f->draw % (life / 100 * 6 + 1) : 0;

        (void) sd_event_now(f->event, CLOCK_BOOTTIME, &now);
        if (f->stage != STAGE_IDLE || now < f->retry_boot)
                return;
        http_transfer_drop(
                &f->token.transfer); /* what was kept of the last time: it is a day until the next */
        http_transfer_drop(&f->sign.transfer);
        free(TAKE_PTR(f->token.body));
        free(TAKE_PTR(f->sign.body));
        if (now_real >= due)
                ask_token(f);
}

const char *certificate_fetch_error(const struct certificate_fetch *f) {
        return f->error;
}

static int copy_options(struct certificate_fetch *f, const struct certificate_fetch_options *o) {
        const char **texts[] = { &f->options.url,   &f->options.audience,  &f->options.metadata,
                                 &f->options.file,  &f->options.name,      &f->options.ca_file,
                                 &f->options.proxy, &f->options.user_agent };

        _Static_assert(ELEMENTSOF(texts) == ELEMENTSOF(f->texts), "each text has an owner");
        f->options = *o;
        for (size_t i = 0; i < ELEMENTSOF(texts); i++) {
                f->texts[i] = *texts[i] && **texts[i] ? strdup(*texts[i]) : NULL;
                if (*texts[i] && **texts[i] && !f->texts[i])
                        return -ENOMEM;
                *texts[i] = f->texts[i];
        }
        return 0;
}

int certificate_fetch_new(sd_event *e, const struct certificate_fetch_options *o,
                          struct certificate_fetch **ret) {
        _cleanup_(certificate_fetch_freep) struct certificate_fetch *f = calloc(1, sizeof(*f));
        int r;

        if (!f)
                return -ENOMEM;
        f->event = sd_event_ref(e);
        f->draw = chance();
        r = copy_options(f, o);
        if (r == 0 && (!f->options.file || !strrchr(f->options.file, '/') || !f->options.metadata ||
                       !f->options.url || !f->options.audience || !f->options.name))
                r = -EINVAL;
        if (r == 0)
                r = endpoint_init(&f->authority, e, f->options.url, f->options.proxy, on_resolved);
        if (r == 0)
                r = http_loop_new(e, "certificate", &f->loop);
        if (r < 0)
                return r;
        f->token.fetch = f->sign.fetch = f;
        f->token.transfer.done = on_token;
        f->sign.transfer.done = on_signed;
        http_loop_add(f->loop, &f->token.transfer);
        http_loop_add(f->loop, &f->sign.transfer);
        *ret = TAKE_PTR(f);
        return 0;
}

struct certificate_fetch *certificate_fetch_free(struct certificate_fetch *f) {
        if (!f)
                return NULL;
        f->child = child_free(f->child);
        f->loop = http_loop_free(f->loop);
        endpoint_clear(&f->authority);
        forget_request(f);
        free(f->token.body);
        free(f->sign.body);
        for (size_t i = 0; i < ELEMENTSOF(f->texts); i++)
                free(f->texts[i]);
        f->event = sd_event_unref(f->event);
        free(f);
        return NULL;
}
