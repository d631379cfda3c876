/* SPDX-License-Identifier: Apache-2.0 */
#include "agent.h"
#include "agent_deaths.h"
#include "clock.h"
#include "log.h"
#include "paths.h"
#include "steps.h"

/* What runs print, into the uplink's class of its own: the wire names are those of docs/metrics.md. */

#define BATCH_MAX ((size_t) 192 * 1024) /* below SPOOL_PENDING_MAX: a batch alone never forces a sync in the loop */
#define STATE_FILE "run-lines"

static enum severity severity_of(int priority) {
        return priority <= 2   ? SEVERITY_FATAL
               : priority == 3 ? SEVERITY_ERROR
               : priority == 4 ? SEVERITY_WARN
               : priority <= 6 ? SEVERITY_INFO
                               : SEVERITY_DEBUG;
}

static int add(const struct run_line *l, void *userdata) {
        struct agent *a = userdata;
        const struct launchd_run *j = launchd_runs_find(a->runs, l->run);
        const char *slice = identity_get(&a->identity, IDENTITY_SLICE_NAME);
        uint32_t worker;
        struct otlp_attribute attributes[8] = {
                { .key = "tpu.run.name", .text = l->run },
                { .key = "tpu.run.invocation", .text = l->invocation },
                { .key = "tpu.run.line", .number = (int64_t) l->number },
                { .key = "tpu.run.priority", .number = l->priority },
        };
        size_t n = 4;

        if (j && j->generation > 0)
                attributes[n++] = (struct otlp_attribute){ .key = "tpu.run.generation", .number = (int64_t) j->generation };
        if (slice)
                attributes[n++] = (struct otlp_attribute){ .key = "tpu.slice.name", .text = slice };
        if (identity_get_u32(&a->identity, IDENTITY_WORKER_ID, &worker) >= 0)
                attributes[n++] = (struct otlp_attribute){ .key = "tpu.worker.id", .number = worker };
        const struct otlp_event line = {
                .name = "tpu.run.line",
                .severity = severity_of(l->priority),
                .time_real = l->time_real,
                .text = l->text,
                .attributes = attributes,
                .n_attributes = n,
        };

        return otlp_add_line(a->telemetry.otlp, &line, MIN(BATCH_MAX, uplink_record_max(a->uplink)));
}

static int submit(uint64_t *ret_seq, void *userdata) {
        struct agent *a = userdata;
        const void *data;
        size_t len;
        int r;

        r = otlp_encode_lines(a->telemetry.otlp, &data, &len);
        if (r >= 0)
                r = uplink_submit(a->uplink, UPLINK_LOGS, data, len, ret_seq);
        otlp_drop_output(a->telemetry.otlp);
        if (r >= 0)
                uplink_sync_now(a->uplink, UPLINK_LOGS); /* the next batch waits for it */
        return r;
}

static void drop(void *userdata) {
        struct agent *a = userdata;

        otlp_drop_lines(a->telemetry.otlp);
}

static const struct run_lines_handlers handlers = { .add = add, .submit = submit, .drop = drop };

/* Without a journal it is said, and nothing is sent. */
static void agent_run_lines_start(struct agent *a) {
        const char *journal = a->settings.journal[0] ? a->settings.journal : NULL;
        char state[sizeof(a->settings.spool_directory) + sizeof(STATE_FILE) + 1];
        int r;

        (void) snprintf(state, sizeof(state), "%s/" STATE_FILE, a->settings.spool_directory);
        if (!a->settings.run_logs) {
                (void) unlink(state); /* switched on again, lines go out from then on */
                return;
        }
        r = run_lines_new(a->event, journal, state, &handlers, a, &a->run_lines);
        if (r < 0)
                (void) log_warning_errno(r, "the journal cannot be read, lines of runs are not sent (is the "
                                            "user in systemd-journal?): %m");
}

/* The runs of this host: their steps from the journal, their life from launchd, their stacks on request. */

/* A step line of a run that launchd has not told of yet: ask, but at most this often. */
#define ASK_AGAIN (1 * USEC_PER_SEC)

static void on_line(const struct run_log_line *l, void *userdata) {
        struct agent *a = userdata;
        usec_t now = host_now(a->host);

        agent_progress_line(a, l);
        if (!l->step || launchd_runs_find(a->runs, l->run) || (a->runs_asked > 0 && now - a->runs_asked < ASK_AGAIN))
                return;
        a->runs_asked = now;
        launchd_runs_ask(a->runs);
}

