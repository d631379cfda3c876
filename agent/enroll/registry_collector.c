/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The registry of tpu-collectord: POST /registry/v1/sync, one request at a time, which says what this host is,
 * renews its lease and is held by the server until there is news. What we say changed: the held request is
 * ended and the next one says it at once.
 */
#include <sys/random.h>

#include "backoff.h"
#include "exchange.h"
#include "registry_backend.h"
#include "sync_answer.h"
#include "utf8.h"

#define SYNC_PATH "/registry/v1/sync"
#define WAIT_MIN (1 * USEC_PER_SEC)
#define ANSWER_TIME (10 * USEC_PER_SEC) /* of an exchange, beyond what the server may hold it */
#define EAGER (1 * USEC_PER_SEC) /* a server that has nothing new to say, and holds nothing, is asked so often */
#define ANSWERS_A_SECOND 20
#define TOGETHER (10 * USEC_PER_MSEC) /* changes of what we say that come together go out together */
#define LEAVE_TIME (2 * USEC_PER_SEC)

struct collector_registry {
        struct registry base; /* the first member */
        struct exchange *exchange;
        sd_event_source *next;  /* when to ask */
        sd_event_source *claim; /* when the lease may have ended on the other side */
        json_t *member;
        uint64_t said, told, asking; /* numbers of members: the last, what the collector has, what is on its way */
        bool joined;  /* the splay is over */
        bool renewed; /* certificates changed: the end of the exchange at work is no failure */
        bool left;
        unsigned failures;
        usec_t lease, asked, claim_until; /* boot clock; asked: when the exchange at work began */
        struct {
                usec_t since;
                unsigned n;
        } answers;
        char url[280], revision[64];
};

static usec_t boot_now(const struct collector_registry *c) {
        usec_t now = 0;

        (void) sd_event_now(c->base.event, CLOCK_BOOTTIME, &now); /* fails for a clock that is not there only */
        return now;
}

static uint64_t chance(void) {
        uint64_t v = 0;

        (void) getrandom(&v, sizeof(v), GRND_NONBLOCK); /* without entropy yet: at once, a valid draw, too */
        return v;
}

static void arm(sd_event_source *source, usec_t after) {
        /* Both fail for a source without a loop only. */
        (void) sd_event_source_set_time_relative(source, after);
        (void) sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
}

__attribute__((format(printf, 3, 4))) static void tell(struct collector_registry *c, enum registry_state s,
                                                       const char *fmt, ...) {
        char why[256];
        va_list ap;

        va_start(ap, fmt);
        (void) vsnprintf(why, sizeof(why), fmt, ap);
        va_end(ap);
        (void) utf8_scrub(why, strlen(why)); /* it may hold what came, cut anywhere */
        registry_tell(&c->base, s, boot_now(c) < c->claim_until, why);
}

/* --- What is said -------------------------------------------------------------------------------------- */

static usec_t wait_of(const struct collector_registry *c) {
        return MAX(WAIT_MIN, c->lease / 2);
}

static json_t *short_form(const struct collector_registry *c) {
        char same[96];

        (void) snprintf(same, sizeof(same), "%.63s/%u", c->base.options.slice, c->base.options.worker);
        return json_pack("{s:i, s:s, s:O?}", "v", 1, "same", same, "incarnation",
                         json_object_get(c->member, "incarnation"));
}

static char *finish(const struct collector_registry *c, json_t *o, usec_t wait) {
        char *text = NULL;
        int r = o ? json_object_set_new(o, "wait", json_integer((json_int_t) (wait / USEC_PER_SEC))) : -1;

        if (r == 0)
                r = json_object_set_new(o, "said", json_integer((json_int_t) c->said));
        if (r == 0 && c->revision[0])
                r = json_object_set_new(o, "since", json_string(c->revision));
        if (r == 0)
                text = json_dumps(o, JSON_COMPACT);
        json_decref(o);
        return text;
}

