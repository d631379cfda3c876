/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <math.h>

#include "events.h"
#include "fnv.h"
#include "grow.h"
#include "json_text.h"
#include "suspects.h"

#define DAY       (86400 * (usec_t) USEC_PER_SEC)
#define WINDOW    (14 * DAY)
#define HALF_LIFE (3 * DAY)
#define WORDS_MAX 160

static const struct {
        enum event_id id;
        const char *field, *is, *except; /* counts where the field is this text, or any but that */
        double gravity;
        const char *noun;
} troubles[] = {
        { EVENT_STALL_CONFIRMED, "outcome", "named", NULL, 1, "confirmed stall" },
        { EVENT_RUN_CHANGED, "cause", "host-lost", NULL, 1, "lost run" },
        { EVENT_RUN_EXITED, "cause", "device-lost", NULL, 1, "failed run" },
        { EVENT_RUN_EXITED, "cause", "unkillable", NULL, 1, "failed run" },
        { EVENT_KERNEL_FAULT, "fault", NULL, "oom", 0.8, "kernel fault" },
        { EVENT_RUNTIME_ERROR, NULL, NULL, NULL, 0.7, "libtpu error" },
        { EVENT_STRAGGLER, NULL, NULL, NULL, 0.7, "slowed run" },
        { EVENT_NET_LINK_BAD, NULL, NULL, NULL, 0.4, "bad link" },
        { EVENT_CHECK_CHANGED, "to", "FAIL", NULL, 0.4, "failed check" },
};
static_assert(ELEMENTSOF(troubles) <= SUSPECTS_KINDS, "a suspect has room for a report of each kind");

/* What one run, or of no run one day, reported of one kind. */
struct report {
        uint8_t trouble;
        bool of_run;
        uint64_t about; /* the run's name as a number, else the day */
        usec_t received, time; /* of the newest */
        int64_t event;
};

struct host {
        char *name, *slice; /* slice NULL: not known */
        int64_t worker;
        usec_t newest;
        struct report reports[SUSPECTS_REPORTS_MAX];
        size_t n;
};

struct suspects {
        struct host **hosts; /* by name */
        size_t n, size;
        bool began;
        int64_t through[ELEMENTSOF(troubles)]; /* the last event that was read of the kind */
        json_t *words; /* NULL: not known */
        usec_t made;   /* 0: not yet */
        /* While events are read: */
        usec_t now;
        size_t kind;
        unsigned read;
};

static struct host *host_free(struct host *h) {
        if (!h)
                return NULL;
        free(h->name);
        free(h->slice);
        free(h);
        return NULL;
}

int suspects_new(struct suspects **ret) {
        *ret = calloc(1, sizeof(**ret));
        return *ret ? 0 : -ENOMEM;
}

void suspects_forget(struct suspects *s) {
        if (!s)
                return;
        while (s->n > 0)
                host_free(s->hosts[--s->n]);
        json_decref(TAKE_PTR(s->words));
        s->made = 0;
        s->began = false;
}

struct suspects *suspects_free(struct suspects *s) {
        suspects_forget(s);
        if (s)
                free(s->hosts);
        free(s);
        return NULL;
}

/* --- Reading --------------------------------------------------------------------------------------- */

/* The row that this event is trouble by; -1: it is none. */
static int trouble_of(const char *name, const json_t *fields) {
        for (size_t i = 0; i < ELEMENTSOF(troubles); i++) {
                const char *text = troubles[i].field ? json_text_of(fields, troubles[i].field) : "";

                if (streq(name, event_def(troubles[i].id)->name) &&
                    (!troubles[i].is || streq(text, troubles[i].is)) &&
                    (!troubles[i].except || !streq(text, troubles[i].except)))
                        return (int) i;
        }
        return -1;
}

static void forget_oldest(struct suspects *s) {
        size_t oldest = 0;

        for (size_t i = 1; i < s->n; i++)
                if (s->hosts[i]->newest < s->hosts[oldest]->newest)
                        oldest = i;
        host_free(s->hosts[oldest]);
        s->n--;
        memmove(&s->hosts[oldest], &s->hosts[oldest + 1], (s->n - oldest) * sizeof(s->hosts[0]));
}

