/* SPDX-License-Identifier: Apache-2.0 */
/* All hosts as people are shown them: members of the registry, and who pushes telemetry. */
#include <math.h>

#include "api_calls.h"
#include "json_text.h"
#include "known_names.h"

/* While they are collected. */
struct hosts {
        const struct api *api;
        const struct fleet_filter *filter;
        usec_t now;
        json_t *pushed; /* by telemetry: name -> host; what the registry has, too, is taken out */
        json_t *list;
};

static double seconds_between(usec_t early, usec_t late) {
        return late > early ? (double) (late - early) / (double) USEC_PER_SEC : 0;
}

/* --- Telemetry ------------------------------------------------------------------------------------- */

static int on_pushed(const struct store_host *h, void *userdata) {
        struct hosts *l = userdata;
        json_t *v = json_pack(
                "{s:s, s:o, s:o, s:o, s:s, s:n, s:o, s:o, s:o, s:b, s:o, s:o, s:o, s:o, s:f, s:o, s:o, s:o, "
                "s:n, s:n, s:n, s:n, s:n, s:n}",
                "name", h->name, "slice", api_text(h->slice), "worker_id", api_number(h->worker_id),
                "accelerator_type", api_text(h->accelerator_type), "registry", "none", "missing", "state",
                api_text(h->state), "reasons", api_text(h->reasons), "orders", api_text(NULL), "observe", 0,
                "version", api_text(h->version), "boot_id", api_text(h->boot_id), "first_seen",
                api_time(h->first_seen), "last_seen", api_time(h->last_seen), "age_seconds",
                seconds_between(h->last_seen, l->now), "lag_seconds",
                h->newest ? json_real(seconds_between(h->newest, h->last_seen)) : json_null(), "run",
                api_text(h->run), "step", api_number(h->step), "topology", "doing", "step_seconds",
                "goodput", "checkpoint", "suspicion");

        return v && json_object_set_new(l->pushed, h->name, v) == 0 ? 0 : -ENOMEM;
}

/* --- The registry ---------------------------------------------------------------------------------- */

/* "" is null. */
static json_t *reported_text(const json_t *report, const char *key) {
        const char *text = json_text_of(report, key);

        return api_text(*text ? text : NULL);
}

static json_t *checkpoint_json(const struct run_checkpoint *c) {
        if (c->at < 0)
                return json_null();
        return json_pack("{s:o, s:o, s:o, s:o}", "at", api_time((usec_t) c->at), "step",
                         api_number(c->step), "took_seconds",
                         api_real(c->took >= 0 ? (double) c->took / USEC_PER_SEC : NAN), "steps_since",
                         api_number(c->since));
}

/* What it says of itself. */
static json_t *member_json(const struct registry_host *h) {
        return json_pack("{s:o, s:o, s:o, s:b, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "state",
                         reported_text(h->report, "state"),
                         "reasons", reported_text(h->report, "reasons"), "orders",
                         reported_text(h->report, "orders"), "observe",
                         json_is_true(json_object_get(h->report, "observe")), "run",
                         api_text(*h->run ? h->run : NULL), "step", api_number(h->step), "accelerator_type",
                         reported_text(h->report, "accelerator"), "topology",
                         reported_text(h->report, "topology"), "doing",
                         api_text(*h->doing ? h->doing : NULL), "step_seconds",
                         h->step_time > 0 ? json_real((double) h->step_time / USEC_PER_SEC) : json_null(),
                         "goodput", api_real(h->goodput), "checkpoint",
                         checkpoint_json(&h->checkpoint), "suspicion",
                         reported_text(h->report, "suspicion"));
}

/* What it said last stands, where telemetry has it. */
static json_t *missing_json(const struct registry_host *h) {
        char text[300];

        (void) snprintf(text, sizeof(text), "%.290s", h->why);
        return json_pack("{s:s}", "missing", text);
}

