/* SPDX-License-Identifier: Apache-2.0 */
#include "pairs.h"

#include "json_text.h"
#include "pair_judge.h"

#define BY_MAX 640
#define REPORT_TIME (10 * USEC_PER_SEC) /* behind the last round, until all hosts have reported */

static const json_t *record_of(const struct gang *g, const char *slice) {
        char key[GANG_KEY_MAX];

        (void) snprintf(key, sizeof(key), "pairs/%.63s", slice);
        return json_object_get(g->records, key);
}

/* --- Asked --------------------------------------------------------------------------------------------- */

static bool run_is_there(const struct gang_host_run *runs, size_t n) {
        for (size_t i = 0; i < n; i++)
                if (runs[i].state == PART_STARTING || runs[i].state == PART_RUNNING)
                        return true;
        return false;
}

/* The first host on which something runs; NULL: nothing does, as far as they say. */
static const struct slot *busy_slot(const struct slice *s) {
        for (unsigned w = 0; w < s->n_slots; w++) {
                const struct slot *slot = slot_at(s, w);

                if (slot->live && (slot->runs_unknown || run_is_there(slot->runs, slot->n_runs) ||
                                   run_is_there(slot->local, slot->n_local)))
                        return slot;
        }
        return NULL;
}

static unsigned most_nics(const struct slice *s) {
        size_t most = 1;

        for (unsigned w = 0; w < s->n_slots; w++)
                most = MAX(most, json_array_size(slot_at(s, w)->address));
        return (unsigned) MIN(most, (size_t) PAIR_NICS_MAX);
}

static int ask(struct gang *g, struct slice *s, const char *by) {
        usec_t until = g->now + pair_deadline(pair_rounds(s->hosts) - 1, most_nics(s)) + REPORT_TIME;
        json_t *v = json_pack("{s:i, s:s, s:I, s:I, s:I, s:s, s:s, s:I}", "v", 1, "slice", s->name, "number",
                              (json_int_t) g->now, "generation", (json_int_t) s->generation, "hosts",
                              (json_int_t) s->hosts, "by", by, "state", "asked", "until",
                              (json_int_t) until);
        int r = v ? record_putf(g, v, "pairs/%s", s->name) : -ENOMEM;

        if (r < 0)
                return r;
        s->measured = (struct slice_measured){ .generation = s->generation, .at = g->now, .until = until };
        s->dirty = true; /* no run begins on it now */
        return 0;
}

/* Why it cannot be measured now. 0: it can. */
static int check_slice(const struct gang *g, const struct slice *s, char why[static GANG_WHY_MAX]) {
        const struct slot *busy = busy_slot(s);
        char text[TEXT_MAX] = "it forms", when[32], who[160];

        if (s->state != SLICE_READY || s->presumed > 0) {
                (void) slice_missing_text(s, text);
                return why_fail(why, -EBUSY, "slice %s is not whole: %s", s->name, text);
        }
        if (s->hosts < 2)
                return why_fail(why, -EINVAL, "slice %s is one host, which has no pairs", s->name);
        if (s->measured.until > 0)
                return why_fail(why, -EBUSY, "slice %s is being measured since %s", s->name,
                                time_text(s->measured.at, when));
        if (s->run)
                return why_fail(why, -EBUSY,
                                "run %s has slice %s: what is measured beside a run slows it down, and says "
                                "nothing of the network",
                                s->run->intent.spec->name, s->name);
        if (busy)
                return why_fail(why, -EBUSY,
                                "%s: something runs there, or it does not know: what is measured beside a "
                                "run slows it down, and says nothing of the network",
                                slot_text(busy, who));
        if (s->measured.at > 0 && s->measured.at <= g->now && g->now < s->measured.at + PAIRS_APART)
                return why_fail(why, -EBUSY,
                                "slice %s was measured at %s, and may be again %u minutes later", s->name,
                                time_text(s->measured.at, when),
                                (unsigned) (PAIRS_APART / 60 / USEC_PER_SEC));
        return 0;
}

int pairs_want(struct gang *g, const char *slice, const json_t *value, char why[static GANG_WHY_MAX]) {
        struct slice *s = slice_find(g, slice);
        const char *by;
        int r;

        if (!s)
                return why_fail(why, -ENOENT, "the registry has no slice %.63s", slice);
        if (get_text(value, "by", BY_MAX, &by, why) < 0)
                return -EBADMSG;
        r = check_slice(g, s, why);
        return r < 0 ? r : ask(g, s, by);
}

