/* SPDX-License-Identifier: Apache-2.0 */
/* GET /api/v1/slices/NAME/diagnosis: the verdict about an episode; /captures: what it is from; /episodes: which there are. */
#include "api_json.h"
#include "hex.h"
#include "store_episodes.h"

#define EPISODES_SHOWN 32
#define CAPTURES_BYTES                                                                                      \
        ((size_t) 4 * 1024 * 1024) /* of one answer, packed; the next call goes on behind them */

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
                api_reply_error(
                        reply, 404,
                        f.episode ? "there is no such episode of this slice"
                                  : "no stacks of this slice were asked for yet",
                        "GET /api/v1/slices/NAME/episodes lists them; tpuctl diagnose NAME --capture asks for some");
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

/* --- The evidence ------------------------------------------------------------------------------------------ */

struct page {
        json_t *list;
        size_t bytes;
        int64_t last;
};

static int on_capture(const struct store_capture *c, void *userdata) {
        _cleanup_free_ char *data = NULL;
        struct page *p = userdata;

        if (p->bytes + c->len > CAPTURES_BYTES && p->bytes > 0)
                return 1;
        data = hex_encode(c->data, c->len);
        if (!data ||
            json_array_append_new(p->list, json_pack("{s:s, s:o, s:s, s:i, s:o, s:s}", "slice", c->slice,
                                                     "worker_id", api_number(c->worker_id), "host", c->host,
                                                     "round", (int) c->round, "taken", api_time(c->taken),
                                                     "capture", data)) < 0)
                return -ENOMEM;
        p->bytes += c->len;
        p->last = c->id;
        return 0;
}

struct evidence {
        char episode[64];
        json_t *expected;
};

static int on_evidence(const struct store_episode *e, void *userdata) {
        struct evidence *v = userdata;

        (void) snprintf(v->episode, sizeof(v->episode), "%s", e->episode);
        v->expected = e->expected ? api_stored(e->expected) : json_null();
        return 1;
}

void api_captures(const struct api *a, const struct http_request *q, struct http_reply *reply) {
        struct store_episode_filter f = { .slice = route_part(q, 0), .episode = route_text(q, "episode"),
                                          .limit = 1 };
        struct page page = { .list = json_array() };
        struct evidence e = { 0 };
        int r, more = 0;

        r = page.list ? store_list_episodes(a->store, &f, on_evidence, &e) : -ENOMEM;
        if (r == 0) {
                json_decref(page.list);
                api_reply_error(reply, 404, "there is no such episode of this slice",
                                "GET /api/v1/slices/NAME/episodes lists them");
                return;
        }
        if (r > 0)
                more = r =
                        store_list_captures(a->store, e.episode, route_number(q, "since", 0), on_capture, &page);
        api_reply_result(reply, a, MIN(r, 0),
                         json_pack("{s:s, s:o, s:o, s:o}", "episode", e.episode, "expected",
                                   e.expected ? e.expected : json_null(), "captures", page.list, "next",
                                   more > 0 ? json_integer(page.last) : json_null()));
}
