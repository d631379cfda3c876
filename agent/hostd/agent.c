/* SPDX-License-Identifier: Apache-2.0 */
#include <systemd/sd-daemon.h>

#include "agent.h"
#include "agent_bpf.h"
#include "agent_deaths.h"
#include "agent_libtpu.h"
#include "agent_net.h"
#include "agent_stack_files.h"
#include "agent_run_totals.h"
#include "agent_watch.h"
#include "frame.h"
#include "journal.h"
#include "log.h"
#include "paths.h"

#define API_SOCKET_MODE 0666 /* everyone may read; who may act is decided call by call */

/* --- Events, checks, samples --------------------------------------------------------------------------- */

void agent_note(struct agent *a, const struct event *e) {
        int r;

        r = journal_event(e);
        if (r < 0)
                (void) log_warning_errno(r, "event %s is not in the journal: %m", event_def(e->id)->name);
        r = event_ring_add(&a->ring, e, host_now_real(a->host));
        if (r < 0)
                (void) log_warning_errno(r, "event %s is not in /v1/events: %m", event_def(e->id)->name);
        agent_events_news(a);
}

int agent_emit(struct agent *a, const struct event *e, uint64_t *ret_seq) {
        struct event_value values[EVENT_FIELDS_MAX];
        struct otlp_attribute body[EVENT_FIELDS_MAX];
        size_t n = event_values(e, values);
        int r;

        agent_note(a, e);
        for (size_t i = 0; i < n; i++)
                body[i] = (struct otlp_attribute){ values[i].key, values[i].text, values[i].number };
        r = telemetry_event(&a->telemetry, event_def(e->id)->name, e->severity, host_now_real(a->host), body,
                            n, ret_seq);
        if (r < 0)
                (void) log_warning_errno(r, "event %s is not in the spool: %m", event_def(e->id)->name);
        return r;
}

/* Says it when the state of the host is another one now, and what systemctl status shows. */
void agent_tell_state(struct agent *a) {
        enum host_state before = a->state, now = check_table_state(&a->checks);
        char reasons[900], ordered[768];
        bool news = a->orders_news;
        size_t n;

        if (!a->watching || (now == before && !a->status_stale))
                return;
        a->state = now;
        a->status_stale = a->orders_news = false;
        agent_registry_news(a);
        (void) snprintf(reasons, sizeof(reasons), "%s", agent_orders_text(a, ordered, sizeof(ordered)));
        n = strlen(reasons);
        (void) check_table_reasons(&a->checks, reasons + n + (n > 0 ? 2 : 0), sizeof(reasons) - n - 2);
        if (n > 0 && reasons[n + 2])
                memcpy(reasons + n, "; ", 2);
        (void) sd_notifyf(false, "STATUS=%s%s%s; %zu checks; %s%s", host_state_name(now),
                          reasons[0] ? ": " : "", reasons, a->checks.n,
                          a->settings.endpoint[0] ? "sends to " : "no endpoint, records stay in the spool",
                          a->settings.endpoint);
        if (now == before && !news)
                return;
        if (now != before)
                agent_orders_save(a);
        (void) agent_emit(a,
                          EVENT_AS(HOST_STATE_CHANGED,
                                   now == HOST_READY   ? SEVERITY_INFO
                                   : now == HOST_UNFIT ? SEVERITY_ERROR
                                                       : SEVERITY_WARN,
                                   .from = host_state_name(before), .to = host_state_name(now),
                                   .reasons = reasons),
                          NULL);
}

static const char *settled_name(enum verdict v) {
        return v == _VERDICT_MAX ? "absent" : verdict_name(v);
}

static void tell_check(const struct check_change *c, void *userdata) {
        const struct finding *f = &c->finding;
        struct agent *a = userdata;
        const struct order *silence = orders_silence_of(&a->order_list, f->check, f->subject);
        enum severity severity = silence                                        ? SEVERITY_INFO
                                 : c->to == VERDICT_FAIL                        ? SEVERITY_ERROR
                                 : c->to == VERDICT_OK || c->to == _VERDICT_MAX ? SEVERITY_INFO
                                                                                : SEVERITY_WARN;

        (void) agent_emit(a,
                          EVENT_AS(CHECK_CHANGED, severity, .check = f->check, .subject = f->subject,
                                   .from = settled_name(c->from), .to = settled_name(c->to),
                                   .found = f->found, .wanted = f->wanted, .source = f->source,
                                   .reason = f->reason, .remedy = f->remedy,
                                   .silenced = silence ? silence->reason : "no"),
                          NULL);
}

