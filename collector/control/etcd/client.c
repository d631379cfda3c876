/* SPDX-License-Identifier: Apache-2.0 */
#include "client.h"
#include "exchange.h"
#include "io.h"
#include "json_text.h"
#include "log.h"
#include "texts.h"

#include <fcntl.h>

#define TRY_MAX (8 * USEC_PER_SEC) /* etcd itself gives up after 7 s */
#define TRY_LEAST (100 * USEC_PER_MSEC)
#define PASSWORD_MAX 512
#define TOKEN_MAX 1024
#define AUTHORIZATION "Authorization: "
#define LANE_WATCH _ETCD_LANE_MAX

struct lane {
        struct etcd_client *client;
        struct exchange *exchanges[ETCD_MEMBERS_MAX]; /* made when needed */
        size_t member, tried; /* tried: members in a row that did not answer this call */
        const char *path;
        char *text; /* of the call; NULL: none is in progress */
        usec_t give_up, try_for; /* boot clock; how long one member has */
        bool asks_token, asked_token; /* this very exchange; for this call already */
        void (*done)(const struct gateway_answer *a, void *userdata);
        void *userdata;
};

struct etcd_client {
        struct etcd_client_options o;
        char members[ETCD_MEMBERS_MAX][ETCD_URL_MAX];
        size_t n;
        struct tls_files tls;
        char token[TOKEN_MAX]; /* as a header line; empty: none */
        struct lane lanes[LANE_WATCH + 1];
        struct gateway_lines lines;
        void (*news)(void *userdata);
        void *watch_userdata;
};

static void ask_member(struct lane *l);

static usec_t now_of(const struct etcd_client *c) {
        usec_t now = 0;

        /* 0 before the loop's first turn is early enough */
        (void) sd_event_now(c->o.event, CLOCK_BOOTTIME, &now);
        return now;
}

/* --- How a call ends ------------------------------------------------------------------------------- */

static void end_call(struct lane *l, const struct gateway_answer *a) {
        struct etcd_client *c = l->client;

        free(TAKE_PTR(l->text));
        if (a->error != -EAGAIN)
                l->try_for = c->o.try_first;
        l->done(a, l->userdata);
        c->o.turned(c->o.userdata);
}

static void next_member(struct lane *l, const struct gateway_answer *a) {
        l->member = (l->member + 1) % l->client->n;
        l->tried++;
        if (l->tried % l->client->n == 0)
                l->try_for = MIN(l->try_for * 2, TRY_MAX);
        if (l->tried >= l->client->n || now_of(l->client) >= l->give_up)
                end_call(l, a);
        else
                ask_member(l);
}

static void fail_member(struct lane *l, const char *why) {
        char text[200];
        struct gateway_answer a;

        (void) snprintf(text, sizeof(text), "%.60s: %.120s", l->client->members[l->member], why);
        gateway_fail(text, &a);
        next_member(l, &a);
}

static void take_token(struct lane *l, const struct gateway_answer *a) {
        struct etcd_client *c = l->client;
        const char *token = json_text_of(a->body, "token");

        l->asks_token = false;
        if (a->error == -EAGAIN)
                next_member(l, a);
        else if (a->error < 0 || !*token || strlen(token) + strlen(AUTHORIZATION) >= sizeof(c->token)) {
                struct gateway_answer refused = { .error = a->error < 0 ? a->error : -EBADMSG };

                (void) snprintf(refused.why, sizeof(refused.why), "the user %.40s: %.140s",
                                c->o.access->user, *a->why ? a->why : "no token");
                end_call(l, &refused);
        } else {
                (void) snprintf(c->token, sizeof(c->token), AUTHORIZATION "%s", token);
                ask_member(l);
        }
}

static void on_done(const struct exchange_answer *x, void *userdata) {
        struct lane *l = userdata;
        _cleanup_gateway_answer_ struct gateway_answer a = GATEWAY_ANSWER_NULL;

        if (!l->text)
                return; /* it was cancelled while it failed */
        if (x->failed) {
                fail_member(l, x->why);
                return;
        }
        gateway_parse(x->body ? x->body : "", x->len, x->status, &a);
        if (l->asks_token)
                take_token(l, &a);
        else if (a.about_token && *l->client->o.access->user && !l->asked_token) {
                l->client->token[0] = '\0';
                ask_member(l);
        } else if (a.error == -EAGAIN)
                next_member(l, &a);
        else
                end_call(l, &a);
}

static void on_watch_done(const struct exchange_answer *x, void *userdata) {
        struct etcd_client *c = userdata;
        struct lane *l = &c->lanes[LANE_WATCH];

        if (x->failed || x->status != 200)
                l->member = (l->member + 1) % c->n;
        if (!x->failed && (x->status == 401 || x->status == 400))
                c->token[0] = '\0'; /* another call asks for one */
        free(TAKE_PTR(l->text));
}

