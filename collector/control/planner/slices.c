/* SPDX-License-Identifier: Apache-2.0 */
#include "state.h"
#include "texts.h"

/* Nobody was heard from it for so long: it and its worker ids are forgotten. */
#define SLICE_FORGET ((usec_t) 7 * 24 * 3600 * USEC_PER_SEC)

/* --- Its record ------------------------------------------------------------------------------------ */

static int make_entry(struct slot *s) {
        static const char never[] = "never heard";

        if (s->entry)
                return 0;
        if (s->live)
                s->entry = json_pack("{s:I, s:O, s:O, s:O, s:O}", "worker", (json_int_t) s->worker, "host",
                                     s->host, "id", s->id, "address", s->address, "incarnation",
                                     s->incarnation);
        else if (s->host)
                s->entry = json_pack("{s:I, s:O, s:O, s:I, s:s}", "worker", (json_int_t) s->worker, "host",
                                     s->host, "address", s->address, "since", (json_int_t) s->since, "why",
                                     s->why ? s->why : never);
        else
                s->entry =
                        json_pack("{s:I, s:s, s:[], s:I, s:s}", "worker", (json_int_t) s->worker, "host",
                                  s->hint ? s->hint : "",
                                  "address", "since", (json_int_t) s->since, "why", s->why ? s->why : never);
        return s->entry ? 0 : -ENOMEM;
}

static json_t *conflict_of(const struct slot *s) {
        return json_pack("{s:I, s:O, s:O, s:O, s:O, s:I}", "worker", (json_int_t) s->worker, "host",
                         s->claim.host, "id", s->claim.id, "address", s->claim.address, "holder", s->host,
                         "since", (json_int_t) s->claim.since);
}

static int add_slots(const struct slice *s, json_t *roster, json_t *missing, json_t *conflicts) {
        for (unsigned i = 0; i < s->n_slots; i++) {
                struct slot *slot = slot_at(s, i);

                if (slot->claim.host && json_array_size(conflicts) < LIST_MAX &&
                    json_array_append_new(conflicts, conflict_of(slot)) < 0)
                        return -ENOMEM;
                if (!s->slots[i] || (!slot->live && i >= s->hosts))
                        continue; /* not named, or of a time when the slice was larger */
                if (make_entry(slot) < 0 ||
                    json_array_append(slot->live ? roster : missing, slot->entry) < 0)
                        return -ENOMEM;
        }
        return 0;
}

static int put_record(struct gang *g, struct slice *s) {
        json_auto_t *roster = json_array(), *missing = json_array(), *conflicts = json_array(),
                    *twins = slice_twins(g, s);
        json_t *v;

        if (!roster || !missing || !conflicts || !twins || add_slots(s, roster, missing, conflicts) < 0)
                return -ENOMEM;
        v = json_pack("{s:i, s:s, s:I, s:s, s:I, s:I, s:O, s:O, s:O, s:O, s:O}", "v", 1, "slice",
                      s->name,
                      "generation", (json_int_t) s->generation, "state",
                      s->state == SLICE_READY ? "ready" : "forming", "since", (json_int_t) s->since, "hosts",
                      (json_int_t) s->hosts, "roster", roster, "missing", missing, "conflicts", conflicts,
                      "unlike", s->unlike, "twins", twins);
        return v ? record_putf(g, v, "slice/%s", s->name) : -ENOMEM;
}

/* --- Whether it is whole --------------------------------------------------------------------------- */

/* How many hosts it has: what those say who are there; who is presumed says nothing yet. */
static void count_hosts(struct slice *s) {
        unsigned hosts = 0;

        if (s->live == s->presumed)
                return;
        for (unsigned i = 0; i < s->n_slots; i++)
                if (slot_at(s, i)->live && !slot_at(s, i)->presumed)
                        hosts = MAX(hosts, slot_at(s, i)->hosts);
        if (s->presumed == 0 || hosts > s->hosts)
                s->hosts = hosts;
}

static bool is_whole(const struct slice *s) {
        if (s->hosts == 0 || s->hosts > s->n_slots)
                return false;
        for (unsigned i = 0; i < s->hosts; i++)
                if (!slot_at(s, i)->live)
                        return false;
        return true;
}

