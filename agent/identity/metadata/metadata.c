/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <strings.h>

#include "metadata.h"
#include "metadata_poll.h"

/* the most waits after which a key that the server did not have is looked for again */
#define ABSENT_WAITS 10
#define TRIES        3 /* of a key beside the interfaces, before the wait for changes goes on without it */
#define WATCH_WAIT   (300 * USEC_PER_SEC) /* of one wait of a watch; not much, for it costs a wakeup */
#define VALUE_MAX    1024
#define ABSENT_FIRST (15 * USEC_PER_SEC)
#define ABSENT_MAX   (600 * USEC_PER_SEC)

struct question {
        enum { WANTED, KNOWN, PUT_OFF, ABSENT } state;
        /* waits since it was found absent, and after how many it is looked for */
        unsigned tries, waits, patience;
        char why[METADATA_WHY_MAX]; /* it was put off, as was said */
};

/*
 * One key, followed: asked for once, then waited for with its ETag, for as long as it takes. A key that the
 * server does not have is asked for again after ABSENT_FIRST (a young host's are set while it boots), and
 * then after twice the time before, up to ABSENT_MAX.
 */
struct watch {
        struct poll poll; /* the first */
        struct metadata *metadata;
        /* At first, and when it changed: up to VALUE_MAX bytes of it, trimmed, with what cannot be
         * printed replaced. */
        void (*changed)(struct metadata *m, const char *value);
        const char *path;
        uint64_t hash; /* of the value that was reported */
        bool told;
        usec_t absent; /* until the next look for a key that the server does not have; 0: it has it */
};

struct metadata {
        struct poll poll; /* the first */
        struct metadata_options options; /* its texts are not valid after metadata_new() */
        char *user_agent, *base;
        sd_event *event;
        struct watch watches[4]; /* tpu-env, and one for each notice */
        bool ahead[_METADATA_NOTICE_MAX], env_told;

        struct metadata_facts facts;
        struct question questions[_METADATA_KEY_MAX];
        enum metadata_key asked;
        bool waiting; /* the question at work is a wait for a change */
        bool news; /* the facts differ from those reported */
        struct metadata_status status;
};

static void ask_server(struct metadata *m);

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

/* --- Answers ------------------------------------------------------------------------------------------- */

static void report_failure(struct metadata *m, const char *why) {
        char text[sizeof(m->status.why)];

        (void) snprintf(text, sizeof(text), "%s: %s", metadata_key_path(m->asked), why);
        m->status.answering = false;
        poll_retry(&m->poll);
        if (streq(text, m->status.why))
                return;
        memcpy(m->status.why, text, sizeof(text));
        m->options.failed(m->status.why, m->options.userdata);
}

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
        ask_server(m);
}

static void trouble(struct metadata *m, int error, const char *why) {
        struct question *q = &m->questions[m->asked];

        if (m->asked != METADATA_NICS && (error != -EAGAIN || ++q->tries >= TRIES))
                put_off(m, q, error, why);
        else
                report_failure(m, why);
}

/* A wait is over: what was not answered is asked again. */
static void want_again(struct metadata *m) {
        for (size_t k = 0; k < ELEMENTSOF(m->questions); k++) {
                struct question *q = &m->questions[k];

                if (q->state == PUT_OFF || (q->state == ABSENT && ++q->waits >= q->patience))
                        q->state = WANTED;
        }
}

static void report_facts(struct metadata *m) {
        if (m->news)
                m->options.changed(&m->facts, m->options.userdata);
        m->news = false;
}

/* What the server said is what is known now; reported are the interfaces at once, the rest together. */
static void adopt(struct metadata *m, struct metadata_facts *fresh) {
        struct question *q = &m->questions[m->asked];
        struct metadata_facts old = m->facts;

        m->poll.failures = 0;
        q->state = KNOWN;
        q->tries = q->patience = 0;
        q->why[0] = '\0';
        if (m->asked == METADATA_NICS) {
                memcpy(m->poll.known, m->poll.etag, sizeof(m->poll.known));
                m->status.known = true;
                m->status.answering = true;
                m->status.why[0] = '\0';
        }
        m->news = m->news || !metadata_facts_equal(fresh, &m->facts);
        m->facts = *fresh;
        *fresh = old;
        if (m->asked == METADATA_NICS)
                report_facts(m);
        if (m->waiting)
                want_again(m);
        poll_go_on(&m->poll);
}

