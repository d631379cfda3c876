/* SPDX-License-Identifier: Apache-2.0 */
#include "runs_part.h"

#include "container_log.h"
#include "deaths_part.h"
#include "launchd_runs.h"
#include "log.h"
#include "run_lines.h"
#include "uplink_part.h"

/* Below SPOOL_PENDING_MAX: a batch alone never forces a sync in the loop. */
#define BATCH_MAX ((size_t) 192 * 1024)
#define STATE_FILE "run-lines"
/* A step line of a run that tpu-launchd has not reported yet: ask, but at most this often. */
#define ASK_AGAIN (1 * USEC_PER_SEC)
/*
 * So many ticks without a run, and the journal is not followed any more: by then its last lines are
 * there.
 */
#define QUIET_TICKS 2

struct runs_part_state {
        struct bus *bus;
        struct launchd_runs *launchd;
        struct run_log *log;     /* NULL: no journal */
        struct run_lines *lines; /* NULL: no journal, or RunLogs=no */
        struct container_logs *containers; /* NULL: no journal, whose reader knows what steps are */
        usec_t asked;            /* boot clock: the last question because of a line; 0: none */
        unsigned quiet;          /* ticks in a row in which no run lived */
};

/* --- What runs print: the wire names are those of docs/metrics.md -------------------------------------- */

static int add_line(const struct run_line *l, void *userdata) {
        struct runs_part_state *p = userdata;
        struct bus *b = p->bus;
        const struct host_run *run = host_runs_find(b->runs, l->run);
        const char *slice = identity_get(&b->identity, IDENTITY_SLICE_NAME);
        uint32_t worker;
        struct otlp_attribute attributes[8] = {
                { .key = "tpu.run.name", .text = l->run },
                { .key = "tpu.run.invocation", .text = l->invocation },
                { .key = "tpu.run.line", .number = (int64_t) l->number },
                { .key = "tpu.run.priority", .number = l->priority },
        };
        size_t n = 4;

        if (run && run->generation > 0)
                attributes[n++] = (struct otlp_attribute){ .key = "tpu.run.generation",
                                                           .number = (int64_t) run->generation };
        if (slice)
                attributes[n++] = (struct otlp_attribute){ .key = "tpu.slice.name", .text = slice };
        if (identity_get_u32(&b->identity, IDENTITY_WORKER_ID, &worker) >= 0)
                attributes[n++] = (struct otlp_attribute){ .key = "tpu.worker.id", .number = worker };
        const struct otlp_event line = {
                .name = "tpu.run.line",
                .severity = severity_of_priority((unsigned) MAX(l->priority, 0)),
                .time_real = l->time_real,
                .text = l->text,
                .attributes = attributes,
                .n_attributes = n,
        };

        return otlp_add_line(b->telemetry.otlp, &line, MIN(BATCH_MAX, uplink_record_max(uplink_of(p->bus))));
}

static int submit_lines(uint64_t *ret_seq, void *userdata) {
        struct runs_part_state *p = userdata;
        struct otlp *otlp = p->bus->telemetry.otlp;
        const void *data;
        size_t len;
        int r;

        r = otlp_encode_lines(otlp, &data, &len);
        if (r >= 0)
                r = uplink_submit(uplink_of(p->bus), UPLINK_LOGS, data, len, ret_seq);
        otlp_drop_output(otlp);
        if (r >= 0)
                uplink_sync_now(uplink_of(p->bus), UPLINK_LOGS); /* the next batch waits for it */
        return r;
}

static void drop_lines(void *userdata) {
        struct runs_part_state *p = userdata;

        otlp_drop_lines(p->bus->telemetry.otlp);
}

