/* SPDX-License-Identifier: Apache-2.0 */
/* All parts of tpu-hostd, as a table in the order in which they depend on each other, and the tick. */
#include "agent.h"

#include "agent_stack_files.h"
#include "bpf_part.h"
#include "calls.h"
#include "deaths_part.h"
#include "frame.h"
#include "identity_part.h"
#include "libtpu_part.h"
#include "log.h"
#include "metrics_part.h"
#include "net_part.h"
#include "path_part.h"
#include "run_totals_part.h"
#include "uplink_samples.h"
#include "watch_part.h"

#define API_SOCKET_MODE 0666 /* everyone may read; who may act is decided call by call */

/* --- What is no part yet ------------------------------------------------------------------------------- */

#define BUS(self) (*(struct bus **) (self))
#define START(name) \
        static int start_##name(void *self) { return agent_##name##_start(BUS(self)); }
#define STOP(name) \
        static void stop_##name(void *self) { agent_##name##_stop(BUS(self)); }

STOP(uplink)
static int start_uplink(void *self) {
        int r = agent_uplink_start(BUS(self));

        return r < 0 ? r : bus_describe(BUS(self));
}
static void sample_uplink(void *self, struct bus_sink *s) {
        struct bus *b = BUS(self);
        struct uplink_stats u;

        agent_uplink_look(b);
        uplink_get_stats(agent_of(b)->uplink, &u);
        agent_uplink_judge(b, &u);
        for (enum uplink_class c = 0; c < _UPLINK_CLASS_MAX; c++) {
                uint64_t damaged = u.classes[c].spool.damaged;

                if (damaged == agent_of(b)->damaged[c])
                        continue;
                agent_of(b)->damaged[c] = damaged;
                (void) bus_emit(
                        b, EVENT_OF(SPOOL_DAMAGED, .class = uplink_class_name(c),
                                    .damaged = (int64_t) damaged),
                        NULL);
        }
        uplink_samples(&u, b->telemetry.lost, host_now_real(b->host), &s->sink);
}
static const struct part old_uplink = { "uplink", sizeof(struct bus *), .start = start_uplink, .sample = sample_uplink, .stop = stop_uplink };

START(orders) STOP(orders)
static void tick_orders(void *self) { agent_orders_tick(BUS(self)); }
static void hear_orders(void *self, const struct bus_news *n) {
        if (n->topic == BUS_CHECKS)
                agent_orders_save(BUS(self));
}
static const struct part old_orders = { "orders", sizeof(struct bus *), .start = start_orders, .tick = tick_orders, .hear = hear_orders, .stop = stop_orders };

START(runs)
static void stop_runs(void *self) {
        struct agent *a = agent_of(BUS(self));

        agent_signal_stop(&a->bus);
        a->captures = captures_free(a->captures);
        a->run_lines = run_lines_free(a->run_lines);
        a->run_log = run_log_free(a->run_log);
        agent_progress_stop(&a->bus);
        bus_forget_runs(&a->bus);
        a->runs = launchd_runs_free(a->runs);
}
static void hear_runs(void *self, const struct bus_news *n) {
        struct agent *a = agent_of(BUS(self));

        if (n->topic == BUS_DURABLE && n->durable.class == UPLINK_EVENTS && a->captures)
                captures_durable(a->captures, n->durable.seq);
        if (n->topic == BUS_DURABLE && n->durable.class == UPLINK_LOGS && a->run_lines)
                run_lines_durable(a->run_lines, n->durable.seq);
        if (n->topic == BUS_NOTICE && n->notice.ahead)
                agent_preempted(&a->bus, n->notice.kind, n->notice.text);
        if (n->topic == BUS_NOTICE && !n->notice.ahead)
                agent_preemption_over(&a->bus, n->notice.kind, n->notice.text);
}
static bool run_lives(const char *name, void *userdata) {
        const struct host_run *r = host_runs_find(((const struct bus *) userdata)->runs, name);

        return r && host_run_lives(r);
}
static void tick_runs(void *self) {
        struct agent *a = agent_of(BUS(self));

        if (a->run_log && a->bus.runs->known)
                run_log_prune(a->run_log, run_lives, &a->bus);
        if (a->run_log)
                (void) run_log_look(a->run_log); /* what is left is read in the next turns */
        launchd_runs_refresh(a->runs);
}
static void put_known(struct sink *s, enum metric_id id, double value, const char *run) {
        if (isfinite(value)) /* else the line did not say */
                put_double(s, id, value, run, NULL, NULL);
}
static void sample_runs(void *self, struct bus_sink *s) {
        struct bus *b = BUS(self);
        size_t n = 0;
        const struct run_progress *runs = agent_of(b)->run_log ? run_log_runs(agent_of(b)->run_log, &n) : NULL;

        for (size_t i = 0; i < n; i++) {
                const struct progress *p = &runs[i].progress;

                if (p->lines == 0)
                        continue;
                put_uint(&s->sink, METRIC_RUN_STEP, p->last_step, runs[i].run, NULL, NULL);
                put_known(&s->sink, METRIC_RUN_TOKENS, p->last.tokens_per_second, runs[i].run);
                put_known(&s->sink, METRIC_RUN_TFLOPS, p->last.tflops, runs[i].run);
                put_known(&s->sink, METRIC_RUN_LOSS, p->last.loss, runs[i].run);
        }
        agent_progress_tick(b, &s->sink);
}
static const struct part old_runs = { "runs", sizeof(struct bus *), .start = start_runs, .hear = hear_runs, .tick = tick_runs, .sample = sample_runs, .stop = stop_runs };