static void failed(struct collector_registry *c, enum registry_state s, usec_t least, const char *why) {
        /* When a registry is back, who is not heard within one lease is missed: there is no time for long waits. */
        usec_t after = MAX(MIN(backoff_next(c->failures, chance()), c->lease / 2), least);
        bool blip = s == REGISTRY_AWAY && c->failures == 0 && c->base.status.state == REGISTRY_MEMBER;

        c->failures++;
        c->told = 0; /* it may have forgotten us meanwhile */
        arm(c->next, after);
        if (!blip) /* one held request that ended is no news yet: the next try says */
                tell(c, s == REGISTRY_AWAY && !c->base.complete ? REGISTRY_JOINING : s, "%s: %s", c->url, why[0] ? why : "no answer");
}

static int post(struct collector_registry *c, const char *text, usec_t timeout) {
        const struct exchange_request q = { .path = SYNC_PATH, .body = text, .len = strlen(text), .timeout = timeout };

        return exchange_start(c->exchange, &q);
}

static void ask(struct collector_registry *c) {
        _cleanup_free_ char *text = NULL;
        bool whole = c->told != c->said;
        int r;

        if (!c->member || !c->joined || c->left || exchange_at_work(c->exchange))
                return;
        (void) sd_event_source_set_enabled(c->next, SD_EVENT_OFF); /* as in arm() */
        c->asking = c->said;
        c->asked = boot_now(c);
        text = finish(c, whole ? json_pack("{s:i, s:O}", "v", 1, "member", c->member) : short_form(c), wait_of(c));
        r = text ? post(c, text, wait_of(c) + ANSWER_TIME) : -ENOMEM;
        if (r < 0)
                failed(c, REGISTRY_AWAY, 0, strerror(-r));
}

static int on_next(sd_event_source *source, uint64_t usec, void *userdata) {
        struct collector_registry *c = userdata;

        (void) source, (void) usec;
        c->joined = true;
        if (exchange_at_work(c->exchange) && c->asking != c->said && !c->left)
                exchange_cancel(c->exchange);
        ask(c);
        return 0;
}

static int on_claim(sd_event_source *source, uint64_t usec, void *userdata) {
        struct collector_registry *c = userdata;

        (void) source, (void) usec;
        registry_tell(&c->base, c->base.status.state, false, c->base.status.why);
        return 0;
}

/* --- What is answered ---------------------------------------------------------------------------------- */

/* A server that answers always and at once would be asked as fast as the network goes. */
static bool too_often(struct collector_registry *c, usec_t now) {
        if (now >= c->answers.since + USEC_PER_SEC) {
                c->answers.since = now;
                c->answers.n = 0;
        }
        return ++c->answers.n > ANSWERS_A_SECOND;
}

static void take(struct collector_registry *c, const struct sync_answer *a) {
        usec_t now = boot_now(c), took = now > c->asked ? now - c->asked : 0, after = 0;
        bool was_whole = c->told != c->asking, news = a->whole || a->tell || json_object_size(a->records) > 0;

        c->failures = 0;
        c->lease = a->lease;
        c->told = a->tell || a->conflict ? 0 : c->asking;
        memcpy(c->revision, a->revision, sizeof(c->revision));
        if (a->conflict || (a->tell && was_whole))
                after = a->conflict ? wait_of(c) : EAGER;
        else if (too_often(c, now) || (!news && took < wait_of(c) / 2 && c->told == c->said))
                after = EAGER;
        c->claim_until = a->conflict ? 0 : c->asked + a->lease;
        if (a->conflict)
                tell(c, REGISTRY_CONFLICT, "worker id %u of slice %s is %s's (%s%smachine %s)", c->base.options.worker,
                     c->base.options.slice, a->holder, a->holder_address, a->holder_address[0] ? ", " : "", a->holder_id);
        else {
                arm(c->claim, c->claim_until > now ? c->claim_until - now : 0);
                tell(c, REGISTRY_MEMBER, "%s", c->url);
        }
        arm(c->next, after);
        if (a->whole)
                registry_take_whole(&c->base, a->records);
        else {
                const char *key;
                json_t *value;

                json_object_foreach(a->records, key, value)
                        registry_take(&c->base, key, value);
        }
}

