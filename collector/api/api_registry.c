/* SPDX-License-Identifier: Apache-2.0 */
#include <strings.h>
#include <sys/random.h>

#include "api_calls.h"
#include "first_word.h"
#include "json_text.h"
#include "log.h"
#include "texts.h"
#include "utf8.h"

#define BY_MAX 640

/* Every call that acts leaves an event: who, what, when, result. Some of what came may be no UTF-8, or cut
 * inside a character. */
static void audit_call(const struct api *a, const char *method, const char *path, const char *by,
                       const char *result, unsigned status) {
        char asked[400], call[400], said[GANG_WHY_MAX], sentence[EVENT_SENTENCE_MAX];
        const struct event *e = EVENT_AS(API_ACTED, status < 300 ? SEVERITY_INFO : SEVERITY_WARN,
                                         .call = call, .caller = by, .uid = EVENT_ABSENT,
                                         .pid = EVENT_ABSENT, .address = NULL, .status = status,
                                         .result = said);

        (void) snprintf(asked, sizeof(asked), "%s %.380s", method, path);
        utf8_copy_line(call, sizeof(call), asked);
        utf8_copy_line(said, sizeof(said), result);
        log_notice("%s", event_sentence(e, sentence));
        if (store_event_alone(a->store, e, "", "", -1, clock_real(a->clock)) >= 0)
                follow_news(a->follow);
}

#define UNTIL_MAX ((usec_t) 366 * 24 * 3600 * USEC_PER_SEC)

/* --- Who acts -------------------------------------------------------------------------------------- */

static const char *by_text(const struct api *a, const struct http_request *q, char buf[static BY_MAX]) {
        const char *name = q->caller->name, *wrong, *user = api_user(a, q, &wrong);

        (void) snprintf(buf, BY_MAX, "%s%s%s%s%s%s", user, *user ? " by " : "", *name ? name : "somebody",
                        *name ? " (" : " at ", q->caller->address, *name ? ")" : "");
        return buf;
}

/* A call that was done, but is answered when it is stored. */
struct acted {
        const struct api *a;
        struct http_call *call;
        struct http_reply reply;
        char by[BY_MAX], method[8], path[400], result[400];
};

static void on_stored(int error, void *userdata) {
        _cleanup_free_ struct acted *x = userdata;

        if (error < 0) {
                http_reply_clear(&x->reply);
                x->reply = (struct http_reply){ 0 };
                api_reply_error(&x->reply, 503,
                                error == -EAGAIN ?
                                        "this collector leads no more: whether it is stored is not known" :
                                        "it is taken, but not stored yet",
                                "look whether it was taken, and try again");
                x->reply.retry_after = 5;
        }
        audit_call(x->a, x->method, x->path, x->by, error < 0 ? "not stored" : x->result, x->reply.status);
        http_answer(x->call, &x->reply);
}

/* False: out of memory. */
static bool keep_until_stored(const struct api *a, const struct http_request *q, struct http_reply *reply,
                    const char *result) {
        struct acted *x = calloc(1, sizeof(*x));

        if (!x)
                return false;
        x->a = a;
        x->call = q->call;
        x->reply = *reply;
        (void) by_text(a, q, x->by);
        (void) snprintf(x->method, sizeof(x->method), "%s", q->method);
        (void) snprintf(x->path, sizeof(x->path), "%s", q->path);
        (void) snprintf(x->result, sizeof(x->result), "%s", result);
        if (registry_when_stored(a->registry, on_stored, x) < 0) {
                free(x);
                return false;
        }
        *reply = (struct http_reply){ .later = true };
        return true;
}

void api_acted(const struct api *a, const struct http_request *q, struct http_reply *reply,
                 const char *result) {
        char by[BY_MAX];

        if (reply->status < 300 && !registry_is_stored(a->registry)) {
                if (keep_until_stored(a, q, reply, result))
                        return;
                http_reply_clear(reply);
                api_reply_error(reply, 503, "out of memory", "look whether it was taken, and try again");
        }
        audit_call(a, q->method, q->path, by_text(a, q, by), result, reply->status);
}

