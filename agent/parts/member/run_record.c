/* SPDX-License-Identifier: Apache-2.0 */
#include "run_record.h"

#include "finding.h"
#include "frame.h"
#include "identity_facts.h"
#include "json_text.h"
#include "texts.h"

#define HOSTS_MAX 65536
#define SLICES_MAX 4096

const json_t *slice_entry(const json_t *slice, const char *list, unsigned worker) {
        const json_t *v;
        size_t i;

        json_array_foreach(json_object_get(slice, list), i, v)
                if (json_is_integer(json_object_get(v, "worker")) && json_number_of(v, "worker") == worker)
                        return v;
        return NULL;
}

void run_coordinator_of(const json_t *run, struct run_coordinator *ret) {
        const json_t *c = json_object_get(run, "coordinator");
        uint64_t port = json_number_of(c, "port");

        *ret = (struct run_coordinator){ .host = json_text_of(c, "host"),
                                         .address = json_text_of(c, "address"),
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
                        *ret_slice = json_text_of(s, "slice");
                        return json_array_get(hosts, at);
                }
                at -= json_array_size(hosts);
        }
        return NULL;
}

static size_t count_hosts(const json_t *run) {
        return MIN(json_sizes_sum(slices_of(run), "hosts"), (size_t) HOSTS_MAX);
}

static size_t own_place(const json_t *run, const char *slice, unsigned worker) {
        size_t n = count_hosts(run);

        for (size_t i = 0; i < n; i++) {
                const char *of = "";
                const json_t *h = host_at(run, i, &of);

                if (streq(of, slice) && json_is_integer(json_object_get(h, "worker")) &&
                    json_number_of(h, "worker") == worker)
                        return i;
        }
        return n;
}

bool run_is_coordinator(const json_t *run, const char *slice, unsigned worker) {
        const char *of = "";
        size_t own = own_place(run, slice, worker);
        const json_t *h = own < count_hosts(run) ? host_at(run, own, &of) : NULL;
        struct run_coordinator c;

        run_coordinator_of(run, &c);
        return h && streq(json_text_of(h, "host"), c.host);
}

void run_visit_peers(const json_t *run, const char *slice, unsigned worker,
                     bool (*visit)(const char *host, const char *address, void *userdata), void *userdata) {
        size_t n = count_hosts(run), own = own_place(run, slice, worker);

        for (size_t i = 1; i < n; i++) {
                const char *of;
                const json_t *h = host_at(run, (own + i) % n, &of);

                /* Of a large run: only how many there are (docs/registry.md). */
                if (!*json_text_of(h, "host"))
                        continue;
                if (!visit(json_text_of(h, "host"), address_of(h), userdata))
                        return;
        }
}

/* --- Who runs together --------------------------------------------------------------------------------- */

/* The message, and what it points to: the rest is the record's, the identity's and the caller's. */
struct draft {
        Local__RunRequest message;
        struct identity_facts facts;
        Run__Spec *spec;
        char **slices, **hosts;
        uint32_t *counts;
        char worker[16];
};

static void draft_clear(struct draft *q) {
        (void) run_spec_free(q->spec);
        free(q->slices);
        free(q->hosts);
        free(q->counts);
}

/* How it is reached: what goes into the variables of a run. */
static const char *name_or_address(const json_t *host) {
        return address_of(host)[0] ? address_of(host) : json_text_of(host, "host");
}

static int take_own_hosts(const json_t *hosts, struct draft *q) {
        const json_t *h;
        size_t i;

        free(q->hosts); /* of a record that names a slice twice, which is refused later */
        q->hosts = calloc(json_array_size(hosts) + 1, sizeof(*q->hosts));
        if (!q->hosts)
                return -ENOMEM;
        json_array_foreach(hosts, i, h)
                q->hosts[i] = wire_text(name_or_address(h));
        q->facts.world.host = q->hosts;
        q->facts.world.n_host = json_array_size(hosts);
        return 0;
}

static int take_slices(const json_t *run, const char *slice, struct draft *q) {
        const json_t *list = slices_of(run), *s;
        size_t n = json_array_size(list), i;
        int r = 0;

        if (count_hosts(run) == 0 || count_hosts(run) == HOSTS_MAX || n > SLICES_MAX)
                return -EBADMSG;
        q->slices = calloc(n, sizeof(*q->slices));
        q->counts = calloc(n, sizeof(*q->counts));
        if (!q->slices || !q->counts)
                return -ENOMEM;
        json_array_foreach(list, i, s) {
                q->slices[i] = wire_text(json_text_of(s, "slice"));
                q->counts[i] = (uint32_t) json_array_size(json_object_get(s, "hosts"));
                if (!streq(q->slices[i], slice))
                        continue;
                q->facts.world.own = (uint32_t) i;
                r = r < 0 ? r : take_own_hosts(json_object_get(s, "hosts"), q);
        }
        q->facts.world.slice = q->slices;
        q->facts.world.hosts = q->counts;
        q->facts.world.n_slice = q->facts.world.n_hosts = n;
        return r == 0 && !q->hosts ? -EBADMSG : r;
}

static int take_world(const json_t *run, const char *slice, unsigned worker, const struct identity *i,
                      const char *interfaces, struct draft *q) {
        struct run_coordinator c;
        int r;

        identity_facts_fill(i, &q->facts);
        r = take_slices(run, slice, q);
        if (r < 0)
                return r;
        run_coordinator_of(run, &c);
        if (!c.address[0]) /* worker 0 of slice 0, where the record names it */
                c.address = name_or_address(
                        json_array_get(json_object_get(json_array_get(slices_of(run), 0), "hosts"), 0));
        q->facts.world.coordinator = wire_text(c.address);
        q->facts.world.port = c.port;
        q->facts.world.worker = worker;
        q->facts.world.interfaces = wire_text(interfaces);
        q->message.world = &q->facts.world;
        return 0;
}

