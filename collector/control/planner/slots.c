/* SPDX-License-Identifier: Apache-2.0 */
#include "state.h"

#define NEXT_MAX 4
#define HINT_MAX 128 /* a name of the network, or an address */

/* --- Whose is it ----------------------------------------------------------------------------------- */

/* 1: it has changed. */
static int set_text(json_t **at, const char *text) {
        if (*at && streq(json_string_value(*at), text))
                return 0;
        return replace_value(at, json_string(text)) < 0 ? -ENOMEM : 1;
}

static int set_address(json_t **at, const json_t *address) {
        if (*at && json_equal(*at, address))
                return 0;
        return replace_value(at, json_deep_copy(address)) < 0 ? -ENOMEM : 1;
}

/* The site gives the slot to another host than the one that held it, which is away. */
static bool is_given_another(const struct slot *s, const struct said *w) {
        return w->given && w->proved && !s->live && !streq(json_string_value(s->host), w->host);
}

/* Two lives of one boot, as tpu-hostd names them ("BOOT.START", docs/registry.md): which began first. */
static bool is_older_life(const char *life, const char *known) {
        const char *start = strrchr(life, '.');
        size_t boot = start ? (size_t) (start - life) : 0;

        return boot > 0 && strlen(life) == strlen(known) && strncmp(life, known, boot + 1) == 0 &&
               strcmp(start, known + boot) < 0;
}

/*
 * Whether it is the machine that holds the id: by the instance id, else by the machine id, which also is
 * that of one whose instance id was not known before. A copy of a machine has its id as well: it is known by
 * another name while the other lives, or by a life that was replaced and speaks again. An id that another
 * slot has, too, identifies neither: there name and address do, so that a copy can get an id of its own.
 */
static bool is_holder(const struct gang *g, const struct slot *s, const struct said *w,
                      const char **ret_how) {
        *ret_how = "";
        if (!s->held || is_given_another(s, w))
                return true;
        *ret_how = "a certificate of another host";
        if (s->proved && !streq(json_string_value(s->host), w->host))
                return false;
        *ret_how = "another machine";
        if (!streq(json_string_value(s->id), w->id) && !streq(json_string_value(s->id), w->machine))
                return !s->live && streq(json_string_value(s->host), w->host) &&
                       json_equal(s->address, w->address) && slot_shares_id(g, s);
        if (!s->live)
                return true;
        *ret_how = "a later life of this machine";
        if (is_older_life(w->incarnation, json_string_value(s->incarnation)))
                return false;
        *ret_how = "a machine with the same id";
        return streq(json_string_value(s->host), w->host) &&
               (!s->before || !streq(json_string_value(s->before), w->incarnation));
}

static unsigned claims_of_host(const struct gang *g, const char *host) {
        unsigned n = 0;

        for (size_t i = 0; i < g->n_slices; i++)
                for (unsigned k = 0; g->slices[i]->claimed && k < g->slices[i]->n_slots; k++) {
                        const struct claim *c = &slot_at(g->slices[i], k)->claim;

                        n += c->host && streq(json_string_value(c->host), host);
                }
        return n;
}

static int note_claim(const struct gang *g, struct slice *s, struct slot *slot, const struct said *w,
                      usec_t now) {
        struct claim *c = &slot->claim;

        if (c->host &&
            (!streq(json_string_value(c->id), w->id) || !streq(json_string_value(c->host), w->host)))
                return 0; /* the first that came is shown */
        if (!c->host && claims_of_host(g, w->host) >= (w->proved ? 1u : SLOTS_OF_HOST))
                return 0; /* it is no more workers than it may be */
        if (!c->host) {
                *c = (struct claim){ .since = now };
                s->dirty = true;
        }
        c->last = now;
        s->claimed = true;
        if (set_text(&c->host, w->host) < 0 || set_text(&c->id, w->id) < 0 ||
            set_address(&c->address, w->address) < 0) {
                slot_clear_claim(c);
                return -ENOMEM;
        }
        return 0;
}

/* --- What it says ---------------------------------------------------------------------------------- */

static int replace_text(char **at, const char *text) {
        char *copy = NULL;

        if (*text && *at && streq(*at, text))
                return 0;
        if (!*text && !*at)
                return 0;
        if (*text) {
                copy = strdup(text);
                if (!copy)
                        return -ENOMEM;
        }
        free(*at);
        *at = copy;
        return 1;
}