static void refuse_act(const struct api *a, const struct http_request *q, struct http_reply *reply, int r,
                   const char *why) {
        unsigned status = r == -EBADMSG || r == -EINVAL ? 400
                          : r == -EBUSY                 ? 409
                          : r == -ENOENT                ? 404
                          : r == -E2BIG                 ? 413
                                                        : 503;

        /* It goes to people at other machines, which have tpuctl, and not this one's documents. */
        api_reply_error(reply, status, *why ? why : strerror(-r),
                        status == 503   ? API_SEE_JOURNAL
                        : status == 404 ? "tpuctl fleet"
                                        : "man tpuctl");
        reply->retry_after = status == 503 ? 5 : 0;
        api_acted(a, q, reply, *why ? why : "refused");
}

/* --- Reading --------------------------------------------------------------------------------------- */

/* The record as people see it: of a run that is suspected to stall, with what its sockets say. New
 * reference. */
static json_t *shown_run(const struct api *a, const json_t *v) {
        json_t *copy = json_copy((json_t *) (uintptr_t) v);
        const json_t *stalled = json_object_get(json_object_get(v, "planner"), "stalled");
        const struct first_word *w =
                a->first_words && json_integer_value(stalled) > 0
                        ? first_words_of(a->first_words, json_text_of(v, "name"),
                                         json_number_of(v, "generation"))
                        : NULL;

        return w ? json_member_add(copy, "first_word", json_string(w->text)) : copy;
}

static void reply_record(const struct api *a, const char *prefix, const struct http_request *q,
                         struct http_reply *reply) {
        const char *name = route_part(q, 0);
        bool is_run = streq(prefix, "run/");
        char key[GANG_KEY_MAX];
        const json_t *v;

        (void) snprintf(key, sizeof(key), "%s%.64s", prefix, name);
        v = registry_record(a->registry, key);
        if (v)
                api_reply(reply, 200, is_run ? shown_run(a, v) : json_copy((json_t *) (uintptr_t) v));
        else if (api_knows(a, is_run ? KNOWN_RUN : KNOWN_SLICE, name, reply))
                api_reply_error(reply, 404,
                                is_run ? "the run is one host's own: the registry has no record of it"
                                       : "its hosts send telemetry alone: the registry has no record of it",
                                "tpuctl fleet");
}

void api_run(const struct api *a, const struct http_request *q, struct http_reply *reply) {
        reply_record(a, "run/", q, reply);
}

void api_slice(const struct api *a, const struct http_request *q, struct http_reply *reply) {
        reply_record(a, "slice/", q, reply);
}

struct shown {
        const struct api *api;
        json_t *list;
};

static void add_run(const char *key, const json_t *value, void *userdata) {
        const struct shown *s = userdata;

        (void) key;
        (void) json_array_append_new(s->list, shown_run(s->api, value)); /* out of memory: shorter */
}

void api_runs(const struct api *a, const struct http_request *q, struct http_reply *reply) {
        struct shown s = { a, json_array() };

        (void) q;
        if (s.list)
                registry_visit(a->registry, "run/", add_run, &s);
        api_reply(reply, 200, json_pack("{s:o}", "runs", s.list));
}

void api_orders(const struct api *a, const struct http_request *q, struct http_reply *reply) {
        char key[GANG_KEY_MAX];
        const json_t *v, *mode, *cordon, *drain;

        (void) snprintf(key, sizeof(key), "order/%s", route_part(q, 0));
        v = registry_record(a->registry, key);
        if (!v && !api_knows(a, KNOWN_MEMBER, route_part(q, 0), reply))
                return;
        mode = json_object_get(v, "mode");
        cordon = json_object_get(v, "cordon");
        drain = json_object_get(v, "drain");
        api_reply(reply, 200,
                  json_pack("{s:s, s:O?, s:O?, s:O?}", "host", route_part(q, 0), "mode", mode, "cordon",
                            cordon, "drain", drain));
}

void api_mode(const struct api *a, const struct http_request *q, struct http_reply *reply) {
        const json_t *v = registry_record(a->registry, "site/mode");

        (void) q;
        api_reply(reply, 200,
                  v ? json_copy((json_t *) (uintptr_t) v)
                    : json_pack("{s:i, s:s, s:s, s:s, s:i, s:i}", "v", 1, "mode", "repair", "reason", "",
                                "by", "", "at", 0, "until", 0));
}