/* --- The request --------------------------------------------------------------------------------------- */

/* All hosts of the run restart together: the planner counts it. */
static int take_spec(const json_t *run, const char *slice, struct draft *q, char why[static RUN_WHY_MAX]) {
        const json_t *intent = json_object_get(run, "intent");
        char reason[RUN_WHY_MAX];
        Local__RunRequest *m = &q->message;
        int r = run_spec_from_json(intent, NULL, &q->spec, reason);

        if (r == 0)
                r = run_key_set_text(run_key_find("name"), q->spec, json_text_of(run, "name"));
        if (r == 0)
                r = run_spec_check(q->spec, RUN_SLICES, reason);
        if (r == -ENOMEM)
                return r;
        if (r < 0)
                return text_fail(why, RUN_WHY_MAX, -EBADMSG,
                                 "%.200s\ntpu-collectord --version; tpu-hostd --version", reason);
        run_key_unset(run_key_find("restarts"), q->spec);
        m->spec = q->spec;
        m->generation = json_number_of(run, "generation");
        m->intent = wire_text(json_text_of(json_text_of(run, "serial")[0] ? run : intent, "serial"));
        m->slice = wire_text(slice);
        m->worker = q->worker;
        return 0;
}

/* One that owns everything: it is sent when the identity may be another. */
static Local__RunRequest *copy_of(const Local__RunRequest *m) {
        size_t len = local__run_request__get_packed_size(m);
        _cleanup_free_ uint8_t *bytes = malloc(len + 1);

        return bytes ? local__run_request__unpack(NULL, local__run_request__pack(m, bytes), bytes) : NULL;
}

int run_request_make(const json_t *run, const char *slice, unsigned worker, const struct identity *i,
                     const char *interfaces, Local__RunRequest **ret, char why[static RUN_WHY_MAX]) {
        _cleanup_(draft_clear) struct draft q = { .spec = NULL };
        Local__RunRequest *message = NULL;
        int r;

        (void) snprintf(why, RUN_WHY_MAX,
                        "the run's record cannot be understood\n"
                        "tpu-collectord --version; tpu-hostd --version");
        local__run_request__init(&q.message);
        (void) snprintf(q.worker, sizeof(q.worker), "%u", worker);
        r = take_spec(run, slice, &q, why);
        if (r == 0)
                r = take_world(run, slice, worker, i, interfaces, &q);
        if (r == 0)
                message = copy_of(&q.message);
        if (r == -ENOMEM || (r == 0 && !message))
                return text_fail(why, RUN_WHY_MAX, -ENOMEM, "out of memory");
        if (r == 0)
                *ret = message;
        return r;
}

/* --- The body of POST /v1/runs ------------------------------------------------------------------------- */

/* It may show what came. */
#define refuse_body(why, ...) (finding_format((why), RUN_WHY_MAX, __VA_ARGS__), -EINVAL)

void run_body_clear(struct run_body *b) {
        *b = (struct run_body){ .spec = run_spec_free(b->spec) };
}

/* What a body says besides the keys. */
static int take_other_keys(const json_t *o, struct run_body *b, char why[static RUN_WHY_MAX]) {
        const json_t *v = json_object_get(o, "v"), *generation = json_object_get(o, "generation"),
                     *serial = json_object_get(o, "serial");

        if (v && json_integer_value(v) != 1)
                return refuse_body(why, "v is not 1");
        if (generation && (!json_is_integer(generation) || json_integer_value(generation) < 0))
                return refuse_body(why, "generation is not a whole number");
        if (serial && (!json_is_string(serial) || json_string_length(serial) >= sizeof(b->serial)))
                return refuse_body(why, "serial is not a text of at most %zu bytes", sizeof(b->serial) - 1);
        b->generation = (uint64_t) json_integer_value(generation);
        (void) snprintf(b->serial, sizeof(b->serial), "%s", json_text_of(o, "serial"));
        return 0;
}

static int check_body(const struct run_body *b, char why[static RUN_WHY_MAX]) {
        if (run_spec_check(b->spec, RUN_HERE, why) < 0)
                return -EINVAL;
        if (!b->spec->user[0]) /* nobody's credentials come with it */
                return refuse_body(why, "user says whose run it is: it is missing");
        if (!b->spec->name[0] && b->generation > 0)
                return refuse_body(why, "a run with a generation needs a name");
        return 0;
}

static int parse_body(const json_t *o, struct run_body *b, char why[static RUN_WHY_MAX]) {
        static const char *const others[] = { "v", "serial", "generation", NULL };
        int r;

        b->over_slices =
                json_object_get(o, "slices") || json_object_get(o, "min") || json_object_get(o, "max");
        if (b->over_slices)
                return 0; /* not for this host: the registry judges it */
        r = run_spec_from_json(o, others, &b->spec, why);
        if (r == 0)
                r = take_other_keys(o, b, why);
        return r == 0 ? check_body(b, why) : r;
}

int run_body_parse(const char *text, size_t len, struct run_body *ret, char why[static RUN_WHY_MAX]) {
        struct run_body b = { .over_slices = false };
        json_error_t e;
        json_t *o = json_loadb(text, len, JSON_REJECT_DUPLICATES, &e);
        int r = o ? parse_body(o, &b, why)
                  : refuse_body(why, "the body is no JSON: line %d: %.120s", e.line, e.text);

        json_decref(o);
        if (r < 0)
                run_body_clear(&b);
        *ret = b;
        return r;
}