static struct host *host_find(struct suspects *s, const char *name) {
        size_t at = SORTED_PLACE(s->n, i, strcmp(s->hosts[i]->name, name) < 0);
        struct host *h;

        if (at < s->n && streq(s->hosts[at]->name, name))
                return s->hosts[at];
        if (s->n >= SUSPECTS_HOSTS_MAX) {
                forget_oldest(s);
                at = SORTED_PLACE(s->n, i, strcmp(s->hosts[i]->name, name) < 0);
        }
        h = calloc(1, sizeof(*h));
        if (h)
                h->name = strdup(name);
        if (!h || !h->name || grow_at(&s->hosts, &s->size, &s->n, at, sizeof(s->hosts[0])) < 0)
                return host_free(h);
        s->hosts[at] = h;
        return h;
}

/* The place of a report: of the same kind and the same run or day, else a new one, else the oldest's. */
static struct report *report_place(struct host *h, const struct report *new) {
        struct report *oldest = &h->reports[0];

        for (size_t i = 0; i < h->n; i++) {
                struct report *r = &h->reports[i];

                if (troubles[r->trouble].id == troubles[new->trouble].id && r->of_run == new->of_run &&
                    r->about == new->about)
                        return r;
                if (r->received < oldest->received)
                        oldest = r;
        }
        return h->n < ELEMENTSOF(h->reports) ? &h->reports[h->n++] : oldest;
}

static int add_trouble(struct suspects *s, size_t trouble, const struct store_event_row *row,
                       const char *run) {
        struct host *h = host_find(s, row->host);
        const struct report r = {
                .trouble = (uint8_t) trouble,
                .of_run = *run != '\0',
                .about = *run ? fnv_text(FNV_BEGIN, run) : row->event.received / DAY,
                .received = row->event.received,
                .time = row->event.time,
                .event = row->id,
        };

        if (!h)
                return -ENOMEM;
        *report_place(h, &r) = r;
        h->newest = r.received;
        h->worker = row->worker_id;
        free(h->slice);
        h->slice = row->slice ? strdup(row->slice) : NULL;
        return row->slice && !h->slice ? -ENOMEM : 0;
}

/* In the order in which they came. */
static int on_event(const struct store_event_row *row, void *userdata) {
        struct suspects *s = userdata;
        json_auto_t *fields = NULL;
        int i, r = 0;

        s->read++;
        if (row->event.received + WINDOW < s->now || streq(row->host, STORE_OWN_NAME)) {
                s->through[s->kind] = row->id;
                return 0;
        }
        fields = event_fields_of(row->event.body, row->event.attributes);
        i = trouble_of(row->event.name, fields);
        if (i >= 0)
                r = add_trouble(s, (size_t) i, row, json_text_of(fields, "run"));
        if (r == 0)
                s->through[s->kind] = row->id;
        return r;
}

static int begin_reading(struct suspects *s, struct store *store) {
        int64_t before;
        int r = store_event_before(store, s->now - MIN(s->now, WINDOW), &before);

        if (r < 0)
                return r;
        for (size_t i = 0; i < ELEMENTSOF(s->through); i++)
                s->through[i] = before;
        s->began = true;
        return 0;
}

int suspects_read(struct suspects *s, struct store *store, usec_t now) {
        bool more = false;
        int r;

        s->now = now;
        r = s->began ? 0 : begin_reading(s, store);
        for (size_t i = 0; i < ELEMENTSOF(troubles) && r >= 0; i++) {
                if (i > 0 && troubles[i].id == troubles[i - 1].id)
                        continue;
                s->kind = i;
                s->read = 0;
                r = store_list_events(store,
                                      &(struct store_event_filter){ .name = event_def(troubles[i].id)->name,
                                                                    .since = s->through[i],
                                                                    .limit = SUSPECTS_READ_MAX },
                                      on_event, s);
                more |= s->read >= SUSPECTS_READ_MAX;
        }
        return r < 0 ? r : more;
}

/* --- What follows from it -------------------------------------------------------------------------- */

