/* SPDX-License-Identifier: Apache-2.0 */
#include "run_record.h"

#include "environment.h"
#include "utf8.h"

#define HOSTS_MAX 65536
#define SLICES_MAX 4096

const char *run_text(const json_t *o, const char *key) {
        const char *text = json_string_value(json_object_get(o, key));

        return text ? text : "";
}

uint64_t run_number(const json_t *o, const char *key) {
        const json_t *v = json_object_get(o, key);

        return json_is_integer(v) && json_integer_value(v) > 0 ? (uint64_t) json_integer_value(v) : 0;
}

void run_coordinator_of(const json_t *run, struct run_coordinator *ret) {
        const json_t *c = json_object_get(run, "coordinator");
        uint64_t port = run_number(c, "port");

        *ret = (struct run_coordinator){ .host = run_text(c, "host"),
                                         .address = run_text(c, "address"),
                                         .port = port > UINT16_MAX ? 0 : (uint16_t) port };
}

/* --- Peers --------------------------------------------------------------------------------------------- */

static const json_t *slices_of(const json_t *run) {
        return json_object_get(run, "slices");
}

static const char *address_of(const json_t *host) {
        const char *text = json_string_value(json_array_get(json_object_get(host, "address"), 0));

        return text ? text : "";
}

/* The hosts of all slices in one row: which of them. */
static const json_t *host_at(const json_t *run, size_t at, const char **ret_slice) {
        const json_t *list = slices_of(run), *s;
        size_t i;

        json_array_foreach(list, i, s) {
                const json_t *hosts = json_object_get(s, "hosts");

                if (at < json_array_size(hosts)) {
                        *ret_slice = run_text(s, "slice");
                        return json_array_get(hosts, at);
                }
                at -= json_array_size(hosts);
        }
        return NULL;
}

static size_t count_hosts(const json_t *run) {
        const json_t *s;
        size_t i, n = 0;

        json_array_foreach(slices_of(run), i, s)
                n += json_array_size(json_object_get(s, "hosts"));
        return MIN(n, (size_t) HOSTS_MAX);
}

static size_t own_place(const json_t *run, const char *slice, unsigned worker) {
        size_t n = count_hosts(run);

        for (size_t i = 0; i < n; i++) {
                const char *of = "";
                const json_t *h = host_at(run, i, &of);

                if (streq(of, slice) && json_is_integer(json_object_get(h, "worker")) &&
                    run_number(h, "worker") == worker)
                        return i;
        }
        return n;
}

void run_visit_peers(const json_t *run, const char *slice, unsigned worker,
                     bool (*visit)(const char *host, const char *address, void *userdata), void *userdata) {
        size_t n = count_hosts(run), own = own_place(run, slice, worker);

        for (size_t i = 1; i < n; i++) {
                const char *of;
                const json_t *h = host_at(run, (own + i) % n, &of);

                if (!*run_text(h, "host")) /* of a large run: only how many there are (docs/registry.md) */
                        continue;
                if (!visit(run_text(h, "host"), address_of(h), userdata))
                        return;
        }
}

/* --- The gang ------------------------------------------------------------------------------------------ */

struct gang_view {
        struct environment_gang gang;
        struct environment_slice *slices;
        struct environment_host *hosts;
};

static void gang_view_clear(struct gang_view *g) {
        free(g->slices);
        free(g->hosts);
}

static int view_slices(const json_t *run, const char *slice, struct gang_view *g) {
        size_t n_hosts = count_hosts(run), used = 0, i, k;
        const json_t *s, *h;

        g->gang.n_slices = json_array_size(slices_of(run));
        if (n_hosts == 0 || n_hosts == HOSTS_MAX || g->gang.n_slices > SLICES_MAX)
                return -EBADMSG;
        g->slices = calloc(g->gang.n_slices, sizeof(*g->slices));
        g->hosts = calloc(n_hosts, sizeof(*g->hosts));
        if (!g->slices || !g->hosts)
                return -ENOMEM;
        json_array_foreach(slices_of(run), i, s) {
                const json_t *hosts = json_object_get(s, "hosts");

                g->slices[i] = (struct environment_slice){ .name = run_text(s, "slice"),
                                                           .hosts = g->hosts + used,
                                                           .n_hosts = json_array_size(hosts) };
                if (streq(g->slices[i].name, slice))
                        g->gang.slice = i;
                json_array_foreach(hosts, k, h)
                        g->hosts[used++] = (struct environment_host){ .name = run_text(h, "host"),
                                                                      .address = address_of(h) };
        }
        g->gang.slices = g->slices;
        return 0;
}

