/* SPDX-License-Identifier: Apache-2.0 */
/* Every MetricsInterval: the agent's own samples, the check of the uplink, and one push. */
#include <math.h>
#include <time.h>

#include "agent.h"
#include "agent_deaths.h"
#include "agent_libtpu.h"
#include "agent_net.h"
#include "agent_run_totals.h"
#include "agent_stack_files.h"
#include "cost.h"
#include "log.h"
#include "uplink_samples.h"

#define ACCURACY (1 * USEC_PER_SEC)

/* --- Samples of the agent's own ------------------------------------------------------------------------ */

struct agent_sink {
        struct sink sink;
        struct agent *agent;
        unsigned source;
        usec_t start_real; /* since when its counters count */
};

static void put(struct sink *s, const struct sample *m) {
        const struct agent_sink *to = (const struct agent_sink *) s; /* the sink is the first member */

        agent_take_sample(to->agent, to->source, to->agent->ticks, m, to->start_real);
}

static void ignore(struct sink *s, const struct finding *f) {
        (void) s;
        (void) f;
}

static void sample_health(struct agent *a, struct sink *s) {
        for (enum host_state state = 0; state < _HOST_STATE_MAX; state++)
                put_int(s, METRIC_HOST_STATE, state == a->state, host_state_name(state), NULL, NULL);
        for (enum order_kind k = 0; k < ORDER_SILENCE; k++)
                put_int(s, METRIC_HOST_ORDERED, orders_find(&a->order_list, k) != NULL, order_kind_name(k),
                        NULL, NULL);
        for (size_t i = 0; i < a->checks.n; i++)
                put_int(s, METRIC_CHECK_VERDICT, verdict_exit_code(a->checks.health[i].settled),
                        a->checks.entries[i].settled->check, a->checks.entries[i].settled->subject, NULL);
}

/* NAN: the line did not say. */
static void put_known(struct sink *s, enum metric_id id, double value, const char *run) {
        if (isfinite(value))
                put_double(s, id, value, run, NULL, NULL);
}

static void sample_runs(struct agent *a, struct sink *s) {
        size_t n = 0;
        const struct run_progress *runs = a->run_log ? run_log_runs(a->run_log, &n) : NULL;

        for (size_t i = 0; i < n; i++) {
                const struct progress *p = &runs[i].progress;

                if (p->lines == 0)
                        continue;
                put_uint(s, METRIC_RUN_STEP, p->last_step, runs[i].run, NULL, NULL);
                put_known(s, METRIC_RUN_STEP_DURATION, p->last.seconds, runs[i].run);
                put_known(s, METRIC_RUN_TOKENS, p->last.tokens_per_second, runs[i].run);
                put_known(s, METRIC_RUN_TFLOPS, p->last.tflops, runs[i].run);
                put_known(s, METRIC_RUN_LOSS, p->last.loss, runs[i].run);
        }
}

static void sample_run_groups(struct agent *a, struct agent_sink *s) {
        const struct launchd_run_list *runs = launchd_runs_get(a->runs);

        for (size_t i = 0; runs->known && i < runs->n; i++) {
                if (streq(runs->runs[i].state, "exited"))
                        continue;
                s->start_real = runs->runs[i].started_real;
                host_metrics_look_at_run(a->host_metrics, runs->runs[i].name, &s->sink);
        }
        host_metrics_runs_end(a->host_metrics);
}

/* --- The uplink ---------------------------------------------------------------------------------------- */

static void tell_damage(struct agent *a, const struct uplink_stats *u) {
        for (enum uplink_class c = 0; c < _UPLINK_CLASS_MAX; c++) {
                uint64_t damaged = u->classes[c].spool.damaged;

                if (damaged == a->damaged[c])
                        continue;
                a->damaged[c] = damaged;
                (void) agent_emit(
                        a, EVENT_OF(SPOOL_DAMAGED, .class = uplink_class_name(c),
                                    .damaged = (int64_t) damaged),
                        NULL);
        }
}

/* --- The tick ------------------------------------------------------------------------------------------ */

static struct agent_sink sink_of(struct agent *a, enum agent_source source) {
        return (struct agent_sink){ .sink = { .finding = ignore, .sample = put },
                                    .agent = a,
                                    .source = source,
                                    .start_real = a->started_real };
}

