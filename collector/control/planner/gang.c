/* SPDX-License-Identifier: Apache-2.0 */
#include "captures.h"
#include "pairs.h"

#define HOUR  ((usec_t) 3600 * USEC_PER_SEC)
#define RETRY USEC_PER_SEC /* out of memory: decided again then */

int gang_new(const struct gang_options *o, struct gang **ret) {
        _cleanup_(gang_freep) struct gang *g = calloc(1, sizeof(*g));

        if (!g)
                return -ENOMEM;
        g->o = *o;
        g->machines = json_object();
        g->records = json_object();
        g->pending = json_object();
        if (!g->machines || !g->records || !g->pending)
                return -ENOMEM;
        *ret = TAKE_PTR(g);
        return 0;
}

struct gang *gang_free(struct gang *g) {
        if (!g)
                return NULL;
        for (; g->n_slices > 0; g->n_slices--)
                slice_free(g, g->slices[g->n_slices - 1]);
        for (size_t i = 0; i < g->n_runs; i++)
                gang_run_free(g->runs[i]);
        free(g->slices);
        free(g->runs);
        json_decref(g->machines);
        json_decref(g->suspects);
        json_decref(g->records);
        json_decref(g->pending);
        free(g);
        return NULL;
}

/* --- Keys ------------------------------------------------------------------------------------------ */

enum kind {
        KIND_SLOT,
        KIND_SLICE,
        KIND_INTENT,
        KIND_RUN,
        KIND_ORDER,
        KIND_SITE,
        KIND_CAPTURE,
        KIND_PAIRS,
        _KIND_MAX,
};

static const char *const prefixes[_KIND_MAX] = {
        [KIND_SLOT] = "slot/",   [KIND_SLICE] = "slice/", [KIND_INTENT] = "intent/",   [KIND_RUN] = "run/",
        [KIND_ORDER] = "order/", [KIND_SITE] = "site/",   [KIND_CAPTURE] = "capture/",
        [KIND_PAIRS] = "pairs/",
};

static int key_parse(const char *key, enum kind *ret, const char **ret_name) {
        for (int k = 0; k < _KIND_MAX; k++)
                if (startswith(key, prefixes[k])) {
                        *ret = (enum kind) k;
                        *ret_name = key + strlen(prefixes[k]);
                        return 0;
                }
        return -EBADMSG;
}

/* --- Loading --------------------------------------------------------------------------------------- */

static int load_record(struct gang *g, const char *key, const json_t *value, char why[static GANG_WHY_MAX]) {
        char slice[NAME_MAX_HOST];
        const char *name;
        unsigned worker;
        enum kind kind;

        why_set(why, "the key is none of the registry's");
        if (strlen(key) >= GANG_KEY_MAX || key_parse(key, &kind, &name) < 0 ||
            (kind == KIND_SLOT && gang_slot_parse(name, slice, &worker) < 0) ||
            (kind != KIND_SLOT && !name_is_host(name)))
                return -EBADMSG;
        if (check_version(value, "it", why) < 0)
                return -EBADMSG;
        switch (kind) {
        case KIND_SLOT:
                return slot_load(g, slice, worker, value, why);
        case KIND_SLICE:
                return slice_load(g, name, value, why);
        case KIND_INTENT:
                return intent_restore(g, name, value, why);
        case KIND_RUN:
                return run_load(g, name, value, why);
        case KIND_PAIRS:
                return pairs_load(g, name, value, why);
        case KIND_ORDER:
        case KIND_SITE:
        case KIND_CAPTURE:
        case _KIND_MAX:
                break;
        }
        return 0;
}

int gang_load(struct gang *g, const char *key, const json_t *value, usec_t now,
              char why[static GANG_WHY_MAX]) {
        char reason[GANG_WHY_MAX] = "";
        json_auto_t *copy = NULL;
        int r;

        why[0] = '\0';
        g->now = MAX(g->now, now);
        g->loaded = g->now;
        copy = json_deep_copy(value);
        if (!copy)
                return -ENOMEM;
        r = load_record(g, key, value, reason);
        if (r < 0)
                why_set(why, "%.160s: %.300s", key, r == -ENOMEM ? "out of memory" : reason);
        if (r >= 0 && json_object_set(g->records, key, copy) < 0)
                r = -ENOMEM;
        return r == -EINVAL || r == -E2BIG ? -EBADMSG : r;
}

