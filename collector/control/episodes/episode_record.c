/* SPDX-License-Identifier: Apache-2.0 */
#include "episode_record.h"

#include "json_text.h"
#include "log.h"

json_t *asked_hosts(const json_t *slices) {
        json_t *list = json_array(), *s, *h;
        size_t i, k;

        json_array_foreach (slices, i, s)
                json_array_foreach (json_object_get(s, "hosts"), k, h) {
                        const char *address =
                                json_string_value(json_array_get(json_object_get(h, "address"), 0));

                        list = json_list_add(list, json_pack("{s:s, s:O?, s:O?, s:s}", "slice",
                                                             json_text_of(s, "slice"), "worker",
                                                             json_object_get(h, "worker"), "host",
                                                             json_object_get(h, "host"), "address",
                                                             address ? address : ""));
                }
        return list;
}

json_t *asked_names(const json_t *expected) {
        json_t *names = expected ? json_object() : NULL, *v;
        size_t i;

        json_array_foreach (expected, i, v)
                if (*json_text_of(v, "host"))
                        (void) json_object_set_new(names, json_text_of(v, "host"), json_true());
        return names;
}

/* --- Made ------------------------------------------------------------------------------------------ */

/* Their names, once each. */
static json_t *slices_of(const json_t *expected) {
        json_auto_t *names = json_object();
        json_t *list = json_array(), *v;
        const char *name;
        size_t i;

        json_array_foreach (expected, i, v)
                (void) json_object_set_new(names, json_text_of(v, "slice"),
                                           json_true()); /* out of memory: one less */
        json_object_foreach (names, name, v)
                (void) json_array_append_new(list, json_string(name));
        return list;
}

static int on_episode(const struct store_episode *e, void *userdata) {
        json_auto_t *expected = e->expected ? json_loads(e->expected, 0, NULL) : NULL,
                    *report = e->report ? json_loads(e->report, 0, NULL) : NULL;
        json_t **ret = userdata;

        *ret = json_pack("{s:i, s:s, s:I, s:I, s:b, s:s, s:s, s:I, s:s, s:s, s:I, s:I, s:I}", "v", 1, "run",
                         e->run, "generation", (json_int_t) e->generation, "at", (json_int_t) e->at,
                         "suspected", e->suspected, "by", e->by, "why", e->why, "hosts",
                         (json_int_t) e->hosts, "outcome", e->outcome ? e->outcome : "", "summary",
                         e->summary ? e->summary : "", "diagnosed", (json_int_t) e->diagnosed, "confirmed",
                         (json_int_t) e->confirmed, "recovered", (json_int_t) e->recovered);
        if (*ret && expected) {
                (void) json_object_set_new(*ret, "slices", slices_of(expected));
                (void) json_object_set(*ret, "expected", expected);
        }
        if (*ret && report)
                (void) json_object_set(*ret, "report", report);
        return *ret ? 1 : -ENOMEM;
}

static bool is_small(const json_t *v) {
        return json_dumpb(v, NULL, 0, JSON_COMPACT) <= EPISODE_RECORD_MAX;
}

static int make_record(struct store *s, const char *id, json_t **ret) {
        const struct store_episode_filter f = { .episode = id, .limit = 1 };
        json_t *v = NULL;
        int r = store_list_episodes(s, &f, on_episode, &v);

        if (r <= 0)
                return r < 0 ? r : -ENOENT;
        if (!is_small(v))
                (void) json_object_del(json_object_get(v, "report"), "tree"); /* or there is none */
        if (!is_small(v))
                (void) json_object_del(v, "expected");
        if (!is_small(v))
                (void) json_object_del(v, "report");
        *ret = v;
        return 0;
}

/* --- Taken ----------------------------------------------------------------------------------------- */

struct known {
        bool there;
        usec_t diagnosed, recovered;
        int64_t generation;
};

static int on_known(const struct store_episode *e, void *userdata) {
        *(struct known *) userdata = (struct known){ true, e->diagnosed, e->recovered, e->generation };
        return 1;
}

static int begin_from_record(struct store *s, const char *id, const json_t *record, const json_t *slices) {
        json_auto_t *expected = json_incref(json_object_get(record, "expected"));
        json_t *names = json_object_get(record, "slices"), *v;
        const char *list[EPISODE_SLICES_MAX];
        _cleanup_free_ char *text = NULL;
        size_t i, n = 0;

        if (!expected && slices)
                expected = asked_hosts(slices);
        json_array_foreach (names, i, v)
                if (n < EPISODE_SLICES_MAX && json_is_string(v))
                        list[n++] = json_string_value(v);
        if (n == 0)
                list[n++] = json_text_of(record, "slice");
        text = json_is_array(expected) ? json_dumps(expected, JSON_COMPACT) : NULL;
        return store_begin_episode(
                s,
                &(struct store_episode){ .episode = id,
                                         .run = json_text_of(record, "run"),
                                         .generation =
                                                 json_integer_value(json_object_get(record, "generation")),
                                         .at = json_number_of(record, "at"),
                                         .suspected = json_is_true(json_object_get(record, "suspected")),
                                         .by = json_text_of(record, "by"),
                                         .why = json_text_of(record, "why"),
                                         .hosts = json_number_of(record, "hosts"),
                                         .expected = text },
                list, n);
}