/* What a server says beside a status that is no 200: {"error": …}. */
static void error_text(const struct exchange_answer *a, char *buf, size_t size) {
        json_t *o = a->len < 64 * 1024 ? json_loadb(a->body, a->len, 0, NULL) : NULL;
        const char *error = json_string_value(json_object_get(o, "error"));

        (void) snprintf(buf, size, "HTTP %ld%s%.160s", a->status, error ? ": " : "", error ? error : "");
        json_decref(o);
}

static void take_status(struct collector_registry *c, const struct exchange_answer *a) {
        char why[200];

        error_text(a, why, sizeof(why));
        switch (a->status) {
        case 404:
        case 405:
        case 501:
                (void) snprintf(why, sizeof(why), "it keeps no registry: no tpu-collectord, or an old one (HTTP %ld)",
                                a->status);
                failed(c, REGISTRY_REFUSED, BACKOFF_PARKED, why);
                break;
        case 400:
        case 401:
        case 403:
        case 409:
        case 413:
        case 422:
                failed(c, REGISTRY_REFUSED, BACKOFF_PARKED, why);
                break;
        default:
                failed(c, REGISTRY_AWAY, MIN(a->retry_after, BACKOFF_PARKED), why);
        }
}

static void on_done(const struct exchange_answer *a, void *userdata) {
        struct collector_registry *c = userdata;
        _cleanup_sync_answer_ struct sync_answer answer = SYNC_ANSWER_NULL;
        char why[SYNC_WHY_MAX + 40], what[SYNC_WHY_MAX] = "";
        int r;

        if (c->left) {
                c->base.leaving = false;
                return;
        }
        if (a->failed && c->renewed)
                arm(c->next, 0);
        else if (a->failed)
                failed(c, a->refused ? REGISTRY_REFUSED : REGISTRY_AWAY, a->refused ? BACKOFF_PARKED : 0, a->why);
        else if (a->status != 200)
                take_status(c, a);
        else {
                r = sync_answer_parse(a->body ? a->body : "", a->len, &answer, what);
                (void) snprintf(why, sizeof(why), "its answer cannot be understood: %s", what);
                if (r < 0)
                        failed(c, REGISTRY_REFUSED, r == -ENOMEM ? 0 : EAGER, why);
                else
                        take(c, &answer);
        }
        c->renewed = false;
}

/* --- The contract -------------------------------------------------------------------------------------- */

static int say(struct registry *r, const json_t *member) {
        struct collector_registry *c = (struct collector_registry *) r;
        json_t *mine;

        if (c->member && json_equal(c->member, member))
                return 0;
        mine = json_deep_copy(member);
        if (!mine)
                return -ENOMEM;
        json_decref(c->member);
        c->member = mine;
        c->said++;
        if (c->said == 1) /* the first: joins */
                arm(c->next, c->base.options.splay > 0 ? chance() % c->base.options.splay : 0);
        else if (c->joined && c->failures == 0)
                arm(c->next, TOGETHER);
        return 0;
}

static bool leave(struct registry *r) {
        struct collector_registry *c = (struct collector_registry *) r;
        _cleanup_free_ char *text = NULL;
        json_t *o;

        if (c->left)
                return r->leaving;
        if (c->base.status.state != REGISTRY_MEMBER)
                return false;
        c->left = true;
        exchange_cancel(c->exchange);
        o = short_form(c);
        if (o && json_object_set_new(o, "leave", json_true()) == 0)
                text = finish(c, json_incref(o), 0);
        json_decref(o);
        /* best effort: if it does not arrive, the lease ends */
        return text && post(c, text, LEAVE_TIME) >= 0;
}