void agent_take_finding(struct agent *a, unsigned source, unsigned run, const struct finding *f) {
        const struct health_policy policy = settings_policy(&a->settings, f->check);
        size_t known = a->checks.n;
        struct check_change change;
        int r;

        r = check_table_take(&a->checks, &policy, source, run, f, host_now(a->host), &change);
        if (a->checks.n != known)
                agent_orders_mark(a);
        if (r > 0) {
                a->status_stale = true;
                tell_check(&change, a);
                agent_orders_save(a);
        } else if (r < 0 && a->table_full++ == 0)
                (void) log_warning_errno(r,
                                         "more than %d checks: %s %s and further ones are not watched: %m",
                                         CHECKS_MAX, f->check, f->subject);
}

void agent_settle(struct agent *a, unsigned source, unsigned run) {
        check_table_end_run(&a->checks, source, run, tell_check, a);
        agent_tell_state(a);
}

void agent_take_sample(struct agent *a, unsigned source, unsigned run, const struct sample *m,
                       usec_t start_real) {
        const struct sample_origin o = {
                .source = source, .run = run, .now_real = host_now_real(a->host), .start_real = start_real
        };
        int r = sample_store_take(&a->samples, &o, m);

        if (r == -ENOSPC && a->samples.refused == 1)
                (void) log_warning_errno(r, "more than %d series: %s and further ones are not kept: %m",
                                         SAMPLES_MAX, m->name);
}

/* --- What the probes say ------------------------------------------------------------------------------- */

static void on_finding(unsigned source, unsigned run, const struct finding *f, void *userdata) {
        agent_take_finding(userdata, source, run, f);
}

static void on_sample(unsigned source, unsigned run, const struct sample *m, void *userdata) {
        struct agent *a = userdata;

        agent_take_sample(a, source, run, m, a->boot_real);
}

/* A probe that could not look leaves what is known of its checks as it was. */
static void on_done(unsigned source, unsigned run, bool whole, void *userdata) {
        struct agent *a = userdata;

        if (whole) {
                sample_store_end_run(&a->samples, source, run);
                agent_settle(a, source, run);
        } else
                agent_tell_state(a);
}

static const struct schedule_handlers schedule_handlers = { .finding = on_finding,
                                                            .sample = on_sample,
                                                            .done = on_done };

/* --- Who this host is and what is wanted of it --------------------------------------------------------- */

static void read_host(struct agent *a) {
        if (host_name(a->host, a->name) < 0)
                (void) snprintf(a->name, sizeof(a->name), "unknown");
        if (host_boot_id(a->host, a->boot_id) < 0)
                a->boot_id[0] = 0;
        if (host_read(a->host, "/etc/machine-id", a->machine_id, sizeof(a->machine_id), NULL) < 0)
                a->machine_id[0] = 0; /* host.id is then not sent */
        a->started_real = host_now_real(a->host);
        a->boot_real = a->started_real - MIN(a->started_real, host_now(a->host));
}

static int load_identity(struct agent *a) {
        struct identity fresh = IDENTITY_NULL;
        int r = identity_load(a->host, NULL, &fresh);

        if (r < 0)
                return log_error_errno(r, "the identity of this host cannot be read: %m");
        r = agent_metadata_fill(a, &fresh);
        if (r < 0) {
                identity_clear(&fresh);
                return log_error_errno(r, "the identity of this host cannot be completed: %m");
        }
        identity_clear(&a->identity);
        a->identity = fresh;
        if (identity_get(&a->identity, IDENTITY_HOST_NAME))
                (void) snprintf(a->name, sizeof(a->name), "%s",
                                identity_get(&a->identity, IDENTITY_HOST_NAME));
        return 0;
}

/* Probes look every ten seconds; the file changes with the package, or by a site's hand and a reload. */
static void load_machine(struct agent *a) {
        int r;

        a->machine = (struct machine_type) { .chips = 0 };
        a->context.machine_type = identity_get(&a->identity, IDENTITY_MACHINE_TYPE);
        r = a->context.machine_type ? machine_type(a->host, a->context.machine_type, &a->machine) : -ENOENT;
        if (r == 0 || r == -ENOENT)
                a->context.machine = &a->machine;
}