static int view_gang(const json_t *run, const char *slice, unsigned worker, struct gang_view *g) {
        struct run_coordinator c;
        int r = view_slices(run, slice, g);

        if (r < 0)
                return r;
        run_coordinator_of(run, &c);
        g->gang.run = run_text(run, "name");
        g->gang.generation = run_number(run, "generation");
        g->gang.worker = worker;
        g->gang.coordinator = c.address[0] ? c.address : NULL;
        g->gang.port = c.port;
        return 0;
}

/* --- The environment ------------------------------------------------------------------------------------ */

void run_request_clear(struct run_request *q) {
        (void) run_spec_free(q->spec);
        json_decref(q->run);
        *q = (struct run_request){ 0 };
}

static void note_conflict(struct run_request *q, const struct environment_entry *e) {
        size_t n = strlen(q->conflicts);

        (void) snprintf(q->conflicts + n, sizeof(q->conflicts) - n, "%s%.*s: %s", n > 0 ? "; " : "",
                        (int) strcspn(e->assignment, "="), e->assignment, e->conflict);
        (void) utf8_scrub(q->conflicts, strlen(q->conflicts)); /* it may be cut anywhere */
}

static int freeze(const struct environment *e, struct run_request *q) {
        const struct run_key *k = run_key_find("env");
        int r = 0;

        run_key_unset(k, q->spec);
        for (size_t i = 0; r == 0 && i < e->n; i++) {
                r = run_key_append(k, q->spec, e->entries[i].assignment);
                if (e->entries[i].conflict)
                        note_conflict(q, &e->entries[i]);
        }
        return r;
}

static int make_environment(const struct gang_view *g, const struct identity *i, const char *interfaces,
                            struct run_request *q, char why[static RUN_WHY_MAX]) {
        _cleanup_environment_ struct environment e = ENVIRONMENT_NULL;
        struct environment_options o = { .gang = &g->gang,
                                         .interfaces = interfaces[0] ? interfaces : NULL,
                                         .user = (const char *const *) q->spec->env,
                                         .n_user = q->spec->n_env };
        char text[ENVIRONMENT_WHY_MAX] = "";
        int r = framework_parse(q->spec->framework, &o.framework);

        if (r == 0)
                r = environment_build(i, &o, &e, text);
        if (r == 0)
                return freeze(&e, q);
        if (text[0])
                (void) snprintf(why, RUN_WHY_MAX, "%.250s\ntpuctl identity; tpuctl env", text);
        return r;
}

/* --- All ----------------------------------------------------------------------------------------------- */

static char *wire(const char *text) {
        return (char *) (uintptr_t) text; /* protobuf-c's structs are not const; packing does not write */
}

/* The run's restarts are the gang's: the planner counts them. */
static int take_spec(const json_t *run, const char *slice, struct run_request *q, char why[static RUN_WHY_MAX]) {
        const json_t *intent = json_object_get(run, "intent");
        char reason[RUN_WHY_MAX];
        Local__RunRequest *m = &q->message;
        int r = run_spec_from_json(intent, NULL, &q->spec, reason);

        if (r == 0)
                r = run_key_set_text(run_key_find("name"), q->spec, run_text(run, "name"));
        if (r == 0)
                r = run_spec_check(q->spec, RUN_SLICES, reason);
        if (r == -ENOMEM)
                return r;
        if (r < 0) {
                (void) snprintf(why, RUN_WHY_MAX, "%.200s\ntpu-collectord --version; tpu-hostd --version", reason);
                return -EBADMSG;
        }
        run_key_unset(run_key_find("restarts"), q->spec);
        m->spec = q->spec;
        m->generation = run_number(run, "generation");
        m->intent = wire(run_text(run, "serial")[0] ? run_text(run, "serial") : run_text(intent, "serial"));
        m->slice = wire(slice);
        m->worker = q->worker;
        return 0;
}

int run_request_make(const json_t *run, const char *slice, unsigned worker, const struct identity *i,
                     const char *interfaces, struct run_request *ret, char why[static RUN_WHY_MAX]) {
        struct gang_view g = { 0 };
        int r;

        (void) snprintf(why, RUN_WHY_MAX, "the run's record cannot be understood\ntpu-collectord --version; tpu-hostd --version");
        run_request_clear(ret);
        local__run_request__init(&ret->message);
        (void) snprintf(ret->worker, sizeof(ret->worker), "%u", worker);
        ret->run = json_incref((json_t *) (uintptr_t) run);
        r = take_spec(run, slice, ret, why);
        if (r == 0)
                r = view_gang(run, slice, worker, &g);
        if (r == 0)
                r = make_environment(&g, i, interfaces, ret, why);
        gang_view_clear(&g);
        if (r == -ENOMEM)
                (void) snprintf(why, RUN_WHY_MAX, "out of memory");
        if (r < 0)
                run_request_clear(ret);
        return r;
}