json_t *api_slice_gang(const struct api *a, const char *slice) {
        char key[GANG_KEY_MAX];
        const json_t *v;

        (void) snprintf(key, sizeof(key), "slice/%.64s", slice ? slice : "");
        v = slice && a->registry ? registry_record(a->registry, key) : NULL;
        if (!v)
                return json_null();
        return json_pack("{s:O, s:O, s:O, s:O, s:i, s:O, s:i, s:i, s:i}",
                         "state", json_object_get(v, "state"),
                         "generation", json_object_get(v, "generation"), "since",
                         json_object_get(v, "since"), "hosts", json_object_get(v, "hosts"), "present",
                         (int) json_array_size(json_object_get(v, "roster")), "missing",
                         json_object_get(v, "missing"), "conflicts",
                         (int) json_array_size(json_object_get(v, "conflicts")), "unlike",
                         (int) json_array_size(json_object_get(v, "unlike")), "twins",
                         (int) json_array_size(json_object_get(v, "twins")));
}

/* --- Runs ------------------------------------------------------------------------------------------ */

static int complete_intent(const struct api *a, const struct http_request *q, json_t *v) {
        char by[BY_MAX], serial[17];
        uint64_t random;

        if (getrandom(&random, sizeof(random), 0) != (ssize_t) sizeof(random))
                return -EIO;
        (void) snprintf(serial, sizeof(serial), "%016" PRIx64, random);
        if (json_object_set_new(v, "v", json_integer(1)) < 0 ||
            json_object_set_new(v, "serial", json_string(serial)) < 0 ||
            json_object_set_new(v, "by", json_string(by_text(a, q, by))) < 0 ||
            json_object_set_new(v, "stop", json_false()) < 0 ||
            json_object_set_new(v, "at", json_integer((json_int_t) clock_real(a->clock))) < 0)
                return -ENOMEM;
        return 0;
}

void api_post_run(const struct api *a, const struct http_request *q, struct http_reply *reply) {
        const char *type = http_header(q, "Content-Type"), *name;
        char key[GANG_KEY_MAX], why[GANG_WHY_MAX] = "";
        json_auto_t *v = NULL;
        int r;

        if (!type || strncasecmp(type, "application/json", 16) !=
                             0) { /* a page of another site cannot say this unasked */
                api_reply_error(reply, 415, "Content-Type must be application/json",
                                "send an intent, see /usr/share/doc/tpu-collector/registry.md");
                return;
        }
        v = json_loadb((const char *) q->body, q->len, JSON_REJECT_DUPLICATES, NULL);
        name = json_string_value(json_object_get(v, "name"));
        if (!name) {
                refuse_act(a, q, reply, -EINVAL, "the body is no JSON object with \"name\"");
                return;
        }
        (void) snprintf(key, sizeof(key), "intent/%.64s", name);
        r = complete_intent(a, q, v);
        if (r >= 0)
                r = registry_want(a->registry, key, v, why);
        if (r < 0)
                refuse_act(a, q, reply, r, why);
        else {
                (void) snprintf(key, sizeof(key), "run/%.64s", name);
                api_reply(reply, 201,
                          json_copy((json_t *) (uintptr_t) gang_record(registry_gang(a->registry), key)));
                api_acted(a, q, reply, name);
        }
}

void api_delete_run(const struct api *a, const struct http_request *q, struct http_reply *reply) {
        char key[GANG_KEY_MAX], why[GANG_WHY_MAX] = "";
        const json_t *record, *intent;
        json_auto_t *v = NULL;
        int r = 0;

        (void) snprintf(key, sizeof(key), "run/%s", route_part(q, 0));
        record = gang_record(registry_gang(a->registry), key);
        intent = json_object_get(record, "intent");
        if (!record) {
                if (api_knows(a, KNOWN_RUN, route_part(q, 0), reply))
                        api_reply_error(reply, 404, "the run is one host's own: its host stops it",
                                        "tpuctl fleet # names its host: tpuctl stop there");
                api_acted(a, q, reply, "refused: no such run");
                return;
        }
        v = json_copy((json_t *) (uintptr_t) intent);
        (void) snprintf(key, sizeof(key), "intent/%s", route_part(q, 0));
        if (!v || json_object_set_new(v, "stop", json_true()) < 0)
                r = -ENOMEM;
        else
                r = registry_want(a->registry, key, v, why);
        if (r < 0) {
                refuse_act(a, q, reply, r, why);
                return;
        }
        (void) snprintf(key, sizeof(key), "run/%s", route_part(q, 0));
        api_reply(reply, 202,
                  json_copy((json_t *) (uintptr_t) gang_record(registry_gang(a->registry), key)));
        api_acted(a, q, reply, "it is being stopped");
}