static int put(struct registry *r, const char *key, const json_t *value, registry_put_done done,
               void *userdata) {
        (void) r, (void) key, (void) value, (void) done, (void) userdata;
        return -EOPNOTSUPP; /* people ask it at its own port */
}

static void renew(struct registry *r) {
        struct collector_registry *c = (struct collector_registry *) r;

        c->renewed = true;
        exchange_renew(c->exchange);
        c->renewed = false;
        if (c->failures > 0)
                arm(c->next, 0);
}

static void free_collector(struct registry *r) {
        struct collector_registry *c = (struct collector_registry *) r;

        c->exchange = exchange_free(c->exchange);
        c->next = sd_event_source_disable_unref(c->next);
        c->claim = sd_event_source_disable_unref(c->claim);
        json_decref(c->member);
        registry_clear(r);
        free(c);
}

static const struct registry_backend backend = {
        .free = free_collector, .say = say, .leave = leave, .put = put, .renew = renew
};

static int add_timer(struct collector_registry *c, const char *name, sd_event_time_handler_t handler,
                     sd_event_source **ret) {
        int r = sd_event_add_time(c->base.event, ret, CLOCK_BOOTTIME, 0, USEC_PER_MSEC, handler, c);

        if (r >= 0)
                r = sd_event_source_set_enabled(*ret, SD_EVENT_OFF);
        if (r >= 0)
                (void) sd_event_source_set_description(*ret, name);
        return r;
}

/* One collector keeps the registry: two of them would each plan for themselves. */
static int take_url(struct collector_registry *c, const char *endpoints, char why[static 256]) {
        size_t len = strlen(endpoints);

        while (len > 0 && endpoints[len - 1] == '/')
                len--;
        if (len == 0 || strpbrk(endpoints, ", \t")) {
                (void) snprintf(why, 256, "'%.160s' must be one URL, of the tpu-collectord that keeps the registry",
                                endpoints);
                return -EINVAL;
        }
        if (len >= sizeof(c->url)) {
                (void) snprintf(why, 256, "the URL is too long");
                return -EINVAL;
        }
        (void) snprintf(c->url, sizeof(c->url), "%.*s", (int) len, endpoints);
        return 0;
}

static int start(struct collector_registry *c, char why[static 256]) {
        const struct registry_options *o = &c->base.options;
        const struct exchange_options exchange = { .url = c->url,
                                                   .ca = o->ca,
                                                   .certificate = o->certificate,
                                                   .key = o->key,
                                                   .answer_max = SYNC_ANSWER_MAX,
                                                   .name = "registry",
                                                   .user_agent = "tpu-hostd/" TPU_HOSTD_VERSION,
                                                   .done = on_done,
                                                   .userdata = c };
        int r = take_url(c, o->endpoints, why);

        if (r == 0)
                r = add_timer(c, "registry-next", on_next, &c->next);
        if (r >= 0)
                r = add_timer(c, "registry-lease", on_claim, &c->claim);
        if (r >= 0)
                r = exchange_new(c->base.event, &exchange, &c->exchange, why);
        return r;
}

int registry_collector_new(sd_event *e, const struct registry_options *o,
                           const struct registry_events *events, void *userdata, struct registry **ret,
                           char why[static 256]) {
        struct collector_registry *c = calloc(1, sizeof(*c));
        int r;

        (void) snprintf(why, 256, "out of memory");
        if (!c)
                return -ENOMEM;
        c->lease = o->lease > 0 ? o->lease : 15 * USEC_PER_SEC;
        r = registry_init(&c->base, &backend, e, o, events, userdata);
        if (r == 0)
                r = start(c, why);
        if (r < 0) {
                free_collector(&c->base);
                return r;
        }
        *ret = &c->base;
        return 0;
}
