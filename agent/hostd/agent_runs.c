/* SPDX-License-Identifier: Apache-2.0 */
#include "agent.h"
#include "deaths_part.h"
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
        struct bus *b = userdata;
        const struct host_run *j = host_runs_find(b->runs, l->run);
        const char *slice = identity_get(&b->identity, IDENTITY_SLICE_NAME);
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
        if (identity_get_u32(&b->identity, IDENTITY_WORKER_ID, &worker) >= 0)
                attributes[n++] = (struct otlp_attribute){ .key = "tpu.worker.id", .number = worker };
        const struct otlp_event line = {
                .name = "tpu.run.line",
                .severity = severity_of(l->priority),
                .time_real = l->time_real,
                .text = l->text,
                .attributes = attributes,
                .n_attributes = n,
        };

        return otlp_add_line(b->telemetry.otlp, &line, MIN(BATCH_MAX, uplink_record_max(agent_of(b)->uplink)));
}

static int submit(uint64_t *ret_seq, void *userdata) {
        struct bus *b = userdata;
        const void *data;
        size_t len;
        int r;

        r = otlp_encode_lines(b->telemetry.otlp, &data, &len);
        if (r >= 0)
                r = uplink_submit(agent_of(b)->uplink, UPLINK_LOGS, data, len, ret_seq);
        otlp_drop_output(b->telemetry.otlp);
        if (r >= 0)
                uplink_sync_now(agent_of(b)->uplink, UPLINK_LOGS); /* the next batch waits for it */
        return r;
}

static void drop(void *userdata) {
        struct bus *b = userdata;

        otlp_drop_lines(b->telemetry.otlp);
}

static const struct run_lines_handlers handlers = { .add = add, .submit = submit, .drop = drop };

/* Without a journal it is said, and nothing is sent. */
static void agent_run_lines_start(struct bus *b) {
        const char *journal = b->settings.journal[0] ? b->settings.journal : NULL;
        char state[sizeof(b->settings.spool_directory) + sizeof(STATE_FILE) + 1];
        int r;

        (void) snprintf(state, sizeof(state), "%s/" STATE_FILE, b->settings.spool_directory);
        if (!b->settings.run_logs) {
                (void) unlink(state); /* switched on again, lines go out from then on */
                return;
        }
        r = run_lines_new(b->event, journal, state, &handlers, b, &agent_of(b)->run_lines);
        if (r < 0)
                (void) log_warning_errno(r, "the journal cannot be read, lines of runs are not sent (is the "
                                            "user in systemd-journal?): %m");
}

/* The runs of this host: their steps from the journal, their life from launchd, their stacks on request. */

/* A step line of a run that launchd has not told of yet: ask, but at most this often. */
#define ASK_AGAIN (1 * USEC_PER_SEC)

static void on_line(const struct run_log_line *l, void *userdata) {
        struct bus *b = userdata;
        usec_t now = host_now(b->host);

        agent_progress_line(b, l);
        if (!l->step || host_runs_find(b->runs, l->run) || (agent_of(b)->runs_asked > 0 && now - agent_of(b)->runs_asked < ASK_AGAIN))
                return;
        agent_of(b)->runs_asked = now;
        launchd_runs_ask(agent_of(b)->runs);
}

/* Each answer of tpu-launchd is another list. */
static void follow_list(struct bus *b) {
        b->runs = launchd_runs_get(agent_of(b)->runs);
}

static void on_started(const struct host_run *j, void *userdata) {
        follow_list(userdata);
        agent_progress_started(userdata, j);
        (void) bus_emit(userdata,
                          EVENT_OF(RUN_STARTED, .run = j->name, .unit = j->unit, .user = j->user,
                                   .framework = j->framework, .malloc = j->malloc, .main_pid = j->main_pid),
                          NULL);
}

static void on_exited(const struct host_run *j, void *userdata) {
        char killed_by[DEATH_TEXT_MAX];
        bool meant = streq(j->cause, "success") || streq(j->cause, "stopped");

        follow_list(userdata);
        agent_progress_ended(userdata, j->name);
        (void) bus_emit(userdata,
                          EVENT_AS(RUN_EXITED, meant ? SEVERITY_INFO : SEVERITY_WARN, .run = j->name,
                                   .unit = j->unit, .cause = j->cause, .code = j->code, .status = j->status,
                                   .killed_by = deaths_killed_by(userdata, j, killed_by)),
                          NULL);
}

static void on_listed(void *userdata) {
        struct bus *b = userdata;
        const struct host_runs *runs;

        follow_list(b);
        runs = b->runs;
        for (size_t i = 0; agent_of(b)->run_log && runs->known && i < runs->n; i++)
                run_log_expect_of(agent_of(b)->run_log, runs->runs[i].name, runs->runs[i].step_expression);
        bus_tell(b, BUS_RUNS);
}

static const struct launchd_runs_handlers launchd_handlers = { .started = on_started, .exited = on_exited, .listed = on_listed };

/* The record of a stack: exporters map this body as it is (DESIGN, Wire). */
static int on_captured(const struct capture_result *c, uint64_t *ret_seq, void *userdata) {
        struct bus *b = userdata;
        const char *slice = identity_get(&b->identity, IDENTITY_SLICE_NAME),
                   *worker = identity_get(&b->identity, IDENTITY_WORKER_ID);
        char taken[CLOCK_TEXT_MAX];

        return bus_emit(b,
                          EVENT_OF(STACK_CAPTURED, .verb = "stacktraceanalyzer", .node = b->name,
                                   .slice = slice ? slice : "", .worker = worker ? worker : "",
                                   .run = c->run, .taken = clock_text(c->taken_real, taken),
                                   .processes = c->processes, .threads = c->threads, .text = c->text),
                          ret_seq);
}

static const struct captures_handlers captures_handlers = { .captured = on_captured,
                                                            .finished = agent_capture_finished };

static void expect_steps(struct bus *b) {
        struct step_expression *e;
        char why[96];

        if (b->settings.step_expression[0] && step_expression_new(b->settings.step_expression, why, sizeof(why), &e) >= 0)
                run_log_expect(agent_of(b)->run_log, e); /* why not was said when it was read */
}

int agent_runs_start(struct bus *b) {
        const char *socket = bus_launchd_socket(b);
        int r;

        r = launchd_runs_new(b->event, socket, b->started_real, &launchd_handlers, b, &agent_of(b)->runs);
        if (r < 0)
                return r;
        r = captures_new(b->event, socket, b->settings.capture_timeout, &captures_handlers, b, &agent_of(b)->captures);
        if (r < 0)
                return r;
        launchd_runs_refresh(agent_of(b)->runs);
        r = agent_progress_start(b);
        if (r < 0)
                return r;
        if (!b->host->real_root && b->settings.journal[0] == 0)
                return 0;
        r = run_log_new(b->event, b->settings.journal[0] ? b->settings.journal : NULL, on_line, b,
                        &agent_of(b)->run_log);
        if (r < 0)
                (void) log_warning_errno(r, "the journal cannot be read, steps of runs are not seen (is the "
                                            "user in systemd-journal?): %m");
        else
                expect_steps(b);
        agent_run_lines_start(b);
        return 0;
}