/* --- Orders ---------------------------------------------------------------------------------------- */

static int parse_order(const struct api *a, const struct http_request *q, json_t **ret,
                       char why[static ARGUMENTS_WHY_MAX]) {
        const char *reason = route_text(q, "reason");
        int64_t until = route_number(q, "until", -1);
        usec_t now = clock_real(a->clock);
        char by[BY_MAX];

        if (until >= 0 && ((usec_t) until <= now || (usec_t) until > now + UNTIL_MAX))
                return text_fail(why, ARGUMENTS_WHY_MAX, -EINVAL,
                                 "until= must be a time up to a year ahead");
        *ret = json_pack("{s:s, s:s, s:I, s:I}", "reason",
                         reason ? reason : "", "by", by_text(a, q, by), "at", (json_int_t) now, "until",
                         (json_int_t) MAX(until, 0));
        if (*ret)
                return 0;
        return text_fail(why, ARGUMENTS_WHY_MAX, -EINVAL, "reason= is no UTF-8");
}

static void reply_done(const struct api *a, const struct http_request *q, struct http_reply *reply,
                       json_t *v, const char *result) {
        char copy[API_REASON_MAX + 1];

        (void) snprintf(copy, sizeof(copy), "%s", result && *result ? result : "done"); /* it may be of v */
        if (v)
                api_reply(reply, 200, v);
        else
                reply->status = 204;
        api_acted(a, q, reply, copy);
}

/* v: the order, NULL: it is taken back. Taken over. */
static void put_order(const struct api *a, const struct http_request *q, json_t *v,
                      struct http_reply *reply) {
        char key[GANG_KEY_MAX], why[GANG_WHY_MAX] = "";
        const char *kind = strrchr(q->routed->route->path, '/') + 1; /* mode, cordon, drain */
        const json_t *before;
        json_auto_t *all = NULL;
        int r = 0;

        (void) snprintf(key, sizeof(key), "order/%s", route_part(q, 0));
        before = gang_record(registry_gang(a->registry), key);
        if (!before && !api_knows(a, KNOWN_MEMBER, route_part(q, 0), reply)) {
                json_decref(v);
                api_acted(a, q, reply, "refused: no such host");
                return;
        }
        all = before ? json_copy((json_t *) (uintptr_t) before) : json_pack("{s:i}", "v", 1);
        if (!all || (v && json_object_set(all, kind, v) < 0))
                r = -ENOMEM;
        if (!v && json_object_del(all, kind) < 0) {
                reply_done(a, q, reply, NULL, "nothing was ordered");
                return;
        }
        if (r >= 0)
                r = registry_want(a->registry, key, json_object_size(all) > 1 ? all : NULL, why);
        if (r < 0) {
                json_decref(v);
                refuse_act(a, q, reply, r, why);
                return;
        }
        reply_done(a, q, reply, v, v ? json_string_value(json_object_get(v, "reason")) : "taken back");
}

void api_act_order(const struct api *a, const struct http_request *q, struct http_reply *reply) {
        char why[ARGUMENTS_WHY_MAX];
        json_t *v = NULL;

        if (streq(q->method, "PUT") && parse_order(a, q, &v, why) < 0) {
                refuse_act(a, q, reply, -EINVAL, why);
                return;
        }
        if (v && streq(q->routed->route->path, "/api/v1/hosts/NAME/mode"))
                (void) json_object_set_new(v, "mode", json_string("observe"));
        put_order(a, q, v, reply);
}