static int on_registered(const struct registry_host *h, void *userdata) {
        struct hosts *l = userdata;
        json_auto_t *more = h->member ? member_json(h) : missing_json(h),
                    *known = json_incref(json_object_get(l->pushed, h->name)),
                    *v = json_pack("{s:s, s:s, s:i, s:s, s:f}", "name", h->name, "slice", h->slice,
                                   "worker_id", (int) h->worker, "registry",
                                   h->member ? "member" : "missing", "age_seconds",
                                   seconds_between(h->heard, l->now));
        int r = v && more ? 0 : -ENOMEM;

        /* which run it is the registry knows; its step may have come by telemetry alone */
        if (json_is_null(json_object_get(more, "step")) && json_object_get(more, "run") &&
            json_equal(json_object_get(more, "run"), json_object_get(known, "run")))
                (void) json_object_del(more, "step"); /* it is there */
        if (!known)
                known = json_pack("{s:n, s:n, s:n, s:n, s:b, s:n, s:n, s:n, s:n, s:n, s:n, s:n, s:n, s:n, "
                                  "s:n, s:n, s:n, s:n, s:n}",
                                  "accelerator_type", "state", "reasons", "orders", "observe", 0, "version",
                                  "boot_id", "first_seen", "last_seen", "lag_seconds", "run", "step",
                                  "missing", "topology", "doing", "step_seconds", "goodput",
                                  "checkpoint", "suspicion");
        if (r == 0 &&
            (!known || json_object_update_missing(v, known) < 0 || json_object_update(v, more) < 0))
                r = -ENOMEM;
        if (r == 0 && *json_text_of(h->report, "version"))
                r = json_object_set_new(v, "version", reported_text(h->report, "version")) < 0 ? -ENOMEM : 0;
        if (r == 0 && h->heard > 0)
                r = json_object_set_new(v, "last_seen", api_time(h->heard)) < 0 ? -ENOMEM : 0;
        if (r == 0 && h->joined > 0 && json_is_null(json_object_get(v, "first_seen")))
                r = json_object_set_new(v, "first_seen", api_time(h->joined)) < 0 ? -ENOMEM : 0;
        if (r < 0)
                return r;
        (void) json_object_del(l->pushed, h->name); /* or it pushes nothing */
        return json_array_append(l->list, v) < 0 ? -ENOMEM : 0;
}

/* --- Together -------------------------------------------------------------------------------------- */

const char *const fleet_states[] = { "ready", "degraded", "unfit", "unknown", "silent", "missing", NULL };

static const char *shown_state(const json_t *host) {
        const char *state = json_text_of(host, "state");

        if (streq(json_text_of(host, "registry"), "missing"))
                return "missing";
        if (json_number_value(json_object_get(host, "age_seconds")) > API_SILENT_SECONDS)
                return "silent";
        for (size_t i = 0; i < 3; i++)
                if (streq(state, fleet_states[i]))
                        return fleet_states[i];
        return "unknown";
}

static bool is_wanted(const json_t *host, const struct fleet_filter *f) {
        return (!f->name || streq(json_text_of(host, "name"), f->name)) &&
               (!f->slice || streq(json_text_of(host, "slice"), f->slice)) &&
               (!f->state || streq(shown_state(host), f->state));
}

static int compare_hosts(const void *a, const void *b) {
        const json_t *x = *(json_t *const *) a, *y = *(json_t *const *) b, *s = json_object_get(x, "slice"),
                     *t = json_object_get(y, "slice"), *v = json_object_get(x, "worker_id"),
                     *w = json_object_get(y, "worker_id");
        int r = (int) json_is_null(s) - (int) json_is_null(t);

        if (r == 0 && json_is_string(s))
                r = strcmp(json_string_value(s), json_string_value(t));
        if (r == 0)
                r = (int) json_is_null(v) - (int) json_is_null(w);
        if (r == 0 && json_is_integer(v))
                r = COMPARE(json_integer_value(v), json_integer_value(w));
        return r ? r : strcmp(json_text_of(x, "name"), json_text_of(y, "name"));
}

/* Those that are wanted, in order. */
static int choose_hosts(const struct hosts *l, json_t **ret) {
        _cleanup_free_ json_t **items = calloc(json_array_size(l->list) + 1, sizeof(json_t *));
        json_auto_t *out = items ? json_array() : NULL;
        json_t *v;
        size_t i, n = 0;

        if (!out)
                return -ENOMEM;
        json_array_foreach (l->list, i, v)
                if (is_wanted(v, l->filter))
                        items[n++] = v;
        qsort(items, n, sizeof(items[0]), compare_hosts);
        for (i = 0; i < n; i++)
                if (json_array_append(out, items[i]) < 0)
                        return -ENOMEM;
        *ret = TAKE_PTR(out);
        return 0;
}

