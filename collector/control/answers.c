/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>

#include "fnv.h"
#include "grow.h"
#include "inside.h"
#include "json_text.h"
#include "utf8.h"

#define VIEW_RECORDS 128 /* of one slice; bits of a mask */
#define VIEW_BODIES 4 /* answers that are kept for the hosts of a slice: most of them ask for the same */

struct kept {
        struct registry_body *body;
        uint64_t mask[VIEW_RECORDS / 64]; /* which records of the view; by place */
        bool whole;
};

struct view {
        struct view *next;
        char slice[64];
        uint64_t revision;       /* of the records, when this was made */
        struct record **records; /* oldest change first does not matter; by place */
        size_t n, size;
        uint64_t left_out; /* last change of what found no room: a host that does not know it is sent
                              everything */
        struct kept kept[VIEW_BODIES];
        unsigned turn;
};

struct registry_body *registry_body_unref(struct registry_body *b) {
        if (b && --b->users == 0)
                free(b);
        return NULL;
}

static struct registry_body *body_new(const char *text, size_t len) {
        struct registry_body *b = text ? malloc(sizeof(*b) + len + 1) : NULL;

        if (!b)
                return NULL;
        *b = (struct registry_body){ .users = 1, .len = len };
        memcpy(b->text, text, len);
        b->text[len] = '\0';
        return b;
}

static struct registry_body *body_json(json_t *v) {
        _cleanup_free_ char *text = v ? json_dumps(v, JSON_COMPACT) : NULL;

        json_decref(v);
        return body_new(text, text ? strlen(text) : 0);
}

struct registry_body *body_error(const char *error, const char *remedy) {
        char text[GANG_WHY_MAX];

        utf8_copy_line(text, sizeof(text), error); /* it may show what a host sent, cut inside a character */
        return body_json(json_pack("{s:s, s:s}", "error", text, "remedy", remedy));
}

struct registry_body *body_elsewhere(const char *leader) {
        return body_json(json_pack("{s:s, s:s}", "error", "this collector does not lead", "leader", leader));
}

struct registry_body *answers_without(const struct answers *a, bool tell, json_t *conflict) {
        return body_json(json_pack("{s:i, s:i, s:I, s:s, s:s, s:b, s:{}, s:b, s:o}", "v", 1, "lease",
                                   (int) a->lease, "term", (json_int_t) a->term, "store", a->store,
                                   "revision", "", "whole", 0, "records", "tell", tell, "conflict",
                                   conflict));
}

static void forget_bodies(struct view *v) {
        for (size_t i = 0; i < VIEW_BODIES; i++) {
                registry_body_unref(v->kept[i].body);
                v->kept[i] = (struct kept){ 0 };
        }
}

static struct view *view_free(struct view *v) {
        forget_bodies(v);
        free(v->records);
        free(v);
        return NULL;
}

void answers_clear(struct answers *a) {
        for (size_t i = 0; i < ELEMENTSOF(a->views); i++)
                while (a->views[i]) {
                        struct view *v = a->views[i];

                        a->views[i] = v->next;
                        view_free(v);
                }
}

static struct view **bucket_of_slice(struct answers *a, const char *slice) {
        return &a->views[fnv_text(FNV_BEGIN, slice) % ELEMENTSOF(a->views)];
}

void answers_forget(struct answers *a, const char *slice) {
        struct view **at = bucket_of_slice(a, slice), *v;

        while (*at && !streq((*at)->slice, slice))
                at = &(*at)->next;
        v = *at;
        if (!v)
                return;
        *at = v->next;
        view_free(v);
}

static int view_add(struct view *v, struct record *r) {
        if (!r)
                return 0;
        if (grow(&v->records, &v->size, v->n + 1, sizeof(struct record *)) < 0)
                return -ENOMEM;
        v->records[v->n++] = r;
        return 0;
}

/* Which find room first: a run that is left out of a whole answer is over for its hosts. */
enum run_place { RUN_HAS_HOSTS, RUN_WAITS_OR_ENDED, RUN_GONE, _RUN_PLACE_MAX };

static enum run_place place_of(const struct record *r) {
        const char *state = json_text_of(r->value, "state");

        if (!r->value)
                return RUN_GONE;
        return streq(state, "waiting") || streq(state, "ended") ? RUN_WAITS_OR_ENDED : RUN_HAS_HOSTS;
}

/* It is not known which hosts a forgotten run concerned: it is sent to all. */
static bool is_run_of(const struct gang *g, const struct record *r, const char *slice) {
        return startswith(r->key, "run/") &&
               (place_of(r) == RUN_GONE || gang_concerns(g, r->key, slice, ""));
}

