/* SPDX-License-Identifier: Apache-2.0 */
#include "grow.h"
#include "state.h"

#define INTENT_PORT 8476 /* JAX's coordinator (jax/_src/clusters/cloud_tpu_cluster.py) */

/* What an intent says besides the keys of a run. */
static const char *const others[] = { "v", "serial", "by", "at", "stop", NULL };

/* By the table of keys: the same bounds and words as where a person wrote it. strict: what is not known is
 * refused. */
static int parse_spec(const char *name, const json_t *v, bool strict, struct gang_intent *i,
                      char why[static GANG_WHY_MAX]) {
        _cleanup_(run_spec_freep) Run__Spec *s = NULL;
        char reason[RUN_WHY_MAX];
        int r = run_spec_from_json(v, strict ? others : NULL, &s, reason);

        if (r == 0 && !s->name[0])
                r = run_key_set_text(run_key_find("name"), s, name);
        if (r == 0)
                r = run_spec_check(s, RUN_SLICES, reason);
        if (r == 0 && !streq(s->name, name)) {
                (void) snprintf(reason, sizeof(reason), "the key is of the run %.60s, name is %.60s", name,
                                s->name);
                r = -EINVAL;
        }
        if (r < 0 && r != -ENOMEM)
                why_set(why, "%s", reason);
        if (r < 0)
                return r == -ENOMEM ? r : -EINVAL;
        s->min = s->has_min ? s->min : 1;
        s->max = s->has_max ? s->max : s->n_slices > 0 ? (uint32_t) s->n_slices : s->min;
        s->port = s->has_port ? s->port : INTENT_PORT;
        i->spec = TAKE_PTR(s);
        return 0;
}

static int parse_intent(const char *name, const json_t *v, bool strict, struct gang_intent *ret,
                        char why[static GANG_WHY_MAX]) {
        struct gang_intent i = { .spec = NULL };
        const char *serial, *by;
        int64_t at;
        int r;

        if (check_version(v, "an intent", why) < 0 ||
            get_text(v, "serial", sizeof(i.serial), &serial, why) < 0 ||
            get_text(v, "by", TEXT_MAX, &by, why) < 0 || get_number(v, "at", 0, INT64_MAX, 0, &at, why) < 0)
                return -EBADMSG;
        if (!run_name_is_valid(name))
                return why_fail(why, -EINVAL, "\"%.60s\" is no name of a run (a-z, 0-9, \"-\", at most 41)",
                                name);
        if (!*serial)
                return why_fail(why, -EINVAL, "\"serial\" is missing: 16 hex digits, new for every run");
        r = parse_spec(name, v, strict, &i, why);
        if (r < 0)
                return r;
        i.stop = json_is_true(json_object_get(v, "stop"));
        (void) snprintf(i.serial, sizeof(i.serial), "%s", serial);
        i.value = json_deep_copy(v);
        if (!i.value) {
                intent_clear(&i);
                return -ENOMEM;
        }
        *ret = i;
        return 0;
}

void intent_clear(struct gang_intent *i) {
        json_decref(i->value);
        (void) run_spec_free(i->spec);
        *i = (struct gang_intent){ 0 };
}

usec_t run_shrink_after(const struct gang *g, const struct gang_run *r) {
        return r->intent.spec->has_shrink_after ? r->intent.spec->shrink_after : g->o.shrink_after;
}

usec_t run_grow_after(const struct gang *g, const struct gang_run *r) {
        return r->intent.spec->has_grow_after ? r->intent.spec->grow_after : g->o.grow_after;
}

usec_t run_last_call(const struct gang *g, const struct gang_run *r) {
        return r->intent.spec->has_last_call ? r->intent.spec->last_call : g->o.last_call;
}

/* --- Wanted ---------------------------------------------------------------------------------------- */

struct gang_run *gang_run_find(const struct gang *g, const char *name) {
        for (size_t i = 0; i < g->n_runs; i++)
                if (streq(g->runs[i]->intent.spec->name, name))
                        return g->runs[i];
        return NULL;
}

struct gang_run *gang_run_free(struct gang_run *r) {
        if (!r)
                return NULL;
        intent_clear(&r->intent);
        json_decref(r->slices);
        json_decref(r->coordinator);
        json_decref(r->waits_for);
        json_decref(r->notes);
        json_decref(r->history);
        json_decref(r->over);
        free(r);
        return NULL;
}

static struct gang_run *run_new(struct gang_intent *i, uint64_t generation, usec_t now) {
        struct gang_run *r = calloc(1, sizeof(*r));