static enum notice notice_of(const char *text) {
        if (streq(text, "preemption"))
                return NOTICE_PREEMPTION;
        return streq(text, "maintenance") ? NOTICE_MAINTENANCE : NOTICE_NONE;
}

static void take_runs(struct slot *s, struct said *w) {
        host_runs_free(s->runs, s->n_runs);
        host_runs_free(s->local, s->n_local);
        s->runs = TAKE_PTR(w->runs);
        s->local = TAKE_PTR(w->local);
        s->n_runs = w->n_runs;
        s->n_local = w->n_local;
        w->n_runs = w->n_local = 0;
}

/* 1: something that the slice's record, or whether a run may begin, depends on. */
static int take_words(struct slot *s, struct said *w, struct gang_fingerprint *fingerprint) {
        bool unfit = streq(w->state, "unfit"), changed;
        int reasons = replace_text(&s->reasons, w->reasons), orders = replace_text(&s->orders, w->orders);

        if (reasons < 0 || orders < 0)
                return -ENOMEM;
        changed = s->fingerprint != fingerprint || s->unfit != unfit || (unfit && reasons > 0) ||
                  orders > 0 || s->observe != w->observe || s->hosts != w->hosts ||
                  s->notice != notice_of(w->notice);
        s->unfit = unfit;
        s->observe = w->observe;
        s->hosts = w->hosts;
        s->notice = notice_of(w->notice);
        changed = changed || s->runs_unknown != w->runs_unknown;
        s->runs_unknown = w->runs_unknown;
        json_decref(s->pairs);
        s->pairs = json_incref((json_t *) (uintptr_t) w->pairs);
        if (!w->runs_unknown) /* else what it said last stays believed */
                take_runs(s, w);
        return changed;
}

/* Who it is: 1 when the slot changed. */
static int take_identity(struct slice *s, struct slot *slot, const struct said *w) {
        int id = set_text(&slot->id, w->id), host = set_text(&slot->host, w->host),
            address = set_address(&slot->address, w->address);
        bool changed = id > 0 || host > 0 || address > 0;

        if (id < 0 || host < 0 || address < 0)
                return -ENOMEM;
        if (changed)
                slot_changed(slot);
        s->dirty = s->dirty || changed;
        changed = changed || slot->proved != w->proved;
        slot->proved = w->proved;
        return changed || !slot->held;
}

static int take_life(struct slice *s, struct slot *slot, const struct said *w) {
        bool same = slot->incarnation && streq(json_string_value(slot->incarnation), w->incarnation);

        if (slot->live && same)
                return 0;
        if (slot->live)
                s->bump = true; /* a life ended unseen */
        if (!same) {
                json_decref(slot->before);
                slot->before = slot->live ? TAKE_PTR(slot->incarnation) : NULL;
                if (set_text(&slot->incarnation, w->incarnation) < 0)
                        return -ENOMEM;
        }
        slot_changed(slot);
        s->dirty = true;
        return 0;
}

static void slot_joined(struct slice *s, struct slot *slot) {
        if (!slot->live)
                s->live++;
        if (slot->presumed)
                s->presumed--;
        s->dirty = s->dirty || !slot->live || slot->presumed;
        slot->live = true;
        slot->presumed = slot->shut_down = false;
        slot->since = 0;
        free(slot->why);
        slot->why = NULL;
}

/* Who comes after it, as its identity has them; of those alone who were never heard. */
static int take_hints(struct slice *s, const struct said *w) {
        size_t n = MIN(json_array_size(w->next), (size_t) NEXT_MAX);

        for (size_t i = 0; i < n && w->hosts > 0; i++) {
                const char *text = json_string_value(json_array_get(w->next, i));
                struct slot *slot;
                int r;

                if (!text || !*text || strlen(text) >= HINT_MAX)
                        continue;
                r = slice_slot(s, (unsigned) ((w->worker + 1 + i) % w->hosts), &slot);
                if (r < 0)
                        return r;
                r = slot->held ? 0 : replace_text(&slot->hint, text);
                if (r < 0)
                        return r;
                if (r > 0) {
                        slot_changed(slot);
                        s->dirty = true;
                }
        }
        return 0;
}

