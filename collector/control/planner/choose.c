/* SPDX-License-Identifier: Apache-2.0 */
/* Which slices a run takes. */
#include <stdarg.h>

#include "known_names.h"
#include "state.h"

int waits_add(json_t *list, const char *fmt, ...) {
        char text[GANG_WHY_MAX];
        va_list ap;

        if (json_array_size(list) >= LIST_MAX)
                return 0;
        va_start(ap, fmt);
        (void) vsnprintf(text, sizeof(text), fmt, ap);
        va_end(ap);
        return json_array_append_new(list, cut_text_json(text)) < 0 ? -ENOMEM : 0;
}

bool run_has_slice(const struct gang_run *r, const char *slice) {
        size_t i;
        json_t *v;

        json_array_foreach (r->slices, i, v)
                if (streq(json_string_value(json_object_get(v, "slice")), slice))
                        return true;
        return false;
}

/* A host of it still has a run of ours: another one, or what was not stopped. */
static bool is_busy(const struct gang *g, const struct slice *s, const struct gang_run *r,
                    char why[static TEXT_MAX]) {
        char buf[160];

        for (unsigned i = 0; i < s->hosts && i < s->n_slots; i++)
                for (size_t k = 0; k < slot_at(s, i)->n_runs; k++) {
                        const struct gang_host_run *h = &slot_at(s, i)->runs[k];

                        if ((h->state != PART_STARTING && h->state != PART_RUNNING) ||
                            !gang_run_find(g, h->name))
                                continue;
                        if (streq(h->name, r->intent.spec->name) && r->state != RUN_WAITING)
                                continue;
                        (void) snprintf(why, TEXT_MAX, "%.100s has not stopped run %s, generation %" PRIu64,
                                        slot_text(slot_at(s, i), buf), h->name, h->generation);
                        return true;
                }
        return false;
}

/* A host of it that cannot say what runs there, and may still have this very run. */
static bool does_not_know(const struct slice *s, char why[static TEXT_MAX]) {
        char buf[160];

        for (unsigned i = 0; i < s->hosts && i < s->n_slots; i++)
                if (slot_at(s, i)->runs_unknown) {
                        (void) snprintf(why, TEXT_MAX,
                                        "%.100s cannot say what runs there: is its tpu-launchd well?",
                                        slot_text(slot_at(s, i), buf));
                        return true;
                }
        return false;
}

/* Why the run cannot have this slice now; false: it can. */
static bool is_barred(const struct gang *g, const struct gang_run *r, const struct slice *s,
                      char why[static TEXT_MAX]) {
        if (s->run && s->run != r)
                (void) snprintf(why, TEXT_MAX, "run %s has it", s->run->intent.spec->name);
        else if (s->state != SLICE_READY) {
                if (!slice_missing_text(s, why))
                        (void) snprintf(why, TEXT_MAX, "none of its hosts says how many they are");
        } else if (s->presumed > 0)
                (void) snprintf(why, TEXT_MAX,
                                "%u of its hosts were not heard since the registry was started again",
                                s->presumed);
        else if (does_not_know(s, why))
                return true;
        else if (s->obstacle)
                (void) snprintf(why, TEXT_MAX, "%.250s", s->obstacle);
        else if (!is_busy(g, s, r, why))
                return false;
        return true;
}

#define SUSPECTS_NOTED 4 /* the hosts' own warnings come behind them */

/* The slices that may be taken, in the order of the intent, else of their names. */
struct candidates {
        struct slice **list;
        size_t n;
        json_t *waits, *notes;
};

static void candidates_clear(struct candidates *c) {
        free(c->list);
        json_decref(c->waits);
        json_decref(c->notes);
}

static const char *suspect_words(const struct gang *g, const struct slot *s) {
        return json_string_value(json_object_get(g->suspects, json_string_value(s->host)));
}

static const struct slot *find_suspect(const struct gang *g, const struct slice *s) {
        for (unsigned i = 0; i < s->hosts && i < s->n_slots && g->suspects; i++)
                if (suspect_words(g, slot_at(s, i)))
                        return slot_at(s, i);
        return NULL;
}

/* It may come yet; or its name was mistyped. */
static int wait_for_unheard(const struct gang *g, const char *name, json_t *waits) {
        struct known_names known = known_names(name);
        char buf[KNOWN_TEXT_MAX];

        for (size_t i = 0; i < g->n_slices; i++)
                known_names_add(&known, g->slices[i]->name);
        return waits_add(waits, "%s: no host of it was ever heard%s", name, known_names_text(&known, buf));
}

static int consider_slice(struct gang *g, const struct gang_run *r, const char *name, struct slice *s,
                          struct candidates *c) {
        char why[TEXT_MAX];

        if (!s)
                return wait_for_unheard(g, name, c->waits);
        if (is_barred(g, r, s, why))
                return waits_add(c->waits, "%s: %s", name, why);
        s->suspect = find_suspect(g, s);
        c->list[c->n++] = s;
        return 0;
}

