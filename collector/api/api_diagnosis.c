/* SPDX-License-Identifier: Apache-2.0 */
/* GET /api/v1/slices/NAME/diagnosis, /episodes and /captures. */
#include "api_calls.h"
#include "capture_write.h"
#include "first_word.h"
#include "json_text.h"
#include "store_episodes.h"

#define EPISODES_SHOWN 32

/* Of one that was taken over the captures are not here. */
static bool has_captures(const struct store_episode *e) {
        return e->answered > 0 || !e->outcome;
}

static json_t *slices_json(const char *slices) {
        json_t *list = json_array();

        for (const char *at = slices ? slices : "", *end; *at; at = *end ? end + 1 : end) {
                end = at + strcspn(at, " ");
                (void) json_array_append_new(list, json_stringn(at, (size_t) (end - at))); /* a name */
        }
        return list;
}

static json_t *episode_head(const struct store_episode *e) {
        return json_pack("{s:s, s:o, s:o, s:s, s:o, s:o, s:b, s:s, s:s, s:I, s:o, s:o, s:o, s:o, s:o, s:o}",
                         "episode", e->episode, "slices", slices_json(e->slices), "named",
                         api_text(e->named), "run", e->run, "generation", api_number(e->generation), "at",
                         api_time(e->at), "suspected", e->suspected, "by", e->by, "why", e->why, "hosts",
                         (json_int_t) e->hosts, "answered",
                         api_number(has_captures(e) ? (int64_t) e->answered : -1), "outcome",
                         api_text(e->outcome), "summary", api_text(e->summary), "diagnosed",
                         e->diagnosed > 0 ? api_time(e->diagnosed) : json_null(), "confirmed",
                         e->confirmed > 0 ? api_time(e->confirmed) : json_null(), "recovered",
                         e->recovered > 0 ? api_time(e->recovered) : json_null());
}

struct one {
        const struct api *api;
        json_t *value;
};

/* What the sockets alone said: of a report, or before there is one. */
static json_t *first_word_of(const struct api *a, const struct store_episode *e, const json_t *report) {
        const json_t *said = json_object_get(report, "first_word");
        const struct first_word *w = NULL;

        if (said)
                return api_text(json_text_of(said, "text"));
        if (!e->outcome && e->suspected && e->generation >= 0 && a->first_words)
                w = first_words_of(a->first_words, e->run, (uint64_t) e->generation);
        return api_text(w ? w->text : NULL);
}

static int on_one(const struct store_episode *e, void *userdata) {
        struct one *one = userdata;
        json_t *v = episode_head(e), *report = e->report ? api_stored(e->report) : json_null();
        json_int_t hosts = json_integer_value(json_object_get(report, "hosts")),
                   silent = json_integer_value(json_object_get(report, "silent"));

        if (v && e->report && !has_captures(e))
                (void) json_object_set_new(v, "answered",
                                           json_integer(hosts - silent)); /* or it is not known */
        (void) json_object_set_new(v, "first_word", first_word_of(one->api, e, report)); /* or null */
        one->value = json_member_add(v, "diagnosis", report);
        return one->value ? 1 : -ENOMEM;
}

static void no_episode(const struct api *a, const struct store_episode_filter *f, struct http_reply *reply) {
        char remedy[API_NAME_MAX + 32];

        if (!f->slice) {
                api_reply_error(reply, 404, "there is no such episode", "tpuctl fleet stalls");
                return;
        }
        if (!api_knows(a, KNOWN_SLICE, f->slice, reply))
                return;
        (void) snprintf(remedy, sizeof(remedy), "tpuctl diagnose %s%s", f->slice,
                        f->episode ? "" : " --capture");
        api_reply_error(reply, 404,
                        f->episode ? "there is no such episode of this slice"
                                   : "no stacks of this slice were asked for yet",
                        remedy);
}

/* --- For programs that read: small, and the same keys always ------------------------------------------- */

#define SUSPECTS_SHOWN 8

static const char *state_of(const struct store_episode *e) {
        if (!e->outcome)
                return "asking";
        return e->recovered > 0 ? "recovered" : e->suspected ? "stalled" : "answered";
}

static json_t *suspects_json(const json_t *report) {
        static const char *const keys[] = { "host", "slice", "worker", "kind", "sentence", "details" };
        json_t *list = json_array(), *v;
        size_t i;

        json_array_foreach (json_object_get(report, "suspects"), i, v) {
                json_t *one = i < SUSPECTS_SHOWN ? json_object() : NULL;

                for (size_t k = 0; one && k < ELEMENTSOF(keys); k++)
                        /* without memory the list stays shorter */
                        (void) json_object_set(one, keys[k], json_object_get(v, keys[k]) ?: json_null());
                if (one)
                        (void) json_array_append_new(list, one);
        }
        return list;
}

