/* SPDX-License-Identifier: Apache-2.0 */
/* Which hosts, slices and runs there are, and what is said of one that is not. */
#include "api_calls.h"
#include "json_text.h"
#include "known_names.h"

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
