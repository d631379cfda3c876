/* SPDX-License-Identifier: Apache-2.0 */
#include <sys/random.h>

#include "etcd_state.h"

/*
 * Where there is only one member, who does not wait for it has nobody else to ask, and a server that a whole fleet
 * connects to at once takes many seconds.
 */
#define CONNECT_TIMEOUT (5 * USEC_PER_SEC)
#define CONNECT_TIMEOUT_ALONE (15 * USEC_PER_SEC)

uint64_t etcd_random(void) {
        uint64_t n = 0;

        (void) getrandom(&n, sizeof(n), GRND_NONBLOCK); /* without entropy yet: at once, a valid draw, too */
        return n;
}

void etcd_endpoint_failed(struct etcd *c, size_t endpoint) {
        if (endpoint == c->current)
                c->current = (c->current + 1) % c->n_endpoints;
        if (c->n_endpoints > 1) /* else there is nowhere to move to, and the stream finds out for itself */
                etcd_watches_move(c, endpoint);
}

void etcd_set_timeout(struct etcd *c, usec_t timeout) {
        c->timeout = timeout;
}

/* --- Questions -------------------------------------------------------------------------------------- */

static struct etcd_question *question_free(struct etcd_question *q) {
        if (!q)
                return NULL;
        free(q->data);
        free(q);
        return NULL;
}
DEFINE_CLEANUP(struct etcd_question *, question_free)

static void unlink_question(struct etcd_question *q) {
        struct etcd_question **at = &q->etcd->questions;

        while (*at != q)
                at = &(*at)->next;
        *at = q->next;
}

static void end_question(struct etcd_question *q, const struct grpc_answer *g,
                         const struct etcd_message *m) {
        struct etcd_answer a = {
                .outcome = g->outcome, .status = g->status, .asked = q->asked, .message = m
        };
        char why[GRPC_WHY_MAX + 300] = "";

        a.endpoint = q->etcd->urls[q->endpoint];
        if (g->outcome != GRPC_ANSWERED)
                (void) snprintf(why, sizeof(why), "etcd at %.250s: %s", a.endpoint, g->why);
        a.why = why;
        unlink_question(q);
        q->done(&a, q->userdata);
        (void) question_free(q);
}

static void ask(struct etcd_question *q);

/* An id that exists is our own, asked for before. */
static bool exists_as_wanted(const struct etcd_question *q, const struct grpc_answer *a) {
        return q->method == ETCD_LEASE_GRANT && q->tried > 1 && a->status == GRPC_FAILED_PRECONDITION;
}

static void on_done(const struct grpc_answer *a, void *userdata) {
        struct grpc_answer bad = { .outcome = GRPC_UNCERTAIN, .status = GRPC_INTERNAL, .local = true };
        struct etcd_question *q = userdata;
        struct etcd_message m = { 0 };
        int r;

        q->call = NULL;
        if (a->outcome == GRPC_ANSWERED) {
                r = etcd_message_take(q->method, a->data, a->len, &m);
                if (r == 0) {
                        end_question(q, a, &m);
                        etcd_message_clear(&m);
                        return;
                }
                bad.why = r == -E2BIG ? "the answer is too large" : "the answer is none of etcd's";
                a = &bad;
        }
        if (exists_as_wanted(q, a)) {
                end_question(q, &(struct grpc_answer){ .outcome = GRPC_ANSWERED, .why = "" }, NULL);
                return;
        }
        if (a->outcome == GRPC_REFUSED) {
                end_question(q, a, NULL);
                return;
        }
        etcd_endpoint_failed(q->etcd, q->endpoint);
        if ((a->outcome == GRPC_UNSENT || q->again) && q->tried < q->etcd->n_endpoints)
                ask(q);
        else
                end_question(q, a, NULL);
}

