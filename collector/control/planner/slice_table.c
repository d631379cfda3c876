/* SPDX-License-Identifier: Apache-2.0 */
/* The slices and their worker slots: found, made, forgotten and named. What happens to them is in slots.c
 * and slices.c. */
#include "grow.h"
#include "json_text.h"
#include "state.h"

/* --- Twins ------------------------------------------------------------------------------------------ */

/*
 * Two machines with one machine id: one is a copy of the other's disk. Their worker slots and instance ids
 * differ; what they have in common identifies neither, and people are asked to end it.
 */

/* How many live slots have this machine id now. */
static int count_machine(struct gang *g, const json_t *machine, int by, json_int_t *ret) {
        const char *id = json_string_value(machine);
        json_int_t n = json_integer_value(json_object_get(g->machines, id)) + by;

        *ret = n;
        if (n > 0)
                return json_object_set_new(g->machines, id, json_integer(n)) < 0 ? -ENOMEM : 0;
        (void) json_object_del(g->machines, id); /* it is there */
        return 0;
}

/* All slices that this machine id is in are written again: twice in a fleet, and not often. */
static void dirty_machine(struct gang *g, const json_t *machine) {
        for (size_t i = 0; i < g->n_slices; i++)
                for (unsigned w = 0; w < g->slices[i]->n_slots; w++)
                        if (slot_at(g->slices[i], w)->machine &&
                            json_equal(slot_at(g->slices[i], w)->machine, machine))
                                g->slices[i]->dirty = true;
}

static void drop_machine(struct gang *g, struct slot *s) {
        json_int_t n;

        if (!s->machine)
                return;
        if (count_machine(g, s->machine, -1, &n) >= 0 && n > 0)
                dirty_machine(g, s->machine);
        json_decref(TAKE_PTR(s->machine));
}

int slot_take_machine(struct gang *g, struct slot *s, const char *machine) {
        json_int_t n;
        int r;

        if (s->machine && streq(json_string_value(s->machine), machine))
                return 0;
        drop_machine(g, s);
        if (!*machine)
                return 0;
        s->machine = json_string(machine);
        if (!s->machine)
                return -ENOMEM;
        r = count_machine(g, s->machine, 1, &n);
        if (r >= 0 && n > 1)
                dirty_machine(g, s->machine);
        return r;
}

static const struct slot *other_of(const struct gang *g, const struct slot *s,
                                   bool (*alike)(const struct slot *a, const struct slot *b)) {
        for (size_t i = 0; i < g->n_slices; i++)
                for (unsigned w = 0; w < g->slices[i]->n_slots; w++)
                        if (slot_at(g->slices[i], w) != s && alike(slot_at(g->slices[i], w), s))
                                return slot_at(g->slices[i], w);
        return NULL;
}

static bool has_same_machine(const struct slot *a, const struct slot *b) {
        return a->machine && b->machine && json_equal(a->machine, b->machine);
}

static bool has_same_id(const struct slot *a, const struct slot *b) {
        return a->held && b->held && json_equal(a->id, b->id);
}

bool slot_shares_id(const struct gang *g, const struct slot *s) {
        return other_of(g, s, has_same_id) != NULL;
}

json_t *slice_twins(const struct gang *g, const struct slice *s) {
        json_t *list = json_array();

        for (unsigned i = 0; list && i < s->n_slots && json_array_size(list) < LIST_MAX; i++) {
                const struct slot *slot = slot_at(s, i), *other;
                const char *address;

                if (!slot->machine ||
                    json_integer_value(json_object_get(g->machines, json_string_value(slot->machine))) < 2)
                        continue;
                other = other_of(g, slot, has_same_machine);
                if (!other)
                        continue;
                address = json_string_value(json_array_get(other->address, 0));
                list = json_list_add(list, json_pack("{s:I, s:O, s:O, s:O, s:s}", "worker",
                                                     (json_int_t) slot->worker, "host", slot->host,
                                                     "machine", slot->machine, "other", other->host,
                                                     "address", address ? address : ""));
        }
        return list;
}

/* --- Slots ----------------------------------------------------------------------------------------- */

void slot_changed(struct slot *s) {
        json_decref(s->entry);
        json_decref(s->place);
        s->entry = s->place = NULL;
}

void slot_clear_claim(struct claim *c) {
        json_decref(c->host);
        json_decref(c->id);
        json_decref(c->address);
        *c = (struct claim){ 0 };
}

void slot_forget_words(struct gang *g, struct slot *s) {
        s->fingerprint = gang_fingerprint_drop(g, s->fingerprint);
        free(s->reasons);
        free(s->orders);
        json_decref(s->pairs);
        s->reasons = s->orders = NULL;
        s->pairs = NULL;
        s->unfit = s->observe = false;
        drop_machine(g, s);
}

void slot_clear(struct gang *g, struct slot *s) {
        unsigned worker = s->worker;

        slot_forget_words(g, s);
        host_runs_free(s->runs, s->n_runs);
        host_runs_free(s->local, s->n_local);
        slot_changed(s);
        slot_clear_claim(&s->claim);
        json_decref(s->host);
        json_decref(s->id);
        json_decref(s->address);
        json_decref(s->incarnation);
        json_decref(s->before);
        free(s->why);
        free(s->hint);
        *s = (struct slot){ .worker = worker };
}