/* One walk over all records, for there are as many views as slices. */
static int view_add_runs(struct view *v, const struct gang *g, const struct records *t) {
        struct record *runs[_RUN_PLACE_MAX][VIEW_RECORDS];
        size_t n[_RUN_PLACE_MAX] = { 0 };
        int r = 0;

        for (struct record *x = t->newest; x; x = x->older) {
                enum run_place p;

                if (!is_run_of(g, x, v->slice))
                        continue;
                p = place_of(x);
                if (n[p] < VIEW_RECORDS)
                        runs[p][n[p]++] = x;
                else
                        v->left_out = MAX(v->left_out, x->revision);
        }
        for (enum run_place p = 0; p < _RUN_PLACE_MAX; p++)
                for (size_t i = 0; i < n[p] && r >= 0; i++)
                        if (v->n < VIEW_RECORDS)
                                r = view_add(v, runs[p][i]);
                        else
                                v->left_out = MAX(v->left_out, runs[p][i]->revision);
        return r;
}

static int view_fill(struct view *v, const struct gang *g, const struct records *t) {
        char key[GANG_KEY_MAX];
        int r;

        forget_bodies(v);
        v->n = 0;
        v->left_out = 0;
        (void) snprintf(key, sizeof(key), "slice/%s", v->slice);
        r = view_add(v, records_find(t, key));
        (void) snprintf(key, sizeof(key), "capture/%s", v->slice);
        if (r >= 0)
                r = view_add(v, records_find(t, key));
        (void) snprintf(key, sizeof(key), "pairs/%s", v->slice);
        if (r >= 0)
                r = view_add(v, records_find(t, key));
        if (r >= 0)
                r = view_add(v, records_find(t, "site/mode"));
        if (r >= 0)
                r = view_add_runs(v, g, t);
        v->revision = r < 0 ? 0 : t->revision;
        return r;
}

static struct view *view_of(struct answers *a, const struct gang *g, const struct records *t,
                            const char *slice) {
        struct view **at = bucket_of_slice(a, slice), *v;

        for (v = *at; v && !streq(v->slice, slice);)
                v = v->next;
        if (!v) {
                v = calloc(1, sizeof(*v));
                if (!v)
                        return NULL;
                (void) snprintf(v->slice, sizeof(v->slice), "%s", slice);
                v->next = *at;
                *at = v;
        } else if (v->revision == t->revision)
                return v;
        return view_fill(v, g, t) < 0 ? NULL : v;
}

static struct record *order_of(const struct records *t, const struct reader *w) {
        char key[GANG_KEY_MAX];

        (void) snprintf(key, sizeof(key), "order/%s", w->host);
        return records_find(t, key);
}

/* The run's question is this host's to answer: for it alone it is urgent. */
static bool is_asked(const struct record *r, const struct reader *w) {
        const char *host = json_string_value(json_object_get(json_object_get(r->value, "ask"), "host"));

        return r->revision > w->since && host && streq(host, w->host);
}

bool answers_is_due(struct answers *a, const struct gang *g, const struct records *t,
                    const struct reader *w) {
        const struct record *order = order_of(t, w);
        const struct view *v;

        if (w->whole || w->since < t->floor || (order && order->urgent > w->since))
                return true;
        if (w->since >= t->revision)
                return false;
        v = view_of(a, g, t, w->slice);
        for (size_t i = 0; v && i < v->n; i++)
                if (v->records[i]->urgent > w->since || is_asked(v->records[i], w))
                        return true;
        return !v; /* out of memory: it asks again */
}

/* As many as there are; of the first `named` who they are. */
static json_t *list_in_short(const json_t *list, size_t named, json_t *nobody) {
        json_t *out = json_array();

        for (size_t i = 0; i < json_array_size(list); i++)
                out = json_list_add(out, json_incref(i < named ? json_array_get(list, i) : nobody));
        return out;
}

static json_t *slices_in_short(const json_t *run, const char *slice) {
        json_auto_t *nobody = json_object();
        json_t *list = json_array(), *s;
        size_t i;

        json_array_foreach (json_object_get(run, "slices"), i, s) {
                json_t *copy = json_copy(s);

                if (!streq(json_text_of(s, "slice"), slice))
                        copy = json_member_add(copy, "hosts",
                                               list_in_short(json_object_get(s, "hosts"), 1, nobody));
                list = json_list_add(list, copy);
        }
        return list;
}

