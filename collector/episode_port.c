/* SPDX-License-Identifier: Apache-2.0 */
#include "episode_port.h"

static const json_t *record_of(const struct gang *g, const char *kind, const char *name) {
        char key[GANG_KEY_MAX];

        (void) snprintf(key, sizeof(key), "%s%.64s", kind, name);
        return gang_record(g, key);
}

static bool same(const json_t *a, const json_t *b, const char *key) {
        return json_equal(json_object_get(a, key), json_object_get(b, key));
}

/* Who is asked: the hosts of the run; without one, those that are in the slice. */
static json_t *asked(const struct gang *g, const char *slice, const json_t *request) {
        const char *run = json_string_value(json_object_get(request, "run"));
        const json_t *r = run && *run ? record_of(g, "run/", run) : NULL, *roster;

        if (r && (same(r, request, "serial") || !json_object_get(request, "serial")) &&
            same(r, request, "generation"))
                return json_incref(json_object_get(r, "slices"));
        roster = json_object_get(record_of(g, "slice/", slice), "roster");
        return roster ? json_pack("[{s:s, s:O}]", "slice", slice, "hosts", roster) : NULL;
}

void episode_port_record(struct episodes *e, const struct gang *g, const char *key, const json_t *value) {
        json_t *slices;

        if (startswith(key, "run/") && value)
                episodes_run(e, value);
        else if (startswith(key, "capture/") && value) {
                slices = asked(g, key + strlen("capture/"), value);
                episodes_asked(e, key + strlen("capture/"), value, slices);
                json_decref(slices);
        } else if (startswith(key, "episode/")) {
                slices = asked(g, "", value);
                episodes_kept(e, key + strlen("episode/"), value, slices);
                json_decref(slices);
        }
}

bool episode_port_wants(struct episodes *e, const struct gang *g, const char *slice, const char *episode) {
        const json_t *request = record_of(g, "capture/", slice);
        const char *id = json_string_value(json_object_get(request, "episode"));
        char key[GANG_KEY_MAX];

        (void) snprintf(key, sizeof(key), "capture/%.64s", slice);
        if (id && streq(id, episode))
                episode_port_record(e, g, key, request);
        return episodes_wants(e, episode);
}
