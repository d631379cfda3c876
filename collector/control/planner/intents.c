/* SPDX-License-Identifier: Apache-2.0 */
#include "state.h"

#define INTENT_ARGV_MAX   1024
#define INTENT_BYTES_MAX  (64 * 1024) /* of argv and env together: every host reads it */
#define INTENT_SLICES_MAX 256
#define INTENT_GRACE      (30 * USEC_PER_SEC)
#define INTENT_WAIT       (600 * USEC_PER_SEC)
#define INTENT_PORT       8476 /* JAX's coordinator (jax/_src/clusters/cloud_tpu_cluster.py) */
#define INTENT_SPAN_MAX   ((int64_t) 366 * 24 * 3600 * (int64_t) USEC_PER_SEC)

static int bad(char why[static GANG_WHY_MAX], const char *text) {
        why_set(why, "%s", text);
        return -EINVAL;
}

/* A list of texts; *bytes grows. */
static int check_texts(const json_t *list, const char *key, size_t max, size_t *bytes,
                       char why[static GANG_WHY_MAX]) {
        size_t i;
        json_t *v;

        if (list && (!json_is_array(list) || json_array_size(list) > max)) {
                why_set(why, "\"%s\" is no list of at most %zu texts", key, max);
                return -EINVAL;
        }
        json_array_foreach (list, i, v) {
                if (!json_is_string(v) || strlen(json_string_value(v)) != json_string_length(v)) {
                        why_set(why, "\"%s\" has an entry that is no text without NUL", key);
                        return -EINVAL;
                }
                *bytes += json_string_length(v) + 1;
        }
        return 0;
}

static int check_slices(const json_t *list, char why[static GANG_WHY_MAX]) {
        size_t bytes = 0, i, k;
        json_t *v, *w;
        int r = check_texts(list, "slices", INTENT_SLICES_MAX, &bytes, why);

        if (r < 0)
                return r;
        json_array_foreach (list, i, v) {
                if (!name_is_host(json_string_value(v))) {
                        why_set(why, "\"slices\": \"%.70s\" is no name of a slice", json_string_value(v));
                        return -EINVAL;
                }
                json_array_foreach (list, k, w)
                        if (k < i && json_equal(v, w)) {
                                why_set(why, "\"slices\" names \"%.70s\" twice", json_string_value(v));
                                return -EINVAL;
                        }
        }
        return 0;
}

static int check_what(const json_t *v, char why[static GANG_WHY_MAX]) {
        const char *user, *text;
        size_t bytes = 0;

        if (get_text(v, "user", 64, &user, why) < 0 || get_text(v, "framework", 32, &text, why) < 0 ||
            get_text(v, "directory", 4096, &text, why) < 0 || get_text(v, "malloc", 32, &text, why) < 0 ||
            get_text(v, "preempt", 4096, &text, why) < 0 || get_text(v, "by", TEXT_MAX, &text, why) < 0)
                return -EINVAL;
        if (!*user)
                return bad(why, "\"user\" is missing: a run is started as that user");
        if (streq(user, "root") || strspn(user, "0") == strlen(user))
                return bad(
                        why,
                        "\"user\" is root: a run that comes by the registry is never started as root; name another user");
        if (check_texts(json_object_get(v, "argv"), "argv", INTENT_ARGV_MAX, &bytes, why) < 0 ||
            check_texts(json_object_get(v, "env"), "env", INTENT_ARGV_MAX, &bytes, why) < 0)
                return -EINVAL;
        if (json_array_size(json_object_get(v, "argv")) == 0)
                return bad(why, "\"argv\" is empty: there is no command");
        if (bytes > INTENT_BYTES_MAX)
                return bad(
                        why,
                        "\"argv\" and \"env\" are more than 64 KiB: every host reads them; put it into a file");
        return check_slices(json_object_get(v, "slices"), why);
}