static bool on_watch_part(const char *data, size_t len, void *userdata) {
        struct etcd_client *c = userdata;
        int r = gateway_lines(&c->lines, data, len);

        if (r > 0)
                c->news(c->watch_userdata);
        return r >= 0;
}

/* --- What is asked --------------------------------------------------------------------------------- */

static void look_at_files(struct etcd_client *c) {
        if (!tls_files_configured(&c->tls) || !tls_files_look(&c->tls))
                return;
        if (c->tls.error[0])
                log_warning("etcd: %s", c->tls.error);
        for (size_t i = 0; i < ELEMENTSOF(c->lanes); i++)
                for (size_t m = 0; m < c->n; m++)
                        if (c->lanes[i].exchanges[m])
                                exchange_renew(c->lanes[i].exchanges[m]);
}

static int exchange_of(struct lane *l, bool watches, struct exchange **ret) {
        struct etcd_client *c = l->client;
        const struct exchange_options o = {
                .url = c->members[l->member],
                .ca = c->o.access->ca,
                .certificate = c->o.access->certificate,
                .key = c->o.access->key,
                .crl = c->o.access->crl,
                .answer_max = GATEWAY_ANSWER_MAX,
                .user_agent = c->o.user_agent,
                .name = "etcd",
                .part = watches ? on_watch_part : NULL,
                .done = watches ? on_watch_done : on_done,
                .userdata = watches ? (void *) c : (void *) l,
        };
        char why[256];
        int r = 0;

        if (!l->exchanges[l->member])
                r = exchange_new(c->o.event, &o, &l->exchanges[l->member], why);
        *ret = l->exchanges[l->member];
        return r;
}

/*
 * {"name":…,"password":…}; the file is small and local, and read each time, so that a new password is taken.
 */