int pairs_load(struct gang *g, const char *slice, const json_t *v, char why[static GANG_WHY_MAX]) {
        /* The leader before may have had a clock that is ahead. */
        usec_t latest = g->now + pair_deadline(PAIR_ROUNDS_MAX - 1, PAIR_NICS_MAX) + REPORT_TIME;
        int64_t number, generation, until;
        struct slice *s;
        int r;

        if (get_number(v, "number", 1, INT64_MAX, 1, &number, why) < 0 ||
            get_number(v, "generation", 0, INT64_MAX, 0, &generation, why) < 0 ||
            get_number(v, "until", 0, INT64_MAX, 0, &until, why) < 0)
                return -EBADMSG;
        r = slice_make(g, slice, &s, why);
        if (r < 0)
                return r;
        s->measured = (struct slice_measured){ .generation = (uint64_t) generation,
                                               .at = (usec_t) number,
                                               .until = MIN((usec_t) until, latest) };
        return 0;
}

/* --- Judged -------------------------------------------------------------------------------------------- */

struct result {
        const struct slice *slice;
        json_t *nics, *slow, *paths, *unmeasured; /* NULL: out of memory */
        size_t measured;
        uint64_t core;
};

/* Of whom something may be known: a slice that forms may say that it has more. */
static unsigned known_hosts(const struct slice *s) {
        return MIN(s->hosts, s->n_slots);
}

static const char *host_name_of(const struct slice *s, unsigned worker) {
        const char *name = json_string_value(slot_at(s, worker)->host);

        return name ? name : "";
}

static bool has_answered(const struct slot *s, usec_t number) {
        return s->live && json_number_of(s->pairs, "number") == number;
}

/* Of one pair one rate: who reports more of them does not outvote the others. */
static bool has_rate(const struct pair_rate *room, size_t first, size_t n, unsigned from) {
        for (size_t i = first; i < n; i++)
                if (room[i].from == from)
                        return true;
        return false;
}

/* Of one kind of NIC. room: for all that was reported. Returns how many. */
static size_t take_rates(const struct slice *s, usec_t number, int64_t nic, struct pair_rate *room) {
        unsigned hosts = known_hosts(s);
        size_t n = 0, mine, i;
        json_t *v;

        for (unsigned w = 0; w < hosts; w++) {
                if (!has_answered(slot_at(s, w), number))
                        continue;
                mine = n;
                json_array_foreach (json_object_get(slot_at(s, w)->pairs, "received"), i, v) {
                        int64_t from = json_known_of(v, "worker");

                        if (json_known_of(v, "nic") != nic || from < 0 || from >= hosts || from == w ||
                            json_number_of(v, "rate") == 0 || has_rate(room, mine, n, (unsigned) from))
                                continue;
                        room[n++] = (struct pair_rate){ .from = (unsigned) from,
                                                        .to = w,
                                                        .rate = json_number_of(v, "rate") };
                }
        }
        return n;
}

static void add_host(struct result *x, unsigned worker, int nic, const struct pair_host *h,
                     uint64_t median) {
        const struct pair_end *sends = &h->sends, *receives = &h->receives;
        json_t *o = json_pack("{s:I, s:s, s:i, s:I}", "worker", (json_int_t) worker, "host",
                              host_name_of(x->slice, worker), "nic", nic, "median", (json_int_t) median);

        if (sends->blamed)
                o = json_member_add(o, "sends", json_integer((json_int_t) (sends->sum / sends->measured)));
        if (receives->blamed)
                o = json_member_add(o, "receives",
                                    json_integer((json_int_t) (receives->sum / receives->measured)));
        x->slow = json_list_add(x->slow, o);
}

static void add_path(struct result *x, int nic, const struct pair_rate *r, uint64_t median) {
        x->paths = json_list_add(x->paths, json_pack("{s:s, s:s, s:i, s:I, s:I}", "from",
                                                     host_name_of(x->slice, r->from), "to",
                                                     host_name_of(x->slice, r->to), "nic", nic, "rate",
                                                     (json_int_t) r->rate, "median", (json_int_t) median));
}

static void add_unmeasured(struct result *x, const struct slot *s, const char *why) {
        json_t *o;

        if (!*why || json_array_size(x->unmeasured) >= LIST_MAX)
                return;
        o = json_pack("{s:I, s:O?}", "worker", (json_int_t) s->worker, "host", s->host);
        x->unmeasured = json_list_add(x->unmeasured, json_member_add(o, "why", cut_text_json(why)));
}

