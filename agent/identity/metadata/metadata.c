/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <strings.h>
#include <sys/random.h>

#include "backoff.h"
#include "metadata.h"
#include "metadata_reply.h"
#include "metadata_watch.h"

#define TIMEOUT      (5 * USEC_PER_SEC)
#define WAIT_GRACE   (10 * USEC_PER_SEC) /* the server answers at the end of a wait, not before */
#define ABSENT_WAITS 10 /* the most waits after which a key that the server did not have is looked for again */
#define TRIES        3 /* of a key beside the interfaces, before the wait for changes goes on without it */
#define LONG_AWAY    8 /* failures in a row from which on the server gets one try a minute */
#define QUICK        USEC_PER_SEC /* a wait that ends sooner than this was none */

struct question {
        enum { WANTED, KNOWN, PUT_OFF, ABSENT } state;
        unsigned tries, waits, patience; /* waits since it was found absent, and after how many it is looked for */
        char why[METADATA_WHY_MAX]; /* it was put off, as was said */
};

struct metadata {
        struct http_loop *loop;
        struct http_transfer transfer;
        struct metadata_options options; /* its texts are not valid after metadata_new() */
        char *user_agent, *base;
        sd_event *event;
        sd_event_source *timer;
        struct metadata_watch *watches[4]; /* tpu-env, and one for each notice */
        bool ahead[_METADATA_NOTICE_MAX], env_told, settled;

        struct metadata_facts facts;
        struct question questions[_METADATA_KEY_MAX];
        enum metadata_key asked;
        bool waiting; /* the question at work is a wait for a change */
        bool news; /* the facts are others than was told */
        usec_t asked_at;
        char etag[METADATA_ETAG_MAX]; /* empty: none to wait with */
        unsigned failures, quick;
        struct metadata_status status;