/* Commands that show more. NULL: no episode. */
static json_t *next_json(const char *slice, const struct store_episode *e) {
        json_t *list = json_array();

        if (e)
                (void) json_array_append_new(
                        list, json_sprintf("tpuctl diagnose %s --episode %s", slice, e->episode));
        (void) json_array_append_new(list, json_sprintf("tpuctl diagnose %s --capture", slice));
        if (e)
                (void) json_array_append_new(list, json_sprintf("tpuctl why %s", e->run));
        return list;
}

/* e NULL: stacks of the slice were not asked for yet. */
static json_t *program_json(const struct api *a, const char *slice, const struct store_episode *e) {
        static const struct store_episode none = { .generation = -1 };
        json_auto_t *report = e && e->report ? api_stored(e->report) : json_null();
        bool said = e && e->outcome;

        e = e ?: &none;
        return json_pack("{s:i, s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "version",
                         1, "slice", slice, "state", e == &none ? "none" : state_of(e), "run",
                         api_text(e->run), "generation", api_number(e->generation), "episode",
                         api_text(e->episode), "since", e->at > 0 ? api_time(e->at) : json_null(),
                         "recovered", e->recovered > 0 ? api_time(e->recovered) : json_null(), "outcome",
                         api_text(e->outcome), "sentence", api_text(e->summary), "first_word",
                         e == &none ? json_null() : first_word_of(a, e, report), "asked",
                         api_number(e == &none ? -1 : (int64_t) e->hosts), "suspects",
                         said ? suspects_json(report) : json_array(), "next",
                         next_json(slice, e == &none ? NULL : e));
}

struct for_program {
        const struct api *api;
        const char *slice;
        json_t *value;
};

static int on_program(const struct store_episode *e, void *userdata) {
        struct for_program *p = userdata;

        p->value = program_json(p->api, p->slice, e);
        return p->value ? 1 : -ENOMEM;
}

/* A slice of which nobody has asked anything is an answer, too; one that is not known is none. */
static void reply_program(const struct api *a, const struct store_episode_filter *f,
                          struct http_reply *reply) {
        struct for_program p = { .api = a, .slice = f->slice };
        int r = store_list_episodes(a->store, f, on_program, &p);

        if (r == 0 && (f->episode || !api_knows(a, KNOWN_SLICE, f->slice, reply))) {
                if (f->episode)
                        no_episode(a, f, reply);
                return;
        }
        if (r == 0)
                p.value = program_json(a, f->slice, NULL);
        api_reply_result(reply, a, MIN(r, 0), p.value);
}

static void reply_verdict(const struct api *a, const struct store_episode_filter *f,
                          struct http_reply *reply) {
        struct one one = { .api = a };
        int r = store_list_episodes(a->store, f, on_one, &one);

        if (r == 0)
                no_episode(a, f, reply);
        else
                api_reply_result(reply, a, MIN(r, 0), one.value);
}

void api_diagnosis(const struct api *a, const struct http_request *q, struct http_reply *reply) {
        const struct store_episode_filter f = { .slice = route_part(q, 0),
                                                .episode = route_text(q, "episode"),
                                                .limit = 1 };

        if (route_text(q, "for"))
                reply_program(a, &f, reply);
        else
                reply_verdict(a, &f, reply);
}

void api_episode(const struct api *a, const struct http_request *q, struct http_reply *reply) {
        reply_verdict(a, &(struct store_episode_filter){ .episode = route_part(q, 0), .limit = 1 }, reply);
}

static int on_each(const struct store_episode *e, void *userdata) {
        return json_array_append_new(userdata, episode_head(e)) < 0 ? -ENOMEM : 0;
}

void api_episodes(const struct api *a, const struct http_request *q, struct http_reply *reply) {
        const char *slice = route_part(q, 0);
        const struct store_episode_filter f = { .slice = slice, .limit = EPISODES_SHOWN, .brief = true };
        json_auto_t *list = json_array();
        int r = list ? store_list_episodes(a->store, &f, on_each, list) : -ENOMEM;

        if (r == 0 && json_array_size(list) == 0 && !api_knows(a, KNOWN_SLICE, slice, reply))
                return;
        api_reply_result(reply, a, r, json_pack("{s:s, s:O}", "slice", slice, "episodes", list));
}