static char *make_credentials(const struct etcd_client *c) {
        const char *file = c->o.access->password_file;
        _cleanup_close_ int fd = open(file, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
        char password[PASSWORD_MAX] = "";
        ssize_t n = fd < 0 ? -errno : io_read_up_to(fd, password, sizeof(password) - 1);
        json_auto_t *v = NULL;

        if (n < 0) {
                (void) log_warning_errno((int) n, "etcd: EtcdPasswordFile=%s: %m", file);
                return NULL;
        }
        password[n] = '\0';
        password[strcspn(password, "\r\n")] = '\0';
        v = json_pack("{s:s, s:s}", "name", c->o.access->user, "password", password);
        explicit_bzero(password, sizeof(password));
        return v ? json_dumps(v, JSON_COMPACT) : NULL;
}

static int start_call(struct lane *l) {
        struct etcd_client *c = l->client;
        _cleanup_free_ char *who = NULL;
        struct exchange *x;
        usec_t now = now_of(c), left = l->give_up > now ? l->give_up - now : 0;
        struct exchange_request q = { .path = l->path,
                                      .body = l->text,
                                      .timeout = MAX(MIN(l->try_for, left), TRY_LEAST) };
        int r;

        l->asks_token = *c->o.access->user && !*c->token;
        if (l->asks_token) {
                who = make_credentials(c);
                if (!who)
                        return -ENOKEY;
                q.path = "/v3/auth/authenticate";
                q.body = who;
                l->asked_token = true;
        }
        q.len = strlen(q.body);
        q.header = *c->token && !l->asks_token ? c->token : NULL;
        r = exchange_of(l, false, &x);
        r = r < 0 ? r : exchange_start(x, &q);
        if (who)
                explicit_bzero(who, strlen(who));
        return r;
}

static void ask_member(struct lane *l) {
        int r = start_call(l);

        if (r < 0)
                fail_member(l, r == -ENOKEY ? "the password cannot be read" : strerror(-r));
}

static int client_call(void *link, enum etcd_lane lane, const char *path, json_t *body, usec_t patience,
                       void (*done)(const struct gateway_answer *a, void *userdata), void *userdata) {
        struct etcd_client *c = link;
        struct lane *l = &c->lanes[lane];
        char *text;
        int r;

        look_at_files(c); /* calls may end, and others begin, inside of it */
        text = l->text ? NULL : json_dumps(body, JSON_COMPACT);
        json_decref(body);
        if (l->text)
                return -EBUSY;
        if (!text)
                return -ENOMEM;
        l->path = path;
        l->text = text;
        l->give_up = now_of(c) + patience;
        l->tried = 0;
        l->asks_token = l->asked_token = false;
        l->done = done;
        l->userdata = userdata;
        r = start_call(l);
        if (r < 0)
                free(TAKE_PTR(l->text));
        return r;
}

static void client_cancel(void *link, enum etcd_lane lane) {
        struct lane *l = &((struct etcd_client *) link)->lanes[lane];

        if (l->text && l->exchanges[l->member])
                exchange_cancel(l->exchanges[l->member]);
        free(TAKE_PTR(l->text));
}

struct etcd_port etcd_client_port(struct etcd_client *c) {
        return (struct etcd_port){ .call = client_call, .cancel = client_cancel, .link = c };
}

int etcd_client_watch(struct etcd_client *c, const char *key, int64_t revision, void (*news)(void *userdata),
                      void *userdata) {
        struct lane *l = &c->lanes[LANE_WATCH];
        struct exchange_request q = { .path = "/v3/watch", .header = *c->token ? c->token : NULL };
        json_auto_t *v = NULL;
        struct exchange *x;
        int r;

        if (l->text)
                return -EBUSY;
        v = json_pack("{s:{s:o, s:o}}", "create_request", "key", gateway_bytes(key, strlen(key)),
                      "start_revision", gateway_number(revision));
        l->text = v ? json_dumps(v, JSON_COMPACT) : NULL;
        if (!l->text)
                return -ENOMEM;
        c->news = news;
        c->watch_userdata = userdata;
        c->lines.len = 0;
        q.body = l->text;
        q.len = strlen(l->text);
        r = exchange_of(l, true, &x);
        if (r >= 0)
                r = exchange_start(x, &q);
        if (r < 0)
                free(TAKE_PTR(l->text));
        return r < 0 ? r : 0;
}

/* --- Life ------------------------------------------------------------------------------------------ */

static int take_members(struct etcd_client *c, char why[static 256]) {
        const char *p = c->o.access->members;

        for (;;) {
                size_t len;

                p += strspn(p, ", \t");
                len = strcspn(p, ", \t");
                if (len == 0)
                        break;
                if (c->n == ETCD_MEMBERS_MAX || len >= ETCD_URL_MAX)
                        return text_fail(why, 256, -EINVAL, "Etcd=: at most %d URLs of less than %d bytes",
                                         ETCD_MEMBERS_MAX, ETCD_URL_MAX);
                (void) snprintf(c->members[c->n++], ETCD_URL_MAX, "%.*s", (int) len, p);
                p += len;
        }
        (void) snprintf(why, 256, "Etcd= names no member");
        return c->n > 0 ? 0 : -EINVAL;
}

/* Each URL is looked at now, not with the first call. */
static int check_members(struct etcd_client *c, char why[static 256]) {
        for (size_t i = 0; i < c->n; i++) {
                const struct exchange_options o = { .name = "etcd", .url = c->members[i] };
                struct exchange *x = NULL;
                char reason[256];
                int r = exchange_new(c->o.event, &o, &x, reason);

                x = exchange_free(x);
                if (r < 0)
                        return text_fail(why, 256, r, "Etcd=: %.200s", reason);
        }
        return 0;
}

int etcd_client_new(const struct etcd_client_options *o, struct etcd_client **ret, char why[static 256]) {
        _cleanup_(etcd_client_freep) struct etcd_client *c = calloc(1, sizeof(*c));
        int r;

        (void) snprintf(why, 256, "out of memory");
        if (!c)
                return -ENOMEM;
        c->o = *o;
        for (size_t i = 0; i < ELEMENTSOF(c->lanes); i++)
                c->lanes[i] = (struct lane){ .client = c, .try_for = o->try_first };
        (void) snprintf(c->tls.path[TLS_CA], TLS_PATH_MAX, "%s", o->access->ca);
        (void) snprintf(c->tls.path[TLS_CERT], TLS_PATH_MAX, "%s", o->access->certificate);
        (void) snprintf(c->tls.path[TLS_KEY], TLS_PATH_MAX, "%s", o->access->key);
        (void) snprintf(c->tls.path[TLS_CRL], TLS_PATH_MAX, "%s", o->access->crl);
        r = take_members(c, why);
        if (r >= 0)
                r = check_members(c, why);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(c);
        return 0;
}

struct etcd_client *etcd_client_free(struct etcd_client *c) {
        if (!c)
                return NULL;
        for (size_t i = 0; i < ELEMENTSOF(c->lanes); i++) {
                for (size_t m = 0; m < c->n; m++)
                        c->lanes[i].exchanges[m] = exchange_free(c->lanes[i].exchanges[m]);
                free(c->lanes[i].text);
        }
        gateway_lines_clear(&c->lines);
        explicit_bzero(c->token, sizeof(c->token));
        free(c);
        return NULL;
}