START(stack_files) STOP(stack_files)
static void sample_stack_files(void *self, struct bus_sink *s) { agent_stack_files_tick(BUS(self), &s->sink); }
static const struct part old_stack_files = { "stack-files", sizeof(struct bus *), .start = start_stack_files, .sample = sample_stack_files, .stop = stop_stack_files };

static void on_probe_finding(unsigned source, unsigned round, const struct finding *f, void *userdata) {
        bus_take_finding(userdata, source, round, f);
}
static void on_probe_sample(unsigned source, unsigned round, const struct sample *m, void *userdata) {
        struct bus *b = userdata;

        bus_take_sample(b, source, round, m, b->boot_real);
}
/* A probe that could not look leaves what is known of its checks as it was. */
static void on_probe_done(unsigned source, unsigned round, bool whole, void *userdata) {
        if (whole)
                bus_end_round(userdata, source, round);
        else
                bus_report_state(userdata);
}
static int start_probes(void *self) {
        static const struct schedule_handlers handlers = { .finding = on_probe_finding,
                                                           .sample = on_probe_sample,
                                                           .done = on_probe_done };
        struct agent *a = agent_of(BUS(self));
        int r;

        a->probe_program = PROBE_PROGRAM_NULL;
        r = probe_program_open(&a->probe_program);
        if (r < 0)
                (void) log_error_errno(
                        r, "%s: %m: what it would look at stays unknown; reinstall the package tpu-hostd",
                        a->probe_program.program.path);
        return schedule_new(a->bus.event, probe_table, &a->probe_program.program, a->bus.settings.probe_interval,
                         a->bus.host, &a->bus.context, &handlers, &a->bus, &a->schedule);
}
static void stop_probes(void *self) {
        struct agent *a = agent_of(BUS(self));

        a->schedule = schedule_free(a->schedule);
        probe_program_close(&a->probe_program);
}
static void tick_probes(void *self) {
        schedule_go_along(agent_of(BUS(self))->schedule); /* what they find goes out at once */
}
static void reload_probes(void *self) {
        schedule_set_interval(agent_of(BUS(self))->schedule, BUS(self)->settings.probe_interval);
}
static void hear_probes(void *self, const struct bus_news *n) {
        if (n->topic == BUS_IDENTITY && agent_of(BUS(self))->schedule)
                schedule_run_all(agent_of(BUS(self))->schedule);
}
static const struct part old_probes = { "probes", sizeof(struct bus *), .start = start_probes, .tick = tick_probes, .reload = reload_probes, .hear = hear_probes, .stop = stop_probes };