int fleet_list(const struct api *a, const struct fleet_filter *f, json_t **ret) {
        struct hosts l = { .api = a,
                           .filter = f,
                           .now = clock_real(a->clock),
                           .pushed = json_object(),
                           .list = json_array() };
        const char *name;
        json_t *v;
        int r = l.pushed && l.list ? 0 : -ENOMEM;

        if (r == 0 && a->telemetry)
                r = store_list_hosts(a->store, f->name, on_pushed, &l);
        if (r == 0 && a->registry)
                r = registry_visit_hosts(a->registry, on_registered, &l);
        json_object_foreach (l.pushed, name, v)
                if (r == 0)
                        r = json_array_append(l.list, v) < 0 ? -ENOMEM : 0;
        if (r == 0)
                r = choose_hosts(&l, ret);
        json_decref(l.pushed);
        json_decref(l.list);
        return r;
}

void fleet_sum_add(struct fleet_sum *sum, const json_t *host) {
        const char *state = shown_state(host);

        sum->hosts++;
        sum->oldest = MAX(sum->oldest, json_number_value(json_object_get(host, "age_seconds")));
        if (streq(state, "missing") || streq(state, "silent"))
                sum->silent++;
        else if (streq(state, "ready"))
                sum->ready++;
        else if (streq(state, "degraded"))
                sum->degraded++;
        else if (streq(state, "unfit"))
                sum->unfit++;
        else
                sum->unknown++;
}

/* --- Names ------------------------------------------------------------------------------------------ */

/* Which hosts, slices and runs there are, and what is said of one that is not. */
static const struct {
        const char *nothing, *key /* of a host as people are shown it */, *remedy;
} kinds[] = {
        [KNOWN_HOST] = { "there is no host", "name", "tpuctl fleet" },
        [KNOWN_MEMBER] = { "the registry has no host", "name", "tpuctl fleet" },
        [KNOWN_SLICE] = { "there is no slice", "slice", "tpuctl fleet slices" },
        [KNOWN_RUN] = { "there is no run", "run", "tpuctl runs --fleet" },
};

/* names: a set; "" and what does not fit into memory are left out. */
static void add_name(json_t *names, const char *name) {
        if (*name)
                (void) json_object_set_new(names, name, json_true());
}

static void add_record(const char *key, const json_t *value, void *userdata) {
        (void) value;
        add_name(userdata, strchr(key, '/') + 1);
}

static int add_run(const char *run, void *userdata) {
        add_name(userdata, run);
        return 0;
}

static int list_names(const struct api *a, enum known_kind kind, json_t *names) {
        json_t *hosts = NULL, *v;
        size_t i;
        int r = fleet_list(a, &(struct fleet_filter){ .name = NULL }, &hosts);

        if (kind == KNOWN_RUN && a->registry)
                registry_visit(a->registry, "run/", add_record, names);
        json_array_foreach (hosts, i, v)
                if (kind != KNOWN_MEMBER || !streq(json_text_of(v, "registry"), "none"))
                        add_name(names, json_text_of(v, kinds[kind].key));
        json_decref(hosts);
        return r == 0 && kind == KNOWN_RUN && a->telemetry ? store_list_runs(a->store, add_run, names) : r;
}

/* Without listing all. Of what another collector's registry has this one knows nothing. */
static bool is_known_at_once(const struct api *a, enum known_kind kind, const char *name) {
        char key[GANG_KEY_MAX];

        if (!a->registry || strlen(name) >= API_NAME_MAX)
                return false;
        if (!registry_leads(a->registry))
                return true;
        if (kind == KNOWN_HOST || kind == KNOWN_MEMBER)
                return registry_has_host(a->registry, name);
        (void) snprintf(key, sizeof(key), "%s/%s", kinds[kind].key, name);
        return registry_record(a->registry, key);
}

bool api_knows(const struct api *a, enum known_kind kind, const char *name, struct http_reply *reply) {
        char list[KNOWN_TEXT_MAX], error[KNOWN_TEXT_MAX + 128];
        struct known_names known = known_names(name);
        json_t *names, *v;
        const char *key;
        bool found;
        int r;

        if (is_known_at_once(a, kind, name))
                return true;
        names = json_object();
        r = names ? list_names(a, kind, names) : -ENOMEM;
        found = json_object_get(names, name);
        json_object_foreach (names, key, v)
                known_names_add(&known, key);
        json_decref(names);
        if (r < 0)
                api_reply_result(reply, a, r, NULL);
        if (r < 0 || found)
                return r == 0;
        (void) snprintf(error, sizeof(error), "%s '%s'%s", kinds[kind].nothing, known.wanted,
                        known_names_text(&known, list));
        api_reply_error(reply, 404, error, kinds[kind].remedy);
        return false;
}