static int take_said(struct gang *g, struct slice *s, struct slot *slot, struct said *w,
                     struct gang_fingerprint *fingerprint) {
        int r, changed;

        r = take_life(s, slot, w);
        changed = r < 0 ? r : take_identity(s, slot, w);
        if (changed < 0) {
                gang_fingerprint_drop(g, fingerprint);
                return changed;
        }
        if (!slot->held)
                g->n_members++;
        slot->held = true;
        r = take_words(slot, w, fingerprint);
        gang_fingerprint_drop(g, slot->fingerprint);
        slot->fingerprint = fingerprint;
        s->dirty = s->dirty || r > 0;
        s->local_said = s->local_said || slot->n_local > 0 || s->local_stalled > 0;
        slot_joined(s, slot);
        r = worse(r, slot_take_machine(g, slot, w->machine));
        return r < 0 || changed == 0 ? worse(r, 0) : slot_put(g, s, slot);
}

/* Nobody lives there: its next holder is who claims it. */
static int give_up_slot(struct gang *g, struct slice *s, struct slot *slot, const char *why) {
        usec_t since = slot->since;

        slot_clear(g, slot);
        slot->since = since;
        if (replace_text(&slot->why, why) < 0)
                return -ENOMEM;
        g->n_members--;
        s->dirty = true;
        return record_putf(g, NULL, "slot/%s/%u", s->name, slot->worker);
}

/* A proved host is one machine, and so one worker: what it held before is free, and it is in no two. */
static int leave_others(struct gang *g, const struct said *w, char why[static GANG_WHY_MAX]) {
        struct slice *s;
        unsigned worker;
        int r = 0;

        while (r >= 0 && slots_of_host(g, w->host, &s, &worker) > 0) {
                if (slot_at(s, worker)->live)
                        return why_fail(why, -EBUSY,
                                        "host %s is there as worker %u of slice %s, and one host is one "
                                        "worker. If it moved, it is taken in once that worker's lease has "
                                        "ended. If this is a copy of its machine, give the copy a name and "
                                        "a certificate of its own",
                                        w->host, worker, s->name);
                s->left = true;
                r = give_up_slot(g, s, slot_at(s, worker), "its host is another worker now");
        }
        return r;
}

static bool is_earlier_life(const struct slot *s, const struct said *w) {
        return s->live && s->machine && streq(json_string_value(s->machine), w->machine) &&
               streq(json_string_value(s->host), w->host) && (w->proved || !s->proved) &&
               is_older_life(json_string_value(s->incarnation), w->incarnation);
}

/* It is the one that has this slot, as at each of its words but the first. */
static bool is_slot_of(const struct gang *g, const struct said *w) {
        const struct slice *s = slice_find(g, w->slice);
        const struct slot *slot = s && w->worker < s->n_slots ? slot_at(s, w->worker) : NULL;

        return slot && slot->live && slot->machine && streq(json_string_value(slot->machine), w->machine);
}

/* A machine that speaks as another worker, in a later life of the same boot, has moved: what it was is over,
 * and it is no copy of itself. */
static int end_earlier_lives(struct gang *g, const struct said *w, usec_t now) {
        static const char why[] = "its host is another worker now";
        json_int_t others = json_integer_value(json_object_get(g->machines, w->machine));
        int r = 0;

        if (others == 0 || (others == 1 && is_slot_of(g, w)))
                return 0;
        for (size_t i = 0; i < g->n_slices; i++)
                for (unsigned k = 0; r >= 0 && k < g->slices[i]->n_slots; k++) {
                        struct slice *s = g->slices[i];
                        struct slot *slot = slot_at(s, k);

                        if (!is_earlier_life(slot, w) || (k == w->worker && streq(s->name, w->slice)))
                                continue;
                        r = gang_gone(g, s->name, k, json_string_value(slot->incarnation), false, why, now);
                        s->left = true;
                        r = r < 0 ? r : give_up_slot(g, s, slot, why);
                }
        return r;
}

/* Before anything is kept of who is new in a worker id. */
static int may_join(struct gang *g, const struct said *w, char why[static GANG_WHY_MAX]) {
        const struct slice *s = slice_find(g, w->slice);
        const struct slot *held =
                s && w->worker < s->n_slots && slot_at(s, w->worker)->held ? slot_at(s, w->worker) : NULL;
        struct slice *other;
        unsigned worker;

        if (held && (streq(json_string_value(held->host), w->host) || !is_given_another(held, w)))
                return 0;
        if (s && s->state == SLICE_READY && s->since > 0 && w->worker >= s->hosts)
                return why_fail(why, -E2BIG,
                                "slice %s is whole with %u host%s, and worker %u is none of them: its hosts "
                                "say when it is larger",
                                w->slice, s->hosts, s->hosts == 1 ? "" : "s", w->worker);
        if (w->proved)
                return leave_others(g, w, why);
        if (slots_of_host(g, w->host, &other, &worker) < SLOTS_OF_HOST)
                return 0;
        return why_fail(why, -E2BIG,
                        "host %s holds %d worker ids, which is the limit: give some up: "
                        "tpuctl fleet release",
                        w->host, SLOTS_OF_HOST);
}

