/* SPDX-License-Identifier: Apache-2.0 */
/* What people are shown of hosts: who is a member, who is missed, what members said of themselves; and how
 * their runs get on. */
#include <math.h>

#include "inside.h"
#include "json_text.h"

/* --- What is said ---------------------------------------------------------------------------------- */

static json_t *text_of(const json_t *member, const char *key, size_t max) {
        const char *t = json_string_value(json_object_get(member, key));
        json_t *v = json_stringn(t ? t : "", t ? strnlen(t, max) : 0);

        return v ? v : json_string(""); /* cut within a letter */
}

/* Why its run is taken for stalled: not yet while it may be a pause. */
static json_t *suspicion_of(const json_t *run) {
        return json_is_true(json_object_get(run, "may_be_pause")) ? json_string("")
                                                                  : text_of(run, "suspicion", 400);
}

/* The run that it is in; NULL: none. */
static const json_t *run_of(const json_t *member) {
        const json_t *list = json_object_get(member, "runs"), *v;
        size_t i;

        json_array_foreach (list, i, v) {
                const char *state = json_text_of(v, "state");

                if (streq(state, "running") || streq(state, "starting"))
                        return v;
        }
        return NULL;
}

void hosts_take_member(struct session *s, const json_t *member) {
        const json_t *run = run_of(member);
        json_auto_t *v =
                json_pack("{s:o, s:o, s:o, s:b, s:o, s:o, s:o, s:o, s:o, s:o, s:I}", "state",
                          text_of(member, "state", 31), "reasons", text_of(member, "reasons", 400), "orders",
                          text_of(member, "orders", 400), "observe",
                          json_is_true(json_object_get(member, "observe")), "notice",
                          text_of(member, "notice", 31), "accelerator", text_of(member, "accelerator", 63),
                          "version", text_of(member, "version", 63), "run", text_of(run, "name", 63),
                          "topology", text_of(member, "topology", 31), "suspicion", suspicion_of(run),
                          "step", (json_int_t) json_known_of(run, "step"));

        free(s->report);
        s->report = v ? json_dumps(v, JSON_COMPACT) : NULL;
}

/* A run of the registry is spoken of by the hosts of its slices alone, and in its generation; of others
 * nobody knows whose they are. */
static bool may_speak_of(const struct registry *r, const struct session *s, const char *run,
                         const json_t *figure) {
        char key[GANG_KEY_MAX];
        const json_t *v;

        (void) snprintf(key, sizeof(key), "run/%s", run);
        v = gang_record(r->gang, key);
        return !v || streq(json_text_of(v, "state"), "ended") ||
               (gang_concerns(r->gang, key, s->slice, s->host) &&
                json_number_of(figure, "generation") == json_number_of(v, "generation"));
}

const char *const registry_doings[] = { "idle",       "start", "step",  "compile", "checkpoint",
                                        "evaluation", "pause", "stall", NULL };

static const struct run_checkpoint no_checkpoint = { .at = -1, .step = -1, .took = -1, .since = -1 };

#define CHECKPOINT_AT_MAX ((int64_t) 1 << 53) /* the year 2255 */

static struct run_checkpoint checkpoint_of(const json_t *v) {
        int64_t at = json_known_of(v, "at");

        if (at <= 0 || at > CHECKPOINT_AT_MAX)
                return no_checkpoint;
        return (struct run_checkpoint){ .at = at,
                                        .step = json_known_of(v, "step"),
                                        .took = json_known_of(v, "took"),
                                        .since = json_known_of(v, "since") };
}

static void keep_figure(struct session *s, const char *run, const json_t *v) {
        const json_t *goodput = json_object_get(v, "goodput");
        const char *doing = json_text_of(v, "doing");

        (void) snprintf(s->run, sizeof(s->run), "%s", run);
        s->step = json_known_of(v, "step");
        s->step_time = json_known_of(v, "step_time");
        s->goodput = json_is_number(goodput) ? json_number_value(goodput) : NAN;
        if (!(s->goodput >= 0 && s->goodput <= 1))
                s->goodput = NAN;
        s->checkpoint = checkpoint_of(json_object_get(v, "checkpoint"));
        s->doing[0] = '\0';
        for (size_t i = 0; registry_doings[i]; i++)
                if (streq(doing, registry_doings[i]))
                        (void) snprintf(s->doing, sizeof(s->doing), "%s", doing);
}