static int set_verdict(struct store *s, const char *id, const json_t *record) {
        const json_t *report = json_object_get(record, "report");
        _cleanup_free_ char *text = json_is_object(report) ? json_dumps(report, JSON_COMPACT) : NULL;
        const struct store_episode e = { .episode = id,
                                         .outcome = json_text_of(record, "outcome"),
                                         .summary = json_text_of(record, "summary"),
                                         .report = text,
                                         .diagnosed = json_number_of(record, "diagnosed"),
                                         .confirmed = json_number_of(record, "confirmed") };

        return store_set_verdict(s, &e);
}

static int take_record(struct store *s, const char *id, const json_t *record, const json_t *slices) {
        const struct store_episode_filter f = { .episode = id, .limit = 1, .brief = true };
        struct known known = { .there = false };
        bool judged = *json_text_of(record, "outcome") && json_number_of(record, "diagnosed") > 0;
        bool news = false;
        int r = store_list_episodes(s, &f, on_known, &known);

        if (r >= 0 && !known.there) {
                news = true;
                r = begin_from_record(s, id, record, slices);
        }
        if (r >= 0 && judged && json_number_of(record, "diagnosed") > known.diagnosed) {
                news = true;
                r = set_verdict(s, id, record);
        }
        if (r >= 0 && json_number_of(record, "recovered") > 0 && known.recovered == 0) {
                news = true;
                r = store_set_recovered(s, id, json_number_of(record, "recovered"));
        }
        return r < 0 ? r : news;
}

bool episode_is_stored(struct store *s, const char *id, const char *slice, int64_t *ret_generation) {
        const struct store_episode_filter f = { .episode = id, .slice = slice, .limit = 1, .brief = true };
        struct known known = { .there = false };

        if (store_list_episodes(s, &f, on_known, &known) <= 0)
                return false;
        *ret_generation = known.generation;
        return true;
}

/* --- Those that are kept --------------------------------------------------------------------------- */

int episode_records_init(struct episode_records *k, const struct episodes_options *o) {
        *k = (struct episode_records){ .o = o, .kept = json_object() };
        return k->kept ? 0 : -ENOMEM;
}

void episode_records_clear(struct episode_records *k) {
        json_decref(TAKE_PTR(k->kept));
}

/* Those that hosts began do not take the places of what the registry asked for. */
static bool too_many_own(const struct episode_records *k) {
        const char *id;
        size_t n = 0;
        json_t *v;

        json_object_foreach (k->kept, id, v)
                n += episode_is_own(id);
        return n > EPISODES_KEPT_MAX / 2;
}

static void forget_oldest(struct episode_records *k) {
        bool own = too_many_own(k);
        json_int_t at = INT64_MAX;
        const char *id;
        char oldest[64] = "";
        json_t *v;

        json_object_foreach (k->kept, id, v)
                if ((!own || episode_is_own(id)) && json_integer_value(v) <= at) {
                        at = json_integer_value(v);
                        (void) snprintf(oldest, sizeof(oldest), "%s", id);
                }
        (void) json_object_del(k->kept, oldest); /* it is there */
        (void) k->o->keep(oldest, NULL,
                          k->o->userdata); /* else it is forgotten by the next life of this program */
}

void episode_records_keep(struct episode_records *k, const char *id, const char *slice) {
        json_auto_t *record = NULL;
        int r;

        if (!k->o->keep)
                return;
        r = make_record(k->o->store, id, &record);
        if (r >= 0 && !json_object_get(record, "slices"))
                r = json_object_set_new(record, "slice", json_string(slice)) < 0 ? -ENOMEM : 0;
        if (r >= 0)
                r = k->o->keep(id, record, k->o->userdata);
        if (r >= 0 && json_object_set(k->kept, id, json_object_get(record, "at")) < 0)
                r = -ENOMEM;
        if (r < 0)
                (void) log_warning_errno(
                        r, "episode %s: another collector would not know it as it is now: %m", id);
        while (json_object_size(k->kept) > EPISODES_KEPT_MAX)
                forget_oldest(k);
}

int episode_records_take(struct episode_records *k, const char *id, const json_t *record,
                         const json_t *slices) {
        if (!record) {
                (void) json_object_del(k->kept, id); /* or it was not there */
                return 0;
        }
        if (strlen(id) == 0 || strlen(id) > 63 || !json_is_integer(json_object_get(record, "at"))) {
                log_error("registry: a record is left out: episode/%.63s cannot be understood", id);
                return 0;
        }
        (void) json_object_set(k->kept, id,
                               json_object_get(record, "at")); /* out of memory: it is kept for longer */
        return take_record(k->o->store, id, record, slices);
}