static int parse_numbers(const json_t *v, struct intent *i, char why[static GANG_WHY_MAX]) {
        size_t named = json_array_size(i->slices);
        int64_t min, max, restarts, port, grace, wait, at;

        if (get_number(v, "min", 1, INTENT_SLICES_MAX, 1, &min, why) < 0 ||
            get_number(v, "max", 1, INTENT_SLICES_MAX, named > 0 ? (int64_t) named : MAX(min, 1), &max,
                       why) < 0 ||
            get_number(v, "restarts", 0, 1000000, 0, &restarts, why) < 0 ||
            get_number(v, "port", 1, 65535, INTENT_PORT, &port, why) < 0 ||
            get_number(v, "grace", 0, INTENT_SPAN_MAX, INTENT_GRACE, &grace, why) < 0 ||
            get_number(v, "wait", 0, INTENT_SPAN_MAX, INTENT_WAIT, &wait, why) < 0 ||
            get_number(v, "at", 0, INT64_MAX, 0, &at, why) < 0)
                return -EINVAL;
        if (min > max)
                return bad(why, "\"min\" is above \"max\"");
        if (named > 0 && max > (int64_t) named)
                return bad(why, "\"max\" is above the number of slices in \"slices\"");
        i->min = (unsigned) min;
        i->max = (unsigned) max;
        i->restarts = (unsigned) restarts;
        i->port = (unsigned) port;
        i->grace = (usec_t) grace;
        i->wait = (usec_t) wait;
        i->at = (usec_t) at;
        return 0;
}

static int parse_span(const json_t *v, const char *key, usec_t *ret, char why[static GANG_WHY_MAX]) {
        int64_t span;

        if (get_number(v, key, 0, INTENT_SPAN_MAX, -1, &span, why) < 0)
                return -EINVAL;
        *ret = span < 0 ? USEC_INFINITY : (usec_t) span;
        return 0;
}

int intent_parse(const char *name, const json_t *v, struct intent *ret, char why[static GANG_WHY_MAX]) {
        struct intent i = { .slices = json_object_get(v, "slices"),
                            .stop = json_is_true(json_object_get(v, "stop")) };
        const char *serial, *late, *own;
        int r;

        if (check_version(v, "an intent", why) < 0 ||
            get_text(v, "serial", sizeof(i.serial), &serial, why) < 0 ||
            get_text(v, "late", 8, &late, why) < 0 || get_text(v, "name", NAME_MAX_RUN, &own, why) < 0)
                return -EBADMSG;
        if (!name_is_run(name) || (*own && !streq(own, name))) {
                why_set(why,
                        "\"%.60s\" is no name of a run (a-z, 0-9, \"-\", at most 41), or the key has another",
                        name);
                return -EINVAL;
        }
        if (!*serial)
                return bad(why, "\"serial\" is missing: 16 hex digits, another one for every run");
        if (*late && !streq(late, "fail") && !streq(late, "min"))
                return bad(why, "\"late\" is neither \"fail\" nor \"min\"");
        r = check_what(v, why);
        if (r >= 0)
                r = parse_numbers(v, &i, why);
        if (r >= 0)
                r = parse_span(v, "shrink_after", &i.shrink_after, why);
        if (r >= 0)
                r = parse_span(v, "grow_after", &i.grow_after, why);
        if (r >= 0)
                r = parse_span(v, "last_call", &i.last_call, why);
        if (r < 0)
                return r;
        i.late_min = streq(late, "min");
        (void) snprintf(i.name, sizeof(i.name), "%s", name);
        (void) snprintf(i.serial, sizeof(i.serial), "%s", serial);
        i.value = json_deep_copy(v);
        if (!i.value)
                return -ENOMEM;
        i.slices = json_object_get(i.value, "slices");
        *ret = i;
        return 0;
}

void intent_clear(struct intent *i) {
        json_decref(i->value);
        *i = (struct intent){ 0 };
}

static usec_t or_own(usec_t span, usec_t own) {
        return span == USEC_INFINITY ? own : span;
}

usec_t run_shrink_after(const struct gang *g, const struct run *r) {
        return or_own(r->intent.shrink_after, g->o.shrink_after);
}

usec_t run_grow_after(const struct gang *g, const struct run *r) {
        return or_own(r->intent.grow_after, g->o.grow_after);
}

usec_t run_last_call(const struct gang *g, const struct run *r) {
        return or_own(r->intent.last_call, g->o.last_call);
}

/* --- Wanted ---------------------------------------------------------------------------------------- */

struct run *run_find(const struct gang *g, const char *name) {
        for (size_t i = 0; i < g->n_runs; i++)
                if (streq(g->runs[i]->intent.name, name))
                        return g->runs[i];
        return NULL;
}

struct run *run_free(struct run *r) {
        if (!r)
                return NULL;
        intent_clear(&r->intent);
        json_decref(r->slices);
        json_decref(r->coordinator);
        json_decref(r->waits_for);
        json_decref(r->history);
        json_decref(r->over);
        free(r);
        return NULL;
}

static struct run *run_new(struct intent *i, uint64_t generation, usec_t now) {
        struct run *r = calloc(1, sizeof(*r));

