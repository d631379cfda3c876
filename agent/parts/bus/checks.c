/* SPDX-License-Identifier: Apache-2.0 */
#include "checks.h"
#include "json_text.h"

/* NULL: out of memory. */
static struct kept_finding *kept_finding_new(const struct finding *f) {
        const char *texts[] = { f->check, f->subject, f->found, f->wanted, f->source, f->reason, f->remedy };
        size_t size = 0;
        struct kept_finding *k;
        char *at;

        for (size_t i = 0; i < ELEMENTSOF(texts); i++)
                size += strlen(texts[i]) + 1;
        k = malloc(sizeof(*k) + size);
        if (!k)
                return NULL;
        at = k->texts;
        for (size_t i = 0; i < ELEMENTSOF(texts); i++) {
                size_t len = strlen(texts[i]) + 1;

                texts[i] = memcpy(at, texts[i], len);
                at += len;
        }
        k->references = 1;
        k->verdict = f->verdict;
        k->check = texts[0];
        k->subject = texts[1];
        k->found = texts[2];
        k->wanted = texts[3];
        k->source = texts[4];
        k->reason = texts[5];
        k->remedy = texts[6];
        return k;
}

static struct kept_finding *kept_finding_ref(struct kept_finding *k) {
        k->references++;
        return k;
}

/* Takes NULL; returns NULL. */
static struct kept_finding *kept_finding_unref(struct kept_finding *k) {
        if (k && --k->references == 0)
                free(k);
        return NULL;
}

/* Whether k says what f says, verdict and every text. */
static bool kept_finding_says(const struct kept_finding *k, const struct finding *f) {
        return k->verdict == f->verdict && streq(k->found, f->found) && streq(k->reason, f->reason) &&
               streq(k->wanted, f->wanted) && streq(k->source, f->source) && streq(k->remedy, f->remedy) &&
               streq(k->check, f->check) && streq(k->subject, f->subject);
}

void kept_finding_unpack(const struct kept_finding *k, struct finding *ret) {
        finding_init(ret, k->check, k->subject);
        ret->verdict = k->verdict;
        finding_set(ret->found, "%s", k->found);
        finding_set(ret->wanted, "%s", k->wanted);
        finding_set(ret->source, "%s", k->source);
        finding_set(ret->reason, "%s", k->reason);
        finding_set(ret->remedy, "%s", k->remedy);
}

#define CHECK_TABLE_NULL ((struct check_table) { 0 })

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

static void drop(struct check_entry *e) {
        e->latest = kept_finding_unref(e->latest);
        e->settled = kept_finding_unref(e->settled);
}

void check_table_clear(struct check_table *t) {
        for (size_t i = 0; i < t->n; i++)
                drop(&t->entries[i]);
        free(t->health);
        free(t->entries);
        json_decref(t->remembered);
        *t = CHECK_TABLE_NULL;
}

static size_t lookup(const struct check_table *t, const struct finding *f) {
        for (size_t i = 0; i < t->n; i++)
                if (streq(t->entries[i].latest->check, f->check) &&
                    streq(t->entries[i].latest->subject, f->subject))
                        return i;
        return t->n;
}

/* --- Memory -------------------------------------------------------------------------------------------- */

static json_t *one_to_memory(const struct check_health *h, const struct kept_finding *f) {
        json_t *worse = json_array();
        size_t n = (size_t) MIN(h->worsened, (uint64_t) HEALTH_FLAPS_MAX);

        for (uint64_t i = h->worsened - n; worse && i < h->worsened; i++)
                worse = json_list_add(worse, json_integer((json_int_t) h->worse_at[i % HEALTH_FLAPS_MAX]));
        return json_pack("{s:s, s:s, s:s, s:I, s:I, s:I, s:b, s:o, s:s, s:s, s:s, s:s, s:s}", "check",
                         f->check, "subject", f->subject, "settled", verdict_name(h->settled), "since_usec",
                         (json_int_t) h->since, "last_good_usec", (json_int_t) h->last_good, "worsened",
                         (json_int_t) h->worsened, "flapping", h->flapping, "worse_at_usec", worse, "found",
                         f->found, "wanted", f->wanted, "source", f->source, "reason", f->reason, "remedy",
                         f->remedy);
}

