/* SPDX-License-Identifier: Apache-2.0 */
#include "metadata_token.h"

#include "instance_token.h"
#include "metadata_poll.h"

#define TOKEN_PATH "instance/service-accounts/default/identity?format=full&audience="
#define AHEAD (600 * USEC_PER_SEC) /* the server has a new one by then */
#define LEAST (60 * USEC_PER_SEC)
#define BEARER "Authorization: Bearer "

struct metadata_token {
        struct poll poll; /* the first */
        struct metadata_token_options o; /* its texts are not valid after metadata_token_new() */
        sd_event *event;
        char *user_agent, *base, path[EXCHANGE_PATH_MAX], audience[METADATA_AUDIENCE_MAX + 1];
        struct metadata_token_status status;
};

bool metadata_audience_is_valid(const char *text) {
        size_t n = 0;

        while (text[n] > ' ' && text[n] <= '~')
                n++;
        return n > 0 && n <= METADATA_AUDIENCE_MAX && !text[n];
}

/* RFC 3986, 2.1: what is not unreserved is written as its bytes. */
static void make_path(struct metadata_token *t) {
        static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~";
        char *at = stpcpy(t->path, TOKEN_PATH);

        _Static_assert(sizeof(TOKEN_PATH) + 3 * METADATA_AUDIENCE_MAX < EXCHANGE_PATH_MAX, "it fits");
        for (const char *p = t->audience; *p; p++)
                at += sprintf(at, strchr(plain, *p) ? "%c" : "%%%02X", (unsigned char) *p);
}

/* --- Answers ------------------------------------------------------------------------------------------- */

static void decide(struct metadata_token *t, bool news) {
        bool first = t->o.bearer->awaited;

        t->o.bearer->awaited = false;
        if (first || news)
                t->o.decided(t->o.userdata);
}

static void take_failure(struct metadata_token *t, const char *why) {
        (void) snprintf(t->status.why, sizeof(t->status.why), "%s", why);
        poll_retry(&t->poll);
        decide(t, false);
}

usec_t metadata_token_renewal(usec_t expires, usec_t now) {
        return expires > now + AHEAD + LEAST ? expires - now - AHEAD : LEAST;
}

static void take_token(struct metadata_token *t, const char *text, size_t len) {
        char why[INSTANCE_TOKEN_WHY_MAX], *header = t->o.bearer->header;
        bool had = header[0];
        struct instance_token token;
        usec_t now = 0;

        while (len > 0 && strchr(" \r\n", text[len - 1]))
                len--;
        if (instance_token_parse(text, len, &token, why) < 0) {
                take_failure(t, why);
                return;
        }
        if (!streq(token.audience, t->audience)) {
                take_failure(t, "the instance token's aud is not TokenAudience=");
                return;
        }
        _Static_assert(sizeof(BEARER) + INSTANCE_TOKEN_MAX <= sizeof(t->o.bearer->header), "it fits");
        (void) snprintf(header, sizeof(t->o.bearer->header), BEARER "%.*s", (int) len, text);
        t->status = (struct metadata_token_status){ .expires = token.expires };
        t->poll.failures = 0;
        (void) sd_event_now(t->event, CLOCK_REALTIME, &now); /* fails in a forked child only */
        poll_in(&t->poll, metadata_token_renewal(token.expires, now));
        decide(t, !had);
}

static void on_answer(struct poll *x, const struct metadata_answer *a, const char *error) {
        struct metadata_token *t = (struct metadata_token *) x;
        struct metadata_answer plain = error ? (struct metadata_answer){ 0 } : *a;
        char why[METADATA_WHY_MAX];
        int r;

        plain.content_type = NULL; /* the server calls its tokens HTML */
        r = error ? -EAGAIN : metadata_answer_check(&plain, why);
        if (r == -ENOENT)
                take_failure(t, "no service account is attached to this VM: there is no instance token");
        else if (r < 0)
                take_failure(t, error ? error : why);
        else
                take_token(t, a->body, a->len);
}

static void on_due(struct poll *x) {
        struct metadata_token *t = (struct metadata_token *) x;
        int r = poll_ask(x, t->path, 0);

        if (r < 0)
                take_failure(t, strerror(-r));
}

void metadata_token_get_status(const struct metadata_token *t, struct metadata_token_status *ret) {
        *ret = t->status;
}

/* --- Life ---------------------------------------------------------------------------------------------- */

int metadata_token_new(sd_event *e, const struct metadata_token_options *o, struct metadata_token **ret) {
        _cleanup_(metadata_token_freep) struct metadata_token *t = NULL;
        int r;

        if (!metadata_address_is_valid(o->address) || !metadata_audience_is_valid(o->audience))
                return -EINVAL;
        t = calloc(1, sizeof(*t));
        if (!t)
                return -ENOMEM;
        t->event = sd_event_ref(e);
        t->o = *o;
        (void) snprintf(t->audience, sizeof(t->audience), "%s", o->audience);
        make_path(t);
        t->user_agent = strdup(o->user_agent);
        if (!t->user_agent || asprintf(&t->base, "http://%s/computeMetadata/v1", o->address) < 0) {
                t->base = NULL;
                return -ENOMEM;
        }
        t->poll.due = on_due;
        t->poll.answered = on_answer;
        r = poll_init(&t->poll, e, "metadata-token", t->base, t->user_agent, NULL);
        if (r < 0)
                return r;
        o->bearer->awaited = true;
        *ret = TAKE_PTR(t);
        return 0;
}

struct metadata_token *metadata_token_free(struct metadata_token *t) {
        if (!t)
                return NULL;
        poll_clear(&t->poll);
        explicit_bzero(t->o.bearer, sizeof(*t->o.bearer));
        t->event = sd_event_unref(t->event);
        free(t->user_agent);
        free(t->base);
        free(t);
        return NULL;
}
