/* SPDX-License-Identifier: Apache-2.0 */
#include "ask.h"
#include "check_look.h"
#include "probe_serve.h"
#include "report.h"
#include "texts.h"
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

/* A worker, and what it answered. */
struct asked {
        struct child *child;
        bool over, stuck;
        int result;
        char *answer;
        size_t len;
};

static void on_answer(int result, const char *answer, size_t len, void *userdata) {
        struct asked *a = userdata;

        if (a->over)
                return; /* it was stuck, and is gone now */
        a->over = true;
        a->stuck = child_is_there(a->child);
        a->answer = strndup(answer, len);
        a->result = a->answer ? result : -ENOMEM;
        a->len = a->answer ? strlen(a->answer) : 0;
}

static void finish_worker(sd_event *e, const struct probe *p, struct asked *a, struct sink *s) {
        struct wire_names names = { .n = 0 };
        int r = 0;

        while (!a->over && r >= 0)
                r = sd_event_run(e, UINT64_MAX);
        if (a->over)
                r = worker_take(&names, a->result, a->answer ? a->answer : "", a->len, s);
        if (r < 0)
                worker_tell_failure(p, r, a->stuck, s);
        wire_clear(&names);
        a->child = child_free(a->child);
        free(a->answer);
}

void check_look(const struct look *l, struct seen *ret) {
        struct asked asked[PROBES_MAX] = { { .over = false } };
        _cleanup_(sd_event_unrefp) sd_event *e = NULL;
        int r = sd_event_new(&e);
        size_t n;

        /* All workers first: they look while we do. */
        for (n = 0; probe_table[n] && n < PROBES_MAX; n++) {
                const struct probe *p = probe_table[n];
                struct asked *a = &asked[n];

                if (!p->blocks || (l->one && l->one != p))
                        continue;
                if (r >= 0)
                        a->result = worker_start(e, &worker_program, l->host, p, on_answer, a, &a->child);
                else
                        a->result = r;
                a->over = a->result < 0;
        }
        for (size_t i = 0; i < n; i++) {
                const struct probe *p = probe_table[i];
                struct taker t = { { take_finding, drop_sample }, l, ret, p->group };

                if (l->one && l->one != p)
                        continue;
                if (p->blocks)
                        finish_worker(e, p, &asked[i], &t.sink); /* a failure is a finding */
                else
                        (void) probe_run(p, l->host, l->context, &t.sink); /* likewise */
        }
}

int check_serve(const struct host *h, const char *name) {
        return probe_serve("tpuctl check", h, name);
}

/* --- What tpu-hostd knows ------------------------------------------------------------------------------ */

#define ANSWER_TIME (3 * USEC_PER_SEC)
/* By group: what its names begin with. */
static const struct agent_group {
        const char *name, *prefix;
        enum probe_group group;
} agent_groups[] = {
        { CHECK_AGENT, CHECK_AGENT "_", GROUP_BPF },
        { "enroll", "enroll.", GROUP_PEERS },
        { "preflight", "preflight.", GROUP_PEERS },
};

static const struct agent_group *agent_group_of(const char *check) {
        for (size_t i = 0; i < ELEMENTSOF(agent_groups); i++)
                if (streq(check, agent_groups[i].name) || startswith(check, agent_groups[i].prefix))
                        return &agent_groups[i];
        return NULL;
}

bool check_agent_is(const char *name) {
        return agent_group_of(name) != NULL;
}

/* only: one check, or a whole group. */
static void take_agent_finding(const json_t *o, const char *only, struct seen *ret) {
        const struct agent_group *g;
        struct finding f;

        (void) finding_from_json(o, &f); /* a verdict of a later version is UNKNOWN */
        if (streq(f.check, "daemon.disk") && streq(f.subject, "tpu-hostd") &&
            (!only || streq(only, f.check)))
                seen_add(ret, GROUP_HOST, only, &f);
        g = agent_group_of(f.check);
        if (g && !streq(f.check, g->name) && (!only || streq(only, f.check) || streq(only, g->name)))
                seen_add(ret, g->group, NULL, &f);
}

static void say_nothing_known(const struct problem *p, const char *only, struct seen *ret) {
        const struct agent_group *g = agent_group_of(only);
        struct finding f;

        finding_init(&f, g->name, "");
        finding_set(f.found, "nothing");
        finding_set(f.reason, "only tpu-hostd knows: %s", p->text);
        finding_set(f.remedy, "%s", p->remedy);
        seen_add(ret, g->group, NULL, &f);
}

void check_agent(const char *root, const char *only, bool asked, struct seen *ret) {
        struct problem problem;
        json_auto_t *answer = NULL;
        const json_t *o;
        int r = hostd_call(root, NULL, "/v1/checks", ANSWER_TIME, &answer, &problem);
        size_t i;

        json_array_foreach(json_object_get(answer, "checks"), i, o)
                take_agent_finding(o, only, ret);
        if (r < 0 && asked)
                say_nothing_known(&problem, only, ret);
}

enum verdict check_agent_worst(const struct finding_list *l) {
        enum verdict worst = VERDICT_OK;

        for (size_t i = 0; i < l->n; i++)
                if (!startswith(l->items[i].check, CHECK_AGENT))
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
                text_append(line->subject, sizeof(line->subject), "", ", %s", subject);
}

static struct finding shared_line(const struct finding_list *l, size_t first) {
        struct finding line = l->items[first];
        size_t more = 0;

        for (size_t k = first + 1; k < l->n; k++) {
                if (!are_alike(&l->items[first], &l->items[k]))
                        continue;
                take_subject(&line, l->items[k].subject, &more);
                if (!streq(line.found, l->items[k].found))
                        finding_set(line.found, "as wanted");
        }
        if (more > 0)
                text_append(line.subject, sizeof(line.subject), "", " and %zu more", more);
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
