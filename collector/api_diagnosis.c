/* SPDX-License-Identifier: Apache-2.0 */
/* GET /api/v1/slices/NAME/diagnosis: the verdict about an episode; /episodes: which there are. */
#include "api_json.h"
#include "store_episodes.h"

#define EPISODES_SHOWN 32

/* Of one that was taken over the captures are not here. */
static bool has_captures(const struct store_episode *e) {
        return e->answered > 0 || !e->outcome;
}

static json_t *head(const struct store_episode *e) {
        return json_pack("{s:s, s:s, s:o, s:o, s:b, s:s, s:s, s:I, s:o, s:o, s:o, s:o, s:o, s:o}", "episode",
                         e->episode, "run", e->run, "generation", api_number(e->generation), "at",
                         api_time(e->at), "suspected", e->suspected, "by", e->by, "why", e->why, "hosts",
                         (json_int_t) e->hosts, "answered",
                         api_number(has_captures(e) ? (int64_t) e->answered : -1), "outcome",
                         api_text(e->outcome), "summary", api_text(e->summary), "diagnosed",
                         e->diagnosed > 0 ? api_time(e->diagnosed) : json_null(), "confirmed",
                         e->confirmed > 0 ? api_time(e->confirmed) : json_null(), "recovered",
                         e->recovered > 0 ? api_time(e->recovered) : json_null());
}

static int on_one(const struct store_episode *e, void *userdata) {
        json_t *v = head(e), *report = e->report ? api_stored(e->report) : json_null(), **ret = userdata;
        json_int_t hosts = json_integer_value(json_object_get(report, "hosts")),
                   silent = json_integer_value(json_object_get(report, "silent"));

        if (v && e->report && !has_captures(e))
                (void) json_object_set_new(v, "answered",
                                           json_integer(hosts - silent)); /* or it is not known */
        if (json_object_set_new(v, "diagnosis", report) < 0) {
                json_decref(v);
                v = NULL;
        }
        *ret = v;
        return v ? 1 : -ENOMEM;
}

void api_diagnosis(const struct api *a, const struct http_request *q, struct http_reply *reply) {
        struct store_episode_filter f = { .slice = route_part(q, 0), .episode = route_text(q, "episode"),
                                          .limit = 1 };
        json_t *v = NULL;
        int r;

        r = store_list_episodes(a->store, &f, on_one, &v);
        if (r == 0)
                api_reply_error(reply, 404,
                                f.episode ? "there is no such episode of this slice"
                                          : "no stacks of this slice were asked for yet",
                                "GET /api/v1/slices/NAME/episodes lists them; tpuctl diagnose NAME "
                                "--capture asks for some");
        else
                api_reply_result(reply, a, MIN(r, 0), v);
}

static int on_each(const struct store_episode *e, void *userdata) {
        return json_array_append_new(userdata, head(e)) < 0 ? -ENOMEM : 0;
}

void api_episodes(const struct api *a, const struct http_request *q, struct http_reply *reply) {
        const char *slice = route_part(q, 0);
        const struct store_episode_filter f = { .slice = slice, .limit = EPISODES_SHOWN, .brief = true };
        json_t *list = json_array();
        int r = list ? store_list_episodes(a->store, &f, on_each, list) : -ENOMEM;

        api_reply_result(reply, a, r, json_pack("{s:s, s:o}", "slice", slice, "episodes", list));
}