json_t *check_table_to_memory(const struct check_table *t) {
        json_t *list = json_array();

        for (size_t i = 0; list && i < t->n; i++) {
                /* What was always good has nothing to remember. */
                if (!t->health[i].started ||
                    (t->health[i].settled == VERDICT_OK && t->health[i].worsened == 0))
                        continue;
                list = json_list_add(list, one_to_memory(&t->health[i], t->entries[i].settled));
        }
        if (list && t->remembered && json_array_extend(list, t->remembered) < 0) {
                json_decref(list);
                return NULL;
        }
        return list;
}

void check_table_remember(struct check_table *t, json_t *memory) {
        json_decref(t->remembered);
        t->remembered = memory;
        while (json_array_size(memory) > CHECKS_MAX)
                (void) json_array_remove(memory, json_array_size(memory) - 1); /* it is there */
}

/* An instant of this boot: not after now. */
static bool instant(const json_t *v, usec_t now, usec_t *ret) {
        if (!json_is_integer(v) || json_integer_value(v) < 0 || (usec_t) json_integer_value(v) > now)
                return false;
        *ret = (usec_t) json_integer_value(v);
        return true;
}

static bool text(const json_t *o, const char *key, char *buf, size_t size) {
        const char *s = json_string_value(json_object_get(o, key));

        return s && (size_t) snprintf(buf, size, "%s", s) < size;
}

static bool health_from_memory(const json_t *o, struct check_health *ret, usec_t now) {
        const char *settled = json_string_value(json_object_get(o, "settled"));
        const json_t *worse = json_object_get(o, "worse_at_usec"), *v;
        json_int_t worsened = json_integer_value(json_object_get(o, "worsened"));
        size_t n = json_array_size(worse), i;
        struct check_health h = { .started = true,
                                  .flapping = json_is_true(json_object_get(o, "flapping")) };

        if (!settled || verdict_parse(settled, &h.settled) < 0 || worsened < 0 ||
            n != (size_t) MIN(worsened, (json_int_t) HEALTH_FLAPS_MAX) ||
            !instant(json_object_get(o, "since_usec"), now, &h.since) ||
            !instant(json_object_get(o, "last_good_usec"), now, &h.last_good))
                return false;
        h.seen = h.settled;
        h.worsened = (uint64_t) worsened;
        json_array_foreach (worse, i, v)
                if (!instant(v, now, &h.worse_at[(h.worsened - n + i) % HEALTH_FLAPS_MAX]))
                        return false;
        *ret = h;
        return true;
}

static bool finding_from_memory(const json_t *o, const struct check_health *h, struct finding *f) {
        f->verdict = h->settled;
        return text(o, "found", f->found, sizeof(f->found)) &&
               text(o, "wanted", f->wanted, sizeof(f->wanted)) &&
               text(o, "source", f->source, sizeof(f->source)) &&
               text(o, "reason", f->reason, sizeof(f->reason)) &&
               text(o, "remedy", f->remedy, sizeof(f->remedy));
}

/* False, with *ret_health empty, when nothing is known of it, or nothing that can be believed. */
static bool recall(struct check_table *t, const struct finding *f, struct check_health *ret_health,
                   struct finding *settled, usec_t now) {
        struct finding before = *f;
        struct check_health h;
        const json_t *o;
        bool good;
        size_t i;

        *ret_health = (struct check_health){ 0 };
        json_array_foreach (t->remembered, i, o) {
                const char *check = json_string_value(json_object_get(o, "check")),
                           *subject = json_string_value(json_object_get(o, "subject"));

                if (!check || !subject || !streq(check, f->check) || !streq(subject, f->subject))
                        continue;
                good = health_from_memory(o, &h, now) && finding_from_memory(o, &h, &before);
                (void) json_array_remove(t->remembered, i); /* i is in it */
                if (good) {
                        *ret_health = h;
                        *settled = before;
                }
                return good;
        }
        return false;
}

/* --- Findings ------------------------------------------------------------------------------------------ */