static void load_wanted(struct agent *a) {
        struct intent fresh = { 0 };
        int r = intent_load(a->host, NULL, &fresh);

        if (r < 0)
                (void) log_warning_errno(r,
                                         "no profile can be read from %s: settings of NICs and sysctls are "
                                         "not judged: %m",
                                         PATH_PROFILES);
        else
                a->intent = fresh;
        a->context = (struct probe_context) { .intent = r < 0 ? NULL : &a->intent };
        load_machine(a);
        if (identity_is_derived(&a->identity,
                                IDENTITY_CHIPS) || /* machines.conf then says it, with its source */
            identity_get_u32(&a->identity, IDENTITY_CHIPS, &a->context.chips_wanted) < 0)
                return;
        (void) snprintf(a->chips_source, sizeof(a->chips_source), "%s",
                        a->identity.fields[IDENTITY_CHIPS].origin);
        a->context.chips_source = a->chips_source;
}

static void judge_identity(struct agent *a, unsigned run) {
        _cleanup_finding_list_ struct finding_list list = FINDING_LIST_NULL;

        if (identity_check(&a->identity, &list) < 0)
                return;
        for (size_t i = 0; i < list.n; i++)
                agent_take_finding(a, SOURCE_IDENTITY, run, &list.items[i]);
        agent_settle(a, SOURCE_IDENTITY, run);
}

static int describe(struct agent *a) {
        int r = telemetry_describe(&a->telemetry, &a->identity, a->name, a->machine_id, a->boot_id);

        return r < 0 ? log_error_errno(r, "records cannot be described: %m") : 0;
}

/* --- Parts --------------------------------------------------------------------------------------------- */

static int start_api(struct agent *a) {
        int fd, r;

        fd = listen_socket(a->settings.api_socket, API_SOCKET_MODE);
        if (fd < 0)
                return log_error_errno(fd, "the API cannot listen on %s: %m", a->settings.api_socket);
        r = agent_api_serve(a, fd, NULL, &a->api);
        if (r < 0)
                return log_error_errno(r, "the API cannot start on %s: %m", a->settings.api_socket);
        r = agent_tls_start(a);
        return r < 0 ? log_error_errno(r, "the API cannot be offered over TCP: %m") : 0;
}

static int start(struct agent *a) {
        int r;

        read_host(a);
        r = agent_bpf_start(a); /* before there is a socket or a thread: it gives our capabilities up */
        if (r < 0)
                return log_error_errno(r, "the BPF programs cannot be waited for: %m");
        r = load_identity(a);
        if (r < 0)
                return r;
        load_wanted(a);
        r = agent_uplink_start(a);
        if (r >= 0)
                r = describe(a);
        if (r < 0)
                return r;
        r = agent_orders_start(a);
        if (r < 0)
                return log_error_errno(r, "what people ordered cannot be kept: %m");
        (void) agent_emit(a,
                          EVENT_OF(AGENT_STARTED, .version = TPU_HOSTD_VERSION, .pid = getpid(),
                                   .boot_id = a->boot_id),
                          NULL);
        r = host_metrics_new(a->host, &a->host_metrics);
        if (r < 0)
                return log_error_errno(r, "the host cannot be measured: %m");
        r = agent_kernel_start(a);
        if (r < 0)
                return log_error_errno(r, "the kernel log cannot be watched: %m");
        r = agent_runs_start(a);
        if (r < 0)
                return log_error_errno(r, "runs cannot be watched: %m");
        judge_identity(a, 1);
        r = agent_stack_files_start(a);
        if (r < 0)
                return log_error_errno(r, "stacks in files cannot be watched: %m");
        r = agent_net_start(a);
        if (r < 0)
                return log_error_errno(r, "the network of runs cannot be watched: %m");
        r = agent_libtpu_start(a);
        if (r < 0)
                return log_error_errno(r, "the TPU runtime's metrics cannot be asked for: %m");
        r = probe_program_open(&a->probe_program);
        if (r < 0)
                (void) log_error_errno(
                        r, "%s: %m: what it would look at stays unknown; reinstall the package tpu-hostd",
                        a->probe_program.program.path);
        r = schedule_new(a->event, probe_table, &a->probe_program.program, a->settings.probe_interval,
                         a->host, &a->context, &schedule_handlers, a, &a->schedule);
        if (r < 0)
                return log_error_errno(r, "the probes cannot be started: %m");
        a->watching = a->status_stale = true;
        r = agent_tick_start(a);
        if (r < 0)
                return log_error_errno(r, "metrics cannot be collected: %m");
        r = agent_metadata_start(a);
        if (r < 0)
                return log_error_errno(r, "the metadata server cannot be asked: %m");
        r = agent_path_start(a);
        if (r < 0)
                return log_error_errno(r, "paths cannot be proven: %m");
        r = agent_events_start(a);
        if (r < 0)
                return log_error_errno(r, "nobody can wait for events: %m");
        r = agent_capture_start(a);
        if (r >= 0)
                r = agent_registry_start(a);
        if (r < 0)
                return log_error_errno(r, "the registry cannot be joined: %m");
        return start_api(a);
}