        if (!r)
                return NULL;
        r->slices = json_array();
        r->waits_for = json_array();
        r->history = json_array();
        if (!r->slices || !r->waits_for || !r->history)
                return run_free(r);
        r->intent = *i;
        *i = (struct intent){ 0 };
        r->generation = generation;
        r->since = now;
        r->deadline = r->intent.wait > 0 ? now + r->intent.wait : 0;
        r->dirty = true;
        return r;
}

/* A new run; an ended one of the same name makes room, its generation goes on. */
static int add_run(struct gang *g, struct intent *i, usec_t now, struct run **ret,
                   char why[static GANG_WHY_MAX]) {
        struct run *old = run_find(g, i->name), *r, **more;
        size_t active = 0;

        for (size_t k = 0; k < g->n_runs; k++)
                active += g->runs[k]->state != RUN_ENDED;
        if (active >= GANG_RUNS_MAX) {
                why_set(why, "%d runs have not ended, which is the limit", GANG_RUNS_MAX);
                return -E2BIG;
        }
        more = reallocarray(g->runs, g->n_runs + 1, sizeof(g->runs[0]));
        r = more ? run_new(i, old ? old->generation : 0, now) : NULL;
        if (more)
                g->runs = more;
        if (!r)
                return -ENOMEM;
        if (old) {
                size_t at = 0;

                while (g->runs[at] != old)
                        at++;
                run_free(old);
                g->n_runs--;
                memmove(&g->runs[at], &g->runs[at + 1], (g->n_runs - at) * sizeof(g->runs[0]));
        }
        g->runs[g->n_runs++] = r;
        *ret = r;
        return 0;
}

static bool same_but_stop(json_t *a, json_t *b) {
        json_t *x = json_copy(a), *y = json_copy(b);
        bool same = false;

        if (x && y) {
                (void) json_object_del(x, "stop"); /* it need not be there */
                (void) json_object_del(y, "stop");
                same = json_equal(x, y);
        }
        json_decref(x);
        json_decref(y);
        return same;
}

/* Of a run that goes on, `stop` alone may be another one now. */
static int change(struct gang *g, struct run *r, struct intent *i, char why[static GANG_WHY_MAX]) {
        if (!same_but_stop(r->intent.value, i->value) || (r->intent.stop && !i->stop)) {
                why_set(why, "run %s goes on; of its intent only \"stop\" may be changed", i->name);
                return -EBUSY;
        }
        intent_clear(&r->intent);
        r->intent = *i;
        *i = (struct intent){ 0 };
        r->dirty = true;
        return record_putf(g, json_incref(r->intent.value), "intent/%s", r->intent.name);
}

static int take_back(struct gang *g, const char *name) {
        struct run *r = run_find(g, name);

        if (r) {
                r->taken_back = true;
                r->dirty = true;
        }
        return record_putf(g, NULL, "intent/%s", name);
}

static int want(struct gang *g, struct intent *i, usec_t now, char why[static GANG_WHY_MAX]) {
        struct run *r = run_find(g, i->name);
        int x;

        if (r && streq(r->intent.serial, i->serial))
                return r->state == RUN_ENDED ? 0 : change(g, r, i, why);
        if (r && r->state != RUN_ENDED) {
                why_set(why,
                        "a run of the name %s has not ended: stop it first (tpuctl stop %s), or take another name",
                        i->name, i->name);
                return -EBUSY;
        }
        x = add_run(g, i, now, &r, why);
        return x < 0 ? x : record_putf(g, json_incref(r->intent.value), "intent/%s", r->intent.name);
}

int intent_want(struct gang *g, const char *name, const json_t *v, usec_t now,
                char why[static GANG_WHY_MAX]) {
        struct intent i = { 0 };
        int r;

        if (!v)
                return take_back(g, name);
        r = intent_parse(name, v, &i, why);
        if (r >= 0)
                r = want(g, &i, now, why);
        intent_clear(&i);
        return r;
}

/* As kept: an intent without a run is one that nobody has decided about yet. */
int intent_restore(struct gang *g, const char *name, const json_t *v, char why[static GANG_WHY_MAX]) {
        struct run *r = run_find(g, name);
        struct intent i = { 0 };
        int x;

        x = intent_parse(name, v, &i, why);
        if (x >= 0 && r && streq(r->intent.serial, i.serial)) {
                intent_clear(&r->intent);
                r->intent = i;
                return 0;
        }
        if (x >= 0)
                x = add_run(g, &i, g->now, &r, why);
        intent_clear(&i);
        return x;
}