/* What f says, as what is there already where that says the same. -ENOMEM. */
static int keep(struct kept_finding **slot, struct kept_finding *other, const struct finding *f) {
        struct kept_finding *k;

        if (*slot && kept_finding_says(*slot, f))
                return 0;
        k = other && kept_finding_says(other, f) ? kept_finding_ref(other) : kept_finding_new(f);
        if (!k)
                return -ENOMEM;
        (void) kept_finding_unref(*slot);
        *slot = k;
        return 0;
}

/* A check that is seen for the first time. 1: it is remembered from before; 0; -errno: there is none
 * then. */
static int begin(struct check_table *t, const struct finding *f, usec_t now) {
        struct check_entry e = { 0 };
        struct finding settled = *f;
        int known, r;

        if (t->n >= CHECKS_MAX) {
                t->refused++;
                return -ENOSPC;
        }
        known = recall(t, f, &t->health[t->n], &settled, now);
        r = keep(&e.latest, NULL, f);
        if (r == 0)
                r = keep(&e.settled, e.latest, &settled);
        if (r < 0) {
                drop(&e);
                return r;
        }
        t->health[t->n].extra = startswith(f->check, "bpf_"); /* a kernel, or a build, may lack them */
        t->entries[t->n++] = e;
        return known;
}

int check_table_take(struct check_table *t, const struct health_policy *p, unsigned source, unsigned run,
                     const struct finding *f, usec_t now, struct check_change *ret) {
        size_t i = lookup(t, f);
        bool fresh = i == t->n, changed;
        struct check_entry *e;
        enum verdict before;
        int r;

        if (fresh) {
                r = begin(t, f, now);
                if (r < 0)
                        return r;
                fresh = r == 0;
        }
        e = &t->entries[i];
        e->source = source;
        e->run = run;
        r = keep(&e->latest, e->settled, f);
        if (r < 0)
                return r;
        before = t->health[i].settled;
        changed = check_health_step(p, &t->health[i], f->verdict, now);
        if (t->health[i].settled == f->verdict && e->settled != e->latest) {
                (void) kept_finding_unref(e->settled);
                e->settled = kept_finding_ref(e->latest);
        }
        if (fresh ? f->verdict == VERDICT_OK : !changed)
                return 0;
        ret->from = fresh ? _VERDICT_MAX : before;
        ret->to = t->health[i].settled;
        kept_finding_unpack(e->settled, &ret->finding);
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
                        };

                        kept_finding_unpack(t->entries[i].settled, &c.finding);
                        drop(&t->entries[i]);
                        if (gone)
                                gone(&c, userdata);
                        continue;
                }
                if (kept != i) {
                        t->entries[kept] = t->entries[i]; /* with its references */
                        t->health[kept] = t->health[i];
                }
                kept++;
        }
        t->n = kept;
}

bool check_table_worsens(const struct check_table *t, unsigned source) {
        for (size_t i = 0; i < t->n; i++)
                if (t->entries[i].source == source && check_health_worsens(&t->health[i]))
                        return true;
        return false;
}

enum host_state check_table_state(const struct check_table *t) {
        return t->n == 0 ? HOST_UNKNOWN : host_state_of(t->health, t->n);
}

/* Appends one reason; false when it does not fit, and "…" stands for it and the rest. */
static bool add_reason(char *buf, size_t size, size_t *used, const struct kept_finding *f, enum verdict v) {
        int n = snprintf(buf + *used, size - *used, "%s%s%s%s %s", *used > 0 ? ", " : "", f->check,
                         f->subject[0] ? " " : "", f->subject, verdict_name(v));

        if (n < 0 || (size_t) n >= size - *used) {
                (void) snprintf(buf + MIN(*used, size - 4), 4, "…");
                return false;
        }
        *used += (size_t) n;
        return true;
}

const char *check_table_reasons(const struct check_table *t, char *buf, size_t size) {
        static const enum verdict gravest_first[] = { VERDICT_FAIL, VERDICT_WARN, VERDICT_UNKNOWN };
        size_t used = 0;

        buf[0] = 0;
        for (size_t k = 0; k < ELEMENTSOF(gravest_first); k++)
                for (size_t i = 0; i < t->n; i++)
                        if (t->health[i].settled == gravest_first[k] && check_health_counts(&t->health[i]) &&
                            !add_reason(buf, size, &used, t->entries[i].settled, gravest_first[k]))
                                return buf;
        return buf;
}
