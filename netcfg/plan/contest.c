/* SPDX-License-Identifier: Apache-2.0 */
#include "contest.h"

#include <assert.h>

#include "grow.h"
#include "source.h"

static struct contest_entry *find_entry(struct contest *c, const struct plan_op *op) {
        for (size_t i = 0; i < c->n; i++)
                if (c->entries[i].kind == op->kind && c->entries[i].index == op->index &&
                    streq(c->entries[i].subject, op->subject))
                        return &c->entries[i];
        return NULL;
}

const struct contest_entry *contest_entry_of(struct contest *c, const struct plan_op *op) {
        return find_entry(c, op);
}

static void start_entry(struct contest_entry *e, const struct plan_op *op) {
        *e = (struct contest_entry) { .kind = op->kind,
                                      .index = op->index,
                                      .carrier_changes = op->carrier_changes };
        finding_set(e->subject, "%s", op->subject);
        memcpy(e->nic, op->nic, sizeof(e->nic));
        if (op->kind == OP_RULE)
                e->rule = op->rule;
}

/* --- What a pass sees ---------------------------------------------------------------------------------- */

/* What puts it right; what takes something of ours away is not meant. */
static const struct plan_op *find_op(const struct plan *p, const struct contest_entry *e) {
        for (size_t i = 0; i < p->n; i++)
                if (p->ops[i].kind == e->kind && p->ops[i].index == e->index &&
                    !streq(p->ops[i].to, SOURCE_ABSENT) && streq(p->ops[i].subject, e->subject))
                        return &p->ops[i];
        return NULL;
}

/* A rule is asked for by its address also while somebody else's stands in for it. */
static bool is_asked_for(const struct contest_entry *e, const struct plan *sources, const struct found *f) {
        if (!op_is_source(e->kind) || e->kind == OP_MAIN_RULE || source_error(f) < 0)
                return true;
        if (e->kind == OP_RULE)
                return address_find(&f->addresses, e->index, e->rule.family, e->rule.src) != NULL;
        return find_op(sources, e) != NULL;
}

static void look_at_entry(struct contest_entry *e, const struct plan_op *op, usec_t now) {
        const char *value = op ? op->from : e->ours;

        if (!streq(value, e->value)) {
                e->changed = now;
                finding_set(e->value, "%s", value);
                if (op) {
                        e->times++;
                        finding_set(e->theirs, "%s", value);
                }
        }
        if (now - e->changed >= CONTEST_QUIET)
                e->ended = "nobody has changed it for ten minutes";
}

/* One more repair and it would be contested: only then is the route looked for, which takes time. */
static bool went_by_itself(const struct contest_entry *e, const struct found *f, usec_t now) {
        return e->kind == OP_ROUTE && e->since == 0 && f->routes_error == 0 && f->links_error == 0 &&
               now - e->repaired[CONTEST_REPAIRS - 1] >= CONTEST_REACTION && e->repaired[0] > 0 &&
               now - e->repaired[0] < CONTEST_WINDOW &&
               !route_by_subject(&f->routes, &f->links, e->subject);
}

void contest_look(struct contest *c, const struct plan *wrong, const struct plan *sources,
                  const struct found *f, usec_t now) {
        for (size_t i = 0; i < c->n; i++) {
                struct contest_entry *e = &c->entries[i];
                const struct plan_op *op = find_op(wrong, e);

                if (e->index != 0 && f->links_error == 0 && !op && !link_by_index(&f->links, e->index))
                        e->ended = "its NIC is gone";
                else if (!is_asked_for(e, sources, f))
                        e->ended = "nothing asks for it any more";
                else if (op && op->carrier_changes != e->carrier_changes)
                        e->ended = "its link was lost and came back";
                else if (went_by_itself(e, f, now))
                        e->ended = "it was taken away";
                else if (e->since > 0 && op && e->ours[0] && !streq(op->to, e->ours))
                        e->ended = "another value is wanted";
                else if (e->since > 0 && e->error == 0)
                        look_at_entry(e, op, now);
        }
}

static bool trial_is_due(const struct contest_entry *e, usec_t now) {
        return (e->trial == 0 && now - e->since >= CONTEST_TRIAL) ||
               (e->trial <= e->changed && now - e->changed >= CONTEST_QUIET - CONTEST_WINDOW);
}

static enum contest_answer judge_contested(struct contest_entry *e, usec_t now) {
        if (e->error != 0 && now - e->changed >= CONTEST_HELD) {
                e->ended = "it is tried again";
                return CONTEST_REPAIR;
        }
        if (e->error != 0 || !trial_is_due(e, now))
                return CONTEST_LEFT;
        e->trial = now;
        return CONTEST_REPAIR;
}

enum contest_answer contest_judge(struct contest *c, const struct plan_op *op, usec_t now) {
        struct contest_entry *e = find_entry(c, op);

        if (!e || e->ended)
                return CONTEST_REPAIR;
        if (e->since > 0)
                return judge_contested(e, now);
        if (e->repaired[0] == 0 || now - e->repaired[0] >= CONTEST_WINDOW)
                return CONTEST_REPAIR;
        e->since = e->changed = now;
        e->times = CONTEST_REPAIRS + 1;
        finding_set(e->value, "%s", op->from);
        finding_set(e->theirs, "%s", op->from);
        finding_set(e->ours, "%s", op->to);
        return CONTEST_BEGINS;
}