static void take_answer(struct metadata *m, const struct metadata_answer *a) {
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

static void on_answer(struct poll *x, const struct metadata_answer *a, const char *error) {
        struct metadata *m = (struct metadata *) x;

        if (error)
                trouble(m, -EAGAIN, error);
        else
                take_answer(m, a);
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

static void ask_server(struct metadata *m) {
        int r;

        pick(m);
        if (m->waiting)
                report_facts(m);
        if (m->waiting && !m->poll.known[0]) { /* a server that gives none is asked again now and then */
                m->questions[METADATA_NICS].state = WANTED;
                want_again(m);
                poll_in(&m->poll, m->options.wait);
                return;
        }
        r = poll_ask(&m->poll, metadata_key_path(m->asked), m->waiting ? m->options.wait : 0);
        if (r < 0)
                report_failure(m, strerror(-r));
}

static void on_due(struct poll *x) {
        ask_server((struct metadata *) x);
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

static void watch_fail(struct watch *w) {
        w->poll.known[0] = '\0';
        poll_retry(&w->poll);
}

static void on_watch_due(struct poll *x) {
        struct watch *w = (struct watch *) x;

        if (poll_ask(x, w->path, x->known[0] ? WATCH_WAIT : 0) < 0)
                watch_fail(w);
}

static void watch_tell(struct watch *w, const char *body, size_t n) {
        char value[VALUE_MAX + 1];

        if (w->told && w->hash == w->poll.hash)
                return;
        memcpy(value, body, n);
        while (n > 0 && strchr(" \t\r\n", value[n - 1]) && value[n - 1])
                n--;
        value[n] = '\0';
        for (size_t i = 0; i < n; i++)
                if (value[i] < 0x20 || value[i] > 0x7e)
                        value[i] = strchr("\t\r\n", value[i]) && value[i] ? ' ' : '?';
        w->told = true;
        w->hash = w->poll.hash;
        w->changed(w->metadata, value);
}

static void on_watch_answer(struct poll *x, const struct metadata_answer *a, const char *error) {
        struct watch *w = (struct watch *) x;
        char why[METADATA_WHY_MAX];
        int r = error ? -EAGAIN : metadata_answer_check(a, why);

        if (r == -ENOENT) {
                x->known[0] = '\0';
                w->absent = MIN(MAX(w->absent * 2, ABSENT_FIRST), ABSENT_MAX);
                poll_in(x, w->absent);
        } else if (r < 0)
                watch_fail(w);
        else {
                watch_tell(w, a->body, MIN(a->len, (size_t) VALUE_MAX));
                x->failures = 0;
                w->absent = 0;
                memcpy(x->known, x->etag, sizeof(x->known));
                if (x->known[0])
                        poll_go_on(x);
                else
                        poll_in(x, WATCH_WAIT);
        }
}

/* tpu-env is there for the first time, or has changed: all that is said of the slice is asked again. */
static void on_tpu_env(struct metadata *m, const char *value) {
        bool first = !m->env_told;

        (void) value; /* the first bytes of it only */
        m->env_told = true;
        if (first && m->questions[METADATA_TPU_ENV].state != ABSENT)
                return; /* it is being asked for anyway */
        for (enum metadata_key k = METADATA_TPU_ENV; k < _METADATA_KEY_MAX; k++)
                if (m->questions[k].state == KNOWN || m->questions[k].state == ABSENT)
                        m->questions[k].state = WANTED;
        if (m->waiting && poll_cancel(&m->poll)) /* else it will come to them */
                ask_server(m);
}

static void take_notice(struct metadata *m, enum metadata_notice kind, bool ahead, const char *text) {
        if (m->ahead[kind] == ahead)
                return;
        m->ahead[kind] = ahead;
        if (m->options.notice)
                m->options.notice(kind, ahead, text, m->options.userdata);
}

static void on_preempted(struct metadata *m, const char *value) {
        take_notice(m, METADATA_PREEMPTION, strcasecmp(value, "TRUE") == 0, value);
}

static void on_maintenance(struct metadata *m, const char *value) {
        take_notice(m, METADATA_MAINTENANCE, value[0] && strcasecmp(value, "NONE") != 0, value);
}

/* Each plan is reported: times move. */
static void on_upcoming(struct metadata *m, const char *value) {
        char text[METADATA_UPCOMING_MAX] = "";
        bool ahead = metadata_upcoming_parse(value, text);

        if (ahead)
                m->ahead[METADATA_UPCOMING] = false;
        take_notice(m, METADATA_UPCOMING, ahead, text);
}

static int add_watches(struct metadata *m) {
        static const struct {
                const char *path, *name;
                void (*changed)(struct metadata *m, const char *value);
        } watches[] = {
                { "instance/attributes/tpu-env", "metadata-tpu-env", on_tpu_env },
                { "instance/preempted", "metadata-preempted", on_preempted },
                { "instance/maintenance-event", "metadata-maintenance", on_maintenance },
                { "instance/upcoming-maintenance?alt=json", "metadata-upcoming", on_upcoming },
        };

        _Static_assert(ELEMENTSOF(watches) == ELEMENTSOF(m->watches), "every watch has its place");
        for (size_t i = 0; i < ELEMENTSOF(watches); i++) {
                struct watch *w = &m->watches[i];
                int r;

                w->metadata = m;
                w->changed = watches[i].changed;
                w->path = watches[i].path;
                w->poll.due = on_watch_due;
                w->poll.answered = on_watch_answer;
                r = poll_init(&w->poll, m->event, watches[i].name, m->base, m->user_agent, &m->poll);
                if (r < 0)
                        return r;
        }
        return 0;
}

/* --- Life ---------------------------------------------------------------------------------------------- */

static int set_up(struct metadata *m, const struct metadata_options *o) {
        int r;

        m->user_agent = strdup(o->user_agent);
        if (!m->user_agent)
                return -ENOMEM;
        if (asprintf(&m->base, "http://%s/computeMetadata/v1", o->address) < 0) {
                m->base = NULL;
                return -ENOMEM;
        }
        m->poll.due = on_due;
        m->poll.answered = on_answer;
        r = poll_init(&m->poll, m->event, "metadata", m->base, m->user_agent, NULL);
        return r < 0 ? r : add_watches(m);
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
        for (size_t i = 0; i < ELEMENTSOF(m->watches); i++)
                poll_clear(&m->watches[i].poll);
        poll_clear(&m->poll);
        metadata_facts_clear(&m->facts);
        m->event = sd_event_unref(m->event);
        free(m->user_agent);
        free(m->base);
        free(m);
        return NULL;
}

void metadata_get_status(const struct metadata *m, struct metadata_status *ret) {
        *ret = m->status;
}
