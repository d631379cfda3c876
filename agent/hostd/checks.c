/* SPDX-License-Identifier: Apache-2.0 */
#include "checks.h"

int check_table_init(struct check_table *t) {
        /* Never moved, so that a sink may point into it; untouched pages cost nothing. */
        *t = CHECK_TABLE_NULL;
        t->health = calloc(CHECKS_MAX, sizeof(*t->health));
        t->entries = calloc(CHECKS_MAX, sizeof(*t->entries));
        if (!t->health || !t->entries) {
                check_table_clear(t);
                return -ENOMEM;
        }
        return 0;
}

void check_table_clear(struct check_table *t) {
        free(t->health);
        free(t->entries);
        *t = CHECK_TABLE_NULL;
}

static size_t lookup(const struct check_table *t, const struct finding *f) {
        for (size_t i = 0; i < t->n; i++)
                if (streq(t->entries[i].latest.check, f->check) &&
                    streq(t->entries[i].latest.subject, f->subject))
                        return i;
        return t->n;
}

int check_table_take(struct check_table *t, const struct health_policy *p, unsigned source, unsigned run,
                     const struct finding *f, usec_t now, struct check_change *ret) {
        size_t i = lookup(t, f);
        bool fresh = i == t->n, changed;
        struct check_entry *e;
        enum verdict before;

        if (fresh) {
                if (t->n >= CHECKS_MAX) {
                        t->refused++;
                        return -ENOSPC;
                }
                t->health[i] = (struct check_health) { 0 };
                t->entries[i] = (struct check_entry) { .settled = *f };
                t->n++;
        }
        e = &t->entries[i];
        e->source = source;
        e->run = run;
        e->latest = *f;
        before = t->health[i].settled;
        changed = check_health_step(p, &t->health[i], f->verdict, now);
        if (t->health[i].settled == f->verdict)
                e->settled = *f;
        if (fresh ? f->verdict == VERDICT_OK : !changed)
                return 0;
        *ret = (struct check_change) {
                .from = fresh ? _VERDICT_MAX : before,
                .to = t->health[i].settled,
                .finding = e->settled,
        };
        return 1;
}

void check_table_end_run(struct check_table *t, unsigned source, unsigned run,
                         void (*gone)(const struct check_change *c, void *userdata), void *userdata) {
        size_t kept = 0;

        for (size_t i = 0; i < t->n; i++) {
                if (t->entries[i].source == source && t->entries[i].run != run) {
                        struct check_change c = {
                                .from = t->health[i].settled,
                                .to = _VERDICT_MAX,
                                .finding = t->entries[i].settled,
                        };

                        if (gone)
                                gone(&c, userdata);
                        continue;
                }
                if (kept != i) {
                        t->entries[kept] = t->entries[i];
                        t->health[kept] = t->health[i];
                }
                kept++;
        }
        t->n = kept;
}

enum host_state check_table_state(const struct check_table *t) {
        return t->n == 0 ? HOST_UNKNOWN : host_state_of(t->health, t->n);
}

const char *check_table_reasons(const struct check_table *t, char *buf, size_t size) {
        size_t used = 0;

        buf[0] = 0;
        for (size_t i = 0; i < t->n; i++) {
                const struct finding *f = &t->entries[i].settled;
                int n;

                if (t->health[i].settled == VERDICT_OK)
                        continue;
                n = snprintf(buf + used, size - used, "%s%s%s%s %s", used > 0 ? ", " : "", f->check,
                             f->subject[0] ? " " : "", f->subject, verdict_name(t->health[i].settled));
                if (n < 0 || (size_t) n >= size - used) {
                        (void) snprintf(buf + MIN(used, size - 4), 4, "…");
                        return buf;
                }
                used += (size_t) n;
        }
        return buf;
}
