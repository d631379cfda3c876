/* SPDX-License-Identifier: Apache-2.0 */
/*
 * etcd-driver ENDPOINTS CA CERT KEY ("-": none) TIMEOUT_MS: takes commands, one a line, prints what comes of
 * them, a JSON object a line. range TAG KEY one|prefix fresh|stale; create TAG KEY VALUE LEASE (if it is not
 * there); put TAG KEY VALUE LEASE; delete TAG KEY; grant|keep|revoke TAG ID [SECONDS]; watch KEY REVISION [LATER_MS
 * [END]]: the key so much later than a range beside it, up to END; unwatch; end with the input.
 */
#include <fcntl.h>
#include <jansson.h>

#include "etcd.h"

struct driver {
        sd_event *event;
        struct etcd *etcd;
        struct etcd_watch *watch;
        char line[4096];
        size_t len;
};

struct tag {
        char text[32];
};

static void print(json_t *o) {
        (void) json_dumpf(o, stdout, JSON_COMPACT);
        (void) putchar('\n');
        (void) fflush(stdout);
        json_decref(o);
}

static json_t *json_kv(const Etcd__KeyValue *kv) {
        return json_pack("{s:s%,s:s%,s:I,s:I,s:I}", "key", (const char *) kv->key.data, kv->key.len, "value",
                         kv->value.data ? (const char *) kv->value.data : "", kv->value.len, "mod",
                         (json_int_t) kv->mod_revision, "create", (json_int_t) kv->create_revision, "lease",
                         (json_int_t) kv->lease);
}

static void on_done(const struct etcd_answer *a, void *userdata) {
        static const char *const outcomes[] = { "answered", "unsent", "refused", "uncertain" };
        _cleanup_free_ struct tag *t = userdata;
        json_t *o = json_pack("{s:s,s:s,s:s,s:s,s:s}", "tag", t->text, "outcome", outcomes[a->outcome],
                              "status", grpc_status_name(a->status), "why", a->why, "endpoint", a->endpoint);
        const struct etcd_message *m = a->message;

        if (m)
                (void) json_object_set_new(o, "revision", json_integer(m->revision));
        if (m && m->range) {
                json_t *kvs = json_array();

                for (size_t i = 0; i < m->range->n_kvs; i++)
                        (void) json_array_append_new(kvs, json_kv(m->range->kvs[i]));
                (void) json_object_set_new(o, "kvs", kvs);
        }
        if (m && m->txn)
                (void) json_object_set_new(o, "succeeded", json_boolean(m->txn->succeeded));
        if (m && m->grant)
                (void) json_object_set_new(o, "ttl", json_integer(m->grant->ttl));
        if (m && m->keep)
                (void) json_object_set_new(o, "ttl", json_integer(m->keep->ttl));
        print(o);
}

static void on_event(const Etcd__Event *e, void *userdata) {
        (void) userdata;
        print(json_pack("{s:s,s:o}", "event", e->type == ETCD__EVENT__TYPE__DELETE ? "delete" : "put", "kv",
                        json_kv(e->kv)));
}

static void on_lost(void *userdata) {
        struct driver *d = userdata;

        print(json_pack("{s:b}", "lost", true));
        d->watch = etcd_watch_free(d->watch);
}

static void on_state(const char *why, void *userdata) {
        (void) userdata;
        print(json_pack("{s:s}", "watch", why ? why : "stands"));
}

static void txn(struct driver *d, const char *verb, const char *key, const char *value, long long lease,
                struct tag *t) {
        Etcd__TxnRequest m = ETCD__TXN_REQUEST__INIT;
        Etcd__Compare absent = ETCD__COMPARE__INIT, *compares[] = { &absent };
        Etcd__PutRequest put = ETCD__PUT_REQUEST__INIT;
        Etcd__DeleteRangeRequest gone = ETCD__DELETE_RANGE_REQUEST__INIT;
        Etcd__RequestOp op = ETCD__REQUEST_OP__INIT, *ops[] = { &op };

        absent.target = ETCD__COMPARE__TARGET__CREATE;
        absent.target_union_case = ETCD__COMPARE__TARGET_UNION_CREATE_REVISION;
        absent.key = put.key = gone.key = etcd_bytes(key);
        put.value = etcd_bytes(value);
        put.lease = lease;
        if (strcmp(verb, "delete") == 0) {
                op.request_case = ETCD__REQUEST_OP__REQUEST_DELETE_RANGE;
                op.delete_range = &gone;
        } else {
                op.request_case = ETCD__REQUEST_OP__REQUEST_PUT;
                op.put = &put;
        }
        m.compare = compares;
        m.n_compare = strcmp(verb, "create") == 0;
        m.success = ops;
        m.n_success = 1;
        (void) etcd_txn(d->etcd, &m, on_done, t);
}