/* Who was never heard is missing since the slice began to form. */
static int name_missing(struct slice *s, usec_t now) {
        unsigned named = SLOTS_NAMED;
        struct slot *slot;

        for (unsigned i = 0; i < s->n_slots; i++)
                named += 4 * slot_at(s, i)->held;
        for (unsigned i = 0; i < s->hosts; i++) {
                if (i >= named && (i >= s->n_slots || !s->slots[i]))
                        continue;
                if (slice_slot(s, i, &slot) < 0)
                        return -ENOMEM;
                if (!slot->live && slot->since == 0) {
                        slot->since = now;
                        slot_changed(slot);
                }
        }
        return 0;
}

/* --- Whether a run may begin on it ----------------------------------------------------------------- */

static char *order_text(const char *word, const json_t *order) {
        const char *why = json_string_value(json_object_get(order, "reason")),
                   *by = json_string_value(json_object_get(order, "by"));
        char *text;

        return asprintf(&text, "%s by %.100s: %.200s", word, by ? by : "somebody",
                        why ? why : "no reason given") < 0
                       ? NULL
                       : text;
}

static char *slot_obstacle(const struct gang *g, const struct slot *s) {
        const char *host = json_string_value(s->host);
        char *text = NULL;

        if (s->notice != NOTICE_NONE)
                return strdup(s->notice == NOTICE_PREEMPTION
                                      ? "its machine is about to be preempted"
                                      : "its machine is about to go into maintenance");
        if (host_order(g, host, "drain"))
                return order_text("draining", host_order(g, host, "drain"));
        if (host_order(g, host, "cordon"))
                return order_text("cordoned", host_order(g, host, "cordon"));
        if (s->orders)
                return strdup(s->orders);
        if (s->observe || host_order(g, host, "mode"))
                return strdup("it is in mode observe, which changes nothing: tpuctl mode repair");
        if (!s->unfit)
                return NULL;
        return asprintf(&text, "unfit: %.300s", s->reasons ? s->reasons : "it does not say why") < 0 ? NULL
                                                                                                     : text;
}

static char *unlike_obstacle(const struct slice *s) {
        const json_t *u = json_array_get(s->unlike, 0);
        char *text;

        if (asprintf(&text, "%s is %s on %s, but %s on the others of its slice: make them the same",
                     json_string_value(json_object_get(u, "part")),
                     json_string_value(json_object_get(u, "found")),
                     json_string_value(json_object_get(u, "host")),
                     json_string_value(json_object_get(u, "others"))) < 0)
                return NULL;
        return text;
}

static char *find_obstacle(const struct gang *g, const struct slice *s) {
        for (unsigned i = 0; i < s->n_slots; i++) {
                _cleanup_free_ char *what =
                        slot_at(s, i)->live && !slot_at(s, i)->presumed ? slot_obstacle(g, slot_at(s, i))
                                                                        : NULL;
                char buf[160], *text;

                if (what)
                        return asprintf(&text, "%s: %s", slot_text(slot_at(s, i), buf), what) < 0 ? NULL
                                                                                                 : text;
        }
        if (s->measured.until > 0)
                return strdup("the bandwidth of its pairs is being measured");
        return json_array_size(s->unlike) > 0 ? unlike_obstacle(s) : NULL;
}

static int look_at_slice(struct gang *g, struct slice *s, usec_t now) {
        enum slice_state state;
        int r = 0;

        count_hosts(s);
        r = name_missing(s, now);
        if (r >= 0 && (s->presumed == 0 || !s->unlike))
                r = slice_compare(s);
        if (r < 0)
                return r;
        if (s->bump || s->generation == 0)
                s->generation++;
        s->bump = false;
        state = is_whole(s) ? SLICE_READY : SLICE_FORMING;
        if (state != s->state || s->since == 0)
                s->since = now;
        s->state = state;
        s->empty_since = s->live > 0 ? 0 : s->empty_since ? s->empty_since : now;
        free(s->obstacle);
        s->obstacle = find_obstacle(g, s);
        s->fit_since = state != SLICE_READY || s->obstacle || s->presumed > 0 ? 0
                       : s->fit_since                                         ? s->fit_since
                                                                              : now;
        s->dirty = false;
        return put_record(g, s);
}

/* --- Time ------------------------------------------------------------------------------------------ */