static void collect_host(struct agent *a) {
        struct agent_sink host = sink_of(a, SOURCE_HOST), groups = sink_of(a, SOURCE_RUN_GROUPS),
                          kernel = sink_of(a, SOURCE_KERNEL), net = sink_of(a, SOURCE_NET),
                          bpf = sink_of(a, SOURCE_BPF);

        host.start_real = a->boot_real;
        host_metrics_look(a->host_metrics, host_now(a->host), &host.sink);
        sample_run_groups(a, &groups);
        agent_kernel_tick(a, &kernel.sink);
        agent_net_look(a);
        net.start_real = a->net->since_real;
        agent_net_sample(a, &net.sink, &bpf.sink);
        sample_store_end_run(&a->samples, SOURCE_NET, a->ticks);
        agent_run_totals_tick(a);
        sample_store_end_run(&a->samples, SOURCE_HOST, a->ticks);
        sample_store_end_run(&a->samples, SOURCE_RUN_GROUPS, a->ticks);
        sample_store_end_run(&a->samples, SOURCE_KERNEL, a->ticks);
        sample_store_end_run(&a->samples, SOURCE_BPF, a->ticks);
}

void agent_collect(struct agent *a) {
        struct agent_sink own = sink_of(a, SOURCE_AGENT), runs = sink_of(a, SOURCE_RUNS),
                          health = sink_of(a, SOURCE_HEALTH);
        struct uplink_stats u;

        a->ticks++;
        agent_uplink_look(a);
        agent_tls_look(a);
        uplink_get_stats(a->uplink, &u);
        agent_tls_judge(a);
        agent_uplink_judge(a, &u);
        tell_damage(a, &u);
        agent_metadata_judge(a);
        (void) cost_sample(a->host, &own.sink); /* a folder of fixtures has no such files */
        sample_runs(a, &runs.sink);
        sample_health(a, &health.sink);
        agent_stack_files_tick(a, &own.sink);
        uplink_samples(&u, a->telemetry.lost, host_now_real(a->host), &own.sink);
        collect_host(a);
        agent_progress_tick(a, &runs.sink);
        sample_store_end_run(&a->samples, SOURCE_AGENT, a->ticks);
        sample_store_end_run(&a->samples, SOURCE_RUNS, a->ticks);
        sample_store_end_run(&a->samples, SOURCE_HEALTH, a->ticks);
}

static bool run_lives(const char *name, void *userdata) {
        const struct launchd_run *run = launchd_runs_find(((const struct agent *) userdata)->runs, name);

        return run && !streq(run->state, "exited");
}

void agent_tick(struct agent *a) {
        int r;

        if (a->run_log && launchd_runs_get(a->runs)->known)
                run_log_prune(a->run_log, run_lives, a);
        if (a->run_log)
                (void) run_log_look(a->run_log); /* what is left is read in the next turns */
        launchd_runs_refresh(a->runs);
        agent_deaths_tick(a);
        agent_orders_tick(a);
        agent_collect(a);
        agent_libtpu_tick(a);
        agent_registry_tick(a);
        r = telemetry_push(&a->telemetry, &a->samples);
        if (r < 0)
                (void) log_warning_errno(r, "metrics are not in the spool: %m");
        uplink_sync_now(a->uplink, UPLINK_METRICS); /* nothing comes before the next tick */
}

/*
 * sd-event prefers moments that are the same in every minute, every ten seconds and every second, for all
 * programs of the host. The second tick may choose among a whole interval's, which brings us onto the
 * coarsest that there is; the later ones may come a little early and no later, which keeps us on it.
 */
static int arm(struct agent *a, sd_event_source *source) {
        usec_t interval = a->settings.metrics_interval, accuracy = MIN(ACCURACY, interval / 10);
        bool first = !a->ticking;
        int r;

        a->ticking = true;
        r = sd_event_source_set_time_accuracy(source, MAX(first ? interval : accuracy, (usec_t) 1));
        if (r < 0)
                return r;
        return sd_event_source_set_time_relative(source, first ? interval / 2 : interval - accuracy);
}

static int on_tick(sd_event_source *source, uint64_t usec, void *userdata) {
        struct agent *a = userdata;
        int r;

        (void) usec;
        schedule_go_along(a->schedule); /* before: what they find goes out at once */
        agent_tick(a);
        r = arm(a, source);
        if (r >= 0)
                r = sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
        if (r < 0)
                (void) log_error_errno(r, "metrics are not collected any more: %m");
        return 0;
}

int agent_tick_start(struct agent *a) {
        usec_t interval = a->settings.metrics_interval;
        int r;

        agent_collect(a);
        r = sd_event_add_time_relative(a->event, &a->tick, CLOCK_BOOTTIME, MIN(interval, USEC_PER_SEC),
                                       MIN(ACCURACY, interval / 10), on_tick, a);
        if (r >= 0)
                (void) sd_event_source_set_description(a->tick, "tick");
        return r;
}