const char *slot_text(const struct slot *s, char buf[static 160]) {
        const char *host = json_string_value(s->host),
                   *address = json_string_value(json_array_get(s->address, 0));

        if ((!host || !*host) && s->hint)
                (void) snprintf(buf, 160, "worker %u (%s)", s->worker, s->hint);
        else if (!host || !*host)
                (void) snprintf(buf, 160, "worker %u", s->worker);
        else if (address)
                (void) snprintf(buf, 160, "%s (%s)", host, address);
        else
                (void) snprintf(buf, 160, "%s", host);
        return buf;
}

struct gang_host_run *slot_run(const struct slot *s, const char *name) {
        for (size_t i = 0; i < s->n_runs; i++)
                if (streq(s->runs[i].name, name))
                        return &s->runs[i];
        return NULL;
}

json_t *slot_place(struct slot *s) {
        if (!s->place)
                s->place = json_pack("{s:I, s:O, s:O}", "worker", (json_int_t) s->worker, "host", s->host,
                                     "address", s->address);
        return s->place;
}

/* --- Slices ---------------------------------------------------------------------------------------- */

static size_t slice_place(const struct gang *g, const char *name) {
        return SORTED_PLACE(g->n_slices, i, strcmp(g->slices[i]->name, name) < 0);
}

struct slice *slice_find(const struct gang *g, const char *name) {
        size_t i = slice_place(g, name);

        return i < g->n_slices && streq(g->slices[i]->name, name) ? g->slices[i] : NULL;
}

int slice_make(struct gang *g, const char *name, struct slice **ret, char why[static GANG_WHY_MAX]) {
        size_t i = slice_place(g, name);
        _cleanup_free_ struct slice *s = NULL;

        if (i < g->n_slices && streq(g->slices[i]->name, name)) {
                *ret = g->slices[i];
                return 0;
        }
        if (g->n_slices >= GANG_SLICES_MAX)
                return why_fail(why, -E2BIG, "%d slices are known, which is the limit", GANG_SLICES_MAX);
        s = calloc(1, sizeof(*s));
        if (!s || grow_at(&g->slices, &g->slices_size, &g->n_slices, i, sizeof(struct slice *)) < 0)
                return -ENOMEM;
        (void) snprintf(s->name, sizeof(s->name), "%s", name);
        s->dirty = true;
        *ret = g->slices[i] = TAKE_PTR(s);
        return 0;
}

int slice_slot(struct slice *s, unsigned worker, struct slot **ret) {
        struct slot **more, *slot;

        if (worker >= s->n_slots) {
                more = reallocarray(s->slots, worker + 1, sizeof(s->slots[0]));
                if (!more)
                        return -ENOMEM;
                s->slots = more;
                while (s->n_slots <= worker)
                        s->slots[s->n_slots++] = NULL;
        }
        if (!s->slots[worker]) {
                slot = calloc(1, sizeof(*slot));
                if (!slot)
                        return -ENOMEM;
                slot->worker = worker;
                s->slots[worker] = slot;
        }
        *ret = s->slots[worker];
        return 0;
}

unsigned slots_of_host(const struct gang *g, const char *host, struct slice **ret_slice,
                       unsigned *ret_worker) {
        unsigned n = 0;

        for (size_t i = 0; i < g->n_slices; i++)
                for (unsigned w = 0; w < g->slices[i]->n_slots; w++) {
                        const struct slot *slot = g->slices[i]->slots[w];

                        if (!slot || !slot->held || !streq(json_string_value(slot->host), host))
                                continue;
                        *ret_slice = g->slices[i];
                        *ret_worker = w;
                        n++;
                }
        return n;
}

struct slice *slice_free(struct gang *g, struct slice *s) {
        if (!s)
                return NULL;
        for (unsigned i = 0; i < s->n_slots; i++)
                if (s->slots[i]) {
                        slot_clear(g, s->slots[i]);
                        free(s->slots[i]);
                }
        free(s->slots);
        json_decref(s->unlike);
        free(s->obstacle);
        free(s);
        return NULL;
}

void slices_of_host_dirty(struct gang *g, const char *host) {
        for (size_t i = 0; i < g->n_slices; i++)
                for (unsigned w = 0; w < g->slices[i]->n_slots; w++) {
                        const char *name = json_string_value(slot_at(g->slices[i], w)->host);

                        if (name && streq(name, host))
                                g->slices[i]->dirty = true;
                }
}

int slot_put(struct gang *g, const struct slice *s, const struct slot *slot) {
        json_t *v = json_pack("{s:i, s:s, s:I, s:O, s:O, s:O, s:b}", "v", 1, "slice", s->name, "worker",
                              (json_int_t) slot->worker, "host", slot->host, "id", slot->id, "address",
                              slot->address, "proved", (int) slot->proved);

        return v ? record_putf(g, v, "slot/%s/%u", s->name, slot->worker) : -ENOMEM;
}