static int judge_nic(struct result *x, usec_t number, int nic, struct pair_rate *room,
                     struct pair_host *hosts) {
        size_t n = take_rates(x->slice, number, nic, room);
        unsigned n_hosts = known_hosts(x->slice);
        struct pair_judged j;

        if (n == 0)
                return 0;
        if (pair_judge(room, n, hosts, n_hosts, &j) < 0)
                return -ENOMEM;
        x->measured += n;
        x->nics = json_list_add(x->nics, json_pack("{s:i, s:I, s:I, s:I, s:I}", "nic", nic, "measured",
                                                   (json_int_t) n, "median", (json_int_t) j.median, "limit",
                                                   (json_int_t) j.limit, "slow", (json_int_t) j.slow));
        for (unsigned w = 0; w < n_hosts && json_array_size(x->slow) < LIST_MAX; w++)
                if (hosts[w].sends.blamed || hosts[w].receives.blamed)
                        add_host(x, w, nic, &hosts[w], j.median);
        for (size_t i = 0; i < n && json_array_size(x->paths) < LIST_MAX; i++)
                if (room[i].slow && !room[i].explained)
                        add_path(x, nic, &room[i], j.median);
        return 0;
}

static int judge_rates(struct result *x, usec_t number) {
        unsigned n = known_hosts(x->slice);
        _cleanup_free_ struct pair_rate *room = calloc(n * MEMBER_PAIRS_MAX + 1, sizeof(*room));
        _cleanup_free_ struct pair_host *hosts = calloc(n + 1, sizeof(*hosts));
        int r = room && hosts ? 0 : -ENOMEM;

        for (int nic = 0; nic < PAIR_NICS_MAX && r == 0; nic++)
                r = judge_nic(x, number, nic, room, hosts);
        return r;
}

static void take_words(struct result *x, usec_t number) {
        for (unsigned w = 0; w < known_hosts(x->slice); w++) {
                const struct slot *s = slot_at(x->slice, w);

                if (!has_answered(s, number)) {
                        add_unmeasured(x, s, "it has not answered");
                        continue;
                }
                add_unmeasured(x, s, json_text_of(s->pairs, "why"));
                x->core = MAX(x->core, json_number_of(s->pairs, "core"));
        }
}

static int judge(struct gang *g, struct slice *s) {
        struct result x = { .slice = s,
                            .nics = json_array(),
                            .slow = json_array(),
                            .paths = json_array(),
                            .unmeasured = json_array() };
        json_t *v = json_copy((json_t *) (uintptr_t) record_of(g, s->name)), *more;
        int r = judge_rates(&x, s->measured.at);

        take_words(&x, s->measured.at);
        /* It takes over what there is, and fails where any is missing. */
        more = json_pack("{s:s, s:I, s:I, s:I, s:I, s:o, s:o, s:o, s:o}", "state", "measured", "until",
                         (json_int_t) 0, "at", (json_int_t) g->now, "measured", (json_int_t) x.measured,
                         "core", (json_int_t) x.core, "nics", x.nics, "slow", x.slow, "paths", x.paths,
                         "unmeasured", x.unmeasured);
        if (r < 0 || !v || !more || json_object_update(v, more) < 0) {
                json_decref(v);
                json_decref(more);
                return -ENOMEM;
        }
        json_decref(more);
        r = record_putf(g, v, "pairs/%s", s->name);
        if (r < 0)
                return r;
        s->measured.until = 0;
        s->dirty = true;
        return 1;
}

static bool all_have_answered(const struct slice *s) {
        for (unsigned w = 0; w < known_hosts(s); w++)
                if (slot_at(s, w)->live && !has_answered(slot_at(s, w), s->measured.at))
                        return false;
        return true;
}

/* --- Time ---------------------------------------------------------------------------------------------- */

/* Before a run may begin on a slice that is whole anew, where the site wants that. */
static bool is_due(const struct gang *g, const struct slice *s) {
        char why[GANG_WHY_MAX];

        return g->o.preflight_pairs && s->measured.generation != s->generation && !s->obstacle &&
               check_slice(g, s, why) >= 0;
}

int pairs_step(struct gang *g, usec_t *ret_next) {
        int again = 0, r = 0;

        for (size_t i = 0; i < g->n_slices && r >= 0; i++) {
                struct slice *s = g->slices[i];

                if (s->measured.until > 0 && (g->now >= s->measured.until || all_have_answered(s)))
                        r = judge(g, s);
                else if (s->measured.until > 0)
                        *ret_next = MIN(*ret_next, s->measured.until);
                else if (is_due(g, s)) {
                        r = ask(g, s, "Preflight=pairs");
                        r = r < 0 ? r : 1;
                }
                again = again || r > 0;
        }
        return r < 0 ? r : again;
}
