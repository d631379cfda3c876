/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two machines with one machine id: one is a copy of the other's disk. Their worker slots and instance ids
 * differ; what they have in common identifies neither, and people are asked to end it.
 */
#include "json_text.h"
#include "state.h"

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

int slot_take_machine(struct gang *g, struct slot *s, const char *machine) {
        json_int_t n;
        int r;

        if (s->machine && streq(json_string_value(s->machine), machine))
                return 0;
        slot_drop_machine(g, s);
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

void slot_drop_machine(struct gang *g, struct slot *s) {
        json_int_t n;

        if (!s->machine)
                return;
        if (count_machine(g, s->machine, -1, &n) >= 0 && n > 0)
                dirty_machine(g, s->machine);
        json_decref(TAKE_PTR(s->machine));
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
