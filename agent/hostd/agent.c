/* SPDX-License-Identifier: Apache-2.0 */
/* All parts of tpu-hostd, as a table in the order in which they depend on each other, and the tick. */
#include "agent.h"

#include "agent_bpf.h"
#include "agent_deaths.h"
#include "agent_libtpu.h"
#include "agent_run_totals.h"
#include "agent_stack_files.h"
#include "agent_watch.h"
#include "calls.h"
#include "checks_part.h"
#include "frame.h"
#include "identity_part.h"
#include "log.h"
#include "net_part.h"
#include "orders_part.h"
#include "path_part.h"
#include "process_cost.h"
#include "uplink_part.h"

#define API_SOCKET_MODE 0666 /* everyone may read; who may act is decided call by call */

/* --- What is no part yet ------------------------------------------------------------------------------- */

#define BUS(self) (*(struct bus **) (self))
#define START(name) \
        static int start_##name(void *self) { return agent_##name##_start(BUS(self)); }
#define STOP(name) \
        static void stop_##name(void *self) { agent_##name##_stop(BUS(self)); }

START(bpf) STOP(bpf)
static const struct part old_bpf = { "bpf", sizeof(struct bus *), .start = start_bpf, .stop = stop_bpf };


static int start_metrics(void *self) {
        struct bus *b = BUS(self);

        (void) bus_emit(b,
                          EVENT_OF(AGENT_STARTED, .version = TPU_HOSTD_VERSION, .pid = getpid(),
                                   .boot_id = b->boot_id),
                          NULL);
        return host_metrics_new(b->host, &agent_of(b)->host_metrics);
}
static void sample_metrics(void *self, struct bus_sink *s) {
        struct bus *b = BUS(self);
        const struct host_runs *l = b->runs;
        struct process_cost cost;

        if (process_cost_read(b->host, &cost) >= 0) { /* a folder of fixtures has no such files */
                put_double(&s->sink, METRIC_PROCESS_CPU, cost.cpu_seconds, NULL, NULL, NULL);
                put_uint(&s->sink, METRIC_PROCESS_MEMORY, cost.resident_memory, NULL, NULL, NULL);
        }
        for (enum host_state state = 0; state < _HOST_STATE_MAX; state++)
                put_int(&s->sink, METRIC_HOST_STATE, state == b->state, host_state_name(state), NULL, NULL);
        for (enum order_kind k = 0; k < ORDER_SILENCE; k++)
                put_int(&s->sink, METRIC_HOST_ORDERED, orders_find(&b->orders, k) != NULL, order_kind_name(k),
                        NULL, NULL);
        for (size_t i = 0; i < b->checks.n; i++)
                put_int(&s->sink, METRIC_CHECK_VERDICT, verdict_gravity(b->checks.health[i].settled),
                        b->checks.entries[i].settled->check, b->checks.entries[i].settled->subject, NULL);
        s->start_real = b->boot_real;
        host_metrics_look(agent_of(b)->host_metrics, host_now(b->host), &s->sink);
        for (size_t i = 0; l->known && i < l->n; i++) {
                if (!host_run_lives(&l->runs[i]))
                        continue;
                s->start_real = l->runs[i].started_real;
                host_metrics_look_at_run(agent_of(b)->host_metrics, l->runs[i].name, &s->sink);
        }
        host_metrics_runs_end(agent_of(b)->host_metrics);
}
static void stop_metrics(void *self) {
        agent_of(BUS(self))->host_metrics = host_metrics_free(agent_of(BUS(self))->host_metrics);
}
static const struct part old_metrics = { "metrics", sizeof(struct bus *), .start = start_metrics, .sample = sample_metrics, .stop = stop_metrics };

START(kernel) STOP(kernel)
static void sample_kernel(void *self, struct bus_sink *s) { agent_kernel_tick(BUS(self), &s->sink); }
static const struct part old_kernel = { "kernel", sizeof(struct bus *), .start = start_kernel, .sample = sample_kernel, .stop = stop_kernel };

START(libtpu) STOP(libtpu)
static void tick_libtpu(void *self) { agent_libtpu_tick(BUS(self)); }
static void hear_libtpu(void *self, const struct bus_news *n) {
        if (n->topic == BUS_IDENTITY)
                agent_libtpu_reload(BUS(self));
}
static const struct part old_libtpu = { "libtpu", sizeof(struct bus *), .start = start_libtpu, .tick = tick_libtpu, .hear = hear_libtpu, .stop = stop_libtpu };

static void tick_deaths(void *self) { agent_deaths_tick(BUS(self)); }
STOP(deaths)
static const struct part old_deaths = { "deaths", sizeof(struct bus *), .tick = tick_deaths, .stop = stop_deaths };

static void tick_run_totals(void *self) { agent_run_totals_tick(BUS(self)); }
STOP(run_totals)
static const struct part old_run_totals = { "run-totals", sizeof(struct bus *), .tick = tick_run_totals, .stop = stop_run_totals };

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
        if (n->topic == BUS_ASK_RUNS) {
                a->bus.runs_asked = launchd_runs_asked(a->runs);
                launchd_runs_ask(a->runs);
        }
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
static void stop_watch(void *self) {
        agent_watch_stop(BUS(self));
        agent_watch_round_stop(BUS(self));
}
static const struct part old_watch = { "watch", sizeof(struct bus *), .stop = stop_watch };
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

static const struct part *const parts[] = {
        &old_bpf, /* before there is a socket or a thread: it gives our capabilities up */
        &identity_part,
        &uplink_part,
        &calls_part,
        &orders_part,
        &old_metrics,
        &old_kernel,
        &old_libtpu,
        &old_deaths,
        &old_run_totals,
        &old_runs,
        &old_stack_files,
        &checks_part,
        &old_watch,
        &old_registry,
        &net_part,
        &path_part,
        &old_capture,
        &old_api,
};
#define PARTS ELEMENTSOF(parts)
_Static_assert(PARTS <= HOSTD_PARTS_MAX, "a state a part");

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