static void count_report(struct suspect_host *q, const struct report *r) {
        const char *name = event_def(troubles[r->trouble].id)->name;
        size_t i = 0;

        while (i < q->n_reports && !streq(q->reports[i].name, name))
                i++;
        if (i == q->n_reports)
                q->reports[q->n_reports++] =
                        (struct suspect_report){ .name = name, .noun = troubles[r->trouble].noun };
        q->reports[i].count++;
        if (r->event > q->reports[i].event) {
                q->reports[i].event = r->event;
                q->reports[i].last = r->time;
        }
        q->first = MIN(q->first, r->received);
}

static bool is_first_of_run(const struct host *h, size_t at) {
        for (size_t i = 0; i < at; i++)
                if (h->reports[i].of_run && h->reports[i].about == h->reports[at].about)
                        return false;
        return h->reports[at].of_run;
}

static struct suspect_host suspect_of(const struct host *h, usec_t now) {
        struct suspect_host q = { .host = h->name, .slice = h->slice, .worker = h->worker, .first = now };

        for (size_t k = 0; k < ELEMENTSOF(troubles) * h->n; k++) { /* in the order of the table */
                size_t i = k % h->n;
                const struct report *r = &h->reports[i];
                usec_t age = now - MIN(now, r->received);

                if (r->trouble != k / h->n || age > WINDOW)
                        continue;
                q.score += troubles[r->trouble].gravity * exp2(-(double) age / (double) HALF_LIFE);
                q.runs += is_first_of_run(h, i);
                count_report(&q, r);
        }
        return q;
}

static int by_score(const void *x, const void *y) {
        const struct suspect_host *a = x, *b = y;

        return COMPARE(b->score, a->score) ?: strcmp(a->host, b->host);
}

int suspects_list(const struct suspects *s, usec_t now, struct suspect_host **ret, size_t *ret_n) {
        _cleanup_free_ struct suspect_host *list = NULL;
        size_t n = 0, size = 0;

        for (size_t i = 0; i < s->n; i++) {
                struct suspect_host q = suspect_of(s->hosts[i], now);

                if (q.score < SUSPECTS_SCORE)
                        continue;
                if (grow(&list, &size, n + 1, sizeof(list[0])) < 0)
                        return -ENOMEM;
                list[n++] = q;
        }
        if (n > 1)
                qsort(list, n, sizeof(list[0]), by_score);
        *ret = TAKE_PTR(list);
        *ret_n = n;
        return 0;
}

/* "2 confirmed stalls, 1 bad link in 3 days" */
static void print_words(const struct suspect_host *q, usec_t now, char buf[static WORDS_MAX]) {
        unsigned days = (unsigned) ((now - MIN(now, q->first)) / DAY) + 1;
        size_t n = 0;

        for (size_t i = 0; i < q->n_reports && n < WORDS_MAX; i++)
                n += (size_t) snprintf(buf + n, WORDS_MAX - n, "%s%u %s%s", i > 0 ? ", " : "",
                                       q->reports[i].count, q->reports[i].noun,
                                       q->reports[i].count > 1 ? "s" : "");
        if (n < WORDS_MAX)
                (void) snprintf(buf + n, WORDS_MAX - n, " in %u day%s", days, days > 1 ? "s" : "");
}

const json_t *suspects_words(struct suspects *s, struct store *store, usec_t now) {
        _cleanup_free_ struct suspect_host *list = NULL;
        json_t *words;
        size_t n;

        if (s->made > 0 && now >= s->made && now < s->made + SUSPECTS_KEPT)
                return s->words;
        s->made = now; /* also where it fails: who writes next sees what is wrong with the store */
        if (suspects_read(s, store, now) < 0 || suspects_list(s, now, &list, &n) < 0)
                return s->words;
        words = json_object();
        for (size_t i = 0; i < n && words; i++) {
                char text[WORDS_MAX];

                print_words(&list[i], now, text);
                /* One that is left out is tried again soon. */
                (void) json_object_set_new(words, list[i].host, json_string(text));
        }
        if (words) {
                json_decref(s->words);
                s->words = words;
        }
        return s->words;
}