START(registry) STOP(registry)
static void sample_registry(void *self, struct bus_sink *s) {
        (void) s;
        agent_registry_tick(BUS(self)); /* behind all samples: it hands figures on */
}
static void hear_registry(void *self, const struct bus_news *n) {
        if (!agent_of(BUS(self))->enrollment)
                return;
        if (n->topic == BUS_MEMBER)
                agent_registry_news(BUS(self));
        if (n->topic == BUS_IDENTITY)
                agent_registry_look(BUS(self));
        if (n->topic == BUS_RUNS)
                agent_registry_runs(BUS(self));
        if (n->topic == BUS_SUSPICION)
                agent_registry_suspicion(BUS(self));
}
static const struct part old_registry = { "registry", sizeof(struct bus *), .start = start_registry, .sample = sample_registry, .hear = hear_registry, .stop = stop_registry };

START(capture) STOP(capture)
static void hear_capture(void *self, const struct bus_news *n) {
        struct bus *b = BUS(self);

        if (!agent_of(b)->capture)
                return;
        if (n->topic == BUS_REGISTRY)
                agent_capture_registry(b, n->registry.other);
        if (n->topic == BUS_RECORD && startswith(n->record.key, "capture/"))
                agent_capture_record(b, n->record.value, n->record.fresh);
        if (n->topic == BUS_SUSPICION && n->suspicion.now && n->suspicion.now->counts)
                agent_capture_suspected(b, n->suspicion.run, n->suspicion.generation, n->suspicion.now);
}
static const struct part old_capture = { "capture", sizeof(struct bus *), .start = start_capture, .hear = hear_capture, .stop = stop_capture };

STOP(events)
static int start_api(void *self) {
        struct bus *b = BUS(self);
        int fd, r;

        r = agent_events_start(b);
        if (r >= 0)
                r = agent_routes_start(b);
        if (r < 0)
                return r;
        fd = listen_socket(b->settings.api_socket, API_SOCKET_MODE);
        if (fd < 0)
                return log_error_errno(fd, "the API cannot listen on %s: %m", b->settings.api_socket);
        r = agent_api_serve(b, fd, NULL, &agent_of(b)->api);
        if (r < 0)
                return log_error_errno(r, "the API cannot start on %s: %m", b->settings.api_socket);
        r = agent_tls_start(b);
        return r < 0 ? log_error_errno(r, "the API cannot be offered over TCP: %m") : 0;
}
static void stop_api(void *self) {
        stop_events(self);
        agent_stop_clear(BUS(self));
        agent_of(BUS(self))->api = http_server_free(agent_of(BUS(self))->api);
        agent_tls_stop(BUS(self));
        free(agent_of(BUS(self))->served);
}
static void reload_api(void *self) { agent_tls_reload(BUS(self)); }
static void sample_api(void *self, struct bus_sink *s) {
        (void) s;
        agent_tls_look(BUS(self));
        agent_tls_judge(BUS(self));
        bus_settle(BUS(self), SOURCE_API, BUS(self)->round);
}
static void hear_api(void *self, const struct bus_news *n) {
        if (n->topic == BUS_EVENT)
                agent_events_news(BUS(self));
}
static const struct part old_api = { "api", sizeof(struct bus *), .start = start_api, .sample = sample_api, .reload = reload_api, .hear = hear_api, .stop = stop_api };

/* --- The parts ----------------------------------------------------------------------------------------- */

static const struct part *const parts[PARTS] = {
        &bpf_part, /* before there is a socket or a thread: it gives our capabilities up */
        &identity_part,
        &old_uplink,
        &calls_part,
        &old_orders,
        &metrics_part,
        &kernel_part,
        &libtpu_part,
        &run_totals_part,
        &deaths_part,
        &old_runs,
        &old_stack_files,
        &old_probes,
        &watch_part,
        &old_registry,
        &net_part,
        &path_part,
        &old_capture,
        &old_api,
};

/* Samples and findings of all parts. */
static void sample_parts(struct agent *a) {
        struct bus *b = &a->bus;

        b->round++;
        for (unsigned i = 0; i < PARTS; i++) {
                struct bus_sink s = bus_sink(b, SOURCE_PROBES_MAX + i, b->round);

                if (!parts[i]->sample)
                        continue;
                parts[i]->sample(a->states[i], &s);
                bus_end_round(b, s.source, s.round);
        }
}

static int start_parts(struct agent *a) {
        for (size_t i = 0; i < PARTS; i++) {
                int r = parts[i]->start ? parts[i]->start(a->states[i]) : 0;

                if (r < 0)
                        return log_error_errno(r, "tpu-hostd cannot start its part %s: %m", parts[i]->name);
        }
        return 0;
}