static void ask(struct etcd_question *q) {
        struct etcd *c = q->etcd;
        struct grpc_question g = {
                .method = etcd_method_path(q->method),
                .data = q->data,
                .len = q->len,
                .deadline = c->timeout,
                .metadata = { q->stale ? NULL : "hasleader: true" },
                .done = on_done,
                .userdata = q,
        };

        q->endpoint = c->current;
        if (q->tried++ == 0)
                (void) sd_event_now(c->event, CLOCK_BOOTTIME, &q->asked);
        if (grpc_ask(c->channels[q->endpoint], &g, &q->call) < 0) {
                q->call = NULL;
                (void) sd_event_source_set_enabled(c->unsent, SD_EVENT_ONESHOT);
        }
}

static void end_unsent(struct etcd_question *q) {
        const char *trouble = grpc_trouble(q->etcd->channels[q->endpoint]);
        struct grpc_answer a = { .outcome = GRPC_UNSENT, .status = GRPC_UNAVAILABLE, .local = true };

        a.why = trouble[0] ? trouble : "the question could not be started";
        end_question(q, &a, NULL);
}

static int on_unsent(sd_event_source *source, void *userdata) {
        struct etcd *c = userdata;
        struct etcd_question *q;

        (void) source;
        do { /* from the beginning each time: done may ask anew */
                for (q = c->questions; q && q->call; q = q->next)
                        ;
                if (q)
                        end_unsent(q);
        } while (q);
        return 0;
}

static int new_question(struct etcd *c, enum etcd_method method, const ProtobufCMessage *message, bool stale,
                        etcd_done done, void *userdata) {
        _cleanup_(question_freep) struct etcd_question *q = calloc(1, sizeof(*q));

        if (!q)
                return -ENOMEM;
        q->etcd = c;
        q->method = method;
        q->again = method != ETCD_TXN;
        q->stale = stale;
        q->done = done;
        q->userdata = userdata;
        q->len = protobuf_c_message_get_packed_size(message);
        q->data = malloc(q->len + 1);
        if (!q->data)
                return -ENOMEM;
        (void) protobuf_c_message_pack(message, q->data);
        q->next = c->questions;
        c->questions = q;
        ask(TAKE_PTR(q));
        return 0;
}

int etcd_range(struct etcd *c, const struct etcd_range_question *q, etcd_done done, void *userdata) {
        Etcd__RangeRequest m = ETCD__RANGE_REQUEST__INIT;
        _cleanup_free_ char *end = strdup(q->key);

        if (!end)
                return -ENOMEM;
        m.range_end = etcd_range_end(q->key, end);
        m.key = etcd_bytes(q->key);
        if (q->after) { /* with its NUL it is the key right behind */
                m.key = etcd_bytes(q->after);
                m.key.len++;
        }
        m.serializable = q->stale;
        m.revision = q->revision;
        m.limit = q->limit;
        return new_question(c, ETCD_RANGE, &m.base, q->stale, done, userdata);
}

int etcd_txn(struct etcd *c, const Etcd__TxnRequest *t, etcd_done done, void *userdata) {
        return new_question(c, ETCD_TXN, &t->base, false, done, userdata);
}

int etcd_lease_grant(struct etcd *c, int64_t id, unsigned seconds, etcd_done done, void *userdata) {
        Etcd__LeaseGrantRequest m = ETCD__LEASE_GRANT_REQUEST__INIT;

        m.id = id;
        m.ttl = seconds;
        return new_question(c, ETCD_LEASE_GRANT, &m.base, false, done, userdata);
}

/* A stream in etcd's own words; with one request that ends it, one answer. */
int etcd_lease_keep(struct etcd *c, int64_t id, etcd_done done, void *userdata) {
        Etcd__LeaseKeepAliveRequest m = ETCD__LEASE_KEEP_ALIVE_REQUEST__INIT;

        m.id = id;
        return new_question(c, ETCD_LEASE_KEEP, &m.base, false, done, userdata);
}

