/* SPDX-License-Identifier: Apache-2.0 */
#include "check_look.h"

#include "probe_serve.h"
#include "worker.h"

#define PROBES_MAX 64

static const struct worker_program worker_program = { .serve = check_serve };

struct taker {
        struct sink sink;
        const struct look *look;
        struct seen *seen;
        enum probe_group group;
};

void seen_add(struct seen *seen, enum probe_group group, const char *only, const struct finding *f) {
        /* A probe that could not look at all answers by its own name: that must not vanish behind the
         * filter. */
        if (only && !streq(f->check, only) && strchr(f->check, '.'))
                return;
        seen->incomplete |=
                finding_list_add(&seen->groups[group], f) < 0 || finding_list_add(&seen->all, f) < 0;
}

static void take_finding(struct sink *s, const struct finding *f) {
        const struct taker *t = (const struct taker *) s; /* the sink is the first member */

        seen_add(t->seen, t->group, t->look->only, f);
}

static void drop_sample(struct sink *s, const struct sample *m) {
        (void) s;
        (void) m;
}

void seen_clear(struct seen *s) {
        for (size_t i = 0; i < ELEMENTSOF(s->groups); i++)
                finding_list_clear(&s->groups[i]);
        finding_list_clear(&s->all);
}

void check_look(const struct look *l, struct seen *ret) {
        struct worker workers[PROBES_MAX];
        int started[PROBES_MAX];
        size_t n;

        /* All workers first: they look while we do. */
        for (n = 0; probe_table[n] && n < PROBES_MAX; n++) {
                const struct probe *p = probe_table[n];

                workers[n] = WORKER_NULL;
                started[n] = 1;
                if (p->blocks && (!l->one || l->one == p))
                        started[n] = worker_start(&worker_program, l->host, p, &workers[n]);
        }
        for (size_t i = 0; i < n; i++) {
                const struct probe *p = probe_table[i];
                struct taker t = { { take_finding, drop_sample }, l, ret, p->group };

                if (l->one && l->one != p)
                        continue;
                if (!p->blocks)
                        (void) probe_run(p, l->host, l->context, &t.sink); /* a failure is a finding */
                else if (started[i] < 0)
                        worker_tell_failure(p, started[i], false, &t.sink);
                else
                        (void) worker_finish(&workers[i], &t.sink); /* so it is here */
                wire_clear(&workers[i].reader);
        }
}

int check_serve(const struct host *h, const char *name) {
        return probe_serve("tpuctl check", h, name);
}