/* The last of them that is one is shown. */
void hosts_take_figures(struct registry *r, struct session *s, const json_t *figures) {
        json_auto_t *taken = json_array();
        json_t *v;
        size_t i;

        s->run[0] = s->doing[0] = '\0';
        s->step_time = -1;
        s->goodput = NAN;
        s->checkpoint = no_checkpoint;
        json_array_foreach (figures, i, v) {
                const char *run = json_string_value(json_object_get(v, "run"));

                if (!run || !*run || strlen(run) >= sizeof(s->run) || !may_speak_of(r, s, run, v))
                        continue;
                keep_figure(s, run, v);
                if (json_array_append(taken, v) < 0)
                        break; /* out of memory: the next sync brings newer ones */
        }
        if (json_array_size(taken) > 0 && r->o.figures)
                r->o.figures(s->slice, s->worker, s->host, taken, r->o.userdata);
}

/* --- What is shown --------------------------------------------------------------------------------- */

struct showing {
        const struct registry *registry;
        int (*visit)(const struct registry_host *h, void *userdata);
        void *userdata;
        int result;
};

/* A suspicion is news at once, figures are of the last tick. */
static const char *doing_of(const struct session *s, const char *run, const json_t *report) {
        bool pauses = *s->doing && !streq(s->doing, "step") && !streq(s->doing, "start");

        if (!s->run[0] && !(run && *run))
                return "idle";
        return *json_text_of(report, "suspicion") && !pauses ? "stall" : s->doing;
}

static int show_member(const struct showing *w, const struct session *s) {
        usec_t real = clock_real(w->registry->o.clock), boot = registry_boot_now(w->registry);
        json_auto_t *report = s->report ? json_loads(s->report, 0, NULL) : NULL;
        const char *run = json_string_value(json_object_get(report, "run"));
        const json_t *step = json_object_get(report, "step");

        return w->visit(&(struct registry_host){ .name = s->host,
                                                 .slice = s->slice,
                                                 .worker = s->worker,
                                                 .member = true,
                                                 .heard = real - MIN(real, boot - MIN(boot, s->heard)),
                                                 .joined = real - MIN(real, boot - MIN(boot, s->joined)),
                                                 .why = "",
                                                 .report = report,
                                                 .run = s->run[0] ? s->run
                                                        : run     ? run
                                                                  : "",
                                                 .step = s->run[0] ? s->step
                                                         : step    ? json_integer_value(step)
                                                                   : -1,
                                                 .step_time = s->run[0] ? s->step_time : -1,
                                                 .goodput = s->run[0] ? s->goodput : NAN,
                                                 .checkpoint = s->run[0] ? s->checkpoint : no_checkpoint,
                                                 .doing = doing_of(s, run, report) },
                        w->userdata);
}

/* Of the list of a slice's record: those of whom there is no member now. */
static void show_absent(struct showing *w, const char *slice, const json_t *list, const char *otherwise) {
        const json_t *v;
        size_t i;

        json_array_foreach (list, i, v) {
                const char *why = json_string_value(json_object_get(v, "why"));
                int64_t worker = json_known_of(v, "worker");
                const struct registry_host h = { .name = json_text_of(v, "host"),
                                                 .slice = slice,
                                                 .worker = (unsigned) worker,
                                                 .heard = json_number_of(v, "since"),
                                                 .why = why ? why : otherwise,
                                                 .run = "",
                                                 .step = -1,
                                                 .step_time = -1,
                                                 .goodput = NAN,
                                                 .checkpoint = no_checkpoint,
                                                 .doing = "" };

                if (w->result == 0 && *h.name && worker >= 0 &&
                    !sessions_find(&w->registry->sessions, slice, h.worker))
                        w->result = w->visit(&h, w->userdata);
        }
}

static void on_slice(const char *key, const json_t *value, void *userdata) {
        const char *slice = key + strlen("slice/");

        show_absent(userdata, slice, json_object_get(value, "missing"), "it is missing");
        show_absent(userdata, slice, json_object_get(value, "roster"),
                    "not heard since the collector began");
}

int registry_visit_hosts(const struct registry *r,
                         int (*visit)(const struct registry_host *h, void *userdata), void *userdata) {
        struct showing w = { .registry = r, .visit = visit, .userdata = userdata };

        for (const struct session *s = r->sessions.first; s && w.result == 0; s = s->later)
                w.result = show_member(&w, s);
        if (w.result == 0)
                registry_visit(r, "slice/", on_slice, &w);
        return w.result;
}

bool registry_is_member(const struct registry *r, const char *slice, unsigned worker, const char *host,
                        const char *incarnation) {
        const struct session *s = sessions_find(&r->sessions, slice, worker);

        return s && streq(s->host, host) && streq(s->incarnation, incarnation);
}

bool registry_has_host(const struct registry *r, const char *name) {
        for (const struct session *s = r->sessions.first; s; s = s->later)
                if (streq(s->host, name))
                        return true;
        return false;
}