/* --- What people want ---------------------------------------------------------------------------------- */

static int check_order(const json_t *v, char why[static GANG_WHY_MAX]) {
        static const char *const kinds[] = { "mode", "cordon", "drain" };

        for (size_t i = 0; i < ELEMENTSOF(kinds); i++) {
                const json_t *o = json_object_get(v, kinds[i]);
                const char *text;
                int64_t until;

                if (o && !json_is_object(o))
                        return why_fail(why, -EBADMSG, "\"%s\" is no object", kinds[i]);
                if (get_text(o, "reason", TEXT_MAX, &text, why) < 0 ||
                    get_text(o, "by", TEXT_MAX, &text, why) < 0 ||
                    get_number(o, "until", 0, INT64_MAX, 0, &until, why) < 0)
                        return -EBADMSG;
        }
        return 0;
}

static int check_site(const json_t *v, char why[static GANG_WHY_MAX]) {
        const char *mode, *text;
        int64_t until;

        if (get_text(v, "mode", 16, &mode, why) < 0 || get_text(v, "by", TEXT_MAX, &text, why) < 0 ||
            get_text(v, "reason", TEXT_MAX, &text, why) < 0 ||
            get_number(v, "until", 0, INT64_MAX, 0, &until, why) < 0)
                return -EBADMSG;
        if (streq(mode, "observe") || streq(mode, "repair"))
                return 0;
        return why_fail(why, -EINVAL, "\"mode\" is \"%s\": neither observe nor repair", mode);
}

static int want_record(struct gang *g, const char *key, const json_t *value) {
        json_t *copy = value ? json_deep_copy(value) : NULL;

        return value && !copy ? -ENOMEM : record_put(g, key, copy);
}

int gang_want(struct gang *g, const char *key, const json_t *value, usec_t now,
              char why[static GANG_WHY_MAX]) {
        const char *name = NULL;
        enum kind kind;
        int r = 0;

        why[0] = '\0';
        g->now = MAX(g->now, now);
        if (strlen(key) >= GANG_KEY_MAX || key_parse(key, &kind, &name) < 0 || !name_is_host(name) ||
            kind == KIND_SLOT || kind == KIND_SLICE || kind == KIND_RUN ||
            (kind == KIND_SITE && !streq(name, "mode")))
                return why_fail(why, -EBADMSG, "\"%.100s\" is no key that people write", key);
        if (kind == KIND_INTENT)
                return intent_want(g, name, value, g->now, why);
        if (value)
                r = check_version(value, key, why);
        if (r >= 0 && value && kind == KIND_ORDER)
                r = check_order(value, why);
        if (r >= 0 && value && kind == KIND_SITE)
                r = check_site(value, why);
        if (r < 0)
                return r;
        if (value && kind == KIND_CAPTURE)
                return captures_want(g, name, value, why);
        if (kind == KIND_PAIRS && !value)
                return why_fail(why, -EINVAL, "what was measured is not taken back");
        if (kind == KIND_PAIRS)
                return pairs_want(g, name, value, why);
        if (kind == KIND_ORDER)
                slices_of_host_dirty(g, name);
        return want_record(g, key, value);
}

/* --- Orders that end ----------------------------------------------------------------------------------- */

static bool is_over(const json_t *v, usec_t now, usec_t *next) {
        json_int_t until = json_integer_value(json_object_get(v, "until"));

        if (until <= 0)
                return false;
        if ((usec_t) until <= now)
                return true;
        *next = MIN(*next, (usec_t) until);
        return false;
}