/* Without a journal it is logged, and nothing is sent. */
static void start_lines(struct runs_part_state *p, const char *journal) {
        static const struct run_lines_handlers handlers = { add_line, submit_lines, drop_lines };
        const struct settings *s = &p->bus->settings;
        char state[sizeof(s->spool_directory) + sizeof(STATE_FILE) + 1];
        int r;

        (void) snprintf(state, sizeof(state), "%s/" STATE_FILE, s->spool_directory);
        if (!s->run_logs) {
                (void) unlink(state); /* switched on again, lines go out from then on */
                return;
        }
        r = run_lines_new(p->bus->event, journal, state, &handlers, p, &p->lines);
        if (r < 0)
                (void) log_warning_errno(r, "the journal cannot be read, lines of runs are not sent (is the "
                                            "user in systemd-journal?): %m");
}

/* --- Their steps --------------------------------------------------------------------------------------- */

/* out_of_turn: a question that is open is left alone, however old it is. */
static void ask_launchd(struct runs_part_state *p, bool out_of_turn) {
        if (out_of_turn)
                launchd_runs_ask(p->launchd);
        else
                launchd_runs_refresh(p->launchd);
        p->bus->runs_asked = launchd_runs_asked(p->launchd);
}

static void on_line(const struct run_log_line *l, void *userdata) {
        struct runs_part_state *p = userdata;
        usec_t now = host_now(p->bus->host);

        bus_publish(p->bus, &(struct bus_news){ .topic = BUS_LINE, .line = l });
        if (!l->step || host_runs_find(p->bus->runs, l->run) || (p->asked > 0 && now - p->asked < ASK_AGAIN))
                return;
        p->asked = now;
        ask_launchd(p, true);
}

static void on_read(void *userdata) {
        struct runs_part_state *p = userdata;

        if (p->lines)
                run_lines_look(p->lines);
}

static void on_container_line(const char *run, const char *text, size_t len, usec_t at, void *userdata) {
        struct runs_part_state *p = userdata;

        run_log_take(p->log, run, text, len, at);
}

static void start_log(struct runs_part_state *p, const char *journal) {
        static const struct run_log_handlers handlers = { on_line, on_read };
        const char *text = p->bus->settings.step_expression;
        struct step_expression *e;
        char why[96];
        int r;

        r = run_log_new(p->bus->event, journal, &handlers, p, &p->log);
        if (r < 0) {
                (void) log_warning_errno(r, "the journal cannot be read, steps and lines of runs are not "
                                            "seen (is the user in systemd-journal?): %m");
                return;
        }
        if (text[0] && step_expression_new(text, why, sizeof(why), &e) >= 0)
                run_log_expect(p->log, e); /* why not was logged when it was read */
        start_lines(p, journal);
        r = container_logs_new(p->bus, on_container_line, p, &p->containers);
        if (r < 0)
                (void) log_warning_errno(r, "logs of containers cannot be followed: %m");
}

/* --- Their life ---------------------------------------------------------------------------------------- */

static bool run_lives(const char *name, void *userdata) {
        const struct runs_part_state *p = userdata;
        const struct host_run *r = host_runs_find(p->bus->runs, name);

        return r && host_run_lives(r);
}

/* Each answer of tpu-launchd is another list. */
static void follow_list(struct runs_part_state *p) {
        p->bus->runs = launchd_runs_get(p->launchd);
}

static void on_started(const struct host_run *run, void *userdata) {
        struct runs_part_state *p = userdata;

        follow_list(p);
        bus_publish(p->bus, &(struct bus_news){ .topic = BUS_RUN_STARTED, .run = run });
        (void) bus_emit(p->bus,
                        EVENT_OF(RUN_STARTED, .run = run->name, .unit = run->unit, .user = run->user,
                                 .framework = run->framework, .malloc = run->malloc,
                                 .main_pid = run->main_pid),
                        NULL);
}

static int64_t instant(usec_t real) {
        return real > 0 ? (int64_t) real : EVENT_ABSENT;
}