static int find_candidates(struct gang *g, const struct gang_run *r, struct candidates *c) {
        size_t named = r->intent.spec->n_slices, n = named > 0 ? named : g->n_slices;
        int x = 0;

        c->waits = json_array();
        c->notes = json_array();
        c->list = calloc(n + 1, sizeof(c->list[0]));
        if (!c->waits || !c->notes || !c->list)
                return -ENOMEM;
        for (size_t i = 0; i < n && x >= 0; i++) {
                const char *name = named > 0 ? r->intent.spec->slices[i]
                                             : g->slices[i]->name;

                x = consider_slice(g, r, name, named > 0 ? slice_find(g, name) : g->slices[i], c);
        }
        if (x >= 0 && n == 0)
                x = waits_add(c->waits, "no slice is known: no host was ever heard");
        return x;
}

static bool are_alike(const struct gang_fingerprint *a, const struct gang_fingerprint *b) {
        char difference[TEXT_MAX];

        if (!a || !b || a == b)
                return true;
        gang_fingerprint_difference(a, b, difference);
        return !difference[0];
}

/* How good the slices are that are alike to this one: first how many of them may be taken, then how many of
 * those without a suspect, then how many they are. */
static uint64_t group_worth(const struct candidates *c, const struct slice *like, size_t max) {
        size_t n = 0, sound = 0;

        for (size_t i = 0; i < c->n; i++)
                if (are_alike(like->fingerprint, c->list[i]->fingerprint)) {
                        n++;
                        sound += !c->list[i]->suspect;
                }
        return ((uint64_t) MIN(n, max) << 32) + ((uint64_t) MIN(sound, max) << 16) + n;
}

/* Of slices that are not alike the best group stays, of equals the one that comes first. */
static int keep_alike(struct candidates *c, size_t max) {
        size_t best = 0, kept = 0;
        uint64_t most = 0;
        int r = 0;

        for (size_t i = 0; i < c->n; i++) {
                uint64_t worth = group_worth(c, c->list[i], max);

                if (worth > most) {
                        best = i;
                        most = worth;
                }
                if ((most & UINT16_MAX) == c->n) /* all are alike */
                        break;
        }
        for (size_t i = 0; i < c->n && r >= 0; i++) {
                struct slice *s = c->list[i];
                char difference[TEXT_MAX];

                if (are_alike(s->fingerprint, c->list[best]->fingerprint)) {
                        c->list[kept++] = s;
                        continue;
                }
                gang_fingerprint_difference(s->fingerprint, c->list[best]->fingerprint, difference);
                r = waits_add(c->waits, "%s: it is unlike %s: %s", s->name, c->list[best]->name, difference);
        }
        c->n = kept;
        return r;
}

/* Those without a suspect before the others, and of each those that the run had. */
static unsigned turn_of(const struct gang_run *r, const struct slice *s) {
        return (s->suspect ? 2U : 0U) + (run_has_slice(r, s->name) ? 0U : 1U);
}

static int note_suspect(const struct gang *g, const struct slice *s, bool taken, json_t *notes) {
        if (json_array_size(notes) >= SUSPECTS_NOTED)
                return 0;
        return waits_add(notes, "slice %s has the suspect host %s (%s): %s", s->name,
                         json_string_value(s->suspect->host), suspect_words(g, s->suspect),
                         taken ? "it was taken last" : "others were taken");
}

/* At most max: by turns, in each as they come; the order stays. Notes the suspects among them, and those
 * for which other slices are taken. */
static int keep_max(const struct gang *g, struct candidates *c, const struct gang_run *r) {
        size_t left[4] = { 0 }, room = r->intent.spec->max, all = 0, kept = 0;
        int x = 0;

        for (size_t i = 0; i < c->n; i++)
                left[turn_of(r, c->list[i])]++;
        for (size_t i = 0; i < ELEMENTSOF(left); i++) {
                left[i] = MIN(left[i], room);
                room -= left[i];
                all += left[i];
        }
        for (size_t i = 0; i < c->n && x >= 0; i++) {
                struct slice *s = c->list[i];
                size_t *turn = &left[turn_of(r, s)];
                bool taken = *turn > 0;

                if (s->suspect && (taken || kept < all || run_has_slice(r, s->name)))
                        x = note_suspect(g, s, taken, c->notes);
                if (!taken)
                        continue;
                (*turn)--;
                c->list[kept++] = s;
        }
        c->n = kept;
        return x;
}

/* How long slices that it had and that are broken may come back; 0: none is waited for. */
static usec_t held_until(const struct gang *g, const struct gang_run *r) {
        usec_t until = 0;
        size_t i;
        json_t *v;

        json_array_foreach (r->slices, i, v) {
                const struct slice *s = slice_find(g, json_string_value(json_object_get(v, "slice")));
                bool leaving;
                usec_t since;

                if (!s || (s->state == SLICE_READY && s->presumed == 0))
                        continue;
                if (s->presumed > 0) {
                        until = MAX(until, g->loaded + g->o.lease);
                        continue;
                }
                since = slice_broken_since(s, &leaving);
                if (!leaving && since != USEC_INFINITY)
                        until = MAX(until, since + run_shrink_after(g, r));
        }
        return until;
}