/* fingerprint: used up. */
static int take_member(struct gang *g, struct gang_fingerprint *fingerprint, struct said *w, usec_t now,
                       char why[static GANG_WHY_MAX]) {
        struct slice *s;
        struct slot *slot;
        const char *how;
        char text[160];
        int r = end_earlier_lives(g, w, now);

        if (r >= 0)
                r = may_join(g, w, why);
        if (r >= 0)
                r = slice_make(g, w->slice, &s, why);
        if (r >= 0)
                r = slice_slot(s, w->worker, &slot);
        if (r >= 0 && !is_holder(g, slot, w, &how)) {
                why_set(why,
                        "worker %u of slice %s is held by %s since before: %s. If that machine is gone for "
                        "good, give "
                        "its id up: tpuctl fleet release %s %u 'it is gone'",
                        w->worker, w->slice, how, slot_text(slot, text), w->slice, w->worker);
                r = note_claim(g, s, slot, w, now);
                r = r < 0 ? r : -EEXIST;
        }
        if (r >= 0 && !slot->held && g->n_members >= GANG_MEMBERS_MAX) {
                why_set(why, "%d worker ids are known, which is the limit", GANG_MEMBERS_MAX);
                r = -E2BIG;
        }
        if (r >= 0)
                r = take_said(g, s, slot, w, fingerprint);
        else
                gang_fingerprint_drop(g, fingerprint);
        return r < 0 ? r : take_hints(s, w);
}

int gang_say(struct gang *g, const json_t *member, usec_t now, char why[static GANG_WHY_MAX]) {
        struct gang_fingerprint *fingerprint;
        struct said w;
        int r;

        why[0] = '\0';
        r = said_parse(member, &w, why);
        if (r < 0)
                return r;
        r = gang_fingerprint_take(g, member, &fingerprint, why);
        if (r >= 0)
                r = take_member(g, fingerprint, &w, now, why);
        said_clear(&w);
        return r;
}

/* --- Who goes -------------------------------------------------------------------------------------- */

static struct slot *find_life(const struct slice *s, unsigned worker, const char *incarnation) {
        struct slot *slot = s && worker < s->n_slots ? slot_at(s, worker) : NULL;

        return slot && slot->live && slot->incarnation &&
                               streq(json_string_value(slot->incarnation), incarnation)
                       ? slot
                       : NULL;
}

bool gang_is_live(const struct gang *g, const char *slice, unsigned worker, const char *incarnation) {
        return find_life(slice_find(g, slice), worker, incarnation) != NULL;
}

int gang_gone(struct gang *g, const char *slice, unsigned worker, const char *incarnation, bool shut_down,
              const char *why, usec_t now) {
        struct slice *s = slice_find(g, slice);
        struct slot *slot = find_life(s, worker, incarnation);

        if (!slot)
                return -ENOENT;
        if (replace_text(&slot->why, why) < 0)
                return -ENOMEM;
        s->live--;
        if (slot->presumed)
                s->presumed--;
        slot_forget_words(g, slot);
        slot->live = slot->presumed = false;
        slot->shut_down = shut_down;
        slot->since = now;
        json_decref(TAKE_PTR(slot->before));
        slot_changed(slot);
        s->dirty = s->bump = true;
        return 0;
}

int gang_release(struct gang *g, const char *slice, unsigned worker, char why[static GANG_WHY_MAX]) {
        struct slice *s = slice_find(g, slice);
        struct slot *slot = s && worker < s->n_slots ? slot_at(s, worker) : NULL;
        char text[160];

        if (!slot || !slot->held)
                return why_fail(why, -ENOENT, "nobody holds worker %u of slice %.64s", worker, slice);
        if (slot->live)
                return why_fail(why, -EBUSY,
                                "%s is there as worker %u of slice %s: stop its agent first "
                                "(systemctl stop tpu-hostd)",
                                slot_text(slot, text), worker, slice);
        return give_up_slot(g, s, slot, "its worker id was given up");
}
