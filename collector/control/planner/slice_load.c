/* SPDX-License-Identifier: Apache-2.0 */
/* Slices out of the records that an earlier planner gave out. */
#include "state.h"

/* A host in a record: who holds the id. */
struct holder {
        unsigned worker;
        const char *host, *id;
        json_t *address;
};

static int holder_parse(const json_t *v, bool needs_id, struct holder *ret, char why[static GANG_WHY_MAX]) {
        struct holder h = { .address = json_object_get(v, "address") };
        int64_t worker;

        if (get_number(v, "worker", 0, GANG_HOSTS_MAX - 1, -1, &worker, why) < 0 ||
            get_text(v, "host", NAME_MAX_HOST, &h.host, why) < 0 || get_text(v, "id", 128, &h.id, why) < 0)
                return -EBADMSG;
        if (worker < 0 || (needs_id && (!name_is_host(h.host) || !*h.id)) || !json_is_array(h.address) ||
            json_array_size(h.address) > MEMBER_ADDRESS_MAX)
                return why_fail(why, -EBADMSG, "a host in it has no worker, host, id or address");
        h.worker = (unsigned) worker;
        *ret = h;
        return 0;
}

static int hold_slot(struct gang *g, struct slice *s, const struct holder *h, struct slot **ret) {
        struct slot *slot;
        int r = slice_slot(s, h->worker, &slot);

        if (r < 0)
                return r;
        if (!slot->held) { /* since when it is missing may be known already */
                slot->host = json_string(h->host);
                slot->id = json_string(h->id);
                slot->address = json_deep_copy(h->address);
                if (!slot->host || !slot->id || !slot->address) {
                        slot_clear(g, slot);
                        return -ENOMEM;
                }
                slot->held = true;
                g->n_members++;
        }
        *ret = slot;
        return 0;
}

int slot_load(struct gang *g, const char *slice, unsigned worker, const json_t *v,
              char why[static GANG_WHY_MAX]) {
        struct holder h;
        struct slice *s;
        struct slot *slot;
        int r = holder_parse(v, true, &h, why);

        if (r >= 0 && h.worker != worker)
                return why_fail(why, -EBADMSG, "it says worker %u", h.worker);
        if (r >= 0)
                r = slice_make(g, slice, &s, why);
        if (r < 0)
                return r;
        if (worker < s->n_slots && slot_at(s, worker)->held &&
            !streq(json_string_value(slot_at(s, worker)->id),
                   h.id)) { /* the slice's record is older than the slot's */
                s->live -= slot_at(s, worker)->live;
                s->presumed -= slot_at(s, worker)->presumed;
                slot_clear(g, slot_at(s, worker));
                g->n_members--;
        }
        r = hold_slot(g, s, &h, &slot);
        if (r >= 0)
                slot->proved = json_is_true(json_object_get(v, "proved"));
        s->dirty = true;
        return r;
}

static int presume_live(struct gang *g, struct slice *s, const json_t *v, char why[static GANG_WHY_MAX]) {
        const char *incarnation;
        struct holder h;
        struct slot *slot;
        int r = holder_parse(v, true, &h, why);

        if (r >= 0)
                r = get_text(v, "incarnation", 40, &incarnation, why);
        if (r >= 0)
                r = hold_slot(g, s, &h, &slot);
        if (r < 0 || slot->live || !*incarnation || !streq(json_string_value(slot->id), h.id))
                return r;
        if (replace_value(&slot->incarnation, json_string(incarnation)) < 0)
                return -ENOMEM;
        slot->live = slot->presumed = true;
        slot_changed(slot);
        s->live++;
        s->presumed++;
        return 0;
}

static int load_missing(struct gang *g, struct slice *s, const json_t *v, char why[static GANG_WHY_MAX]) {
        const char *text;
        struct holder h;
        struct slot *slot;
        int64_t since;
        int r;

        if (holder_parse(v, false, &h, why) < 0 || get_text(v, "why", TEXT_MAX, &text, why) < 0 ||
            get_number(v, "since", 0, INT64_MAX, 0, &since, why) < 0)
                return -EBADMSG;
        r = slice_slot(s, h.worker, &slot);
        if (r < 0 || slot->live)
                return r;
        slot->since = MIN((usec_t) since, g->now); /* the leader before may have had a clock that is ahead */
        free(slot->why);
        slot->why = strdup(text);
        slot_changed(slot);
        return slot->why ? 0 : -ENOMEM;
}

static int load_dispute(struct gang *g, struct slice *s, const json_t *v, char why[static GANG_WHY_MAX]) {
        struct holder h;
        struct slot *slot;
        int64_t since;
        int r = holder_parse(v, true, &h, why);

        if (r >= 0)
                r = get_number(v, "since", 0, INT64_MAX, 0, &since, why);
        if (r >= 0)
                r = slice_slot(s, h.worker, &slot);
        if (r < 0 || slot->claim.host)
                return r;
        slot->claim = (struct claim){ .host = json_string(h.host),
                                      .id = json_string(h.id),
                                      .address = json_deep_copy(h.address),
                                      .since = (usec_t) since,
                                      .last = g->now };
        if (!slot->claim.host || !slot->claim.id || !slot->claim.address)
                return -ENOMEM;
        s->claimed = true;
        return 0;
}

static int load_list(struct gang *g, struct slice *s, const json_t *list,
                     int (*load)(struct gang *g, struct slice *s, const json_t *v,
                                 char why[static GANG_WHY_MAX]),
                     char why[static GANG_WHY_MAX]) {
        size_t i;
        json_t *v;
        int r = 0;

        if (json_array_size(list) > GANG_HOSTS_MAX)
                return -EBADMSG;
        json_array_foreach (list, i, v)
                r = r < 0 ? r : load(g, s, v, why);
        return r;
}

int slice_load(struct gang *g, const char *name, const json_t *v, char why[static GANG_WHY_MAX]) {
        int64_t generation, since, hosts;
        const json_t *unlike = json_object_get(v, "unlike");
        const char *state;
        struct slice *s;
        int r;

        if (get_number(v, "generation", 1, INT64_MAX, 1, &generation, why) < 0 ||
            get_number(v, "since", 0, INT64_MAX, 0, &since, why) < 0 ||
            get_number(v, "hosts", 0, GANG_HOSTS_MAX, 0, &hosts, why) < 0 ||
            get_text(v, "state", 16, &state, why) < 0)
                return -EBADMSG;
        r = slice_make(g, name, &s, why);
        if (r < 0)
                return r;
        s->generation = (uint64_t) generation;
        s->since = (usec_t) since;
        s->hosts = (unsigned) hosts;
        s->state = streq(state, "ready") ? SLICE_READY : SLICE_FORMING;
        s->dirty = true;
        r = load_list(g, s, json_object_get(v, "roster"), presume_live, why);
        if (r >= 0)
                r = load_list(g, s, json_object_get(v, "missing"), load_missing, why);
        if (r >= 0)
                r = load_list(g, s, json_object_get(v, "conflicts"), load_dispute, why);
        json_decref(s->unlike);
        s->unlike =
                json_array_size(unlike) <= LIST_MAX && json_is_array(unlike) ? json_deep_copy(unlike) : NULL;
        return r;
}
