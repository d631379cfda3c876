/* SPDX-License-Identifier: Apache-2.0 */
#include "ask.h"
#include "check_look.h"
#include "probe_serve.h"
#include "report.h"
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

/* --- What tpu-hostd knows ------------------------------------------------------------------------------ */

#define ANSWER_TIME (3 * USEC_PER_SEC)
#define PREFIX CHECK_AGENT "_"

bool check_agent_is(const char *name) {
        return streq(name, CHECK_AGENT) || startswith(name, PREFIX);
}

static void take_agent_finding(const json_t *o, const char *only, struct seen *ret) {
        struct finding f;

        (void) finding_from_json(o, &f); /* a verdict of a later version is UNKNOWN */
        if (streq(f.check, "daemon.disk") && streq(f.subject, "tpu-hostd") &&
            (!only || streq(only, f.check)))
                seen_add(ret, GROUP_HOST, only, &f);
        if (startswith(f.check, PREFIX) && (!only || streq(only, f.check)))
                seen_add(ret, GROUP_BPF, NULL, &f);
}

static void say_nothing_known(const struct problem *p, struct seen *ret) {
        struct finding f;

        finding_init(&f, CHECK_AGENT, "");
        finding_set(f.found, "nothing");
        finding_set(f.reason, "only tpu-hostd knows: %s", p->text);
        finding_set(f.remedy, "%s", p->remedy);
        seen_add(ret, GROUP_BPF, NULL, &f);
}

void check_agent(const char *root, const char *only, bool asked, struct seen *ret) {
        struct problem problem;
        json_t *answer = NULL;
        const json_t *o;
        int r = hostd_call(root, NULL, "/v1/checks", ANSWER_TIME, &answer, &problem);
        size_t i;

        json_array_foreach(json_object_get(answer, "checks"), i, o)
                take_agent_finding(o, only, ret);
        if (r < 0 && asked)
                say_nothing_known(&problem, ret);
        json_decref(answer);
}

enum verdict check_agent_worst(const struct finding_list *l) {
        enum verdict worst = VERDICT_OK;

        for (size_t i = 0; i < l->n; i++)
                if (!check_agent_is(l->items[i].check))
                        worst = verdict_worse(worst, l->items[i].verdict);
        return worst;
}

/* --- One screen ---------------------------------------------------------------------------------------- */

#define SUBJECTS_WIDTH 34 /* of the subjects named on a shared line; the rest is counted */

static bool found_what_was_wanted(const struct finding *f) {
        return f->wanted[0] && streq(f->found, f->wanted);
}

static bool are_alike(const struct finding *a, const struct finding *b) {
        return a->verdict == VERDICT_OK && b->verdict == VERDICT_OK && streq(a->check, b->check) &&
               (streq(a->found, b->found) || (found_what_was_wanted(a) && found_what_was_wanted(b)));
}

static bool has_predecessor(const struct finding_list *l, size_t i) {
        for (size_t k = 0; k < i; k++)
                if (are_alike(&l->items[k], &l->items[i]))
                        return true;
        return false;
}

/* Takes one more subject onto the line, or counts it in *more. */
static void take_subject(struct finding *line, const char *subject, size_t *more) {
        size_t n = strlen(line->subject), added = strlen(subject);

        if (*more > 0 || n + 2 + added > SUBJECTS_WIDTH)
                (*more)++;
        else
                (void) snprintf(line->subject + n, sizeof(line->subject) - n, ", %s", subject);
}

static struct finding shared_line(const struct finding_list *l, size_t first) {
        struct finding line = l->items[first];
        size_t more = 0, n;

        for (size_t k = first + 1; k < l->n; k++) {
                if (!are_alike(&l->items[first], &l->items[k]))
                        continue;
                take_subject(&line, l->items[k].subject, &more);
                if (!streq(line.found, l->items[k].found))
                        finding_set(line.found, "as wanted");
        }
        n = strlen(line.subject);
        if (more > 0)
                (void) snprintf(line.subject + n, sizeof(line.subject) - n, " and %zu more", more);
        line.wanted[0] = '\0';
        return line;
}

static bool has_successor(const struct finding_list *l, size_t i) {
        for (size_t k = i + 1; k < l->n; k++)
                if (are_alike(&l->items[i], &l->items[k]))
                        return true;
        return false;
}

int fold_findings(const struct finding_list *l, struct finding_list *ret) {
        int r = 0;

        for (size_t i = 0; r == 0 && i < l->n; i++) {
                struct finding line;

                if (has_predecessor(l, i))
                        continue;
                line = has_successor(l, i) ? shared_line(l, i) : l->items[i];
                r = finding_list_add(ret, &line);
        }
        return r;
}