/* Whether it begins with n slices; *ret_next: when to look again. */
static bool may_begin(const struct gang *g, struct gang_run *r, size_t n, usec_t *ret_next) {
        usec_t held;

        if (n < r->intent.spec->min) {
                r->last_call = 0;
                return false;
        }
        if (n >= r->intent.spec->max || (r->deadline > 0 && g->now >= r->deadline))
                return true;
        if (r->generation > 0 && json_array_size(r->slices) > 0) { /* it ran before: no last call */
                held = n < json_array_size(r->slices) ? held_until(g, r) : 0;
                if (g->now >= held)
                        return true;
                *ret_next = MIN(*ret_next, held);
                return false;
        }
        if (r->last_call == 0) {
                r->last_call = g->now + run_last_call(g, r);
                r->dirty = true;
        }
        if (g->now >= r->last_call)
                return true;
        *ret_next = MIN(*ret_next, r->last_call);
        return false;
}

struct place {
        const char *address, *slice;
        const struct slot *slot;
};

static int by_address(const void *a, const void *b) {
        return strcmp(((const struct place *) a)->address, ((const struct place *) b)->address);
}

static bool is_loopback(const char *address) {
        return startswith(address, "127.") || streq(address, "::1");
}

/* Two live hosts with one first address: it was given to the second, or one is a copy. Whoever connects to
 * it may reach either. 1: why names both; 0; -ENOMEM. */
static int find_shared_address(const struct candidates *c, char why[static TEXT_MAX]) {
        _cleanup_free_ struct place *places = NULL;
        char first[160], second[160];
        size_t n = 0, size = 1;

        for (size_t i = 0; i < c->n; i++)
                size += c->list[i]->n_slots;
        places = calloc(size, sizeof(places[0]));
        if (!places)
                return -ENOMEM;
        for (size_t i = 0; i < c->n; i++)
                for (unsigned w = 0; w < c->list[i]->n_slots; w++) {
                        const struct slot *slot = slot_at(c->list[i], w);
                        const char *address = json_string_value(json_array_get(slot->address, 0));

                        if (slot->live && address && !is_loopback(address))
                                places[n++] = (struct place){ address, c->list[i]->name, slot };
                }
        if (n > 1)
                qsort(places, n, sizeof(places[0]), by_address);
        for (size_t i = 1; i < n; i++)
                if (streq(places[i - 1].address, places[i].address)) {
                        (void) snprintf(why, TEXT_MAX, "%.40s: %.60s and %.40s: %.60s report one address",
                                        places[i - 1].slice, slot_text(places[i - 1].slot, first),
                                        places[i].slice, slot_text(places[i].slot, second));
                        return 1;
                }
        return 0;
}

int run_choose(struct gang *g, struct gang_run *r, usec_t *ret_next, struct choice *ret) {
        struct candidates c = { 0 };
        char why[TEXT_MAX];
        bool go = false;
        int x = find_candidates(g, r, &c);

        if (x >= 0)
                x = keep_alike(&c, r->intent.spec->max);
        if (x >= 0)
                x = keep_max(g, &c, r);
        if (x >= 0) {
                go = may_begin(g, r, c.n, ret_next);
                x = go ? find_shared_address(&c, why) : 0;
        }
        if (x < 0) {
                candidates_clear(&c);
                return x;
        }
        if (go)
                (void) json_array_clear(c.waits);
        if (x > 0) {
                go = false;
                x = waits_add(c.waits, "%s", why);
        }
        if (go) /* its record is written: it begins */
                (void) replace_value(&r->notes, TAKE_PTR(c.notes));
        (void) run_set_waits(r, TAKE_PTR(c.waits)); /* they are there */
        *ret = (struct choice){ .slices = TAKE_PTR(c.list), .n = c.n };
        candidates_clear(&c);
        return go;
}

struct slice *run_grows(struct gang *g, struct gang_run *r, usec_t *ret_next) {
        struct candidates c = { 0 };
        struct slice *found = NULL, *like = NULL; /* found: without a suspect, where there is one */

        if (json_array_size(r->slices) >= r->intent.spec->max || site_observes(g))
                return NULL;
        like = slice_find(g, json_string_value(json_object_get(json_array_get(r->slices, 0), "slice")));
        if (find_candidates(g, r, &c) < 0)
                c.n = 0; /* out of memory: it grows later */
        for (size_t i = 0; i < c.n && (!found || found->suspect); i++) {
                struct slice *s = c.list[i];

                if ((found && s->suspect) || s->run || run_has_slice(r, s->name) || s->fit_since == 0 ||
                    (like && !are_alike(s->fingerprint, like->fingerprint)))
                        continue;
                if (g->now >= s->fit_since + run_grow_after(g, r))
                        found = s;
                else
                        *ret_next = MIN(*ret_next, s->fit_since + run_grow_after(g, r));
        }
        candidates_clear(&c);
        return found;
}
