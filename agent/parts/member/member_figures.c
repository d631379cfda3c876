/* SPDX-License-Identifier: Apache-2.0 */
/* How the runs of this host get on, for the registry: out of this tick's samples, and what parts give. */
#include <assert.h>
#include <math.h>

#include "json_text.h"
#include "log.h"
#include "member_state.h"
#include "progress_part.h"

#define DEBTS_KEPT (60 * USEC_PER_SEC) /* a moment that is past says nothing of now */

void member_keep_figure(struct member_state *m, const char *run, const char *key, json_t *value) {
        json_t *of;

        if (!m->figures)
                m->figures = json_object();
        of = json_object_get(m->figures, run);
        if (value && !of) /* out of memory: it is not said */
                (void) json_object_set_new(m->figures, run, of = json_object());
        if (value)
                (void) json_object_set_new(of, key, value);
        else
                (void) json_object_del(of, key);
}

/* What one sample says of the run that it is of; others are passed over. */
static void add_figure(json_t *figure, const struct sample *m) {
        const char *kind = m->values[1] ? m->values[1] : "", *some = m->values[2] ? m->values[2] : "";

        /* Out of memory: a member is left out, as one that is not known. */
        if (streq(m->name, "tpu.run.step.number"))
                (void) json_object_set_new(figure, "step", json_integer(m->i));
        else if (streq(m->name, "tpu.run.cpu.time") && (streq(kind, "user") || streq(kind, "system")))
                (void) json_object_set_new(figure, kind, json_real(m->is_int ? (double) m->i : m->d));
        else if (streq(m->name, "tpu.run.pressure.stall_time") && streq(some, "some"))
                (void) json_object_set_new(figure,
                                           streq(kind, "cpu")  ? "waited"
                                           : streq(kind, "io") ? "disk"
                                                               : "memory",
                                           json_real(m->is_int ? (double) m->i : m->d));
}

/* Of its last checkpoint all but its path, which stays on the host: agent/progress/checkpoint.h. */
static json_t *checkpoint_of(const struct bus *b, const char *run) {
        int64_t since;
        const struct checkpoint *c = progress_checkpoint(b, run, &since);
        json_t *v = c ? json_pack("{s:I}", "at", (json_int_t) c->at_real) : NULL;

        /* Out of memory: a member is left out, as in add_figure(). */
        if (v && c->step >= 0)
                (void) json_object_set_new(v, "step", json_integer((json_int_t) c->step));
        if (v && c->took > 0)
                (void) json_object_set_new(v, "took", json_integer((json_int_t) c->took));
        if (v && since >= 0)
                (void) json_object_set_new(v, "since", json_integer((json_int_t) since));
        return v;
}

/* How far a run is, out of what this tick's samples said of it. */
static json_t *figure_of(struct member_state *m, const struct host_run *run) {
        json_t *said = json_object_get(m->figures, run->name), *debts = json_object_get(said, "debts");
        struct bus *b = m->bus;
        json_auto_t *checkpoint = checkpoint_of(b, run->name);
        json_t *figure = json_pack("{s:s, s:I, s:I}", "run", run->name, "generation",
                                   (json_int_t) run->generation, "at", (json_int_t) host_now_real(b->host));
        usec_t step_time = progress_step_time(b, run->name);
        const char *doing = progress_doing(b, run->name);
        double goodput = progress_goodput(b, run->name);

        if (figure && step_time > 0)
                (void) json_object_set_new(figure, "step_time", json_integer((json_int_t) step_time));
        if (figure && doing)
                (void) json_object_set_new(figure, "doing", json_string(doing));
        if (checkpoint && figure)
                (void) json_object_set(figure, "checkpoint", checkpoint);
        if (figure && isfinite(goodput))
                (void) json_object_set_new(figure, "goodput", json_real(goodput));
        if (debts && json_number_of(debts, "at") + DEBTS_KEPT <= host_now_real(b->host))
                (void) json_object_del(said, "debts");
        (void) json_object_update(figure, said); /* or not, of what is not there */
        for (size_t i = 0; figure && i < b->samples.n; i++) {
                const struct sample_slot *s = &b->samples.slots[i];

                if (startswith(s->sample.name, "tpu.run.") && s->sample.values[0] &&
                    streq(s->sample.values[0], run->name))
                        add_figure(figure, &s->sample);
        }
        return figure;
}

static void forget_figures(struct member_state *m) {
        const char *run;
        json_t *of;
        void *next;

        json_object_foreach_safe(m->figures, next, run,
                                 of) if (m->bus->runs->known && !host_runs_find(m->bus->runs, run))(void)
                json_object_del(m->figures, run);
}

void member_report_figures(struct member_state *m) {
        const struct host_runs *runs = m->bus->runs;
        json_t *list = m->who.kind == REGISTRY_COLLECTOR ? json_array() : NULL;

        assert(m->registry);
        forget_figures(m);
        for (size_t i = 0; list && runs->known && i < runs->n; i++)
                if (host_run_lives(&runs->runs[i])) /* out of memory: as in add_figure() */
                        (void) json_array_append_new(list, figure_of(m, &runs->runs[i]));
        if (list && registry_figures(m->registry, list) < 0)
                log_warning("how far the runs of this host are cannot be reported to the registry");
        json_decref(list);
}