static int make_parts(struct agent *a) {
        for (size_t i = 0; i < PARTS; i++) {
                struct bus **state;

                assert(parts[i]->size >= sizeof(*state));
                state = calloc(1, parts[i]->size);
                if (!state)
                        return log_error_errno(ENOMEM, "tpu-hostd cannot start: %m");
                *state = &a->bus;
                a->states[i] = state;
        }
        return 0;
}

/* --- The tick ------------------------------------------------------------------------------------------ */

#define ACCURACY (1 * USEC_PER_SEC)

/*
 * sd-event prefers moments that are the same in every minute, every ten seconds and every second, for all
 * programs of the host. The second tick may choose among a whole interval's, which brings us onto the
 * coarsest that there is; the later ones may come a little early and no later, which keeps us on it.
 */
static int arm_tick(struct agent *a, sd_event_source *source) {
        usec_t interval = a->bus.settings.metrics_interval, accuracy = MIN(ACCURACY, interval / 10);
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
        for (size_t i = 0; i < PARTS; i++)
                if (parts[i]->tick)
                        parts[i]->tick(a->states[i]);
        sample_parts(a);
        bus_push(&a->bus);
        r = arm_tick(a, source);
        if (r >= 0)
                r = sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
        if (r < 0)
                (void) log_error_errno(r, "metrics are not collected any more: %m");
        return 0;
}

static int start_tick(struct agent *a) {
        usec_t interval = a->bus.settings.metrics_interval;
        int r;

        r = sd_event_add_time_relative(a->bus.event, &a->tick, CLOCK_BOOTTIME, MIN(interval, USEC_PER_SEC),
                                       MIN(ACCURACY, interval / 10), on_tick, a);
        if (r < 0)
                return log_error_errno(r, "metrics cannot be collected: %m");
        (void) sd_event_source_set_description(a->tick, "tick");
        return 0;
}

/* --- Life ---------------------------------------------------------------------------------------------- */

int agent_new(sd_event *e, const struct host *h, const char *config_file, const struct settings *s,
              struct agent **ret) {
        _cleanup_(agent_freep) struct agent *a = calloc(1, sizeof(*a));
        int r;

        if (!a)
                return log_error_errno(ENOMEM, "tpu-hostd cannot start: %m");
        a->bus = (struct bus){ .event = e,
                               .host = h,
                               .config_file = config_file,
                               .settings = *s,
                               .parts = parts,
                               .states = a->states,
                               .n_parts = PARTS };
        if (bus_init(&a->bus) < 0)
                return log_error_errno(ENOMEM, "tpu-hostd cannot start: %m");
        r = make_parts(a);
        if (r >= 0)
                r = start_parts(a);
        if (r < 0)
                return r;
        sample_parts(a);
        a->bus.watching = a->bus.status_stale = true;
        bus_report_state(&a->bus);
        r = start_tick(a);
        if (r < 0)
                return r;
        a->up = true;
        *ret = TAKE_PTR(a);
        return 0;
}

struct agent *agent_free(struct agent *a) {
        if (!a)
                return NULL;
        if (a->up && !a->stopping)
                (void) bus_emit(&a->bus, EVENT_OF(AGENT_STOPPING, .version = TPU_HOSTD_VERSION), NULL);
        a->tick = sd_event_source_disable_unref(a->tick);
        for (size_t i = PARTS; i > 0; i--)
                if (a->states[i - 1] && parts[i - 1]->stop)
                        parts[i - 1]->stop(a->states[i - 1]);
        bus_clear(&a->bus);
        for (size_t i = 0; i < PARTS; i++)
                free(a->states[i]);
        free(a);
        return NULL;
}

void agent_reload(struct agent *a) {
        struct settings_source source;
        struct settings fresh = { 0 };
        int r;

        r = settings_load(&fresh, &source, a->bus.host, a->bus.config_file);
        if (r < 0)
                (void) log_error_errno(r, "the configuration cannot be read again, the old one stays: %m");
        else {
                (void) settings_keep_fixed(&fresh, &a->bus.settings);
                a->bus.settings = fresh;
        }
        config_clear(&source.config);
        for (size_t i = 0; i < PARTS; i++)
                if (parts[i]->reload)
                        parts[i]->reload(a->states[i]);
        log_info("configuration, identity and wanted values were read again");
}