void api_all_episodes(const struct api *a, const struct http_request *q, struct http_reply *reply) {
        const struct store_episode_filter f = { .limit = EPISODES_SHOWN, .brief = true };
        json_t *list = json_array();
        int r = list ? store_list_episodes(a->store, &f, on_each, list) : -ENOMEM;

        (void) q;
        api_reply_result(reply, a, r, json_pack("{s:o}", "episodes", list));
}

/* --- Captures: what a verdict is from, as its hosts sent it (proto/capture.proto) ------------------ */

/* Of one answer, packed; the next call goes on behind them. */
#define CAPTURES_BYTES ((size_t) 4 * 1024 * 1024)

struct page {
        char episode[64];
        json_t *expected; /* NULL: whoever answers is one */
        uint8_t *data;
        size_t len, size;
        int64_t last;
};

static int put_captured(struct page *p, Capture__Host *h, const struct store_capture *c) {
        Capture__Captured item = CAPTURE__CAPTURED__INIT, *list[] = { &item };
        Capture__Captures m = CAPTURE__CAPTURES__INIT;

        item.host = h;
        if (c) {
                item.capture.data = (uint8_t *) (uintptr_t) c->data; /* only read */
                item.capture.len = c->len;
        }
        m.captured = list;
        m.n_captured = 1;
        return captures_pack(&m, &p->data, &p->len, &p->size);
}

static bool was_asked(const json_t *expected, const char *host) {
        const json_t *v;
        size_t i;

        json_array_foreach (expected, i, v)
                if (streq(json_text_of(v, "host"), host))
                        return true;
        return !json_is_array(expected);
}

static int on_capture(const struct store_capture *c, void *userdata) {
        Capture__Host h = CAPTURE__HOST__INIT;
        struct page *p = userdata;

        if (p->len + c->len > CAPTURES_BYTES && p->len > 0)
                return 1;
        p->last = c->id;
        if (!was_asked(p->expected, c->host))
                return 0;
        h.slice = capture_part_text(c->slice);
        h.host = capture_part_text(c->host);
        h.worker_plus_1 = c->worker_id < 0 ? 0 : (uint32_t) c->worker_id + 1;
        h.round_plus_1 = c->round + 1;
        return put_captured(p, &h, c);
}

/* All who were asked: that they did not answer counts where there is no capture of theirs. */
static int put_silent(struct page *p) {
        const json_t *v;
        size_t i;
        int r = 0;

        json_array_foreach (p->expected, i, v) {
                const json_t *worker = json_object_get(v, "worker");
                Capture__Host h = CAPTURE__HOST__INIT;

                h.slice = capture_part_text(json_text_of(v, "slice"));
                h.host = capture_part_text(json_text_of(v, "host"));
                h.address = capture_part_text(json_text_of(v, "address"));
                h.worker_plus_1 = json_is_integer(worker) ? (uint32_t) json_integer_value(worker) + 1 : 0;
                r = r < 0 ? r : put_captured(p, &h, NULL);
        }
        return r;
}

static int put_next(struct page *p) {
        Capture__Captures m = CAPTURE__CAPTURES__INIT;

        m.next = (uint64_t) p->last;
        return captures_pack(&m, &p->data, &p->len, &p->size);
}

static int on_episode(const struct store_episode *e, void *userdata) {
        struct page *p = userdata;

        (void) snprintf(p->episode, sizeof(p->episode), "%s", e->episode);
        p->expected = e->expected ? api_stored(e->expected) : NULL;
        return 1;
}

static int fill_page(const struct api *a, int64_t since, struct page *p) {
        int r = store_list_captures(a->store, p->episode, MAX(since, INT64_C(0)), on_capture, p);

        return r < 0 ? r : r > 0 ? put_next(p) : put_silent(p);
}

void api_captures(const struct api *a, const struct http_request *q, struct http_reply *reply) {
        struct store_episode_filter f = { .slice = route_part(q, 0), .episode = route_text(q, "episode"),
                                          .limit = 1 };
        struct page page = { .len = 0 };
        int r = store_list_episodes(a->store, &f, on_episode, &page);

        if (r == 0) {
                no_episode(a, &f, reply);
                return;
        }
        if (r > 0)
                r = fill_page(a, route_number(q, "since", 0), &page);
        json_decref(page.expected);
        if (r < 0) {
                free(page.data);
                api_reply_result(reply, a, r, NULL);
        } else
                *reply = (struct http_reply){ .status = 200,
                                              .content_type = "application/x-protobuf",
                                              .body = page.data,
                                              .len = page.len };
}