        if (!r)
                return NULL;
        r->slices = json_array();
        r->waits_for = json_array();
        r->notes = json_array();
        r->history = json_array();
        if (!r->slices || !r->waits_for || !r->notes || !r->history)
                return gang_run_free(r);
        r->intent = *i;
        *i = (struct gang_intent){ 0 };
        r->generation = generation;
        r->since = now;
        r->deadline = r->intent.spec->wait > 0 ? now + r->intent.spec->wait : 0;
        r->dirty = true;
        return r;
}

/* A new run; an ended one of the same name makes room, its generation goes on. */
static int add_run(struct gang *g, struct gang_intent *i, usec_t now, struct gang_run **ret) {
        struct gang_run *old = gang_run_find(g, i->spec->name), *r = NULL;

        if (grow(&g->runs, &g->runs_size, g->n_runs + 1, sizeof(struct gang_run *)) >= 0)
                r = run_new(i, old ? old->generation : 0, now);
        if (!r)
                return -ENOMEM;
        if (old) {
                size_t at = 0;

                while (g->runs[at] != old)
                        at++;
                gang_run_free(old);
                g->n_runs--;
                memmove(&g->runs[at], &g->runs[at + 1], (g->n_runs - at) * sizeof(g->runs[0]));
        }
        g->runs[g->n_runs++] = r;
        *ret = r;
        return 0;
}

static bool same_but_stop(json_t *a, json_t *b) {
        json_auto_t *x = json_copy(a), *y = json_copy(b);

        (void) json_object_del(x, "stop"); /* it need not be there */
        (void) json_object_del(y, "stop");
        return json_equal(x, y);
}

/* Of a run that goes on, only `stop` may change. */
static int change_intent(struct gang *g, struct gang_run *r, struct gang_intent *i,
                         char why[static GANG_WHY_MAX]) {
        if (!same_but_stop(r->intent.value, i->value) || (r->intent.stop && !i->stop))
                return why_fail(why, -EBUSY, "run %s goes on; of its intent only \"stop\" may be changed",
                                i->spec->name);
        intent_clear(&r->intent);
        r->intent = *i;
        *i = (struct gang_intent){ 0 };
        r->dirty = true;
        return record_putf(g, json_incref(r->intent.value), "intent/%s", r->intent.spec->name);
}

static int take_back(struct gang *g, const char *name) {
        struct gang_run *r = gang_run_find(g, name);

        if (r) {
                r->taken_back = true;
                r->dirty = true;
        }
        return record_putf(g, NULL, "intent/%s", name);
}

static size_t active_runs(const struct gang *g) {
        size_t n = 0;

        for (size_t i = 0; i < g->n_runs; i++)
                n += g->runs[i]->state != RUN_ENDED;
        return n;
}

static int want_intent(struct gang *g, struct gang_intent *i, usec_t now, char why[static GANG_WHY_MAX]) {
        struct gang_run *r = gang_run_find(g, i->spec->name);
        int x;

        if (r && streq(r->intent.serial, i->serial))
                return r->state == RUN_ENDED ? 0 : change_intent(g, r, i, why);
        if (r && r->state != RUN_ENDED)
                return why_fail(why, -EBUSY,
                                "a run of the name %s has not ended: stop it first (tpuctl stop %s), or "
                                "take another name",
                                i->spec->name, i->spec->name);
        if (active_runs(g) >= GANG_RUNS_MAX)
                return why_fail(why, -E2BIG, "%d runs have not ended, which is the limit", GANG_RUNS_MAX);
        x = add_run(g, i, now, &r);
        return x < 0 ? x : record_putf(g, json_incref(r->intent.value), "intent/%s", r->intent.spec->name);
}

int intent_want(struct gang *g, const char *name, const json_t *v, usec_t now,
                char why[static GANG_WHY_MAX]) {
        const struct gang_run *known = gang_run_find(g, name);
        const char *serial = json_string_value(json_object_get(v, "serial"));
        struct gang_intent i = { 0 };
        int r;

        if (!v)
                return take_back(g, name);
        /* one that goes on may be of a later version of ours, and is to be stopped nevertheless */
        r = parse_intent(name, v, !(known && serial && streq(known->intent.serial, serial)), &i, why);
        if (r >= 0)
                r = want_intent(g, &i, now, why);
        intent_clear(&i);
        return r;
}

/* As kept: an intent without a run is one that nobody has decided about yet, or whose run is loaded later;
 * which have ended is not known before. */
int intent_restore(struct gang *g, const char *name, const json_t *v, char why[static GANG_WHY_MAX]) {
        struct gang_run *r = gang_run_find(g, name);
        struct gang_intent i = { 0 };
        int x = parse_intent(name, v, false, &i, why);

        if (x >= 0 && r && streq(r->intent.serial, i.serial)) {
                intent_clear(&r->intent);
                r->intent = i;
                return 0;
        }
        if (x >= 0)
                x = add_run(g, &i, g->now, &r);
        intent_clear(&i);
        return x;
}
