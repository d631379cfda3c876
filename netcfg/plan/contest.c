/* SPDX-License-Identifier: Apache-2.0 */
#include "contest.h"

#include <assert.h>

static struct contest_entry *find_entry(struct contest *c, const struct plan_op *op) {
        for (size_t i = 0; i < c->n; i++)
                if (c->entries[i].kind == op->kind && c->entries[i].index == op->index &&
                    streq(c->entries[i].subject, op->subject))
                        return &c->entries[i];
        return NULL;
}

static void start_entry(struct contest_entry *e, const struct plan_op *op) {
        *e = (struct contest_entry) { .kind = op->kind,
                                      .index = op->index,
                                      .carrier_changes = op->carrier_changes };
        finding_set(e->subject, "%s", op->subject);
}

bool contest_allows(struct contest *c, const struct plan_op *op, usec_t now) {
        struct contest_entry *e = find_entry(c, op);

        if (!e)
                return true;
        if (e->carrier_changes != op->carrier_changes) { /* it went with the link, and was made anew */
                start_entry(e, op);
                return true;
        }
        if (!e->contested) {
                if (e->repaired[0] == 0 || now - e->repaired[0] >= CONTEST_WINDOW)
                        return true;
                e->contested = true;
                e->changed = now;
                finding_set(e->value, "%s", op->from);
                return false;
        }
        if (!streq(e->value, op->from)) {
                e->changed = now;
                finding_set(e->value, "%s", op->from);
        }
        if (now - e->changed < CONTEST_QUIET)
                return false;
        e->contested = false;
        e->error = 0;
        memset(e->repaired, 0, sizeof(e->repaired));
        return true;
}

void contest_forget_routes(struct contest *c, const struct found *f, usec_t now) {
        for (size_t i = 0; i < c->n; i++) {
                struct contest_entry *e = &c->entries[i];
                usec_t last = e->repaired[CONTEST_REPAIRS - 1];

                if (e->kind != OP_ROUTE || e->contested || now - last < CONTEST_REACTION)
                        continue;
                /* One more repair and it would be contested: only then is it looked for, which takes
                 * time. */
                if (e->repaired[0] > 0 && now - e->repaired[0] < CONTEST_WINDOW &&
                    !route_by_subject(&f->routes, &f->links, e->subject))
                        memset(e->repaired, 0, sizeof(e->repaired));
        }
}

/* A new entry; with as many as there can be settings, the one repaired longest ago makes room (NICs come and
 * go). */
static struct contest_entry *add_entry(struct contest *c) {
        struct contest_entry *grown, *oldest = c->entries;

        assert(c->n <= CONTEST_MAX);
        if (c->n == CONTEST_MAX) {
                for (size_t i = 1; i < c->n; i++)
                        if (c->entries[i].repaired[CONTEST_REPAIRS - 1] <
                            oldest->repaired[CONTEST_REPAIRS - 1])
                                oldest = &c->entries[i];
                return oldest;
        }
        grown = reallocarray(c->entries, c->n + 1, sizeof(*c->entries));
        if (!grown)
                return NULL;
        c->entries = grown;
        return &c->entries[c->n++];
}

static struct contest_entry *find_or_add_entry(struct contest *c, const struct plan_op *op) {
        struct contest_entry *e = find_entry(c, op);

        if (e)
                return e;
        e = add_entry(c);
        if (!e)
                return NULL;
        start_entry(e, op);
        return e;
}

int contest_hold(struct contest *c, const struct plan_op *op, int error, usec_t now) {
        struct contest_entry *e = find_or_add_entry(c, op);

        if (!e)
                return -ENOMEM;
        e->contested = true;
        e->error = error;
        e->changed = now;
        finding_set(e->value, "%s", op->from);
        return 0;
}

int contest_why(struct contest *c, const struct plan_op *op) {
        const struct contest_entry *e = find_entry(c, op);

        return e && e->contested ? e->error : 0;
}

int contest_note_repair(struct contest *c, const struct plan_op *op, usec_t now) {
        struct contest_entry *e = find_or_add_entry(c, op);

        if (!e)
                return -ENOMEM;
        memmove(e->repaired, e->repaired + 1, sizeof(e->repaired) - sizeof(e->repaired[0]));
        e->repaired[CONTEST_REPAIRS - 1] = now;
        return 0;
}

void contest_clear(struct contest *c) {
        free(c->entries);
        *c = CONTEST_NULL;
}