/* A run over many hosts, as it is sent to the hosts of one slice: each byte goes to each of them. */
static char *run_in_short(const struct record *r, const char *slice) {
        json_auto_t *copy = json_member_add(json_copy(r->value), "slices", slices_in_short(r->value, slice));

        return copy ? json_dumps(copy, JSON_COMPACT) : NULL;
}

/* While a slice forms, each host that comes changes its record, and is sent to each of them: that grows with
 * their square. */
static bool is_long(const struct record *r) {
        return startswith(r->key, "slice/") && streq(json_text_of(r->value, "state"), "forming") &&
               json_array_size(json_object_get(r->value, "roster")) > REGISTRY_FORMING_NAMED;
}

static char *slice_in_short(const struct record *r) {
        const json_t *roster = json_object_get(r->value, "roster"),
                     *missing = json_object_get(r->value, "missing");
        json_auto_t *nobody = json_object(),
                    *copy = json_member_add(json_copy(r->value), "roster", list_in_short(roster, 0, nobody));

        copy = json_member_add(copy, "missing", list_in_short(missing, REGISTRY_FORMING_NAMED, nobody));
        return copy ? json_dumps(copy, JSON_COMPACT) : NULL;
}

/* -ENOMEM: nothing was printed. */
static int print_record(FILE *f, struct record *r, const char *slice, const char **between) {
        _cleanup_free_ char *own = NULL;
        const char *text;

        if (r->value && startswith(r->key, "run/") &&
            json_sizes_sum(json_object_get(r->value, "slices"), "hosts") > REGISTRY_RUN_WHOLE)
                text = own = run_in_short(r, slice);
        else if (is_long(r))
                text = own = slice_in_short(r);
        else
                text = record_text(r);
        if (!text)
                return -ENOMEM;
        fprintf(f, "%s\"%s\":%s", *between, r->key, text);
        *between = ",";
        return 0;
}

static struct registry_body *print_answer(const struct answers *a, const struct records *t,
                                          const struct view *v, const struct kept *k, struct record *order) {
        char *text = NULL;
        size_t size = 0;
        FILE *f = open_memstream(&text, &size);
        const char *between = "";
        struct registry_body *b = NULL;
        int r = 0;

        if (!f)
                return NULL;
        fprintf(f,
                "{\"v\":1,\"lease\":%u,\"term\":%" PRIu64 ",\"store\":\"%s\",\"revision\":\"%s.%" PRIu64
                "\",\"whole\":%s,\"records\":{",
                a->lease, a->term, a->store, a->epoch, t->revision, k->whole ? "true" : "false");
        for (size_t i = 0; i < v->n; i++)
                if (k->mask[i / 64] >> i % 64 & 1)
                        r = r < 0 ? r : print_record(f, v->records[i], v->slice, &between);
        if (order && r == 0)
                r = print_record(f, order, v->slice, &between);
        fputs("},\"tell\":false,\"conflict\":null}", f);
        if (memstream_close(f, &text) && r == 0)
                b = body_new(text, size);
        free(text);
        return b;
}

static struct kept wanted_of(const struct view *v, const struct records *t, const struct reader *w) {
        struct kept k = { .whole = w->whole || w->since < t->floor || w->since < v->left_out };

        assert(v->n <= VIEW_RECORDS); /* bits of the mask */
        for (size_t i = 0; i < v->n; i++) {
                bool wanted = k.whole ? v->records[i]->value != NULL : v->records[i]->revision > w->since;

                k.mask[i / 64] |= (uint64_t) wanted << i % 64;
        }
        return k;
}

struct registry_body *answers_make(struct answers *a, const struct gang *g, const struct records *t,
                                   const struct reader *w) {
        struct view *v = view_of(a, g, t, w->slice);
        struct record *order = order_of(t, w);
        struct kept k;

        if (!v)
                return NULL;
        k = wanted_of(v, t, w);
        if (order && (k.whole ? !order->value : order->revision <= w->since))
                order = NULL;
        if (order) /* this host's alone */
                return print_answer(a, t, v, &k, order);
        for (size_t i = 0; i < VIEW_BODIES; i++)
                if (v->kept[i].body && memcmp(v->kept[i].mask, k.mask, sizeof(k.mask)) == 0 &&
                    v->kept[i].whole == k.whole) {
                        v->kept[i].body->users++;
                        return v->kept[i].body;
                }
        k.body = print_answer(a, t, v, &k, NULL);
        if (!k.body)
                return NULL;
        registry_body_unref(v->kept[v->turn].body);
        v->kept[v->turn] = k;
        v->turn = (v->turn + 1) % VIEW_BODIES;
        k.body->users++;
        return k.body;
}