void api_act_mode(const struct api *a, const struct http_request *q, struct http_reply *reply) {
        char why[GANG_WHY_MAX] = "";
        json_t *v = NULL;
        int r = 0;

        if (streq(q->method, "PUT")) {
                r = parse_order(a, q, &v, why);
                if (r >= 0 && (json_object_set_new(v, "v", json_integer(1)) < 0 ||
                               json_object_set_new(v, "mode", json_string("observe")) < 0))
                        r = -ENOMEM;
        }
        if (r >= 0)
                r = registry_want(a->registry, "site/mode", v, why);
        if (r < 0) {
                json_decref(v);
                refuse_act(a, q, reply, r, why);
        } else
                reply_done(a, q, reply, v,
                           v ? json_string_value(json_object_get(v, "reason")) : "taken back");
}

void api_release_slot(const struct api *a, const struct http_request *q, struct http_reply *reply) {
        const char *number = route_part(q, 1), *reason = route_text(q, "reason");
        char why[GANG_WHY_MAX] = "";
        int r;

        if (strlen(number) > 5 || number[strspn(number, "0123456789")]) {
                refuse_act(a, q, reply, -ENOENT, "a worker slot is a number");
                return;
        }
        if (!api_knows(a, KNOWN_SLICE, route_part(q, 0), reply)) {
                api_acted(a, q, reply, "refused: no such slice");
                return;
        }
        r = registry_release(a->registry, route_part(q, 0), (unsigned) strtoul(number, NULL, 10), why);
        if (r < 0)
                refuse_act(a, q, reply, r, why);
        else
                reply_done(a, q, reply, NULL, reason ? reason : "given up");
}

/* The stacks of a slice, or of all slices of the run that it is in. */
void api_capture(const struct api *a, const struct http_request *q, struct http_reply *reply) {
        char key[GANG_KEY_MAX], why[GANG_WHY_MAX] = "", by[BY_MAX];
        const char *run = route_text(q, "run"), *reason = route_text(q, "reason");
        json_t *v;
        int r;

        (void) snprintf(key, sizeof(key), "capture/%s", route_part(q, 0));
        v = json_pack("{s:i, s:s, s:s, s:s}", "v", 1, "run", run ? run : "", "by",
                      by_text(a, q, by), "why", reason ? reason : "");
        r = v ? registry_want(a->registry, key, v, why) : -EINVAL;
        json_decref(v);
        if (r == -ENOENT && !api_knows(a, KNOWN_SLICE, route_part(q, 0), reply)) {
                api_acted(a, q, reply, "refused: no such slice");
                return;
        }
        if (r < 0) {
                refuse_act(a, q, reply, r, why);
                return;
        }
        v = json_copy((json_t *) (uintptr_t) gang_record(registry_gang(a->registry), key));
        (void) snprintf(why, sizeof(why), "episode %s", json_string_value(json_object_get(v, "episode")));
        api_reply(reply, 202, v);
        api_acted(a, q, reply, why);
}

void api_pairs(const struct api *a, const struct http_request *q, struct http_reply *reply) {
        char key[GANG_KEY_MAX];
        const json_t *v;

        (void) snprintf(key, sizeof(key), "pairs/%s", route_part(q, 0));
        v = registry_record(a->registry, key);
        if (v)
                api_reply(reply, 200, json_copy((json_t *) (uintptr_t) v));
        else if (api_knows(a, KNOWN_SLICE, route_part(q, 0), reply))
                api_reply_error(reply, 404, "the pairs of this slice were not measured yet",
                                "tpuctl fleet pairs SLICE");
}

void api_post_pairs(const struct api *a, const struct http_request *q, struct http_reply *reply) {
        char key[GANG_KEY_MAX], why[GANG_WHY_MAX] = "", by[BY_MAX];
        const char *reason = route_text(q, "reason");
        json_auto_t *v = json_pack("{s:i, s:s}", "v", 1, "by", by_text(a, q, by));
        int r;

        (void) snprintf(key, sizeof(key), "pairs/%s", route_part(q, 0));
        r = v ? registry_want(a->registry, key, v, why) : -ENOMEM;
        if (r == -ENOENT && !api_knows(a, KNOWN_SLICE, route_part(q, 0), reply))
                api_acted(a, q, reply, "refused: no such slice");
        else if (r < 0)
                refuse_act(a, q, reply, r, why);
        else {
                api_reply(reply, 202,
                          json_copy((json_t *) (uintptr_t) gang_record(registry_gang(a->registry), key)));
                api_acted(a, q, reply, reason ? reason : "the bandwidth of its pairs is measured");
        }
}