        char *body;
        struct metadata_reply reply; /* the answer at work */
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
static void put_off(struct metadata *m, struct question *q, int error, const char *why) {
        char text[sizeof(m->status.why)];

        q->state = error == -ENOENT && metadata_key_is_attribute(m->asked) ? ABSENT : PUT_OFF;
        q->tries = q->waits = 0;
        if (q->state == ABSENT)
                q->patience = MIN(MAX(q->patience * 2, 1u), ABSENT_WAITS);
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
                put_off(m, q, error, why);
        else
                fail(m, why);
}

/* A wait is over: what was not answered is asked again. */
static void want_again(struct metadata *m) {
        for (size_t k = 0; k < ELEMENTSOF(m->questions); k++) {
                struct question *q = &m->questions[k];

                if (q->state == PUT_OFF || (q->state == ABSENT && ++q->waits >= q->patience))
                        q->state = WANTED;
        }
}

/* The next question: at once, unless the server answers waits without waiting. */
static void go_on(struct metadata *m) {
        uint64_t now = 0;

        if (!m->waiting) {
                ask(m);
                return;
        }
        want_again(m);
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

/* What the server said is what is known now; told are the interfaces at once, the rest together. */
static void adopt(struct metadata *m, struct metadata_facts *fresh) {
        struct question *q = &m->questions[m->asked];
        struct metadata_facts old = m->facts;

        m->failures = 0;
        q->state = KNOWN;
        q->tries = q->patience = 0;
        q->why[0] = '\0';
        if (m->asked == METADATA_NICS) {
                memcpy(m->etag, m->reply.etag, sizeof(m->etag));
                m->status.known = true;
                m->status.answering = true;
                m->status.why[0] = '\0';
        }
        m->news = m->news || !metadata_facts_equal(fresh, &m->facts);
        m->facts = *fresh;
        *fresh = old;
        if (m->asked == METADATA_NICS)
                tell(m);
        go_on(m);
}

static void take(struct metadata *m, const struct metadata_answer *a) {
        _cleanup_metadata_facts_ struct metadata_facts fresh = { .n_nics = 0 };
        struct question *q = &m->questions[m->asked];
        char why[METADATA_WHY_MAX] = "";
        int r;

        r = metadata_facts_copy(&m->facts, &fresh);
        if (r == 0)
                r = metadata_take(&fresh, m->asked, a, why);
        if (r < 0) {
                trouble(m, r == -ENOMEM ? -EAGAIN : r, why[0] ? why : strerror(-r));
                return;
        }
        if (why[0] && !streq(why, q->why)) {
                char text[sizeof(m->status.why)];

                (void) snprintf(text, sizeof(text), "%s: %s", metadata_key_path(m->asked), why);
                m->options.failed(text, m->options.userdata);
        }
        adopt(m, &fresh);
}

static void on_done(struct http_transfer *t, const char *error) {
        struct metadata *m = (struct metadata *) ((char *) t - offsetof(struct metadata, transfer));
        struct metadata_answer a = { .flavored = m->reply.flavored, .body = m->body, .len = m->reply.len };
        char *type = NULL;

        if (error) {
                trouble(m, -EAGAIN, m->reply.too_long ? "the answer is too long" : error);
                return;
        }
        (void) curl_easy_getinfo(t->easy, CURLINFO_RESPONSE_CODE, &a.status);
        (void) curl_easy_getinfo(t->easy, CURLINFO_CONTENT_TYPE, &type);
        a.content_type = type;
        take(m, &a);
}

/* --- Questions ----------------------------------------------------------------------------------------- */

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

        if (m->waiting)
                (void) snprintf(query, sizeof(query),
                                "&wait_for_change=true&last_etag=%s&timeout_sec=%" PRIu64, m->etag,
                                wait / USEC_PER_SEC);
        (void) snprintf(url, sizeof(url), "%s%s%s", m->base, metadata_key_path(m->asked), query);
        (void) sd_event_now(m->event, CLOCK_MONOTONIC, &m->asked_at);
        return metadata_reply_ask(&m->reply, &m->transfer, m->user_agent, url,
                                  m->waiting ? wait + WAIT_GRACE : TIMEOUT);
}

static void settle(struct metadata *m) {
        if (!m->settled && m->options.settled)
                m->options.settled(m->options.userdata);
        m->settled = true;
}

static void ask(struct metadata *m) {
        int r;

        pick(m);
        if (m->waiting) {
                tell(m);
                settle(m);
        }
        if (m->waiting && !m->etag[0]) { /* a server that gives none is asked anew now and then */
                m->questions[METADATA_NICS].state = WANTED;
                want_again(m);
                ask_in(m, m->options.wait);
                return;
        }
        r = start(m);
        if (r < 0)
                fail(m, strerror(-r));
}

/* --- Watches ------------------------------------------------------------------------------------------- */

const char *metadata_notice_name(enum metadata_notice n) {
        static const char *const names[] = {
                [METADATA_PREEMPTION] = "preemption",
                [METADATA_MAINTENANCE] = "maintenance",
                [METADATA_UPCOMING] = "upcoming-maintenance",
        };

        return n < _METADATA_NOTICE_MAX ? names[n] : "?";
}

/* tpu-env is there for the first time, or another one: all that is said of the slice is asked anew. */
static void on_tpu_env(const char *value, void *userdata) {
        struct metadata *m = userdata;
        bool first = !m->env_told;

        (void) value; /* the first bytes of it only */
        m->env_told = true;
        if (first && m->questions[METADATA_TPU_ENV].state != ABSENT)
                return; /* it is being asked for anyway */
        for (enum metadata_key k = METADATA_TPU_ENV; k < _METADATA_KEY_MAX; k++)
                if (m->questions[k].state == KNOWN || m->questions[k].state == ABSENT)
                        m->questions[k].state = WANTED;
        if (!m->waiting || !m->transfer.at_work)
                return; /* it will come to them */
        http_transfer_cancel(&m->transfer);
        ask(m);
}

static void take_notice(struct metadata *m, enum metadata_notice kind, bool ahead, const char *text) {
        if (m->ahead[kind] == ahead)
                return;
        m->ahead[kind] = ahead;
        if (m->options.notice)
                m->options.notice(kind, ahead, text, m->options.userdata);
}

static void on_preempted(const char *value, void *userdata) {
        take_notice(userdata, METADATA_PREEMPTION, strcasecmp(value, "TRUE") == 0, value);
}

static void on_maintenance(const char *value, void *userdata) {
        take_notice(userdata, METADATA_MAINTENANCE, value[0] && strcasecmp(value, "NONE") != 0, value);
}

/* Each plan is told: times move. */
static void on_upcoming(const char *value, void *userdata) {
        char text[METADATA_UPCOMING_MAX] = "";
        struct metadata *m = userdata;
        bool ahead = metadata_upcoming_parse(value, text);

        if (ahead)
                m->ahead[METADATA_UPCOMING] = false;
        take_notice(m, METADATA_UPCOMING, ahead, text);
}

static int add_watches(struct metadata *m) {
        static const struct {
                const char *path, *name;
                void (*changed)(const char *value, void *userdata);
        } watches[] = {
                { "instance/attributes/tpu-env", "metadata-tpu-env", on_tpu_env },
                { "instance/preempted", "metadata-preempted", on_preempted },
                { "instance/maintenance-event", "metadata-maintenance", on_maintenance },
                { "instance/upcoming-maintenance?alt=json", "metadata-upcoming", on_upcoming },
        };

        _Static_assert(ELEMENTSOF(watches) == ELEMENTSOF(m->watches), "every watch has its place");
        for (size_t i = 0; i < ELEMENTSOF(watches); i++) {
                char url[384];
                const struct metadata_watch_options o = { .event = m->event,
                                                          .loop = m->loop,
                                                          .url = url,
                                                          .name = watches[i].name,
                                                          .user_agent = m->user_agent,
                                                          .changed = watches[i].changed,
                                                          .userdata = m };
                int r;

                (void) snprintf(url, sizeof(url), "%s%s", m->base, watches[i].path);
                r = metadata_watch_new(&o, &m->watches[i]);
                if (r < 0)
                        return r;
        }
        return 0;
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
        metadata_reply_init(&m->reply, m->body, METADATA_BODY_MAX);
        m->transfer.done = on_done;
        r = http_loop_new(m->event, "metadata", &m->loop);
        if (r < 0)
                return r;
        http_loop_add(m->loop, &m->transfer);
        r = sd_event_add_time_relative(m->event, &m->timer, CLOCK_BOOTTIME, 0, 0, on_timer, m);
        if (r < 0)
                return r;
        (void) sd_event_source_set_description(m->timer, "metadata");
        return add_watches(m);
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
        for (size_t i = 0; i < ELEMENTSOF(m->watches); i++)
                m->watches[i] = metadata_watch_free(m->watches[i]);
        metadata_facts_clear(&m->facts);
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