/* The order without what is over; NULL when nothing is left. */
static json_t *order_left(json_t *v, usec_t now, usec_t *next) {
        static const char *const kinds[] = { "mode", "cordon", "drain" };
        json_auto_t *left = json_copy(v);
        bool any = false;

        for (size_t i = 0; left && i < ELEMENTSOF(kinds); i++) {
                if (is_over(json_object_get(left, kinds[i]), now, next))
                        (void) json_object_del(left, kinds[i]);
                any = any || json_object_get(left, kinds[i]);
        }
        return any ? TAKE_PTR(left) : NULL;
}

static int end_orders(struct gang *g, usec_t *next) {
        json_auto_t *over = json_object();
        json_t *v;
        const char *key;
        int r = over ? 0 : -ENOMEM;

        json_object_foreach (g->records, key, v)
                if (startswith(key, "order/")) {
                        json_auto_t *left = order_left(v, g->now, next);

                        if (!left || !json_equal(left, v))
                                r = worse(r, json_object_set(over, key, left ? left : json_null()));
                } else if (startswith(key, "site/") && is_over(v, g->now, next))
                        r = worse(r, json_object_set_new(over, key, json_null()));
        json_object_foreach (over, key, v) {
                if (startswith(key, "order/"))
                        slices_of_host_dirty(g, key + strlen("order/"));
                r = worse(r, record_put(g, key, json_is_null(v) ? NULL : json_incref(v)));
        }
        return r < 0 ? -ENOMEM : 0;
}

/* --- Deciding ------------------------------------------------------------------------------------------ */

void gang_suspect(struct gang *g, const json_t *value) {
        json_t *before = g->suspects;

        g->suspects = json_incref((json_t *) (uintptr_t) value);
        json_decref(before);
}

/* A run that is chosen next sees what has just been asked or judged. */
static int step_pairs(struct gang *g, usec_t *next) {
        int r = pairs_step(g, next);

        return r > 0 ? slices_step(g, next) : r;
}

usec_t gang_step(struct gang *g, usec_t now,
                 void (*changed)(const char *key, const json_t *value, void *userdata),
                 void *userdata) {
        usec_t next = USEC_INFINITY;
        json_t *pending, *fresh, *v;
        const char *key;

        g->now = MAX(g->now, now);
        if (end_orders(g, &next) < 0 || slices_step(g, &next) < 0 || step_pairs(g, &next) < 0 ||
            runs_step(g, &next) < 0 || captures_local(g, &next) < 0)
                next = g->now + RETRY;
        fresh = json_object();
        if (!fresh)
                return g->now + RETRY; /* what is pending stays so */
        pending = g->pending;
        g->pending = fresh;
        json_object_foreach (pending, key, v)
                changed(key, json_is_null(v) ? NULL : v, userdata);
        json_decref(pending);
        return next;
}

const json_t *gang_record(const struct gang *g, const char *key) {
        return g ? json_object_get(g->records, key) : NULL;
}

void gang_visit(const struct gang *g, void (*visit)(const char *key, const json_t *value, void *userdata),
                void *userdata) {
        const char *key;
        json_t *v;

        json_object_foreach (g ? g->records : NULL, key, v)
                visit(key, v, userdata);
}

bool gang_concerns(const struct gang *g, const char *key, const char *slice, const char *host) {
        const json_t *v = json_object_get(g->records, key);
        const char *name = NULL, *state;
        enum kind kind;

        if (key_parse(key, &kind, &name) < 0)
                return false;
        switch (kind) {
        case KIND_SLICE:
        case KIND_CAPTURE:
        case KIND_PAIRS:
                return streq(name, slice);
        case KIND_ORDER:
                return streq(name, host);
        case KIND_SITE:
                return true;
        case KIND_RUN:
                state = json_string_value(json_object_get(v, "state"));
                if (!state || (streq(state, "ended") &&
                               (usec_t) json_integer_value(json_object_get(v, "since")) + HOUR <= g->now))
                        return false;
                return run_knows_slice(v, slice);
        case KIND_SLOT:
        case KIND_INTENT:
        case _KIND_MAX:
                break;
        }
        return false;
}