int etcd_lease_revoke(struct etcd *c, int64_t id, etcd_done done, void *userdata) {
        Etcd__LeaseRevokeRequest m = ETCD__LEASE_REVOKE_REQUEST__INIT;

        m.id = id;
        return new_question(c, ETCD_LEASE_REVOKE, &m.base, false, done, userdata);
}

/* --- Life ------------------------------------------------------------------------------------------- */

static int add_endpoint(struct etcd *c, const struct etcd_options *o, const char *url, size_t len,
                        char why[static 256]) {
        struct grpc_options g = {
                .name = "etcd",
                .user_agent = o->user_agent,
                .ca = o->ca,
                .cert = o->cert,
                .key = o->key,
                .connect_timeout = url == o->endpoints && url[len] == '\0' ? CONNECT_TIMEOUT_ALONE : CONNECT_TIMEOUT,
                .message_max = GRPC_MESSAGE_MAX,
        };
        int r;

        if (c->n_endpoints >= ETCD_ENDPOINTS_MAX) {
                (void) snprintf(why, 256, "more than %d members of etcd are named", ETCD_ENDPOINTS_MAX);
                return -EINVAL;
        }
        g.url = c->urls[c->n_endpoints] = strndup(url, len);
        if (!g.url)
                return -ENOMEM;
        r = grpc_new(c->event, &g, &c->channels[c->n_endpoints]);
        if (r < 0)
                /* it may hold a password, which is one of the reasons */
                (void) snprintf(why, 256,
                                "etcd's endpoint number %zu is not of the form https://HOST:2379: %s",
                                c->n_endpoints + 1, strerror(-r));
        c->n_endpoints++;
        return r;
}

static int add_endpoints(struct etcd *c, const struct etcd_options *o, char why[static 256]) {
        const char *at = o->endpoints ? o->endpoints : "";
        size_t len;
        int r;

        for (at += strspn(at, ", \t"); *at; at += strspn(at, ", \t")) {
                len = strcspn(at, ", \t");
                r = add_endpoint(c, o, at, len, why);
                if (r < 0)
                        return r;
                at += len;
        }
        if (c->n_endpoints == 0) {
                (void) snprintf(why, 256, "no member of etcd is named");
                return -EINVAL;
        }
        c->current = etcd_random() % c->n_endpoints; /* clients spread over the members */
        grpc_prepare(c->channels[c->current]);
        return 0;
}

int etcd_new(sd_event *e, const struct etcd_options *o, struct etcd **ret, char why[static 256]) {
        _cleanup_(etcd_freep) struct etcd *c = calloc(1, sizeof(*c));
        int r;

        why[0] = '\0';
        if (!c)
                return -ENOMEM;
        c->event = sd_event_ref(e);
        c->timeout = o->timeout;
        r = add_endpoints(c, o, why);
        if (r == 0)
                r = sd_event_add_defer(e, &c->unsent, on_unsent, c);
        if (r >= 0)
                r = sd_event_source_set_enabled(c->unsent, SD_EVENT_OFF);
        if (r < 0)
                return r;
        (void) sd_event_source_set_description(c->unsent, "etcd-unsent");
        *ret = TAKE_PTR(c);
        return 0;
}

struct etcd *etcd_free(struct etcd *c) {
        struct etcd_question *q;
        struct etcd_watch *w;

        if (!c)
                return NULL;
        for (size_t i = 0; i < c->n_endpoints; i++)
                c->channels[i] = grpc_free(c->channels[i]);
        while ((w = c->watches)) {
                c->watches = w->next;
                w->call = NULL;
                etcd_watch_destroy(w);
        }
        while ((q = c->questions)) {
                c->questions = q->next;
                (void) question_free(q);
        }
        for (size_t i = 0; i < c->n_endpoints; i++)
                free(c->urls[i]);
        c->unsent = sd_event_source_disable_unref(c->unsent);
        c->event = sd_event_unref(c->event);
        free(c);
        return NULL;
}