/* With a range of its own beside it, whose events never come. */
static void watch(struct driver *d, const char *key, int64_t revision, usec_t later, const char *end) {
        char never[300];
        const struct etcd_watch_question q = { .keys = { never, key },
                                               .ends = { NULL, end[0] ? end : NULL },
                                               .at_once = later > 0 ? 1 : 0,
                                               .later = later,
                                               .revision = revision,
                                               .event = on_event,
                                               .lost = on_lost,
                                               .state = on_state,
                                               .userdata = d };

        (void) snprintf(never, sizeof(never), "%snever/", key);
        (void) etcd_watch_new(d->etcd, &q, &d->watch);
}

static void obey(struct driver *d, char *line) {
        char verb[16] = "", a[256] = "", b[256] = "", c[1024] = "", e[64] = "";
        struct tag *t = NULL;
        int n = sscanf(line, "%15s %255s %255s %1023s %63s", verb, a, b, c, e);

        if (n < 1)
                return;
        if (strcmp(verb, "watch") == 0)
                return watch(d, a, strtoll(b, NULL, 10), strtoul(c, NULL, 10) * USEC_PER_MSEC, e);
        if (strcmp(verb, "unwatch") == 0) {
                d->watch = etcd_watch_free(d->watch);
                return;
        }
        t = calloc(1, sizeof(*t));
        if (!t)
                return;
        (void) snprintf(t->text, sizeof(t->text), "%.31s", a);
        if (strcmp(verb, "range") == 0)
                (void) etcd_range(
                        d->etcd, &(struct etcd_range_question){ .key = b, .stale = strcmp(e, "stale") == 0 },
                        on_done, t);
        else if (strcmp(verb, "grant") == 0)
                (void) etcd_lease_grant(d->etcd, strtoll(b, NULL, 10), (unsigned) strtoul(c, NULL, 10),
                                        on_done, t);
        else if (strcmp(verb, "keep") == 0)
                (void) etcd_lease_keep(d->etcd, strtoll(b, NULL, 10), on_done, t);
        else if (strcmp(verb, "revoke") == 0)
                (void) etcd_lease_revoke(d->etcd, strtoll(b, NULL, 10), on_done, t);
        else
                txn(d, verb, b, c, strtoll(e, NULL, 10), t);
}

static int on_input(sd_event_source *source, int fd, uint32_t revents, void *userdata) {
        struct driver *d = userdata;
        ssize_t n = read(fd, d->line + d->len, sizeof(d->line) - d->len - 1);
        char *end;

        (void) source, (void) revents;
        if (n == 0)
                (void) sd_event_exit(d->event, 0);
        if (n <= 0)
                return 0;
        d->len += (size_t) n;
        d->line[d->len] = '\0';
        while ((end = strchr(d->line, '\n'))) {
                *end = '\0';
                obey(d, d->line);
                d->len -= (size_t) (end + 1 - d->line);
                memmove(d->line, end + 1, d->len + 1);
        }
        return 0;
}

static const char *or_null(const char *text) {
        return strcmp(text, "-") == 0 ? NULL : text;
}

int main(int argc, char *argv[]) {
        struct driver d = { 0 };
        struct etcd_options o = { .user_agent = "etcd-driver" };
        char why[256];

        if (argc != 6 || sd_event_default(&d.event) < 0)
                return 64;
        o.endpoints = argv[1];
        o.ca = or_null(argv[2]);
        o.cert = or_null(argv[3]);
        o.key = or_null(argv[4]);
        o.timeout = strtoul(argv[5], NULL, 10) * USEC_PER_MSEC;
        if (etcd_new(d.event, &o, &d.etcd, why) < 0) {
                fprintf(stderr, "%s\n", why);
                return 2;
        }
        (void) fcntl(STDIN_FILENO, F_SETFL, O_NONBLOCK);
        (void) sd_event_add_io(d.event, NULL, STDIN_FILENO, EPOLLIN, on_input, &d);
        (void) sd_event_loop(d.event);
        d.etcd = etcd_free(d.etcd);
        d.event = sd_event_unref(d.event);
        return 0;
}