/* --- What was done ------------------------------------------------------------------------------------- */

/* A new entry. With as many as there can be settings, the one repaired longest ago makes room: NICs come and
 * go. */
static struct contest_entry *add_entry(struct contest *c) {
        struct contest_entry *oldest = c->entries;

        assert(c->n <= CONTEST_MAX);
        if (c->n == CONTEST_MAX) {
                for (size_t i = 1; i < c->n; i++)
                        if (c->entries[i].repaired[CONTEST_REPAIRS - 1] <
                            oldest->repaired[CONTEST_REPAIRS - 1])
                                oldest = &c->entries[i];
                return oldest;
        }
        return grow_by_one(&c->entries, c->n, sizeof(*c->entries)) < 0 ? NULL : &c->entries[c->n++];
}

static struct contest_entry *find_or_add_entry(struct contest *c, const struct plan_op *op) {
        struct contest_entry *e = find_entry(c, op);

        if (e && !e->ended)
                return e;
        e = e ? e : add_entry(c);
        if (e)
                start_entry(e, op);
        return e;
}

int contest_hold(struct contest *c, const struct plan_op *op, int error, usec_t now) {
        struct contest_entry *e = find_or_add_entry(c, op);

        if (!e)
                return -ENOMEM;
        e->since = e->changed = now;
        e->error = error;
        finding_set(e->ours, "%s", op->to);
        return 0;
}

int contest_why(struct contest *c, const struct plan_op *op) {
        const struct contest_entry *e = find_entry(c, op);

        return e && e->since > 0 ? e->error : 0;
}

int contest_note_repair(struct contest *c, const struct plan_op *op, usec_t now) {
        struct contest_entry *e = find_or_add_entry(c, op);

        if (!e)
                return -ENOMEM;
        e->yielded = false;
        if (e->since > 0) {
                finding_set(e->value, "%s", e->ours); /* ours, and no change of others */
                return 0;
        }
        memmove(e->repaired, e->repaired + 1, sizeof(e->repaired) - sizeof(e->repaired[0]));
        e->repaired[CONTEST_REPAIRS - 1] = now;
        return 0;
}

int contest_note_yield(struct contest *c, const struct plan_op *op) {
        struct contest_entry *e = find_or_add_entry(c, op);

        if (!e)
                return -ENOMEM;
        e->yielded = true;
        return 0;
}

bool contest_yielded(struct contest *c, const struct plan_op *op) {
        const struct contest_entry *e = find_entry(c, op);

        return e && e->yielded;
}

/* --- Contests as others see them ----------------------------------------------------------------------- */

static bool is_listed(const struct contest_entry *e) {
        return e->since > 0 && e->error == 0 && !e->ended;
}

static void fill_contested(const struct contest_entry *e, struct contested *ret) {
        *ret = (struct contested) { .times = e->times, .since = e->since };
        finding_set(ret->check, "%s", op_check(e->kind));
        finding_set(ret->subject, "%s", op_is_source(e->kind) ? e->nic : e->subject);
        finding_set(ret->setting, "%s", e->subject);
        finding_set(ret->ours, "%s", e->ours);
        finding_set(ret->theirs, "%s", e->theirs);
}

void contest_list(const struct contest *c, struct contested_list *ret) {
        ret->n = 0;
        for (size_t i = 0; i < c->n && ret->n < CONTESTED_MAX; i++)
                if (is_listed(&c->entries[i]))
                        fill_contested(&c->entries[i], &ret->items[ret->n++]);
}

void contest_follow(struct contest *c, const struct contested_list *l) {
        struct contested mine;

        for (size_t i = 0, listed = 0; i < c->n && listed < CONTESTED_MAX; i++) {
                if (!is_listed(&c->entries[i]))
                        continue;
                listed++; /* more were not in the list, and nobody took them out */
                fill_contested(&c->entries[i], &mine);
                if (!contested_find(l, &mine))
                        c->entries[i].ended = "tpu-netcfg --once has set it";
        }
}

usec_t contest_wait(const struct contest *c, usec_t now, usec_t wait) {
        for (size_t i = 0; i < c->n; i++) {
                const struct contest_entry *e = &c->entries[i];

                if (is_listed(e) && e->trial == 0 && now < e->since + CONTEST_TRIAL)
                        wait = MIN(wait, e->since + CONTEST_TRIAL - now);
        }
        return wait;
}

void contest_sweep(struct contest *c, void (*ended)(const struct contest_entry *e, void *userdata),
                   void *userdata) {
        size_t kept = 0;

        for (size_t i = 0; i < c->n; i++) {
                const struct contest_entry *e = &c->entries[i];

                if (!e->ended)
                        c->entries[kept++] = *e;
                else if (ended && e->since > 0 && e->error == 0)
                        ended(e, userdata);
        }
        c->n = kept;
}

void contest_clear(struct contest *c) {
        free(c->entries);
        *c = CONTEST_NULL;
}