/* Who is not back within a lease after this planner took over. */
static void end_presumptions(struct gang *g, struct slice *s, usec_t now) {
        for (unsigned i = 0; i < s->n_slots && s->presumed > 0; i++)
                if (slot_at(s, i)->presumed)
                        (void) gang_gone(g, s->name, i, json_string_value(slot_at(s, i)->incarnation), false,
                                         "not heard since the registry was started again", now);
}

static void end_claims(struct slice *s, usec_t now, usec_t lease, usec_t *next) {
        s->claimed = false;
        for (unsigned i = 0; i < s->n_slots; i++) {
                struct claim *c = &slot_at(s, i)->claim;

                if (!c->host)
                        continue;
                if (now < c->last + lease) {
                        s->claimed = true;
                        *next = MIN(*next, c->last + lease);
                        continue;
                }
                slot_clear_claim(c);
                s->dirty = true;
        }
}

static int forget_empty(struct gang *g, size_t i) {
        struct slice *s = g->slices[i];
        int r = 0;

        for (unsigned w = 0; w < s->n_slots; w++)
                if (slot_at(s, w)->held) {
                        g->n_members--;
                        r = worse(r, record_putf(g, NULL, "slot/%s/%u", s->name, w));
                }
        r = worse(r, record_putf(g, NULL, "slice/%s", s->name));
        r = worse(r, record_putf(g, NULL, "capture/%s", s->name));
        r = worse(r, record_putf(g, NULL, "pairs/%s", s->name));
        slice_free(g, s);
        g->n_slices--;
        memmove(&g->slices[i], &g->slices[i + 1], (g->n_slices - i) * sizeof(g->slices[0]));
        return r;
}

/* Nobody holds anything of it any more: hosts that move leave nothing behind. */
static bool is_left(const struct slice *s) {
        for (unsigned w = 0; s->left && w < s->n_slots; w++)
                if (slot_at(s, w)->held)
                        return false;
        return s->left;
}

int slices_step(struct gang *g, usec_t *ret_next) {
        usec_t now = g->now, back = g->loaded ? g->loaded + g->o.lease : 0;
        int r = 0;

        for (size_t i = 0; i < g->n_slices && r >= 0;) {
                struct slice *s = g->slices[i];

                if (s->presumed > 0 && now >= back)
                        end_presumptions(g, s, now);
                else if (s->presumed > 0)
                        *ret_next = MIN(*ret_next, back);
                if (s->claimed)
                        end_claims(s, now, g->o.lease, ret_next);
                if (s->dirty)
                        r = look_at_slice(g, s, now);
                if (s->live == 0 && !s->run && (now >= s->empty_since + SLICE_FORGET || is_left(s))) {
                        r = worse(r, forget_empty(g, i));
                        continue;
                }
                if (s->live == 0)
                        *ret_next = MIN(*ret_next, s->empty_since + SLICE_FORGET);
                i++;
        }
        return r;
}

/* --- For runs -------------------------------------------------------------------------------------- */

bool slice_missing_text(const struct slice *s, char ret[static TEXT_MAX]) {
        const struct slot *first = NULL;
        char when[32], who[160];
        unsigned more = 0;

        for (unsigned i = 0; i < MIN(s->hosts, s->n_slots); i++)
                if (!slot_at(s, i)->live) {
                        more += first != NULL;
                        first = first ? first : slot_at(s, i);
                }
        if (!first)
                return false;
        more += s->hosts > s->n_slots ? s->hosts - s->n_slots : 0;
        (void) snprintf(ret, TEXT_MAX, "%.70s missing since %s: %.80s", slot_text(first, who),
                        time_text(first->since, when),
                        first->why && first->why[0] ? first->why : "never heard");
        if (more > 0)
                text_append(ret, TEXT_MAX, "", ", and %u more", more);
        return true;
}

usec_t slice_broken_since(const struct slice *s, bool *ret_leaving) {
        usec_t since = USEC_INFINITY;

        *ret_leaving = false;
        for (unsigned i = 0; i < MIN(s->hosts, s->n_slots); i++)
                if (s->slots[i] && !s->slots[i]->live) {
                        since = MIN(since, slot_at(s, i)->since);
                        *ret_leaving = *ret_leaving || slot_at(s, i)->shut_down ||
                                       slot_at(s, i)->notice == NOTICE_PREEMPTION;
                }
        return since;
}