static void on_started(const struct launchd_run *j, void *userdata) {
        agent_progress_started(userdata, j);
        (void) agent_emit(userdata,
                          EVENT_OF(RUN_STARTED, .run = j->name, .unit = j->unit, .user = j->user,
                                   .framework = j->framework, .malloc = j->malloc, .main_pid = j->main_pid),
                          NULL);
}

static void on_exited(const struct launchd_run *j, void *userdata) {
        char killed_by[DEATH_TEXT_MAX];
        bool meant = streq(j->cause, "success") || streq(j->cause, "stopped");

        agent_progress_ended(userdata, j->name);
        (void) agent_emit(userdata,
                          EVENT_AS(RUN_EXITED, meant ? SEVERITY_INFO : SEVERITY_WARN, .run = j->name,
                                   .unit = j->unit, .cause = j->cause, .code = j->code, .status = j->status,
                                   .killed_by = agent_killed_by(userdata, j, killed_by)),
                          NULL);
}

static void on_listed(void *userdata) {
        struct agent *a = userdata;
        const struct launchd_run_list *runs = launchd_runs_get(a->runs);

        for (size_t i = 0; a->run_log && runs->known && i < runs->n; i++)
                run_log_expect_of(a->run_log, runs->runs[i].name, runs->runs[i].step_expression);
        if (a->enrollment)
                agent_registry_runs(a);
}

static const struct launchd_runs_handlers launchd_handlers = { .started = on_started, .exited = on_exited, .listed = on_listed };

size_t agent_count_runs(const struct agent *a) {
        const struct launchd_run_list *l = launchd_runs_get(a->runs);
        size_t n = 0;

        for (size_t i = 0; l->known && i < l->n; i++)
                n += !streq(l->runs[i].state, "exited");
        return n;
}

const char *agent_only_run(const struct agent *a) {
        const struct launchd_run_list *l = launchd_runs_get(a->runs);
        const char *name = "";

        for (size_t i = 0; l->known && i < l->n; i++) {
                if (streq(l->runs[i].state, "exited"))
                        continue;
                if (name[0])
                        return "";
                name = l->runs[i].name;
        }
        return name;
}

/* The record of a stack: exporters map this body as it is (DESIGN, Wire). */
static int on_captured(const struct capture_result *c, uint64_t *ret_seq, void *userdata) {
        struct agent *a = userdata;
        const char *slice = identity_get(&a->identity, IDENTITY_SLICE_NAME),
                   *worker = identity_get(&a->identity, IDENTITY_WORKER_ID);
        char taken[CLOCK_TEXT_MAX];

        return agent_emit(a,
                          EVENT_OF(STACK_CAPTURED, .verb = "stacktraceanalyzer", .node = a->name,
                                   .slice = slice ? slice : "", .worker = worker ? worker : "",
                                   .run = c->run, .taken = clock_text(c->taken_real, taken),
                                   .processes = c->processes, .threads = c->threads, .text = c->text),
                          ret_seq);
}

static const struct captures_handlers captures_handlers = { .captured = on_captured,
                                                            .finished = agent_capture_finished };

const char *agent_own(const struct agent *a, const char *configured, const char *own) {
        return configured[0] ? configured : a->host->real_root ? own : NULL;
}

const char *agent_launchd_socket(const struct agent *a) {
        return agent_own(a, a->settings.launchd_socket, PATH_LAUNCHD_SOCKET);
}

static void expect_steps(struct agent *a) {
        struct step_expression *e;
        char why[96];

        if (a->settings.step_expression[0] && step_expression_new(a->settings.step_expression, why, sizeof(why), &e) >= 0)
                run_log_expect(a->run_log, e); /* why not was said when it was read */
}

int agent_runs_start(struct agent *a) {
        const char *socket = agent_launchd_socket(a);
        int r;

        r = launchd_runs_new(a->event, socket, a->started_real, &launchd_handlers, a, &a->runs);
        if (r < 0)
                return r;
        r = captures_new(a->event, socket, a->settings.capture_timeout, &captures_handlers, a, &a->captures);
        if (r < 0)
                return r;
        launchd_runs_refresh(a->runs);
        r = agent_progress_start(a);
        if (r < 0)
                return r;
        if (!a->host->real_root && a->settings.journal[0] == 0)
                return 0;
        r = run_log_new(a->event, a->settings.journal[0] ? a->settings.journal : NULL, on_line, a,
                        &a->run_log);
        if (r < 0)
                (void) log_warning_errno(r, "the journal cannot be read, steps of runs are not seen (is the "
                                            "user in systemd-journal?): %m");
        else
                expect_steps(a);
        agent_run_lines_start(a);
        return 0;
}