static void on_exited(const struct host_run *run, void *userdata) {
        struct runs_part_state *p = userdata;
        bool meant = streq(run->cause, "success") || streq(run->cause, "stopped");
        char killed_by[DEATH_TEXT_MAX];

        follow_list(p);
        bus_publish(p->bus, &(struct bus_news){ .topic = BUS_RUN_ENDED, .run = run });
        (void) deaths_killed_by(p->bus, run, killed_by);
        (void) bus_emit(p->bus,
                        EVENT_AS(RUN_EXITED, meant ? SEVERITY_INFO : SEVERITY_WARN, .run = run->name,
                                 .unit = run->unit, .cause = run->cause, .code = run->code,
                                 .status = run->status, .killed_by = killed_by, .why = run->why,
                                 .lost_peer = run->lost_peer, .remedy = run->remedy,
                                 .generation = (int64_t) run->generation,
                                 .started = instant(run->started_real), .ended = instant(run->ended_real)),
                        NULL);
}

static bool is_quiet(const struct bus *b) {
        return b->runs->known && host_runs_living(b->runs) == 0;
}

static void on_listed(void *userdata) {
        struct runs_part_state *p = userdata;
        const struct host_runs *runs;

        follow_list(p);
        runs = p->bus->runs;
        for (size_t i = 0; p->log && runs->known && i < runs->n; i++)
                run_log_expect_of(p->log, runs->runs[i].name, runs->runs[i].step_expression);
        if (!is_quiet(p->bus)) {
                p->quiet = 0;
                if (p->log)
                        run_log_follow(p->log, true);
        }
        if (p->containers)
                container_logs_listed(p->containers);
        bus_tell(p->bus, BUS_RUNS);
}

/* --- The part ------------------------------------------------------------------------------------------ */

static int start_runs(void *self) {
        static const struct launchd_runs_handlers handlers = { on_started, on_exited, on_listed };
        struct runs_part_state *p = self;
        const struct bus *b = p->bus;
        int r;

        r = launchd_runs_new(b->event, bus_launchd_socket(b), b->started_real, &handlers, p, &p->launchd);
        if (r < 0)
                return r;
        ask_launchd(p, false);
        if (b->host->real_root || b->settings.journal[0])
                start_log(p, b->settings.journal[0] ? b->settings.journal : NULL);
        return 0;
}

static void tick_runs(void *self) {
        struct runs_part_state *p = self;

        p->quiet = is_quiet(p->bus) ? MIN(p->quiet + 1, QUIET_TICKS) : 0;
        if (p->containers)
                (void) container_logs_look(p->containers); /* likewise, or before a run is judged */
        if (p->log) {
                if (p->bus->runs->known)
                        run_log_prune(p->log, run_lives, p);
                (void) run_log_look(p->log); /* what is left is read in the next turns */
                run_log_follow(p->log, p->quiet < QUIET_TICKS);
        }
        ask_launchd(p, false);
}

static void hear_runs(void *self, const struct bus_news *n) {
        struct runs_part_state *p = self;

        if (n->topic == BUS_DURABLE && n->durable.class == UPLINK_LOGS && p->lines)
                run_lines_durable(p->lines, n->durable.seq);
        if (n->topic == BUS_ASK_RUNS && p->launchd)
                ask_launchd(p, true);
}

static void stop_runs(void *self) {
        struct runs_part_state *p = self;

        p->containers = container_logs_free(p->containers);
        p->lines = run_lines_free(p->lines);
        p->log = run_log_free(p->log);
        bus_forget_runs(p->bus);
        p->launchd = launchd_runs_free(p->launchd);
}

bool runs_read_all(const struct bus *b) {
        const struct runs_part_state *p = bus_part(b, &runs_part);

        bool all = !p->containers || container_logs_look(p->containers);

        return (!p->log || run_log_look(p->log)) && all;
}

const struct part runs_part = {
        .name = "runs",
        .size = sizeof(struct runs_part_state),
        .start = start_runs,
        .tick = tick_runs,
        .hear = hear_runs,
        .stop = stop_runs,
};