int agent_new(sd_event *e, const struct host *h, const char *config_file, const struct settings *s,
              struct agent **ret) {
        _cleanup_(agent_freep) struct agent *a = calloc(1, sizeof(*a));
        int r;

        if (!a)
                return log_error_errno(ENOMEM, "tpu-hostd cannot start: %m");
        a->event = e;
        a->host = h;
        a->config_file = config_file;
        a->settings = *s;
        a->probe_program = PROBE_PROGRAM_NULL;
        a->state = HOST_UNKNOWN;
        event_ring_init(&a->ring);
        if (check_table_init(&a->checks) < 0 || sample_store_init(&a->samples) < 0)
                return log_error_errno(ENOMEM, "tpu-hostd cannot start: %m");
        r = start(a);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(a);
        return 0;
}

struct agent *agent_free(struct agent *a) {
        if (!a)
                return NULL;
        if (a->telemetry.otlp)
                agent_kernel_stop(a);
        if (a->api && !a->stopping) /* it was up: say that it goes */
                agent_stop_tell(a);
        agent_events_stop(a);
        agent_stop_clear(a);
        a->api = http_server_free(a->api);
        agent_tls_stop(a);
        agent_watch_stop(a);
        agent_watch_round_stop(a);
        agent_path_stop(a);
        agent_signal_stop(a);
        agent_capture_stop(a);
        agent_registry_stop(a); /* puts that wait are answered by it */
        agent_orders_stop(a);
        a->captures = captures_free(a->captures);
        agent_calls_clear(a);
        agent_metadata_stop(a);
        a->tick = sd_event_source_disable_unref(a->tick);
        a->schedule = schedule_free(a->schedule);
        probe_program_close(&a->probe_program);
        a->run_lines = run_lines_free(a->run_lines);
        a->run_log = run_log_free(a->run_log);
        agent_progress_stop(a);
        a->runs = launchd_runs_free(a->runs);
        agent_stack_files_stop(a);
        agent_libtpu_stop(a);
        agent_net_stop(a);
        agent_deaths_stop(a);
        agent_run_totals_stop(a);
        agent_bpf_stop(a);
        a->host_metrics = host_metrics_free(a->host_metrics);
        telemetry_clear(&a->telemetry);
        agent_uplink_stop(a);
        event_ring_clear(&a->ring);
        sample_store_clear(&a->samples);
        check_table_clear(&a->checks);
        identity_clear(&a->identity);
        free(a);
        return NULL;
}

void agent_look_again(struct agent *a) {
        if (load_identity(a) < 0)
                return;
        load_wanted(a);
        (void) describe(a);
        judge_identity(a, ++a->ticks);
        agent_registry_look(a);
        agent_libtpu_reload(a);
        schedule_run_all(a->schedule);
}

void agent_reload(struct agent *a) {
        struct settings_source source;
        struct settings fresh = { 0 };
        int r;

        r = settings_load(&fresh, &source, a->host, a->config_file);
        if (r < 0)
                (void) log_error_errno(r, "the configuration cannot be read again, the old one stays: %m");
        else {
                (void) settings_keep_fixed(&fresh, &a->settings);
                a->settings = fresh;
                schedule_set_interval(a->schedule, fresh.probe_interval);
                agent_tls_reload(a);
        }
        config_clear(&source.config);
        agent_path_reload(a);
        agent_look_again(a);
        log_info("configuration, identity and wanted values were read again");
}
